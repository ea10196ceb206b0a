tiled_mm_rung(
  PLAN describe.cpp plan.cpp
  LAUNCH launch.cpp
  HOPPER direct.cu few_rows.cu fp16x3.cu guard.cu split.cu split_beside.cu)
