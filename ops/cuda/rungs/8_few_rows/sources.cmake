tiled_mm_instances(few_rows_instances few_rows.cu.in
  COLUMNS NAME                ELEMENT       BY
  ROWS    few_rows_bf16       __nv_bfloat16 Wgmma
          few_rows_fp16       __half        Wgmma
          few_rows_warps_bf16 __nv_bfloat16 Warps
          few_rows_warps_fp16 __half        Warps)
tiled_mm_rung(
  PLAN plan.cpp
  LAUNCH launch.cpp
  HOPPER few_rows_fp64.cu few_rows_tf32.cu lanes.cu patches.cu ${few_rows_instances})
