// The tensor map of an operand of wgmma.
#pragma once

#include "cuda/parts/cluster_grid.h"

namespace tiled {

inline CUtensorMapDataType map_type(DType dtype) {
  switch (dtype) {
    case DType::Float16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::BFloat16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    default: return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;  // rounds fp32 to tf32 as it loads
  }
}

inline cudaError_t map_operand(CUtensorMap* map, const Side& side, const Problem& problem,
                               int block_rows, int share_rows, int sharers = 1) {
  return encode_operand(map, side, entries_of(side, problem.batch), map_type(problem.dtype),
                        static_cast<int>(size_of(problem.dtype)), block_rows, share_rows, sharers);
}

}  // namespace tiled
