// Tensor maps, TMA's description of a matrix in global memory: encoded on the host for every call
// and passed to the kernel by value. The driver's encoder is found through the runtime, so the
// library does not link libcuda.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace tiled {

// [batch][rows][columns], neighbours in a row next to each other.
struct MappedMatrix {
  const void* data;  // a multiple of 16 bytes
  int64_t columns, rows, batch;
  int64_t row_stride;    // elements; a multiple of 16 bytes
  int64_t batch_stride;  // elements; a multiple of 16 bytes
};

struct MapBox {
  int columns, rows;  // elements; rows of 32, 64 or 128 bytes are swizzled by as many bytes
};

cudaError_t encode_tensor_map(CUtensorMap* map, CUtensorMapDataType type, int element_bytes,
                              const MappedMatrix& matrix, MapBox box);

}  // namespace tiled
