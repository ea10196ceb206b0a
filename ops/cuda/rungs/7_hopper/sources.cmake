tiled_mm_instances(hopper_instances hopper.cu.in
  COLUMNS NAME            ELEMENT       P_MN_MAJOR Q_EITHER_WAY GROUPED
  ROWS    hopper_bf16_k   __nv_bfloat16 false      true         false
          hopper_bf16_mn  __nv_bfloat16 true       true         false
          hopper_fp16_k   __half        false      true         false
          hopper_fp16_mn  __half        true       true         false
          grouped_bf16_k  __nv_bfloat16 false      true         true
          grouped_bf16_mn __nv_bfloat16 true       true         true
          grouped_fp16_k  __half        false      true         true
          grouped_fp16_mn __half        true       true         true
          grouped_tf32    ptx::Tf32     false      false        true)
tiled_mm_instances(tree_instances trees.cu.in
  COLUMNS NAME         ELEMENT       P_MN_MAJOR
  ROWS    tree_bf16_k  __nv_bfloat16 false
          tree_bf16_mn __nv_bfloat16 true
          tree_fp16_k  __half        false
          tree_fp16_mn __half        true)
tiled_mm_instances(byte_instances bytes.cu.in
  COLUMNS NAME       ELEMENT         GROUPED
  ROWS    hopper_s8  "signed char"   false
          hopper_u8  "unsigned char" false
          grouped_s8 "signed char"   true
          grouped_u8 "unsigned char" true)
tiled_mm_instances(scaled_instances scaled.cu.in
  COLUMNS NAME             P         Q
  ROWS    scaled_e4m3_e4m3 ptx::E4m3 ptx::E4m3
          scaled_e4m3_e5m2 ptx::E4m3 ptx::E5m2
          scaled_e5m2_e4m3 ptx::E5m2 ptx::E4m3
          scaled_e5m2_e5m2 ptx::E5m2 ptx::E5m2)
tiled_mm_rung(
  PLAN describe.cpp plan.cpp
  LAUNCH launch.cpp
  HOPPER hopper_tf32.cu scaled_s8.cu ${hopper_instances} ${tree_instances} ${byte_instances}
         ${scaled_instances})
