tiled_mm_rung(
  PLAN plan.cpp
  LAUNCH launch.cpp
  ASYNC register_tile_async.cu register_tile_stream_k.cu)
