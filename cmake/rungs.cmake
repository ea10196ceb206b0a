# The sources of CUDA's rungs. Each rung lists its own, in its folder's sources.cmake:
#
#   tiled_mm_rung(
#     PLAN ...      what the planner and the reports know of it; pure, and in every build
#     LAUNCH ...    host code beside its kernels
#     PORTABLE ...  kernels for every architecture
#     BY_8 ...      kernels for compute capability 7.5 alone, whose mma.sync takes 8 of k
#     ASYNC ...     kernels planned for compute capability 8.0 on, which has cp.async
#     HOPPER ...)   kernels for compute capability 9.0 alone
#
# Where Hopper's kernels are not built, a rung that has no others is left out with its LAUNCH.
# Sets rung_plans, rung_launches, portable_kernels, by_8_kernels, async_kernels and hopper_kernels.
#
# A rung with many tiles has a file for each, with the tile's kernels of all types and layouts: files
# compile side by side, and kernels that differ in a type alone compress to little more than one.
# The build writes these files, and a rung lists them like its own:
#
#   tiled_mm_instances(tile_instances tile.cu.in Coop128x256 ...)
#
# sets tile_instances to .../generated/ops/cuda/engine/hopper/Coop128x256.cu of the build's folder
# and so on, each tile.cu.in with the tile's name for @NAME@.

function(tiled_mm_instances instances template)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_LIST_DIR
    BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE folder)
  set(written)
  foreach(NAME IN LISTS ARGN)
    set(file ${PROJECT_BINARY_DIR}/generated/${folder}/${NAME}.cu)
    configure_file(${CMAKE_CURRENT_LIST_DIR}/${template} ${file} @ONLY)
    list(APPEND written ${file})
  endforeach()
  set(${instances} ${written} PARENT_SCOPE)
endfunction()

macro(tiled_mm_rung)
  cmake_parse_arguments(rung "" "" "PLAN;LAUNCH;PORTABLE;BY_8;ASYNC;HOPPER" ${ARGN})
  if(rung_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${CMAKE_CURRENT_LIST_FILE}: unknown: ${rung_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT TILED_MM_HOPPER_ARCHITECTURES)
    if(rung_HOPPER AND NOT rung_PORTABLE AND NOT rung_ASYNC)
      set(rung_LAUNCH)
    endif()
    set(rung_HOPPER)
  endif()
  if(NOT by_8_architectures)
    set(rung_BY_8)
  endif()
  # Like every other source, from the project's folder on; what the build has written has its path.
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_LIST_DIR
    BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE rung_folder)
  foreach(kind IN ITEMS PLAN LAUNCH PORTABLE BY_8 ASYNC HOPPER)
    list(TRANSFORM rung_${kind} PREPEND ${rung_folder}/ REGEX "^[^/]")
  endforeach()
  list(APPEND rung_plans ${rung_PLAN})
  list(APPEND rung_launches ${rung_LAUNCH})
  list(APPEND portable_kernels ${rung_PORTABLE})
  list(APPEND by_8_kernels ${rung_BY_8})
  list(APPEND async_kernels ${rung_ASYNC})
  list(APPEND hopper_kernels ${rung_HOPPER})
endmacro()

file(GLOB rungs CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/ops/cuda/lessons/*/sources.cmake
  ${PROJECT_SOURCE_DIR}/ops/cuda/engine/*/sources.cmake)
foreach(rung_file IN LISTS rungs)
  include(${rung_file})
endforeach()
