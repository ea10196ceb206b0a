set(held_launch)
if(NOT by_8_architectures)
  set(held_launch no_held.cpp)
endif()
tiled_mm_rung(
  PLAN plan.cpp
  LAUNCH launch.cpp ${held_launch}
  BY_8 held_fp16.cu
  ASYNC
    async_mma_bf16_nt.cu async_mma_bf16_nn.cu async_mma_bf16_tn.cu
    async_mma_fp16_nt.cu async_mma_fp16_nn.cu async_mma_fp16_tn.cu
    async_mma_tf32.cu async_mma_int8.cu async_mma_signed_int8.cu)
