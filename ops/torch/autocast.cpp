// Autocast: operands are cast to the dtype of the autocast state (fp64 and integers stay as they
// are, as for torch.mm), then the call goes on below. A float32 product that asks for a
// precision is left in float32. The out= forms are left alone, as torch's.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "torch/schema.h"

namespace tiled {
namespace {

// What one call's tensors become.
template <at::DeviceType DEVICE>
class Cast {
 public:
  // A precision is asked for float32 products, so a product of such a and b stays one.
  Cast(const at::Tensor& a, const at::Tensor& b, const MmOptions& options)
      : below_(at::autocast::get_autocast_dispatch_key_from_device_type(DEVICE)) {
    if (!options.precision || a.scalar_type() != at::kFloat || b.scalar_type() != at::kFloat)
      type_ = at::autocast::get_autocast_dtype(DEVICE);
  }

  at::Tensor operator()(const at::Tensor& t) const {
    return type_ ? at::autocast::cached_cast(*type_, t, DEVICE) : t;
  }

  // What is added to a product. It stays in float32 where the sum does.
  at::Tensor added(const at::Tensor& t, const MmOptions& options) const {
    return options.out_dtype == at::kFloat ? t : (*this)(t);
  }
  std::optional<at::Tensor> added(const std::optional<at::Tensor>& t,
                                  const MmOptions& options) const {
    return t ? std::optional(added(*t, options)) : std::nullopt;
  }

 private:
  c10::impl::ExcludeDispatchKeyGuard below_;
  std::optional<at::ScalarType> type_;
};

template <at::DeviceType DEVICE, const MmOperator& (*OPERATOR)()>
at::Tensor autocast(const at::Tensor& a, const at::Tensor& b, const MmOptions& options) {
  const Cast<DEVICE> cast(a, b, options);
  return OPERATOR().call(cast(a), cast(b), options);
}

template <at::DeviceType DEVICE, const AddmmOperator& (*OPERATOR)()>
at::Tensor autocast_addmm(const at::Tensor& input, const at::Tensor& a, const at::Tensor& b,
                          const at::Scalar& beta, const at::Scalar& alpha,
                          std::optional<std::string_view> activation, const MmOptions& options) {
  const Cast<DEVICE> cast(a, b, options);
  return OPERATOR().call(cast.added(input, options), cast(a), cast(b), beta, alpha, activation,
                         options);
}

template <at::DeviceType DEVICE>
at::Tensor autocast_linear(const at::Tensor& x, const at::Tensor& weight,
                           const std::optional<at::Tensor>& bias,
                           std::optional<std::string_view> activation, const MmOptions& options) {
  const Cast<DEVICE> cast(x, weight, options);
  return linear_operator().call(cast(x), cast(weight), cast.added(bias, options), activation,
                                options);
}

template <at::DeviceType DEVICE>
at::Tensor autocast_linear_weight_grad(const at::Tensor& gradient, const at::Tensor& x,
                                       const MmOptions& options) {
  const Cast<DEVICE> cast(gradient, x, options);
  return linear_weight_grad_operator().call(cast(gradient), cast(x), options);
}

template <at::DeviceType DEVICE>
at::Tensor autocast_linear_into_main_grad(const at::Tensor& x, const at::Tensor& weight,
                                          const std::optional<at::Tensor>& bias,
                                          const std::optional<at::Tensor>& main_grad,
                                          std::optional<std::string_view> activation,
                                          const MmOptions& options) {
  const Cast<DEVICE> cast(x, weight, options);
  return linear_into_main_grad_operator().call(cast(x), cast(weight), cast.added(bias, options),
                                               main_grad, activation, options);
}

template <at::DeviceType DEVICE>
at::Tensor autocast_grouped(const at::Tensor& a, const at::Tensor& b,
                            const std::optional<at::Tensor>& offs,
                            const std::optional<at::Tensor>& bias,
                            std::optional<std::string_view> activation, const MmOptions& options) {
  const Cast<DEVICE> cast(a, b, options);
  return grouped_operator().call(cast(a), cast(b), offs, cast.added(bias, options), activation,
                                 options);
}

template <at::DeviceType DEVICE>
at::Tensor autocast_grouped_into_main_grad(const at::Tensor& a, const at::Tensor& b,
                                           const at::Tensor& offs,
                                           const std::optional<at::Tensor>& bias,
                                           const std::optional<at::Tensor>& main_grad,
                                           std::optional<std::string_view> activation,
                                           const MmOptions& options) {
  const Cast<DEVICE> cast(a, b, options);
  return grouped_into_main_grad_operator().call(cast(a), cast(b), offs, cast.added(bias, options),
                                                main_grad, activation, options);
}

template <at::DeviceType DEVICE>
void register_autocast(torch::Library& m) {
  m.impl("mm", kernel<&autocast<DEVICE, &mm_operator>>);
  m.impl("bmm", kernel<&autocast<DEVICE, &bmm_operator>>);
  m.impl("addmm", kernel<&autocast_addmm<DEVICE, &addmm_operator>>);
  m.impl("baddbmm", kernel<&autocast_addmm<DEVICE, &baddbmm_operator>>);
  m.impl("linear", kernel<&autocast_linear<DEVICE>>);
  m.impl("_linear_into_main_grad", kernel<&autocast_linear_into_main_grad<DEVICE>>);
  m.impl("_linear_weight_grad", kernel<&autocast_linear_weight_grad<DEVICE>>);
  m.impl("grouped_mm", kernel<&autocast_grouped<DEVICE>>);
  m.impl("_grouped_mm_into_main_grad", kernel<&autocast_grouped_into_main_grad<DEVICE>>);
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, AutocastCPU, m) { register_autocast<at::kCPU>(m); }
TORCH_LIBRARY_IMPL(tiled, AutocastCUDA, m) { register_autocast<at::kCUDA>(m); }

}  // namespace tiled
