// The gradient of linear's weight, gradient^T x of all leading dimensions: products of tensors that
// keep these, and their derivatives.
#include <torch/library.h>

#include "torch/autograd_node.h"

namespace tiled {
namespace {

// The leading dimensions in one.
at::Tensor as_matrix(const at::Tensor& t) {
  if (t.dim() == 2) return t;
  c10::SymInt rows = 1;
  for (int64_t i = 0; i + 1 < t.dim(); ++i) rows = rows * t.sym_size(i);
  return t.reshape_symint({rows, t.sym_size(-1)});
}

void check_leading(const at::Tensor& gradient, const at::Tensor& x) {
  TORCH_CHECK(gradient.dim() > 0 && gradient.dim() == x.dim(),
              "tiled_mm: the gradient of linear's weight takes a gradient [..., N] and x [..., K], "
              "but they are ",
              gradient.dim(), "D and ", x.dim(), "D");
  for (int64_t i = 0; i + 1 < x.dim(); ++i)
    TORCH_SYM_CHECK(gradient.sym_size(i).sym_eq(x.sym_size(i)),
                    "tiled_mm: the gradient of linear's weight takes a gradient and x of the same "
                    "leading dimensions, but they are ",
                    gradient.sym_sizes(), " and ", x.sym_sizes());
}

// multiply(gradient^T, x) of matrices.
template <typename Multiply>
auto with_matrices(const at::Tensor& gradient, const at::Tensor& x, const MmOptions& options,
                   const Multiply& multiply) {
  check_leading(gradient, x);
  const at::Tensor a = as_matrix(gradient).mT(), b = as_matrix(x);
  if (needs_copies(options.algo)) return multiply(aligned_copy(a), aligned_copy(b.mT()).mT());
  return multiply(a, b);
}

at::Tensor weight_grad(const at::Tensor& gradient, const at::Tensor& x, const MmOptions& options) {
  return with_matrices(gradient, x, options, [&](const at::Tensor& a, const at::Tensor& b) {
    return mm_operator().call(a, b, options);
  });
}

void add_weight_grad(at::Tensor& sum, const at::Tensor& gradient, const at::Tensor& x,
                     const MmOptions& asked) {
  MmOptions options = asked;
  options.out_dtype = sum.scalar_type();
  with_matrices(gradient, x, options, [&](const at::Tensor& a, const at::Tensor& b) {
    addmm_out_operator().call(sum, a, b, 1, 1, std::nullopt, options, sum);
  });
}

struct LinearWeightGradBackward : public Node {
  SavedVariable gradient, x;  // gradient only if x needs one, and the other way round
  at::ScalarType dtype;
  GradientRequest request;

  std::string name() const override { return "TiledLinearWeightGradBackward0"; }

  void release_variables() override { release(mutex_, gradient, x); }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list result(2);
    if (!gradients[0].defined()) return result;
    const at::Tensor of_weight = gradients[0].to(dtype);  // [N, K]
    if (task_should_compute_output(0))
      result[0] = request.linear(x.unpack(getptr()).conj(), of_weight);
    if (task_should_compute_output(1))
      result[1] = request.linear(gradient.unpack(getptr()).conj(), of_weight.mT());
    return result;
  }
};

at::Tensor differentiable_weight_grad(c10::DispatchKeySet keys, const at::Tensor& gradient,
                                      const at::Tensor& x, const MmOptions& asked) {
  const Recording call(asked, x, gradient, x);
  const auto node = call.node<LinearWeightGradBackward>(gradient, x);
  if (node) {
    if (node->should_compute_output(1))
      node->gradient = SavedVariable(gradient, /*is_output=*/false);
    if (node->should_compute_output(0)) node->x = SavedVariable(x, /*is_output=*/false);
    node->dtype = x.scalar_type();
    node->request = GradientRequest(call.options);
  }
  const LinearWeightGradOperator& door = linear_weight_grad_operator();
  at::Tensor result = run_below(door, keys, gradient, x, call.options);
  if (node) torch::autograd::set_history(result, node);
  if (call.has_tangent) {
    const auto product = [&](const at::Tensor& g, const at::Tensor& y) {
      return door.call(g, y, call.options);
    };
    result._set_fw_grad(product_tangent(gradient, x, product), /*level=*/0,
                        /*is_inplace_op=*/false);
  }
  return result;
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Autograd, m) {
  m.impl("_linear_weight_grad", kernel<&differentiable_weight_grad>);
}

TORCH_LIBRARY_IMPL(tiled, CompositeExplicitAutograd, m) {
  m.impl("_linear_weight_grad", kernel<&weight_grad>);
  m.impl("_add_linear_weight_grad", kernel<&add_weight_grad>);
}

}  // namespace tiled
