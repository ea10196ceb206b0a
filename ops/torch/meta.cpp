// Shapes without data: what torch.compile, export and meta tensors ask. Sizes may be symbolic.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "torch/check.h"
#include "torch/options.h"
#include "torch/precision.h"

namespace tiled {
namespace {

// Everything that can be refused without knowing the device; returns the result's dtype.
at::ScalarType check_request(const at::Tensor& a, const MmOptions& options) {
  dtype_of(a.scalar_type());
  if (options.algo && !parse_algo(*options.algo))
    throw_unfit_algo(*options.algo, {std::begin(ALL_ALGOS), std::end(ALL_ALGOS)});
  // A CPU accepts every precision that some device may have for this dtype.
  resolve_precision(a.scalar_type(), {at::kCPU}, options);
  return check_out_dtype(a.scalar_type(), options);
}

at::Tensor mm_meta(const at::Tensor& a, const at::Tensor& b, const MmOptions& options) {
  check_mm(a, b);
  const at::ScalarType type = check_request(a, options);
  return at::empty_symint({a.sym_size(0), b.sym_size(1)}, a.options().dtype(type));
}

at::Tensor bmm_meta(const at::Tensor& a, const at::Tensor& b, const MmOptions& options) {
  check_bmm(a, b);
  const at::ScalarType type = check_request(a, options);
  return at::empty_symint({a.sym_size(0), a.sym_size(1), b.sym_size(2)}, a.options().dtype(type));
}

void mm_out_meta(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                 at::Tensor& out) {
  check_mm(a, b);
  const at::ScalarType type = check_request(a, options);
  const OutShape shape = check_out(a, out, type, a.sym_size(0), b.sym_size(1));
  check_no_self_overlap(out);
  if (shape == OutShape::ToBeResized) out.resize__symint({a.sym_size(0), b.sym_size(1)});
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Meta, m) {
  m.impl("mm", kernel<&mm_meta>);
  m.impl("bmm", kernel<&bmm_meta>);
  m.impl("mm.out", kernel<&mm_out_meta>);
}

}  // namespace tiled
