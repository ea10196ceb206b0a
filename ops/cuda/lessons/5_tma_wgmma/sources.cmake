tiled_mm_rung(
  PLAN plan.cpp
  HOPPER tma_wgmma.cu)
