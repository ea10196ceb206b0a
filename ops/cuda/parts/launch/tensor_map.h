// Tensor maps, TMA's description of a matrix in global memory: encoded on the host for every call
// and passed to the kernel by value. The driver's encoder is found through the runtime, so the
// library does not link libcuda.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "cuda/parts/launch/mapped_matrix.h"

namespace tiled {

struct MapBox {
  int columns, rows;  // elements; rows of 32, 64 or 128 bytes are swizzled by as many bytes
};

cudaError_t encode_tensor_map(CUtensorMap* map, CUtensorMapDataType type, int element_bytes,
                              const MappedMatrix& matrix, MapBox box);

}  // namespace tiled
