// The tensor map of an operand of wgmma.
#pragma once

#include "cuda/parts/launch/cluster_grid.h"

namespace tiled {

inline CUtensorMapDataType map_type(DType dtype) {
  switch (dtype) {
    case DType::Float16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::BFloat16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::Int8:
    case DType::UInt8:
    case DType::Float8E4M3FN:
    case DType::Float8E5M2: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case DType::Int32: return CU_TENSOR_MAP_DATA_TYPE_INT32;
    default: return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;  // rounds fp32 to tf32 as it loads
  }
}

inline cudaError_t map_operand(CUtensorMap* map, const Side& side, const Problem& problem,
                               int block_rows, int share_rows, int sharers = 1) {
  return encode_operand(map, side, entries_of(side, problem.batch), map_type(problem.dtype),
                        static_cast<int>(size_of(problem.dtype)), block_rows, share_rows, sharers);
}

// Both maps of an operand: of whole boxes, and, where it is contiguous along K, of boxes of the
// rows that are left after them (OperandTile::Reach).
inline cudaError_t map_with_edge(CUtensorMap* map, CUtensorMap* edge, const Side& side,
                                 const Problem& problem, int block_rows, int share_rows,
                                 int sharers) {
  const cudaError_t error = map_operand(map, side, problem, block_rows, share_rows, sharers);
  const int left = static_cast<int>(side.rows % (block_rows / sharers));
  if (error != cudaSuccess || is_mn_major(side) || left == 0) return error;
  return map_operand(edge, side, problem, left, share_rows);
}

}  // namespace tiled
