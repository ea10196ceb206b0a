tiled_mm_rung(
  PLAN plan.cpp
  PORTABLE shared_tile.cu)
