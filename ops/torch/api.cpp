// The C++ door: thin calls into the dispatcher.
#include "tiled_mm.h"
#include "torch/inspect.h"
#include "torch/override.h"
#include "torch/precision.h"
#include "torch/schema.h"
#include "torch/sum_order.h"

namespace tiled {

at::Tensor mm(const at::Tensor& a, const at::Tensor& b, const MmOptions& options) {
  return mm_operator().call(a, b, options);
}

at::Tensor& mm_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                   const MmOptions& options) {
  mm_out_operator().call(a, b, options, out);
  return out;
}

at::Tensor bmm(const at::Tensor& a, const at::Tensor& b, const MmOptions& options) {
  return bmm_operator().call(a, b, options);
}

at::Tensor& bmm_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                    const MmOptions& options) {
  bmm_out_operator().call(a, b, options, out);
  return out;
}

at::Tensor addmm(const at::Tensor& input, const at::Tensor& a, const at::Tensor& b,
                 const AddmmOptions& options) {
  return addmm_operator().call(input, a, b, options.beta, options.alpha, options.activation,
                               of_product(options));
}

at::Tensor& addmm_out(at::Tensor& out, const at::Tensor& input, const at::Tensor& a,
                      const at::Tensor& b, const AddmmOptions& options) {
  addmm_out_operator().call(input, a, b, options.beta, options.alpha, options.activation,
                            of_product(options), out);
  return out;
}

at::Tensor baddbmm(const at::Tensor& input, const at::Tensor& a, const at::Tensor& b,
                   const AddmmOptions& options) {
  return baddbmm_operator().call(input, a, b, options.beta, options.alpha, options.activation,
                                 of_product(options));
}

at::Tensor& baddbmm_out(at::Tensor& out, const at::Tensor& input, const at::Tensor& a,
                        const at::Tensor& b, const AddmmOptions& options) {
  baddbmm_out_operator().call(input, a, b, options.beta, options.alpha, options.activation,
                              of_product(options), out);
  return out;
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias, const LinearOptions& options) {
  return linear_operator().call(x, weight, bias, options.activation, of_product(options));
}

at::Tensor& linear_out(at::Tensor& out, const at::Tensor& x, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, const LinearOptions& options) {
  linear_out_operator().call(x, weight, bias, options.activation, of_product(options), out);
  return out;
}

at::Tensor grouped_mm(const at::Tensor& a, const at::Tensor& b, const GroupedOptions& options) {
  return grouped_operator().call(a, b, options.offs, options.bias, options.activation,
                                 of_product(options));
}

at::Tensor& grouped_mm_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                           const GroupedOptions& options) {
  grouped_out_operator().call(a, b, options.offs, options.bias, options.activation,
                              of_product(options), out);
  return out;
}

at::Tensor scaled_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                     const at::Tensor& scale_b, const ScaledOptions& options) {
  return scaled_operator().call(a, b, scale_a, scale_b, options);
}

at::Tensor& scaled_mm_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                          const at::Tensor& scale_a, const at::Tensor& scale_b,
                          const ScaledOptions& options) {
  scaled_out_operator().call(a, b, scale_a, scale_b, options, out);
  return out;
}

std::vector<std::string> algos(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                               std::optional<std::string_view> device) {
  return algos_of(a, b, options, device);
}

std::string explain(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                    std::optional<std::string_view> device, bool verbose) {
  return explain_text(a, b, options, device, verbose);
}

std::string plan(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                 std::optional<std::string_view> device) {
  return plan_json(a, b, options, device);
}

void set_float32_precision(std::optional<std::string_view> precision) {
  set_float32_precision_name(precision);
}

std::optional<std::string> get_float32_precision() { return get_float32_precision_name(); }

int64_t detail::enter_float32_precision(std::optional<std::string_view> precision) {
  return enter_float32_precision_block(precision);
}

void detail::leave_float32_precision(int64_t block) noexcept {
  leave_float32_precision_block(block);
}

void set_sum_order(std::string_view order) { set_sum_order_name(order); }

std::string get_sum_order() { return get_sum_order_name(); }

int64_t detail::enter_sum_order(std::string_view order) { return enter_sum_order_block(order); }

void detail::leave_sum_order(int64_t block) noexcept { leave_sum_order_block(block); }

namespace {

std::optional<std::string> name_of(std::optional<at::DeviceType> device) {
  if (!device) return std::nullopt;
  return c10::DeviceTypeName(*device, /*lower_case=*/true);
}

}  // namespace

void enable_override(std::optional<at::DeviceType> device) { enable_override_of(name_of(device)); }

void disable_override(std::optional<at::DeviceType> device) {
  disable_override_of(name_of(device));
}

void detail::leave_override(std::optional<at::DeviceType> device) noexcept {
  leave_override_of(device);
}

std::string override_counts(bool reset) { return override_counts_json(reset); }

void detail::keep_registrations() {}

}  // namespace tiled
