# As tiles.h has them.
tiled_mm_instances(tile_instances tile.cu.in
  Coop128x256 Coop192x176 Coop128x160 Coop192x128 Coop128x224 Ping128x128 Ping128x160 Ping128x192
  Ping64x128 Coop128x176 Coop128x128 Coop128x112 Coop128x96 Coop192x96 Deep64x192 Deep64x128
  Deep64x96 Deep64x64 Solo64x16 Coop256x128 Solo64x32)
tiled_mm_rung(
  PLAN describe.cpp plan.cpp
  LAUNCH launch.cpp
  HOPPER ${tile_instances})
