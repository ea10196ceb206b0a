// Derivatives of products with an epilogue, C = activation(pre_activation): what addmm, baddbmm and
// linear share.
//
// Where the gradient needs the pre-activation, the call goes on below as the operator
// that returns it too, and it is an output of the node as C is: so what differentiates a gradient
// once more, which depends on that value, finds its way through it. That operator has the same
// derivatives, since nested transforms of torch.func meet it again. Of relu the result says all
// that the gradient needs.
#pragma once

#include "torch/activation.h"
#include "torch/autograd_node.h"

namespace tiled {

// gradient * activation'(pre_activation), of the gradient's shape.
at::Tensor activation_gradient(const at::Tensor& gradient, const at::Tensor& pre_activation,
                               Activation activation);

// The sums of a gradient [..., N] over all dimensions but the last.
at::Tensor column_sums(const at::Tensor& gradient, at::ScalarType dtype);

// Whether the gradient needs more than the result.
constexpr bool needs_pre_activation(Activation activation) {
  return activation != Activation::None && activation != Activation::Relu;
}

struct FinishedBackward : public Node {
  SavedVariable value;  // before the activation, or relu's result
  Activation activation;
  at::ScalarType dtype;  // of A and B
  GradientRequest request;

  // The gradient of the pre-activation, undefined if there is none; and, where that is
  // asked, its column sums.
  GradientAndSums pre_activation_gradient(const variable_list& gradients,
                                          std::optional<at::ScalarType> sums_dtype) {
    at::Tensor result = gradients[0], sums;
    const bool is_all = gradients.size() < 2 || !gradients[1].defined();
    if (result.defined() && activation != Activation::None)
      std::tie(result, sums) = activation_backward_operator().call(
          result, value.unpack(getptr()), name_of(activation), is_all ? sums_dtype : std::nullopt);
    if (!is_all) result = result.defined() ? at::add(result, gradients[1]) : gradients[1];
    if (sums_dtype && result.defined() && !(is_all && activation != Activation::None))
      sums = column_sums(result, *sums_dtype);
    return {result, sums};
  }
};

// A tensor is added along the rows of C: its gradient are column sums, if it is a row of C.
struct Addend {
  std::vector<c10::SymInt> sizes;
  at::ScalarType dtype;
  bool is_row = false;

  Addend() = default;
  Addend(const at::Tensor& t, const at::Tensor& c)
      : sizes(t.sym_sizes().vec()), dtype(t.scalar_type()) {
    if (t.dim() == 0 || !TORCH_GUARD_OR_FALSE(t.sym_size(-1).sym_eq(c.sym_size(-1)))) return;
    is_row = true;
    for (size_t i = 0; i + 1 < sizes.size(); ++i)
      is_row = is_row && TORCH_GUARD_OR_FALSE(sizes[i].sym_eq(1));
  }
};

using WithPreActivation = std::tuple<at::Tensor, at::Tensor>;  // (C, the pre-activation)

// The kernels of an operator, and of that with the pre-activation, of RECORD(whether the caller
// wants that, keys, arguments...).
template <auto RECORD, typename Signature = decltype(RECORD)>
struct Recorded;

template <auto RECORD, typename... Arguments>
struct Recorded<RECORD, WithPreActivation (*)(bool, c10::DispatchKeySet, Arguments...)> {
  static at::Tensor product(c10::DispatchKeySet keys, Arguments... arguments) {
    return std::get<0>(RECORD(false, keys, arguments...));
  }
  static WithPreActivation with_pre_activation(c10::DispatchKeySet keys, Arguments... arguments) {
    return RECORD(true, keys, arguments...);
  }
};

// One call on its way through autograd.
struct FinishedCall : Recording {
  Activation activation;

  template <typename... Inputs>
  FinishedCall(std::optional<std::string_view> name, const MmOptions& asked,
               const at::Tensor& operand, const Inputs&... inputs)
      : Recording(asked, operand, inputs...), activation(parse_activation(name)) {}

  // (C, pre_activation), which is undefined where neither the caller nor a gradient wants it.
  template <typename Door, typename DoorWithPreActivation, typename... Arguments>
  WithPreActivation run(bool wants_pre_activation, const Door& door,
                        const DoorWithPreActivation& with_pre_activation, c10::DispatchKeySet keys,
                        const Arguments&... arguments) const {
    if (wants_pre_activation ||
        ((needs_gradient || has_tangent) && needs_pre_activation(activation)))
      return run_below(with_pre_activation, keys, arguments...);
    return {run_below(door, keys, arguments...), at::Tensor()};
  }

  // Records what was run. The node is null where nothing needs a gradient; the tangent is that of
  // `pre_activation`.
  template <typename NodePointer, typename Tangent>
  void record(at::Tensor& c, at::Tensor& pre_activation, const NodePointer& node,
              at::ScalarType dtype, const Tangent& tangent) const {
    const at::Tensor& value = pre_activation.defined() ? pre_activation : c;
    if (node) {
      node->activation = activation;
      node->dtype = dtype;
      node->request = GradientRequest(options);
      torch::autograd::set_history(c, node);
      if (pre_activation.defined()) torch::autograd::set_history(pre_activation, node);
    }
    if (has_tangent) {
      const at::Tensor of_pre_activation = tangent();
      const at::Tensor of_c = activation == Activation::None
                                  ? of_pre_activation
                                  : activation_gradient(of_pre_activation, value, activation);
      c._set_fw_grad(of_c, /*level=*/0, /*is_inplace_op=*/false);
      if (pre_activation.defined()) pre_activation._set_fw_grad(of_pre_activation, 0, false);
    }
    // Last, since it takes the tangent along.
    if (node && activation != Activation::None)
      node->value = SavedVariable(value, /*is_output=*/true);
  }
};

}  // namespace tiled
