set(held_launch)
if(NOT by_8_architectures)
  set(held_launch no_held.cpp)
endif()
# fp32 is rounded to tf32. Bytes with a sign are their own instance where C keeps their sums whole;
# where C has the low 8 bits, the one for bytes without a sign computes them.
tiled_mm_instances(async_mma_instances async_mma.cu.in
  COLUMNS NAME                  ELEMENT         A_ALONG_M B_ALONG_N
  ROWS    async_mma_bf16_nt     __nv_bfloat16   false     false
          async_mma_bf16_nn     __nv_bfloat16   false     true
          async_mma_bf16_tn     __nv_bfloat16   true      true
          async_mma_fp16_nt     __half          false     false
          async_mma_fp16_nn     __half          false     true
          async_mma_fp16_tn     __half          true      true
          async_mma_tf32        float           false     false
          async_mma_int8        "unsigned char" false     false
          async_mma_signed_int8 "signed char"   false     false)
tiled_mm_rung(
  PLAN plan.cpp
  LAUNCH launch.cpp ${held_launch}
  BY_8 held_fp16.cu
  ASYNC ${async_mma_instances})
