// Shapes without data: what torch.compile, export and meta tensors ask. Sizes may be symbolic.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "torch/check.h"
#include "torch/precision.h"

namespace tiled {
namespace {

using Name = std::optional<std::string_view>;
using Type = std::optional<at::ScalarType>;

// Everything that can be refused without knowing the device; returns the result's dtype.
at::ScalarType check_request(const at::Tensor& a, Name algo, Name precision, Type out_dtype) {
  dtype_of(a.scalar_type());
  if (algo && !parse_algo(*algo))
    throw_unfit_algo(*algo, {std::begin(ALL_ALGOS), std::end(ALL_ALGOS)});
  // A CPU accepts every precision that some device may have for this dtype.
  resolve_precision(a.scalar_type(), {at::kCPU}, precision, algo);
  return check_out_dtype(a.scalar_type(), out_dtype);
}

at::Tensor mm_meta(const at::Tensor& a, const at::Tensor& b, Name algo, Name precision,
                   Type out_dtype) {
  check_mm(a, b);
  const at::ScalarType type = check_request(a, algo, precision, out_dtype);
  return at::empty_symint({a.sym_size(0), b.sym_size(1)}, a.options().dtype(type));
}

at::Tensor bmm_meta(const at::Tensor& a, const at::Tensor& b, Name algo, Name precision,
                    Type out_dtype) {
  check_bmm(a, b);
  const at::ScalarType type = check_request(a, algo, precision, out_dtype);
  return at::empty_symint({a.sym_size(0), a.sym_size(1), b.sym_size(2)}, a.options().dtype(type));
}

void mm_out_meta(const at::Tensor& a, const at::Tensor& b, Name algo, Name precision,
                 Type out_dtype, at::Tensor& out) {
  check_mm(a, b);
  const at::ScalarType type = check_request(a, algo, precision, out_dtype);
  const OutShape shape = check_out(a, out, type, a.sym_size(0), b.sym_size(1));
  check_no_self_overlap(out);
  if (shape == OutShape::ToBeResized) out.resize__symint({a.sym_size(0), b.sym_size(1)});
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Meta, m) {
  m.impl("mm", &mm_meta);
  m.impl("bmm", &bmm_meta);
  m.impl("mm.out", &mm_out_meta);
}

}  // namespace tiled
