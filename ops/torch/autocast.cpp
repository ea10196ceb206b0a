// Autocast: operands are cast to the dtype of the autocast state (fp64 and integers stay as they
// are, as for torch.mm), then the call goes on below. A float32 product that asks for a
// precision is left in float32. mm.out is left alone, as torch's out= forms.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "torch/schema.h"

namespace tiled {
namespace {

template <at::DeviceType DEVICE, const MmOperator& (*OPERATOR)()>
at::Tensor autocast(const at::Tensor& a, const at::Tensor& b, const MmOptions& options) {
  const c10::impl::ExcludeDispatchKeyGuard below(
      at::autocast::get_autocast_dispatch_key_from_device_type(DEVICE));
  // A precision is asked for float32 products, so such a product stays one.
  if (options.precision && a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat)
    return OPERATOR().call(a, b, options);
  const at::ScalarType type = at::autocast::get_autocast_dtype(DEVICE);
  return OPERATOR().call(at::autocast::cached_cast(type, a, DEVICE),
                         at::autocast::cached_cast(type, b, DEVICE), options);
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, AutocastCPU, m) {
  m.impl("mm", kernel<&autocast<at::kCPU, &mm_operator>>);
  m.impl("bmm", kernel<&autocast<at::kCPU, &bmm_operator>>);
}

TORCH_LIBRARY_IMPL(tiled, AutocastCUDA, m) {
  m.impl("mm", kernel<&autocast<at::kCUDA, &mm_operator>>);
  m.impl("bmm", kernel<&autocast<at::kCUDA, &bmm_operator>>);
}

}  // namespace tiled
