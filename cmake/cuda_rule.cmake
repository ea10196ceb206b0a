# Whether this build has CUDA kernels, why, and for which architectures.
#
# CUDA is on when nvcc is found and torch was built for the same CUDA major version. Two settings
# change that, each as an environment variable or a CMake variable:
#   FORCE_CUDA=1           a missing or mismatched CUDA is an error; FORCE_CUDA=0 leaves it out
#   TORCH_CUDA_ARCH_LIST   the architectures to build for, as "8.0;9.0+PTX"; implies FORCE_CUDA=1
#
# Without TORCH_CUDA_ARCH_LIST the portable kernels are built for 7.5, 8.0 and 9.0, with PTX of the
# last for what comes later, and the Hopper kernels for 9.0a. A list replaces the portable
# architectures ("9.0a" counts as "9.0" there), and the Hopper kernels are built only if it names
# 9.0 or 9.0a. Without them the library treats a device of 9.0 that its PTX serves as any other.
#
# For tests, TILED_MM_PTX_OF=8.0 has the machine code of the listed architectures made from PTX of
# that older one, without Hopper's kernels: so a GPU here runs what one of 8.0 runs.
#
# nvcc is CMAKE_CUDA_COMPILER, else $CUDACXX, else the first in $CUDA_HOME, $CUDA_PATH, $PATH and
# /usr/local/cuda.

set(TILED_MM_PORTABLE_ARCHITECTURES 7.5 8.0 9.0+PTX)
set(TILED_MM_HOPPER_ARCHITECTURES 9.0a)

function(_tiled_mm_setting name out)
  if(DEFINED ENV{${name}})
    set(${out} "$ENV{${name}}" PARENT_SCOPE)
  else()
    set(${out} "${${name}}" PARENT_SCOPE)
  endif()
endfunction()

