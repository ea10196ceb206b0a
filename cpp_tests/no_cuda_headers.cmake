# Fails if a source of a library without CUDA includes a header of CUDA's: such a library is built
# where there are none. On a machine that has them the mistake would not be seen, so headers that
# only say #error stand before the real ones. Preprocessing is enough, and fast.
#   cmake -DCXX=<compiler> -DFLAGS=<a;b> -DSOURCES=<a.cpp;b.cpp> -DWITH_CUDA=<c.cpp> -DPOISON=<folder>
#     -P no_cuda_headers.cmake
# WITH_CUDA includes one, and must fail: it tests the test.
set(headers cuda.h cuda_runtime.h cuda_runtime_api.h cuda_fp16.h cuda_bf16.h cuda_fp8.h
  driver_types.h vector_types.h)
foreach(header IN LISTS headers)
  file(WRITE ${POISON}/${header} "#error a library without CUDA has no ${header}\n")
endforeach()

function(preprocess source out)
  execute_process(COMMAND ${CXX} -I${POISON} ${FLAGS} -E -o /dev/null ${source}
    RESULT_VARIABLE result ERROR_VARIABLE errors)
  if(NOT result EQUAL 0 AND NOT errors MATCHES "#error a library without CUDA")
    message(SEND_ERROR "${source} cannot be preprocessed:\n${errors}")
  endif()
  set(${out} "${errors}" PARENT_SCOPE)
endfunction()

list(LENGTH SOURCES count)
if(count LESS 10)
  message(FATAL_ERROR "only ${count} sources to look at")
endif()
foreach(source IN LISTS SOURCES)
  preprocess(${source} errors)
  if(errors)
    message(SEND_ERROR "${errors}")
  endif()
endforeach()
preprocess(${WITH_CUDA} errors)
if(NOT errors)
  message(SEND_ERROR "${WITH_CUDA} includes a header of CUDA's, and it was not noticed")
endif()
