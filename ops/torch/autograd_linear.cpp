// Derivatives of linear: C = activation(x weight^T + bias), x with any leading dimensions.
#include <torch/library.h>

#include <utility>

#include "torch/autograd_finished.h"
#include "torch/check_addmm.h"
#include "torch/main_grad.h"

namespace tiled {
namespace {

struct LinearBackward : public FinishedBackward {
  SavedVariable x, weight;  // x only if weight needs a gradient, and the other way round
  bool x_column_major, weight_column_major;
  at::Tensor main_grad;  // where weight's gradient is added; undefined if it is returned
  int64_t x_dims;
  Addend bias;

  std::string name() const override { return "TiledLinearBackward0"; }

  void release_variables() override { release(mutex_, value, x, weight); }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list result(3);
    const bool wants_sums = task_should_compute_output(2) && bias.is_row;
    const auto [pre_activation, sums] =
        pre_activation_gradient(gradients, wants_sums ? std::optional(bias.dtype) : std::nullopt);
    if (!pre_activation.defined()) return result;
    // For other shapes of the bias the engine sums the gradient, and gives it the bias' dtype.
    if (task_should_compute_output(2))
      result[2] = wants_sums ? sums.view_symint(bias.sizes) : pre_activation;
    const at::Tensor gradient = pre_activation.to(dtype);
    const bool is_matrix = x_dims == 2;
    if (task_should_compute_output(0)) {
      const at::Tensor w = weight.unpack(getptr()).conj();
      result[0] = is_matrix ? product_in_layout(mm_operator(), request, gradient, w, x_column_major)
                            : request.linear(gradient, w.mT());
    }
    if (task_should_compute_output(1)) {
      const at::Tensor rows = x.unpack(getptr()).conj();
      if (main_grad.defined())
        add_in_order(next_edge(1), main_grad, [&] {
          if (is_matrix)
            request.add_product(main_grad, gradient.mT(), rows);
          else
            request.add_linear_weight_grad(main_grad, gradient, rows.resolve_conj());
        });
      else if (is_matrix)
        result[1] =
            product_in_layout(mm_operator(), request, gradient.mT(), rows, weight_column_major);
      else
        result[1] = weight_column_major ? request.linear_weight_grad(rows, gradient).mT()
                                        : request.linear_weight_grad(gradient, rows);
    }
    return result;
  }
};

// `main_grad` is undefined where weight has an ordinary gradient.
WithPreActivation record_into(const at::Tensor& main_grad, bool wants_pre_activation,
                              c10::DispatchKeySet keys, const at::Tensor& x,
                              const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                              std::optional<std::string_view> activation, const MmOptions& asked) {
  const FinishedCall call(activation, asked, x, x, weight, bias);
  // A vector is a matrix of one row, whose derivatives are then a matrix'.
  if ((call.needs_gradient || call.has_tangent) && weight.dim() == 1) {
    check_linear(x, weight, bias);
    const at::Tensor row = weight.unsqueeze(0);
    if (main_grad.defined())
      return {linear_into_main_grad_operator()
                  .call(x, row, bias, main_grad.unsqueeze(0), activation, asked)
                  .squeeze(-1),
              at::Tensor()};
    const auto [c, pre_activation] =
        linear_with_pre_activation_operator().call(x, row, bias, activation, asked);
    return {c.squeeze(-1), pre_activation.squeeze(-1)};
  }
  const MmOptions& options = call.options;
  const auto node = call.node<LinearBackward>(x, weight, bias);
  if (node) {
    if (node->should_compute_output(1)) node->x = SavedVariable(x, /*is_output=*/false);
    if (node->should_compute_output(0)) node->weight = SavedVariable(weight, /*is_output=*/false);
  }
  at::Tensor c, pre_activation;
  std::tie(c, pre_activation) =
      call.run(wants_pre_activation, linear_operator(), linear_with_pre_activation_operator(), keys,
               x, weight, bias, activation, options);
  if (node) {
    // Only now is weight known to be a matrix.
    node->x_column_major = x.dim() == 2 && is_column_major(x);
    node->weight_column_major = is_column_major(weight);
    node->main_grad = main_grad;
    node->x_dims = x.dim();
    if (node->should_compute_output(2)) node->bias = Addend(*bias, c);
  }
  const auto tangent = [&] {
    std::optional<at::Tensor> of_bias;  // until it has been added
    if (isFwGradDefined(bias)) of_bias = bias->_fw_grad(0);
    const at::Tensor sum =
        product_tangent(x, weight, [&](const at::Tensor& of_x, const at::Tensor& of_weight) {
          return linear_operator().call(of_x, of_weight, std::exchange(of_bias, std::nullopt),
                                        std::nullopt, options);
        });
    if (sum.defined()) return sum;
    return expanded_bias(of_bias->to(c.scalar_type()), x, check_linear(x, weight, bias),
                         c.sym_sizes())
        .reshape_symint(c.sym_sizes());
  };
  call.record(c, pre_activation, node, x.scalar_type(), tangent);
  return {std::move(c), std::move(pre_activation)};
}

WithPreActivation record_linear(bool wants_pre_activation, c10::DispatchKeySet keys,
                                const at::Tensor& x, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias,
                                std::optional<std::string_view> activation,
                                const MmOptions& options) {
  return record_into(/*main_grad=*/{}, wants_pre_activation, keys, x, weight, bias, activation,
                     options);
}

at::Tensor linear_into_main_grad(c10::DispatchKeySet keys, const at::Tensor& x,
                                 const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                 const std::optional<at::Tensor>& main_grad,
                                 std::optional<std::string_view> activation,
                                 const MmOptions& options) {
  if (main_grad)
    check_main_grad(*main_grad, weight, x.scalar_type(), "tiled::_linear_into_main_grad");
  else
    check_needs_no_main_grad(weight, x.scalar_type());
  return std::get<0>(record_into(main_grad.value_or(at::Tensor()), false, keys, x, weight, bias,
                                 activation, options));
}

// Without gradients it is linear.
at::Tensor linear_alone(const at::Tensor& x, const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>&,
                        std::optional<std::string_view> activation, const MmOptions& options) {
  return linear_operator().call(x, weight, bias, activation, options);
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Autograd, m) {
  m.impl("linear", kernel<&Recorded<&record_linear>::product>);
  m.impl("_linear_with_pre_activation", kernel<&Recorded<&record_linear>::with_pre_activation>);
  m.impl("_linear_into_main_grad", kernel<&linear_into_main_grad>);
}

TORCH_LIBRARY_IMPL(tiled, CompositeExplicitAutograd, m) {
  m.impl("_linear_into_main_grad", kernel<&linear_alone>);
}

}  // namespace tiled
