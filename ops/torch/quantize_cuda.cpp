// tiled::_quantize_blocks for the CUDA key: on the current stream of the tensor's device.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "cuda/launch/quantize.h"
#include "torch/check_scaled.h"
#include "torch/hooks.h"
#include "torch/quantize.h"

namespace tiled {
namespace {

Quantized quantize_blocks(const at::Tensor& given, bool square, at::ScalarType dtype,
                          bool transposed) {
  const at::Tensor x = given.stride(-1) == 1 || given.size(-1) <= 1 ? given : given.contiguous();
  cuda_device(x.device().index());  // refuses one that this build has no kernels for
  const c10::cuda::CUDAGuard guard(x.device());
  Quantized made = empty_quantized(x, square, dtype, transposed);
  auto& [data, scale, data_t, scale_t] = made;
  const Operand operand = operand_of(x);
  const Quantization pass = {operand.data,
                             dtype_of(x.scalar_type()),
                             scaled_dtype_of(data),
                             x.dim() == 3 ? x.size(0) : 1,
                             x.size(-2),
                             x.size(-1),
                             operand.batch_stride,
                             operand.row_stride,
                             square,
                             data.mutable_data_ptr(),
                             scale.mutable_data_ptr<float>(),
                             transposed ? data_t.mutable_data_ptr() : nullptr,
                             transposed && !square ? scale_t.mutable_data_ptr<float>() : nullptr};
  C10_CUDA_CHECK(launch_quantize(pass, at::cuda::getCurrentCUDAStream()));
  if (transposed && square) scale_t.copy_(scale.mT());
  return made;
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, CUDA, m) { m.impl("_quantize_blocks", &quantize_blocks); }

}  // namespace tiled
