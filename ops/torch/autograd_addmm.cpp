// Derivatives of addmm and baddbmm: C = activation(alpha A B + beta input).
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "torch/autograd_finished.h"
#include "torch/check_addmm.h"

namespace tiled {
namespace {

at::Tensor times(const at::Tensor& t, const at::Scalar& factor) {
  return factor.equal(1) ? t : at::mul(t, factor);
}

template <bool BATCHED>
struct AddmmBackward : public FinishedBackward {
  SavedVariable a, b;  // a only if b needs a gradient, and the other way round
  bool a_column_major, b_column_major;
  at::Scalar alpha, beta;
  Addend input;

  // Rounded once, unless beta comes in between.
  at::ScalarType sums_dtype() const {
    return !beta.equal(1) && sums_are_floats(input.dtype) ? at::kFloat : input.dtype;
  }

  std::string name() const override {
    return BATCHED ? "TiledBaddbmmBackward0" : "TiledAddmmBackward0";
  }

  void release_variables() override { release(mutex_, value, a, b); }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list result(3);
    const bool wants_sums = task_should_compute_output(0) && input.is_row;
    const auto [pre_activation, sums] =
        pre_activation_gradient(gradients, wants_sums ? std::optional(sums_dtype()) : std::nullopt);
    if (!pre_activation.defined()) return result;
    // For other shapes of the input the engine sums the gradient, and gives it the input's dtype.
    if (task_should_compute_output(0))
      result[0] = times(wants_sums ? sums.view_symint(input.sizes) : pre_activation, beta.conj());
    const MmOperator& product = BATCHED ? bmm_operator() : mm_operator();
    const at::Tensor gradient = pre_activation.to(dtype);
    if (task_should_compute_output(1))
      result[1] = times(
          product_in_layout(product, request, gradient, b.unpack(getptr()).mH(), a_column_major),
          alpha.conj());
    if (task_should_compute_output(2))
      result[2] = times(
          product_in_layout(product, request, a.unpack(getptr()).mH(), gradient, b_column_major),
          alpha.conj());
    return result;
  }
};

template <bool BATCHED>
WithPreActivation record_addmm(bool wants_pre_activation, c10::DispatchKeySet keys,
                               const at::Tensor& input, const at::Tensor& a, const at::Tensor& b,
                               const at::Scalar& beta, const at::Scalar& alpha,
                               std::optional<std::string_view> activation, const MmOptions& asked) {
  const AddmmOperator& op = BATCHED ? baddbmm_operator() : addmm_operator();
  const FinishedCall call(activation, asked, a, input, a, b);
  const MmOptions& options = call.options;
  const auto node = call.node<AddmmBackward<BATCHED>>(input, a, b);
  if (node) {
    if (node->should_compute_output(2)) node->a = SavedVariable(a, /*is_output=*/false);
    if (node->should_compute_output(1)) node->b = SavedVariable(b, /*is_output=*/false);
  }
  at::Tensor c, pre_activation;
  std::tie(c, pre_activation) =
      call.run(wants_pre_activation, op, addmm_with_pre_activation_operator(), keys, input, a, b,
               beta, alpha, activation, options);
  if (node) {
    // Only now are a and b known to be matrices.
    node->a_column_major = is_column_major(a);
    node->b_column_major = is_column_major(b);
    node->alpha = alpha;
    node->beta = beta;
    if (node->should_compute_output(0)) node->input = Addend(input, c);
  }
  // Each term is added to those before it by one more product; without any, beta is 0.
  const auto tangent = [&] {
    at::Tensor sum;
    const auto add = [&](const at::Tensor& x, const at::Tensor& y) {
      const bool first = !sum.defined() && !isFwGradDefined(input);
      const at::Tensor so_far = sum.defined() ? sum
                                : first       ? at::zeros({}, c.options())
                                              : input._fw_grad(0);
      const at::Scalar factor = sum.defined() ? at::Scalar(1) : first ? at::Scalar(0) : beta;
      sum = op.call(so_far, x, y, factor, alpha, std::nullopt, options);
    };
    if (isFwGradDefined(a)) add(a._fw_grad(0), b._fw_primal(0));
    if (isFwGradDefined(b)) add(a._fw_primal(0), b._fw_grad(0));
    if (sum.defined()) return sum;
    return times(input._fw_grad(0), beta).to(c.scalar_type()).expand_symint(c.sym_sizes());
  };
  call.record(c, pre_activation, node, a.scalar_type(), tangent);
  return {std::move(c), std::move(pre_activation)};
}

WithPreActivation record_either(bool wants_pre_activation, c10::DispatchKeySet keys,
                                const at::Tensor& input, const at::Tensor& a, const at::Tensor& b,
                                const at::Scalar& beta, const at::Scalar& alpha,
                                std::optional<std::string_view> activation,
                                const MmOptions& options) {
  const auto record = a.dim() == 3 ? &record_addmm<true> : &record_addmm<false>;
  return record(wants_pre_activation, keys, input, a, b, beta, alpha, activation, options);
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Autograd, m) {
  m.impl("addmm", kernel<&Recorded<&record_addmm<false>>::product>);
  m.impl("baddbmm", kernel<&Recorded<&record_addmm<true>>::product>);
  m.impl("_addmm_with_pre_activation", kernel<&Recorded<&record_either>::with_pre_activation>);
}

}  // namespace tiled
