tiled_mm_rung(
  PLAN plan.cpp
  LAUNCH launch.cpp
  HOPPER mma_tile_fp64.cu mma_tile_fp64_stream_k.cu)
