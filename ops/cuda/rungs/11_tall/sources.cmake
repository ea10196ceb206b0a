tiled_mm_instances(tall_instances tall.cu.in
  COLUMNS NAME      ELEMENT       TILES
  ROWS    tall_bf16 __nv_bfloat16 TensorTallTiles
          tall_fp16 __half        TensorTallTiles
          tall_fp32 float         ChainTallTiles)
tiled_mm_rung(
  PLAN plan.cpp
  LAUNCH launch.cpp
  ASYNC ${tall_instances})
