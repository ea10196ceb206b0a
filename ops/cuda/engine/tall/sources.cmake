tiled_mm_rung(
  PLAN plan.cpp
  LAUNCH launch.cpp
  ASYNC tall_tensor.cu tall_fp32.cu)
