tiled_mm_rung(
  PLAN describe.cpp plan.cpp
  LAUNCH launch.cpp
  HOPPER hopper_bf16_k.cu hopper_bf16_mn.cu hopper_fp16_k.cu hopper_fp16_mn.cu hopper_tf32.cu
         grouped_bf16_k.cu grouped_bf16_mn.cu grouped_fp16_k.cu grouped_fp16_mn.cu
         grouped_tf32.cu
         scaled_e4m3_e4m3.cu scaled_e4m3_e5m2.cu scaled_e5m2_e4m3.cu scaled_e5m2_e5m2.cu)
