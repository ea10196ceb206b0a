// Derivatives of activation_backward, (g s(x), column sums of g s(x)) for s = activation'. It is
// linear in g: so its own operator comes again where g is differentiated. s' is composed of torch's
// operators, which have every further derivative.
#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "core/brief_slope.h"
#include "torch/autograd_finished.h"
#include "torch/check_addmm.h"

namespace tiled {
namespace {

constexpr double ROOT_2_PI = 2.5066282746310002, ROOT_2_OVER_PI = 0.7978845608028654;
constexpr double CUBIC = 0.044715;

// x, kept to where activation'' differs from 0: powers of larger ones may overflow, and infinity
// times 0 is NaN. At NaN it stays.
at::Tensor within(const at::Tensor& x, double float_end, double double_end) {
  const double end = x.scalar_type() == at::kDouble ? double_end : float_end;
  return at::clamp(x, -end, end);
}

// activation''(x), in the type that sums have.
at::Tensor slope_of_slope(const at::Tensor& value, Activation activation) {
  using Float = elementary::SlopeEnd<float>;
  using Double = elementary::SlopeEnd<double>;
  at::Tensor x = sums_are_floats(value.scalar_type()) ? value.to(at::kFloat) : value;
  switch (activation) {
    case Activation::Gelu:
      x = within(x, Float::GELU, Double::GELU);
      return (2 - x * x) * at::exp(-0.5 * x * x) / ROOT_2_PI;
    case Activation::GeluTanh: {
      x = within(x, Float::GELU_TANH, Double::GELU_TANH);
      const at::Tensor t = at::tanh(ROOT_2_OVER_PI * x * (1 + CUBIC * x * x));
      const at::Tensor u = ROOT_2_OVER_PI * (1 + 3 * CUBIC * x * x);  // of tanh's argument
      const at::Tensor bend = 6 * ROOT_2_OVER_PI * CUBIC * x;         // u'
      return (1 - t * t) * (u + 0.5 * x * (bend - 2 * t * u * u));
    }
    case Activation::Silu: {
      x = within(x, Float::SILU, Double::SILU);
      const at::Tensor s = at::sigmoid(x);
      return s * (1 - s) * (2 + x * (1 - 2 * s));
    }
    case Activation::None:
    case Activation::Relu: break;
  }
  return at::zeros_like(x);
}

// gradient activation''(x), of the gradient's dtype.
at::Tensor bent(const at::Tensor& gradient, const at::Tensor& x, Activation activation) {
  return (gradient * slope_of_slope(x, activation)).to(gradient.scalar_type());
}

struct ActivationBackwardBackward : public Node {
  SavedVariable gradient, pre_activation;  // the gradient only if `pre_activation` needs one
  Activation activation;
  bool sums;  // whether they were asked for
  at::ScalarType dtype;
  std::vector<c10::SymInt> sizes;

  std::string name() const override { return "TiledActivationBackwardBackward0"; }

  void release_variables() override { release(mutex_, gradient, pre_activation); }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list result(2);
    // The gradient of the column sums comes to every row.
    at::Tensor sum;
    if (activation != Activation::None) sum = gradients[0];
    if (sums && gradients[1].defined()) {
      const at::Tensor of_rows = gradients[1].to(dtype).expand_symint(sizes);
      sum = sum.defined() ? at::add(sum, of_rows) : of_rows;
    }
    if (!sum.defined()) return result;
    if (activation == Activation::None) {
      if (task_should_compute_output(0)) result[0] = sum;
      return result;
    }
    const at::Tensor x = pre_activation.unpack();
    if (task_should_compute_output(0)) result[0] = activation_gradient(sum, x, activation);
    if (task_should_compute_output(1)) result[1] = bent(sum * gradient.unpack(), x, activation);
    return result;
  }
};

GradientAndSums differentiable(c10::DispatchKeySet keys, const at::Tensor& gradient,
                               const std::optional<at::Tensor>& pre_activation,
                               std::optional<std::string_view> name,
                               std::optional<at::ScalarType> bias_dtype) {
  const Activation activation = parse_activation(name);
  const bool passes = activation != Activation::None;
  const auto tangent_of = [](const at::Tensor& t) { return t._fw_grad(/*level=*/0); };
  decltype(make_node<ActivationBackwardBackward>()) node;
  if (compute_requires_grad(gradient, pre_activation)) {
    node = make_node<ActivationBackwardBackward>();
    node->set_next_edges(collect_next_edges(gradient, pre_activation));
    node->activation = activation;
    node->sums = bias_dtype.has_value();
    node->dtype = gradient.scalar_type();
    node->sizes = gradient.sym_sizes().vec();
    if (node->should_compute_output(1))
      node->gradient = SavedVariable(gradient, /*is_output=*/false);
    if (passes && pre_activation)
      node->pre_activation = SavedVariable(*pre_activation, /*is_output=*/false);
  }
  GradientAndSums result =
      run_below(activation_backward_operator(), keys, gradient, pre_activation, name, bias_dtype);
  auto& [passed, sums] = result;
  if (node) {
    // The engine numbers what has a history: both, whether asked for or not.
    torch::autograd::set_history(passed, node);
    torch::autograd::set_history(sums, node);
  }
  const bool x_moves = passes && isFwGradDefined(pre_activation);
  if (!isFwGradDefined(gradient) && !x_moves) return result;
  at::Tensor tangent;
  if (isFwGradDefined(gradient))
    tangent = passes ? activation_gradient(tangent_of(gradient), pre_activation->_fw_primal(0),
                                           activation)
                     : tangent_of(gradient);
  if (x_moves) {
    const at::Tensor of_x = bent(gradient._fw_primal(0) * tangent_of(*pre_activation),
                                 pre_activation->_fw_primal(0), activation);
    tangent = tangent.defined() ? at::add(tangent, of_x) : of_x;
  }
  if (bias_dtype) sums._set_fw_grad(column_sums(tangent, *bias_dtype), 0, /*is_inplace_op=*/false);
  if (passes) passed._set_fw_grad(tangent, 0, /*is_inplace_op=*/false);
  return result;
}

}  // namespace

at::Tensor activation_gradient(const at::Tensor& gradient, const at::Tensor& pre_activation,
                               Activation activation) {
  if (activation == Activation::None) return gradient;
  return std::get<0>(activation_backward_operator().call(gradient, pre_activation,
                                                         name_of(activation), std::nullopt));
}

at::Tensor column_sums(const at::Tensor& gradient, at::ScalarType dtype) {
  return std::get<1>(
      activation_backward_operator().call(gradient, std::nullopt, std::nullopt, dtype));
}

TORCH_LIBRARY_IMPL(tiled, Autograd, m) { m.impl("activation_backward", &differentiable); }

}  // namespace tiled
