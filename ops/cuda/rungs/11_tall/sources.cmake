tiled_mm_rung(
  PLAN plan.cpp
  LAUNCH launch.cpp
  ASYNC tall_bf16.cu tall_fp16.cu tall_fp32.cu)