function(_tiled_mm_find_nvcc out)
  if(CMAKE_CUDA_COMPILER)
    set(nvcc ${CMAKE_CUDA_COMPILER})
  elseif(DEFINED ENV{CUDACXX})
    find_program(nvcc $ENV{CUDACXX} NO_CACHE)
  else()
    find_program(nvcc nvcc NO_CACHE
      HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  endif()
  set(${out} ${nvcc} PARENT_SCOPE)
endfunction()

# Sets TILED_MM_CUDA (ON or OFF), TILED_MM_CUDA_REASON, and where it is ON: CMAKE_CUDA_COMPILER,
# TILED_MM_CUDA_VERSION ("13.0") and the two lists of architectures above.
macro(tiled_mm_decide_cuda)
  _tiled_mm_setting(FORCE_CUDA _force)
  _tiled_mm_setting(TORCH_CUDA_ARCH_LIST _arch_list)
  _tiled_mm_find_nvcc(_nvcc)
  set(TILED_MM_CUDA_VERSION "")
  if(_nvcc)
    execute_process(COMMAND ${_nvcc} --version OUTPUT_VARIABLE _banner ERROR_QUIET)
    if(_banner MATCHES "release ([0-9]+)\\.([0-9]+)")
      set(_nvcc_major ${CMAKE_MATCH_1})
      set(TILED_MM_CUDA_VERSION ${CMAKE_MATCH_1}.${CMAKE_MATCH_2})
    endif()
  endif()

  set(TILED_MM_CUDA OFF)
  if(NOT "${_force}" STREQUAL "" AND NOT "${_force}")
    set(TILED_MM_CUDA_REASON "FORCE_CUDA=${_force} leaves it out")
  elseif(NOT TILED_MM_TORCH_CUDA_MAJOR)
    set(TILED_MM_CUDA_REASON "torch ${TILED_MM_TORCH_VERSION} is a CPU-only build")
  elseif(NOT _nvcc)
    set(TILED_MM_CUDA_REASON
      "nvcc is not in CUDACXX, CUDA_HOME, CUDA_PATH, PATH or /usr/local/cuda")
  elseif(NOT TILED_MM_CUDA_VERSION)
    set(TILED_MM_CUDA_REASON "nvcc --version names no CUDA release")
  elseif(NOT _nvcc_major EQUAL TILED_MM_TORCH_CUDA_MAJOR)
    set(TILED_MM_CUDA_REASON "nvcc is of CUDA ${TILED_MM_CUDA_VERSION}, while torch \
${TILED_MM_TORCH_VERSION} was built for CUDA ${TILED_MM_TORCH_CUDA_MAJOR}")
  else()
    set(TILED_MM_CUDA ON)
    set(TILED_MM_CUDA_REASON "nvcc is of CUDA ${TILED_MM_CUDA_VERSION} and torch \
${TILED_MM_TORCH_VERSION} was built for CUDA ${TILED_MM_TORCH_CUDA_MAJOR}")
    set(CMAKE_CUDA_COMPILER ${_nvcc})
    if(_arch_list)
      _tiled_mm_narrow("${_arch_list}" ${_nvcc})
    endif()
    _tiled_mm_setting(TILED_MM_PTX_OF TILED_MM_PTX_OF)
    if(TILED_MM_PTX_OF)
      if(NOT TILED_MM_PTX_OF MATCHES "^[0-9]+\\.[0-9]$")
        message(FATAL_ERROR "tiled-mm: TILED_MM_PTX_OF takes one architecture, such as 8.0, not \
'${TILED_MM_PTX_OF}'")
      endif()
      set(TILED_MM_HOPPER_ARCHITECTURES)
    endif()
  endif()

  if(NOT TILED_MM_CUDA AND ("${_force}" OR (_arch_list AND "${_force}" STREQUAL "")))
    if("${_force}")
      set(_asked "FORCE_CUDA=${_force}")
    else()
      set(_asked "TORCH_CUDA_ARCH_LIST=${_arch_list}")
    endif()
    message(FATAL_ERROR "tiled-mm: ${_asked} asks for CUDA, but ${TILED_MM_CUDA_REASON}")
  endif()
endmacro()

# Narrows the architectures to those that the user listed.
function(_tiled_mm_narrow list nvcc)
  execute_process(COMMAND ${nvcc} --list-gpu-arch OUTPUT_VARIABLE known)
  string(REGEX REPLACE "[ ,]+" ";" list "${list}")
  set(portable)
  set(hopper)
  foreach(entry IN LISTS list)
    if(NOT entry MATCHES "^([0-9]+)\\.([0-9])([af]?)(\\+PTX)?$")
      message(FATAL_ERROR "tiled-mm: TORCH_CUDA_ARCH_LIST takes entries such as 8.0 or 9.0+PTX, \
not '${entry}'")
    endif()
    set(number ${CMAKE_MATCH_1}${CMAKE_MATCH_2})
    set(plain ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}${CMAKE_MATCH_4})
    if(NOT known MATCHES "compute_${number}\n")
      message(FATAL_ERROR "tiled-mm: TORCH_CUDA_ARCH_LIST names '${entry}', which ${nvcc} does \
not know")
    endif()
    list(APPEND portable ${plain})
    if(number EQUAL 90)
      set(hopper 9.0a)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES portable)
  set(TILED_MM_PORTABLE_ARCHITECTURES ${portable} PARENT_SCOPE)
  set(TILED_MM_HOPPER_ARCHITECTURES ${hopper} PARENT_SCOPE)
endfunction()

# The flags of nvcc for a list such as 8.0 9.0+PTX.
function(tiled_mm_gencode out)
  set(flags)
  foreach(entry IN LISTS ARGN)
    string(REGEX MATCH "^([0-9]+)\\.([0-9][af]?)(\\+PTX)?$" _ ${entry})
    set(arch ${CMAKE_MATCH_1}${CMAKE_MATCH_2})
    set(ptx ${arch})
    if(TILED_MM_PTX_OF)
      string(REPLACE "." "" ptx ${TILED_MM_PTX_OF})
    endif()
    list(APPEND flags "-gencode=arch=compute_${ptx},code=sm_${arch}")
    if(CMAKE_MATCH_3)
      list(APPEND flags "-gencode=arch=compute_${ptx},code=compute_${ptx}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES flags)
  set(${out} ${flags} PARENT_SCOPE)
endfunction()
