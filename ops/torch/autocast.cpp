// Autocast: operands are cast to the dtype of the autocast state (fp64 and integers stay as they
// are, as for torch.mm), then the call goes on below. A float32 product that asks for a
// precision is left in float32. The out= forms are left alone, as torch's. The same for all
// operators, by the names of their arguments, so the kernel is boxed.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <array>

namespace tiled {
namespace {

constexpr std::array<std::string_view, 5> OPERANDS = {"a", "b", "x", "weight", "grad"};
constexpr std::array<std::string_view, 2> ADDED = {"input", "bias"};  // to their product

template <size_t N>
bool is_in(const std::array<std::string_view, N>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <at::DeviceType DEVICE>
void autocast(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::vector<c10::Argument>& arguments = op.schema().arguments();
  c10::IValue* const values = stack->data() + stack->size() - arguments.size();
  // A precision is asked for float32 products, so one of such operands stays one; and what is added
  // to a product stays in float32 where the sum does.
  bool is_asked = false, is_float = true, sum_is_float = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i].name();
    if (is_in(OPERANDS, name))
      is_float = is_float && values[i].toTensor().scalar_type() == at::kFloat;
    else if (name == "precision")
      is_asked = !values[i].isNone();
    else if (name == "out_dtype")
      sum_is_float = !values[i].isNone() && values[i].toScalarType() == at::kFloat;
  }
  const c10::impl::ExcludeDispatchKeyGuard below(
      at::autocast::get_autocast_dispatch_key_from_device_type(DEVICE));
  const at::ScalarType type = at::autocast::get_autocast_dtype(DEVICE);
  for (size_t i = 0; i < arguments.size() && !(is_asked && is_float); ++i) {
    const std::string& name = arguments[i].name();
    if (values[i].isTensor() && (is_in(OPERANDS, name) || (is_in(ADDED, name) && !sum_is_float)))
      values[i] = at::autocast::cached_cast(type, values[i].toTensor(), DEVICE);
  }
  op.callBoxed(stack);
}

template <at::DeviceType DEVICE>
void register_autocast(torch::Library& m) {
  for (const char* name : {"mm", "bmm", "addmm", "baddbmm", "linear", "_linear_weight_grad",
                           "_linear_into_main_grad", "grouped_mm", "_grouped_mm_into_main_grad"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&autocast<DEVICE>>());
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, AutocastCPU, m) { register_autocast<at::kCPU>(m); }
TORCH_LIBRARY_IMPL(tiled, AutocastCUDA, m) { register_autocast<at::kCUDA>(m); }

}  // namespace tiled
