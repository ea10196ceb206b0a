tiled_mm_rung(
  PORTABLE register_tile.cu)
