// The C++ door: thin calls into the dispatcher. Settings, the override and tuning are defined where
// they are kept.
#include "tiled_mm.h"
#include "torch/inspect.h"
#include "torch/override.h"
#include "torch/schema.h"

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

std::string explain(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                    std::optional<std::string_view> device, bool verbose) {
  return explain_text(a, b, options, device, verbose);
}

std::string plan(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                 std::optional<std::string_view> device) {
  return plan_json(a, b, options, device);
}

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

void detail::keep_registrations() {}

}  // namespace tiled
