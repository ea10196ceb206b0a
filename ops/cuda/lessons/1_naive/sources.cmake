tiled_mm_rung(
  PLAN plan.cpp
  PORTABLE naive.cu)
