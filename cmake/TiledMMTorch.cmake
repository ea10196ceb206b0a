# Finds the torch to build or link against, for this build and for the installed package alike.
#
# find_package(Torch) is not used, for three reasons: with a CUDA build of torch it fails where
# there is no nvcc, even for a program that needs none; it puts architectures of its own choice
# into CMAKE_CUDA_FLAGS; and it links libraries that nobody asked for. A project that calls it
# for other purposes can do so before or after.
#
# tiled_mm_find_torch([HINTS directory...]) looks for torch's own CMake files, in this order:
#   Torch_DIR, CMAKE_PREFIX_PATH (torch.utils.cmake_prefix_path or LibTorch's folder), the hints.
# It sets
#   TILED_MM_TORCH_VERSION     "2.11.0"; empty if torch was not found
#   TILED_MM_TORCH_ROOT        the folder of include/ and lib/
#   TILED_MM_TORCH_CUDA_MAJOR  "13"; empty for a CPU-only torch
# and makes the targets
#   TiledMM::torch        headers and libraries
#   TiledMM::torch_cuda   torch's CUDA libraries, whose registrations programs need. Empty for a
#                         CPU-only torch.
# Both keep torch's libraries in a program that names none of their functions, as find_package(Torch)
# does: libtiled_mm.so need not lie beside torch, and a library that it needs is found where the
# program needs it too, by the program's own RUNPATH.

# The linker's words that keep libraries of which it sees no use. Each stands in quotes for the shell,
# since CMake copies words that begin with a dash as they are, and a path may have spaces.
function(_tiled_mm_kept out)
  list(TRANSFORM ARGN REPLACE "(.+)" "\"\\1\"")
  list(JOIN ARGN "," joined)
  set(${out} "-Wl,--push-state,--no-as-needed,${joined},--pop-state" PARENT_SCOPE)
endfunction()

function(tiled_mm_find_torch)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "HINTS")
  set(TILED_MM_TORCH_VERSION "" PARENT_SCOPE)

  # NO_CACHE: the answer must follow Torch_DIR and CMAKE_PREFIX_PATH when they change.
  find_file(version_file TorchConfigVersion.cmake NO_CACHE NO_DEFAULT_PATH
    HINTS ${Torch_DIR} ENV Torch_DIR ${CMAKE_PREFIX_PATH} ENV CMAKE_PREFIX_PATH ${arg_HINTS}
    PATH_SUFFIXES Torch share/cmake/Torch)
  if(NOT version_file)
    return()
  endif()
  include(${version_file})  # sets PACKAGE_VERSION
  # Without links, as compilers name system headers.
  file(REAL_PATH ${version_file} root)
  foreach(_ IN ITEMS file Torch cmake share)  # root/share/cmake/Torch/TorchConfigVersion.cmake
    cmake_path(GET root PARENT_PATH root)
  endforeach()

  set(TILED_MM_TORCH_VERSION ${PACKAGE_VERSION} PARENT_SCOPE)
  set(TILED_MM_TORCH_ROOT ${root} PARENT_SCOPE)
  set(TILED_MM_TORCH_CUDA_MAJOR "" PARENT_SCOPE)
  set(cuda_libraries)
  if(EXISTS ${root}/lib/libtorch_cuda.so)
    set(cuda_libraries ${root}/lib/libtorch_cuda.so ${root}/lib/libc10_cuda.so)
    # torch's CMake files do not say which CUDA it was built for; the runtime that it loads does.
    file(STRINGS ${root}/lib/libc10_cuda.so runtime LIMIT_COUNT 1 REGEX "libcudart\\.so\\.[0-9]+")
    string(REGEX REPLACE ".*libcudart\\.so\\.([0-9]+).*" "\\1" major "${runtime}")
    set(TILED_MM_TORCH_CUDA_MAJOR ${major} PARENT_SCOPE)
  endif()

  if(TARGET TiledMM::torch)
    return()
  endif()
  add_library(TiledMM::torch INTERFACE IMPORTED)
  target_include_directories(TiledMM::torch INTERFACE
    ${root}/include ${root}/include/torch/csrc/api/include)
  # By their paths too, from which CMake makes the RUNPATH.
  set(libraries ${root}/lib/libtorch_cpu.so ${root}/lib/libc10.so)
  _tiled_mm_kept(kept ${libraries})
  target_link_libraries(TiledMM::torch INTERFACE ${cuda_libraries} ${libraries} ${kept})
  add_library(TiledMM::torch_cuda INTERFACE IMPORTED)
  if(cuda_libraries)
    _tiled_mm_kept(kept ${cuda_libraries})
    target_link_libraries(TiledMM::torch_cuda INTERFACE ${kept})
  endif()
endfunction()
