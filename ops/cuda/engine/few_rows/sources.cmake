tiled_mm_rung(
  PLAN plan.cpp
  LAUNCH launch.cpp
  HOPPER few_rows_16.cu few_rows_fp64.cu few_rows_tf32.cu lanes.cu patches.cu)
