// The out= forms where gradients are recorded: they have none, and what they overwrite is noted.
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include "torch/schema.h"

namespace tiled {
namespace {

using torch::autograd::compute_requires_grad;
using torch::autograd::isFwGradDefined;

template <typename... Inputs>
void check_no_gradient(const char* name, const at::Tensor& out, const Inputs&... inputs) {
  if (compute_requires_grad(inputs...) || compute_requires_grad(out))
    torch::autograd::throw_error_out_requires_grad(name);
  TORCH_CHECK_NOT_IMPLEMENTED(!(isFwGradDefined(inputs) || ...) && !isFwGradDefined(out),
                              "Trying to use forward AD with ", name,
                              "_out that does not support it because it is an out= function");
}

// A kernel that writes through a pointer leaves the version as it was; autograd finds overwritten
// saved tensors by it.
template <typename Write>
void write_new_version(const at::Tensor& out, const Write& write) {
  // What increment_version would say, but before anything is written.
  TORCH_CHECK(
      !out.is_inference() || c10::InferenceMode::is_enabled(),
      "Inplace update to inference tensor outside InferenceMode is not allowed. You can make "
      "a clone to get a normal tensor before doing inplace update.");
  {
    at::AutoDispatchBelowADInplaceOrView below;
    write();
  }
  torch::autograd::increment_version(out);
}

template <const MmOutOperator& (*OPERATOR)()>
void mm_out_without_gradient(c10::DispatchKeySet keys, const at::Tensor& a, const at::Tensor& b,
                             const MmOptions& options, at::Tensor& out) {
  check_no_gradient(OPERATOR == &mm_out_operator ? "mm" : "bmm", out, a, b);
  at::AutoDispatchBelowAutograd below;
  OPERATOR().redispatch(keys & c10::after_autograd_keyset, a, b, options, out);
}

template <const MmOutOperator& (*OPERATOR)()>
void mm_out_bumps_version(c10::DispatchKeySet keys, const at::Tensor& a, const at::Tensor& b,
                          const MmOptions& options, at::Tensor& out) {
  write_new_version(out, [&] {
    OPERATOR().redispatch(keys & c10::after_ADInplaceOrView_keyset, a, b, options, out);
  });
}

template <const AddmmOutOperator& (*OPERATOR)()>
void addmm_out_without_gradient(c10::DispatchKeySet keys, const at::Tensor& input,
                                const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                                const at::Scalar& alpha, std::optional<std::string_view> activation,
                                const MmOptions& options, at::Tensor& out) {
  check_no_gradient(OPERATOR == &addmm_out_operator ? "addmm" : "baddbmm", out, input, a, b);
  at::AutoDispatchBelowAutograd below;
  OPERATOR().redispatch(keys & c10::after_autograd_keyset, input, a, b, beta, alpha, activation,
                        options, out);
}

template <const AddmmOutOperator& (*OPERATOR)()>
void addmm_out_bumps_version(c10::DispatchKeySet keys, const at::Tensor& input, const at::Tensor& a,
                             const at::Tensor& b, const at::Scalar& beta, const at::Scalar& alpha,
                             std::optional<std::string_view> activation, const MmOptions& options,
                             at::Tensor& out) {
  write_new_version(out, [&] {
    OPERATOR().redispatch(keys & c10::after_ADInplaceOrView_keyset, input, a, b, beta, alpha,
                          activation, options, out);
  });
}

void linear_out_without_gradient(c10::DispatchKeySet keys, const at::Tensor& x,
                                 const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                 std::optional<std::string_view> activation,
                                 const MmOptions& options, at::Tensor& out) {
  check_no_gradient("linear", out, x, weight, bias);
  at::AutoDispatchBelowAutograd below;
  linear_out_operator().redispatch(keys & c10::after_autograd_keyset, x, weight, bias, activation,
                                   options, out);
}

void linear_out_bumps_version(c10::DispatchKeySet keys, const at::Tensor& x,
                              const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                              std::optional<std::string_view> activation, const MmOptions& options,
                              at::Tensor& out) {
  write_new_version(out, [&] {
    linear_out_operator().redispatch(keys & c10::after_ADInplaceOrView_keyset, x, weight, bias,
                                     activation, options, out);
  });
}

void grouped_out_without_gradient(c10::DispatchKeySet keys, const at::Tensor& a,
                                  const at::Tensor& b, const std::optional<at::Tensor>& offs,
                                  const std::optional<at::Tensor>& bias,
                                  std::optional<std::string_view> activation,
                                  const MmOptions& options, at::Tensor& out) {
  check_no_gradient("grouped_mm", out, a, b, bias);
  at::AutoDispatchBelowAutograd below;
  grouped_out_operator().redispatch(keys & c10::after_autograd_keyset, a, b, offs, bias, activation,
                                    options, out);
}

void grouped_out_bumps_version(c10::DispatchKeySet keys, const at::Tensor& a, const at::Tensor& b,
                               const std::optional<at::Tensor>& offs,
                               const std::optional<at::Tensor>& bias,
                               std::optional<std::string_view> activation, const MmOptions& options,
                               at::Tensor& out) {
  write_new_version(out, [&] {
    grouped_out_operator().redispatch(keys & c10::after_ADInplaceOrView_keyset, a, b, offs, bias,
                                      activation, options, out);
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Autograd, m) {
  m.impl("mm.out", kernel<&mm_out_without_gradient<&mm_out_operator>>);
  m.impl("bmm.out", kernel<&mm_out_without_gradient<&bmm_out_operator>>);
  m.impl("addmm.out", kernel<&addmm_out_without_gradient<&addmm_out_operator>>);
  m.impl("baddbmm.out", kernel<&addmm_out_without_gradient<&baddbmm_out_operator>>);
  m.impl("linear.out", kernel<&linear_out_without_gradient>);
  m.impl("grouped_mm.out", kernel<&grouped_out_without_gradient>);
}

TORCH_LIBRARY_IMPL(tiled, ADInplaceOrView, m) {
  m.impl("mm.out", kernel<&mm_out_bumps_version<&mm_out_operator>>);
  m.impl("bmm.out", kernel<&mm_out_bumps_version<&bmm_out_operator>>);
  m.impl("addmm.out", kernel<&addmm_out_bumps_version<&addmm_out_operator>>);
  m.impl("baddbmm.out", kernel<&addmm_out_bumps_version<&baddbmm_out_operator>>);
  m.impl("linear.out", kernel<&linear_out_bumps_version>);
  m.impl("grouped_mm.out", kernel<&grouped_out_bumps_version>);
}

}  // namespace tiled
