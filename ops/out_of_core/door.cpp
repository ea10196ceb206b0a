// The doors: C++ functions, operators that only plan, and the class that Python waits for a product
// with, so that it can show how far it is and be interrupted.
#include "out_of_core/door.h"

#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <algorithm>

#include "cuda/plan/named_memory.h"
#include "scale/links.h"
#include "torch/inspect.h"

namespace tiled {
namespace {

constexpr double SECONDS_BETWEEN_CALLS = 0.1;  // of the progress

scale::Report report_of(const at::Tensor& a, const at::Tensor& b, const OutOfCoreOptions& options,
                        std::optional<std::string_view> name) {
  const auto planned = [](const at::Tensor& t) {
    TORCH_CHECK(t.is_cpu() || t.is_meta(), "tiled_mm: out_of_core streams CPU tensors, got one on ",
                t.device());
    return at::empty_strided(t.sizes(), t.strides(),
                             at::TensorOptions(at::kMeta).dtype(t.scalar_type()));
  };
  const OutOfCoreProduct product(planned(a), planned(b), std::nullopt, options, at::kMeta);
  TORCH_CHECK(product.c.numel() > 0 && a.size(1) > 0, "tiled_mm: there is nothing to plan in [",
              a.size(0), ", ", a.size(1), "] x [", b.size(0), ", ", b.size(1), "]");
  std::vector<OutOfCoreTarget> targets;
  if (name) {
    const DeviceInfo device = device_by_name(*name);
    const int64_t memory = scale::usable(named_memory(*name).value());
    for (size_t i = 0; i < std::max<size_t>(options.devices.size(), 1); ++i)
      targets.push_back(target_on(device, product, options, memory));
  } else {
    targets = cuda_targets(product, options);
  }
  return plan_out_of_core(product, targets, options.copy, memory_of(targets));
}

OutOfCoreOptions options_of(std::optional<std::string_view> precision,
                            std::optional<at::ScalarType> out_dtype,
                            const std::vector<std::string>& devices, std::optional<int64_t> memory,
                            bool copy) {
  OutOfCoreOptions options;
  options.precision = precision;
  options.out_dtype = out_dtype;
  for (const std::string& device : devices) options.devices.emplace_back(device);
  options.memory = memory;
  options.copy = copy;
  return options;
}

at::Tensor run(OutOfCoreProduct product, const OutOfCoreOptions& options) {
  std::vector<OutOfCoreTarget> targets = cuda_targets(product, options);
  OutOfCoreJob job(std::move(product), std::move(targets), options.copy);
  while (!job.wait(SECONDS_BETWEEN_CALLS))
    if (options.progress) options.progress(job.progress());
  if (options.progress) options.progress(job.progress());
  return job.result();
}

struct OutOfCore : OutOfCoreHolder {
  using OutOfCoreHolder::OutOfCoreHolder;
};

c10::intrusive_ptr<OutOfCore> start(const at::Tensor& a, const at::Tensor& b,
                                    const std::optional<at::Tensor>& out,
                                    const std::optional<std::string>& precision,
                                    std::optional<int64_t> out_dtype,
                                    const std::vector<std::string>& devices,
                                    std::optional<int64_t> memory, bool copy) {
  const OutOfCoreOptions options = options_from_python(precision, out_dtype, devices, memory, copy);
  OutOfCoreProduct product(a, b, out, options);
  std::vector<OutOfCoreTarget> targets = cuda_targets(product, options);
  return c10::make_intrusive<OutOfCore>(
      std::make_unique<OutOfCoreJob>(std::move(product), std::move(targets), copy));
}

// The operators that only plan: over `devices`; or, if `device` names one of devices(), over as
// many of those.
constexpr const char* PLANNED =
    "(Tensor a, Tensor b, *, str[] devices, str? precision=None, ScalarType? out_dtype=None,"
    " int? memory=None, bool copy=True, str? device=None) -> str";

template <std::string (*to)(const scale::Report&)>
std::string planned(const at::Tensor& a, const at::Tensor& b,
                    const std::vector<std::string>& devices,
                    std::optional<std::string_view> precision,
                    std::optional<at::ScalarType> out_dtype, std::optional<int64_t> memory,
                    bool copy, std::optional<std::string_view> device) {
  return to(report_of(a, b, options_of(precision, out_dtype, devices, memory, copy), device));
}

}  // namespace

OutOfCoreOptions options_from_python(const std::optional<std::string>& precision,
                                     std::optional<int64_t> out_dtype,
                                     const std::vector<std::string>& devices,
                                     std::optional<int64_t> memory, bool copy) {
  std::optional<at::ScalarType> dtype;
  if (out_dtype) dtype = static_cast<at::ScalarType>(*out_dtype);
  return options_of(precision, dtype, devices, memory, copy);
}

at::Tensor out_of_core(const at::Tensor& a, const at::Tensor& b, const OutOfCoreOptions& options) {
  return run({a, b, std::nullopt, options}, options);
}

at::Tensor& out_of_core_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                            const OutOfCoreOptions& options) {
  run({a, b, out, options}, options);
  return out;
}

std::string explain_out_of_core(const at::Tensor& a, const at::Tensor& b,
                                const OutOfCoreOptions& options,
                                std::optional<std::string_view> device) {
  return to_text(report_of(a, b, options, device));
}

TORCH_LIBRARY_FRAGMENT(tiled, m) {
  auto c = m.class_<OutOfCore>("OutOfCore");
  c.def(torch::init(&start));
  define_job_methods(c);
  m.def((std::string("explain_out_of_core") + PLANNED).c_str(), &planned<scale::to_text>);
}

TORCH_LIBRARY_FRAGMENT(tiled_debug, m) {
  // The plan as a JSON object.
  m.def((std::string("plan_out_of_core") + PLANNED).c_str(), &planned<scale::to_json>);
}

}  // namespace tiled
