#include "cuda/parts/launch/tensor_map.h"

namespace tiled {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

struct Encoder {
  Encode function = nullptr;
  cudaError_t error;
};

Encoder find_encoder() {
  Encoder encoder;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  encoder.error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                   cudaEnableDefault, &found);
  if (encoder.error == cudaSuccess && found != cudaDriverEntryPointSuccess)
    encoder.error = cudaErrorNotSupported;
  encoder.function = reinterpret_cast<Encode>(function);
  return encoder;
}

CUtensorMapSwizzle swizzle_of(int row_bytes) {
  switch (row_bytes) {
    case 128: return CU_TENSOR_MAP_SWIZZLE_128B;
    case 64: return CU_TENSOR_MAP_SWIZZLE_64B;
    case 32: return CU_TENSOR_MAP_SWIZZLE_32B;
    default: return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

}  // namespace

cudaError_t encode_tensor_map(CUtensorMap* map, CUtensorMapDataType type, int element_bytes,
                              const MappedMatrix& matrix, MapBox box) {
  static const Encoder encoder = find_encoder();
  if (encoder.error != cudaSuccess) return encoder.error;
  const auto size = [](int64_t value) { return static_cast<cuuint64_t>(value); };
  // Strides of dimensions of size 1 are not used, but they are checked.
  const auto pitch = [&](int64_t count, int64_t stride) {
    return count > 1 ? size(stride * element_bytes) : size(16);
  };
  const cuuint64_t sizes[3] = {size(matrix.columns), size(matrix.rows), size(matrix.batch)};
  const cuuint64_t strides[2] = {pitch(matrix.rows, matrix.row_stride),
                                 pitch(matrix.batch, matrix.batch_stride)};
  const cuuint32_t boxes[3] = {static_cast<cuuint32_t>(box.columns),
                               static_cast<cuuint32_t>(box.rows), 1};
  const cuuint32_t steps[3] = {1, 1, 1};
  const auto encode = [&] {
    return encoder.function(map, type, 3, const_cast<void*>(matrix.data), sizes, strides, boxes,
                            steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                            swizzle_of(box.columns * element_bytes),
                            CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  CUresult result = encode();
  if (result == CUDA_ERROR_INVALID_CONTEXT) {
    // The driver wants a context, which a thread has none of before its first use of the runtime
    // (autograd's threads come here so). To set the device that is set gives it one.
    int device = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaSetDevice(device);
    if (error != cudaSuccess) return error;
    result = encode();
  }
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace tiled
