# Fails if an object compiled for one instruction set (ops/cpu/avx*.cpp, amx.cpp) defines a weak symbol.
#   cmake -DOBJECTS=<a.o;b.o> -DNM=<nm> -P no_weak_symbols.cmake
list(FILTER OBJECTS INCLUDE REGEX "/cpu/(avx|amx)")
if(NOT OBJECTS)
  message(STATUS "no file is compiled for an instruction set of its own on this architecture")
endif()
foreach(object IN LISTS OBJECTS)
  execute_process(COMMAND ${NM} --demangle --defined-only ${object}
    OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  if(symbols MATCHES " [WVu] [^\n]*")
    message(SEND_ERROR "${object} defines a weak symbol:${CMAKE_MATCH_0}")
  endif()
endforeach()
