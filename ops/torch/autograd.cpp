// Derivatives, in the manner of ATen's own generated kernels: a Node that saves what its gradients
// need, and the tangent of forward mode. (torch::autograd::Function would be shorter, but it has no
// forward mode and refuses to run under torch.func.) Gradients are products through the dispatcher
// again, so they can be differentiated, compiled and sharded like the forward.
#include <ATen/ops/add.h>
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

  // Two threads may run a shared graph backward, one of them releasing what the other unpacks.
  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    a.reset_data();
    b.reset_data();
  }

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
  const bool needs_gradient = compute_requires_grad(a, b);
  const bool has_tangent = isFwGradDefined(a) || isFwGradDefined(b);
  // What this call runs, its derivatives run too, whatever the setting will be then. It is read
  // once and handed down: another thread may change it at any time.
  MmOptions options = asked;
  if (needs_gradient || has_tangent)
    options.precision = resolve_precision(a.scalar_type(), target_of(a), asked);

  decltype(make_node<MmBackward<OPERATOR>>()) node;
  if (needs_gradient) {
    node = make_node<MmBackward<OPERATOR>>();
    node->set_next_edges(collect_next_edges(a, b));
    if (node->should_compute_output(1)) node->a = SavedVariable(a, /*is_output=*/false);
    if (node->should_compute_output(0)) node->b = SavedVariable(b, /*is_output=*/false);
  }
  at::Tensor c = [&] {
    at::AutoDispatchBelowADInplaceOrView below;
    return OPERATOR().redispatch(keys & c10::after_autograd_keyset, a, b, options);
  }();
  if (node) {
    // Only now are a and b known to be matrices.
    node->a_column_major = is_column_major(a);
    node->b_column_major = is_column_major(b);
    node->dtype = a.scalar_type();
    node->request = GradientRequest(options);
    torch::autograd::set_history(c, node);
  }
  if (has_tangent) {
    const auto term = [&](const at::Tensor& x, const at::Tensor& y) {
      return OPERATOR().call(x, y, options);
    };
    at::Tensor tangent;
    if (isFwGradDefined(a)) tangent = term(a._fw_grad(0), b._fw_primal(0));
    if (isFwGradDefined(b)) {
      const at::Tensor other = term(a._fw_primal(0), b._fw_grad(0));
      tangent = tangent.defined() ? at::add(tangent, other) : other;
    }
    c._set_fw_grad(tangent, /*level=*/0, /*is_inplace_op=*/false);
  }
  return c;
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Autograd, m) {
  m.impl("mm", kernel<&differentiable<&mm_operator>>);
  m.impl("bmm", kernel<&differentiable<&bmm_operator>>);
}

}  // namespace tiled
