tiled_mm_rung(
  PLAN plan.cpp
  LAUNCH launch.cpp
  HOPPER few_rows_bf16.cu few_rows_fp16.cu few_rows_fp64.cu few_rows_tf32.cu lanes.cu
    patches.cu warps_bf16.cu warps_fp16.cu)
