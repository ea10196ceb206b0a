// Derivatives, in the manner of ATen's own generated kernels: a Node that saves what its gradients
// need, and the tangent of forward mode. (torch::autograd::Function would be shorter, but it has no
// forward mode and refuses to run under torch.func.) Gradients are products through the dispatcher
// again, so they can be differentiated, compiled and sharded like the forward.
#include <torch/library.h>

#include "torch/autograd_node.h"

namespace tiled {
namespace {

template <const MmOperator& (*OPERATOR)()>
struct MmBackward : public Node {
  SavedVariable a, b;  // a only if b needs a gradient, and the other way round
  bool a_column_major, b_column_major;
  at::ScalarType dtype;
  GradientRequest request;

  std::string name() const override {
    return OPERATOR == &bmm_operator ? "TiledBmmBackward0" : "TiledMmBackward0";
  }

  void release_variables() override { release(mutex_, a, b); }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list result(2);
    if (!gradients[0].defined()) return result;
    // An fp32 result of 16-bit inputs has an fp32 gradient, which is rounded to the inputs' dtype.
    const at::Tensor gradient = gradients[0].to(dtype);
    if (task_should_compute_output(0))
      result[0] =
          product_in_layout(OPERATOR(), request, gradient, b.unpack(getptr()).mH(), a_column_major);
    if (task_should_compute_output(1))
      result[1] =
          product_in_layout(OPERATOR(), request, a.unpack(getptr()).mH(), gradient, b_column_major);
    return result;
  }
};

template <const MmOperator& (*OPERATOR)()>
at::Tensor differentiable(c10::DispatchKeySet keys, const at::Tensor& a, const at::Tensor& b,
                          const MmOptions& asked) {
  const Recording call(asked, a, a, b);
  const auto node = call.node<MmBackward<OPERATOR>>(a, b);
  if (node) {
    if (node->should_compute_output(1)) node->a = SavedVariable(a, /*is_output=*/false);
    if (node->should_compute_output(0)) node->b = SavedVariable(b, /*is_output=*/false);
  }
  at::Tensor c = run_below(OPERATOR(), keys, a, b, call.options);
  if (node) {
    // Only now are a and b known to be matrices.
    node->a_column_major = is_column_major(a);
    node->b_column_major = is_column_major(b);
    node->dtype = a.scalar_type();
    node->request = GradientRequest(call.options);
    torch::autograd::set_history(c, node);
  }
  if (call.has_tangent) {
    const auto product = [&](const at::Tensor& x, const at::Tensor& y) {
      return OPERATOR().call(x, y, call.options);
    };
    c._set_fw_grad(product_tangent(a, b, product), /*level=*/0, /*is_inplace_op=*/false);
  }
  return c;
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Autograd, m) {
  m.impl("mm", kernel<&differentiable<&mm_operator>>);
  m.impl("bmm", kernel<&differentiable<&bmm_operator>>);
}

}  // namespace tiled
