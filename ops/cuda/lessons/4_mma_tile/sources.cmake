tiled_mm_rung(
  HOPPER mma_tile.cu)
