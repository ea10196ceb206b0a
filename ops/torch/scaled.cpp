// Scaled products without data, and without gradients: fp8 and int8 are what a gradient does not
// flow through, and torch's own operators have none either.
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "torch/check_scaled.h"
#include "torch/options.h"
#include "torch/quantize.h"

namespace tiled {
namespace {

at::Tensor scaled_meta(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                       const at::Tensor& scale_b, const ScaledOptions& asked) {
  const ScaledShape shape = check_scaled(a, b, scale_a, scale_b, asked);
  return at::empty_symint(shape.sizes, a.options().dtype(shape.type));
}

void scaled_out_meta(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                     const at::Tensor& scale_b, const ScaledOptions& asked, at::Tensor& out) {
  const ScaledShape shape = check_scaled(a, b, scale_a, scale_b, asked);
  const OutShape fits = check_out(a, out, shape.type, shape.sizes);
  check_no_self_overlap(out);
  if (fits == OutShape::ToBeResized) out.resize__symint(shape.sizes);
}

void add_scaled_meta(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b,
                     const at::Tensor& scale_a, const at::Tensor& scale_b,
                     const ScaledOptions& asked) {
  ScaledOptions options = asked;
  options.out_dtype = sum.scalar_type();
  const ScaledShape shape = check_scaled(a, b, scale_a, scale_b, options);
  TORCH_CHECK(sum.sym_sizes() == c10::SymIntArrayRef(shape.sizes), "tiled_mm: the sums have shape ",
              sum.sym_sizes(), ", and what is added to them ", c10::SymIntArrayRef(shape.sizes));
  check_no_self_overlap(sum);
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Meta, m) {
  m.impl("scaled_mm", kernel<&scaled_meta>);
  m.impl("scaled_mm.out", kernel<&scaled_out_meta>);
  m.impl("_add_scaled_mm", kernel<&add_scaled_meta>);
  m.impl("_quantize_blocks", &empty_quantized);
}

TORCH_LIBRARY_IMPL(tiled, Autograd, m) {
  for (const char* name : {"scaled_mm", "_quantize_blocks"})
    m.impl(name, torch::autograd::autogradNotImplementedFallback());
}

}  // namespace tiled
