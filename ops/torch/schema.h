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

// addmm and baddbmm; into out=; and with the pre-activation beside C.
template <typename Result, typename... Out>
using AddmmLike = Operator<Result(const at::Tensor& input, const at::Tensor& a, const at::Tensor& b,
                                  const at::Scalar& beta, const at::Scalar& alpha,
                                  std::optional<std::string_view> activation,
                                  const MmOptions& options, Out... out)>;
using AddmmOperator = AddmmLike<at::Tensor>;
using AddmmOutOperator = AddmmLike<void, at::Tensor&>;
using AddmmWithPreActivationOperator = AddmmLike<std::tuple<at::Tensor, at::Tensor>>;

template <typename Result, typename... MainGrad>
using LinearLike = Operator<Result(
    const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    MainGrad... main_grad, std::optional<std::string_view> activation, const MmOptions& options)>;
using LinearOperator = LinearLike<at::Tensor>;
using LinearWithPreActivationOperator = LinearLike<std::tuple<at::Tensor, at::Tensor>>;
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
using GroupedWithPreActivationOperator = GroupedLike<std::tuple<at::Tensor, at::Tensor>>;
using AddGroupedWeightGradOperator =
    Operator<void(at::Tensor& sum, const at::Tensor& left, const at::Tensor& right,
                  const at::Tensor& offs, const MmOptions& options)>;

template <typename Result, typename... Out>
using ScaledLike =
    Operator<Result(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                    const at::Tensor& scale_b, const ScaledOptions& options, Out... out)>;
using ScaledOperator = ScaledLike<at::Tensor>;
using ScaledOutOperator = ScaledLike<void, at::Tensor&>;

// The gradient that an activation passes back, and the bias' gradient.
using GradientAndSums = std::tuple<at::Tensor, at::Tensor>;
using ActivationBackwardSignature = GradientAndSums(const at::Tensor& gradient,
                                                    const std::optional<at::Tensor>& pre_activation,
                                                    std::optional<std::string_view> activation,
                                                    std::optional<at::ScalarType> bias_dtype);
using ActivationBackwardOperator = c10::TypedOperatorHandle<ActivationBackwardSignature>;

#define OPERATOR(Type, function, name, overload) const Type& function();
#include "torch/operators.inc"
const ActivationBackwardOperator& activation_backward_operator();  // tiled::activation_backward

// The operators that each device has kernels of its own for.
constexpr const char* OF_EACH_DEVICE[] = {"mm",
                                          "mm.out",
                                          "bmm",
                                          "bmm.out",
                                          "addmm",
                                          "addmm.out",
                                          "baddbmm",
                                          "baddbmm.out",
                                          "_addmm_with_pre_activation",
                                          "linear",
                                          "linear.out",
                                          "_linear_with_pre_activation",
                                          "grouped_mm",
                                          "grouped_mm.out",
                                          "_grouped_mm_with_pre_activation",
                                          "_add_grouped_weight_grad",
                                          "activation_backward",
                                          "fp16x3_recomputed",
                                          "scaled_mm",
                                          "scaled_mm.out",
                                          "_add_scaled_mm",
                                          "_quantize_blocks"};

// The forms that write into `out`, their last argument.
constexpr const char* OUT_FORMS[] = {"mm.out",     "bmm.out",        "addmm.out",    "baddbmm.out",
                                     "linear.out", "grouped_mm.out", "scaled_mm.out"};

}  // namespace tiled
