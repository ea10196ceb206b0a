set(hopper_launch launch_hopper.cpp)
if(NOT TILED_MM_HOPPER_ARCHITECTURES)
  set(hopper_launch no_hopper.cpp)
endif()
tiled_mm_rung(
  PLAN describe.cpp plan.cpp
  LAUNCH launch.cpp ${hopper_launch}
  ASYNC async.cu guard.cu split.cu split_beside.cu
  HOPPER direct.cu few_rows.cu fp16x3.cu groups.cu)
