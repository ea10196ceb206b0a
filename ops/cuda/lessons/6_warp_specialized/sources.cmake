tiled_mm_rung(
  PLAN plan.cpp
  HOPPER warp_specialized.cu)
