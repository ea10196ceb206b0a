// The products without options, which tiled_mm calls where none is given. Torch's binding to Python
// looks up every keyword that a call leaves out, at some 700 instructions each, and a product of
// small matrices takes no more than two thousand. Each is composed of the operator with options, so
// that autograd, autocast, compilers and dispatch modes meet that one alone.
#include <torch/library.h>

#include "torch/schema.h"

namespace tiled {
namespace {

template <const MmOperator& (*OPERATOR)()>
at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  return OPERATOR().call(a, b, MmOptions());
}

template <const AddmmOperator& (*OPERATOR)()>
at::Tensor sum(const at::Tensor& input, const at::Tensor& a, const at::Tensor& b) {
  return OPERATOR().call(input, a, b, 1, 1, std::nullopt, MmOptions());
}

at::Tensor layer(const at::Tensor& x, const at::Tensor& weight,
                 const std::optional<at::Tensor>& bias) {
  return linear_operator().call(x, weight, bias, std::nullopt, MmOptions());
}

void register_plain(torch::Library& m) {
  m.impl("_mm", &product<&mm_operator>);
  m.impl("_bmm", &product<&bmm_operator>);
  m.impl("_addmm", &sum<&addmm_operator>);
  m.impl("_baddbmm", &sum<&baddbmm_operator>);
  m.impl("_linear", &layer);
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, CompositeImplicitAutograd, m) { register_plain(m); }
// These keys would take the operator as it is: torch.vmap, and dispatch modes and tensor subclasses
// where autograd is left out (torch.inference_mode).
TORCH_LIBRARY_IMPL(tiled, FuncTorchBatchedDecomposition, m) { register_plain(m); }
TORCH_LIBRARY_IMPL(tiled, Python, m) { register_plain(m); }

}  // namespace tiled
