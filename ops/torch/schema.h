// The typed doors into the dispatcher for every part of the library that calls an operator.
#pragma once

#include <ATen/core/Scalar.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>
#include <tuple>

#include "torch/options.h"

namespace tiled {

using MmOperator =
    Operator<at::Tensor(const at::Tensor& a, const at::Tensor& b, const MmOptions& options)>;
using MmOutOperator = Operator<void(const at::Tensor& a, const at::Tensor& b,
                                    const MmOptions& options, at::Tensor& out)>;

// addmm and baddbmm; into out=; and with the value before the activation beside C.
template <typename Result, typename... Out>
using AddmmLike = Operator<Result(const at::Tensor& input, const at::Tensor& a, const at::Tensor& b,
                                  const at::Scalar& beta, const at::Scalar& alpha,
                                  std::optional<std::string_view> activation,
                                  const MmOptions& options, Out... out)>;
using AddmmOperator = AddmmLike<at::Tensor>;
using AddmmOutOperator = AddmmLike<void, at::Tensor&>;
using AddmmWithBeforeOperator = AddmmLike<std::tuple<at::Tensor, at::Tensor>>;

template <typename Result, typename... MainGrad>
using LinearLike = Operator<Result(
    const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    MainGrad... main_grad, std::optional<std::string_view> activation, const MmOptions& options)>;
using LinearOperator = LinearLike<at::Tensor>;
using LinearWithBeforeOperator = LinearLike<std::tuple<at::Tensor, at::Tensor>>;
using LinearIntoMainGradOperator = LinearLike<at::Tensor, const std::optional<at::Tensor>&>;
// Weight's gradient [N, K], of a gradient [..., N] and x [..., K] with equal leading dimensions.
using LinearWeightGradOperator =
    Operator<at::Tensor(const at::Tensor& gradient, const at::Tensor& x, const MmOptions& options)>;
using AddLinearWeightGradOperator = Operator<void(at::Tensor& sum, const at::Tensor& gradient,
                                                  const at::Tensor& x, const MmOptions& options)>;
using LinearOutOperator = Operator<void(
    const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    std::optional<std::string_view> activation, const MmOptions& options, at::Tensor& out)>;

template <typename Result, typename... Out>
using GroupedLike = Operator<Result(
    const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& offs,
    const std::optional<at::Tensor>& bias, std::optional<std::string_view> activation,
    const MmOptions& options, Out... out)>;
using GroupedOperator = GroupedLike<at::Tensor>;
using GroupedOutOperator = GroupedLike<void, at::Tensor&>;
using GroupedWithBeforeOperator = GroupedLike<std::tuple<at::Tensor, at::Tensor>>;
using GroupedIntoMainGradOperator = Operator<at::Tensor(
    const at::Tensor& a, const at::Tensor& b, const at::Tensor& offs,
    const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& main_grad,
    std::optional<std::string_view> activation, const MmOptions& options)>;
using AddGroupedWeightGradOperator =
    Operator<void(at::Tensor& sum, const at::Tensor& left, const at::Tensor& right,
                  const at::Tensor& offs, const MmOptions& options)>;

// What an activation passes back, and the bias' gradient.
using GradientAndSums = std::tuple<at::Tensor, at::Tensor>;
using ActivationBackwardSignature = GradientAndSums(const at::Tensor& gradient,
                                                    const std::optional<at::Tensor>& before,
                                                    std::optional<std::string_view> activation,
                                                    std::optional<at::ScalarType> bias_dtype);
using ActivationBackwardOperator = c10::TypedOperatorHandle<ActivationBackwardSignature>;

const MmOperator& mm_operator();                                   // tiled::mm
const MmOperator& bmm_operator();                                  // tiled::bmm
const MmOutOperator& mm_out_operator();                            // tiled::mm.out
const MmOutOperator& bmm_out_operator();                           // tiled::bmm.out
const AddmmOperator& addmm_operator();                             // tiled::addmm
const AddmmOutOperator& addmm_out_operator();                      // tiled::addmm.out
const AddmmOperator& baddbmm_operator();                           // tiled::baddbmm
const AddmmOutOperator& baddbmm_out_operator();                    // tiled::baddbmm.out
const AddmmWithBeforeOperator& addmm_with_before_operator();       // tiled::_addmm_with_before
const ActivationBackwardOperator& activation_backward_operator();  // tiled::activation_backward
const LinearOperator& linear_operator();                           // tiled::linear
const LinearOutOperator& linear_out_operator();                    // tiled::linear.out
const LinearIntoMainGradOperator&
linear_into_main_grad_operator();                               // tiled::_linear_into_main_grad
const LinearWithBeforeOperator& linear_with_before_operator();  // tiled::_linear_with_before
const LinearWeightGradOperator& linear_weight_grad_operator();  // tiled::_linear_weight_grad
const AddLinearWeightGradOperator&
add_linear_weight_grad_operator();                                // tiled::_add_linear_weight_grad
const GroupedOperator& grouped_operator();                        // tiled::grouped_mm
const GroupedOutOperator& grouped_out_operator();                 // tiled::grouped_mm.out
const GroupedWithBeforeOperator& grouped_with_before_operator();  // tiled::_grouped_mm_with_before
const GroupedIntoMainGradOperator&
grouped_into_main_grad_operator();  // tiled::_grouped_mm_into_main_grad
const AddGroupedWeightGradOperator&
add_grouped_weight_grad_operator();  // tiled::_add_grouped_weight_grad

}  // namespace tiled
