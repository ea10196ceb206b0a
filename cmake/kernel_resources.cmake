# What the compiler says its kernels use, as rows of a C++ table. Run at build time:
#
#   cmake -DOBJECTS=<a.o;b.o> -DCUOBJDUMP=<tool> -DCUFILT=<tool> -DOUT=<file>
#     -P kernel_resources.cmake
#
# OBJECTS   object files with the kernels; none of them, or no CUOBJDUMP, gives a table without rows
# CUOBJDUMP cuobjdump of the CUDA toolkit
# CUFILT    cu++filt of the CUDA toolkit, or c++filt of the binutils
# OUT       the file to write, included by ops/explain/kernel_resources.cpp
#
# A row is {key, {capability, registers per thread, static shared bytes, stack bytes}}, a KernelRow
# of ops/explain/kernel_resources.h. The key is the kernel's name with its template arguments,
# without namespace, result and parameters:
#
#   void tiled::register_tile<float, tiled::Tile64x64, (tiled::Access)0, (tiled::Access)1>(...)
#   register_tile<float, Tile64x64, 0, 1>
cmake_minimum_required(VERSION 3.18)

if(NOT OUT)
  message(FATAL_ERROR "kernel_resources.cmake: OUT is not set")
endif()

# From 9.0 on the compiler counts the block's bytes that the system reserves; the planner knows them
# as a limit of the device (DeviceInfo::shared_bytes_reserved).
set(RESERVED_SHARED_BYTES 1024)

set(rows "")
if(OBJECTS AND CUOBJDUMP)
  foreach(object IN LISTS OBJECTS)
    execute_process(
      COMMAND "${CUOBJDUMP}" --dump-resource-usage "${object}"
      COMMAND "${CUFILT}"
      OUTPUT_VARIABLE report
      ERROR_VARIABLE errors
      RESULTS_VARIABLE results)
    if(NOT results STREQUAL "0;0")
      message(FATAL_ERROR "kernel_resources.cmake: cannot read ${object}: ${results} ${errors}")
    endif()

    # Brackets and semicolons would join or split the lines of a CMake list.
    string(REGEX REPLACE "[][;]" "" report "${report}")
    string(REPLACE "\n" ";" lines "${report}")
    foreach(line IN LISTS lines)
      if(line MATCHES "^arch = sm_([0-9]+)")
        set(capability ${CMAKE_MATCH_1})
      elseif(line MATCHES "^ *Function void tiled::([a-z0-9_]+<.*>)\\(")
        set(key "${CMAKE_MATCH_1}")
        string(REPLACE "(tiled::Access)" "" key "${key}")
        # cu++filt writes (bool)1 and, of newer toolkits, (int)8; c++filt true and 8
        string(REPLACE "(bool)" "" key "${key}")
        string(REPLACE "(int)" "" key "${key}")
        string(REPLACE "false" "0" key "${key}")
        string(REPLACE "true" "1" key "${key}")
        string(REPLACE "tiled::" "" key "${key}")
        string(REPLACE "> >" ">>" key "${key}")
      elseif(line MATCHES "^ *Function ")
        set(key "")  # not a kernel of the ladder
      elseif(line MATCHES "REG:([0-9]+) STACK:([0-9]+) SHARED:([0-9]+)" AND key)
        set(registers ${CMAKE_MATCH_1})
        set(stack ${CMAKE_MATCH_2})
        set(shared ${CMAKE_MATCH_3})
        if(capability GREATER_EQUAL 90 AND shared GREATER_EQUAL RESERVED_SHARED_BYTES)
          math(EXPR shared "${shared} - ${RESERVED_SHARED_BYTES}")
        endif()
        set(resources "${capability}, ${registers}, ${shared}, ${stack}")
        list(APPEND rows "{\"${key}\", {${resources}}},")
      endif()
    endforeach()
  endforeach()
  if(NOT rows)
    message(FATAL_ERROR "kernel_resources.cmake: no kernel found in ${OBJECTS}")
  endif()
endif()

list(REMOVE_DUPLICATES rows)
list(SORT rows)
list(JOIN rows "\n" rows)
file(WRITE "${OUT}" "// Written by cmake/kernel_resources.cmake: key, {capability, registers per thread, static shared
// bytes, stack bytes}.
${rows}
")
