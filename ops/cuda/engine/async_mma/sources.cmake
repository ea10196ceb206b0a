# As tiles.h has them.
tiled_mm_instances(tile_instances tile.cu.in
  Async128x256 Async128x128 Async64x64 Async32x64 Async16x32 Async16x16 Any128x128 Any64x64)
tiled_mm_instances(register_staged_instances tile.cu.in RegisterStaged128x128 RegisterStaged64x64)
set(register_staged_launch)
if(NOT by_8_architectures)
  set(register_staged_launch no_register_staged.cpp)
endif()
tiled_mm_rung(
  PLAN plan.cpp
  LAUNCH launch.cpp ${register_staged_launch}
  BY_8 ${register_staged_instances}
  ASYNC ${tile_instances})
