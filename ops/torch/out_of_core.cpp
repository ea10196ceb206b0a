// The doors: C++ functions, operators that only plan, and the class that Python waits for a product
// with, so that it can show how far it is and be interrupted.
#include "torch/out_of_core.h"

#include <ATen/ops/empty_strided.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>

#include "cuda/plan/named_memory.h"
#include "scale/links.h"
#include "torch/inspect.h"
#include "torch/out_of_core_on_cpu.h"

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

// A job as Python holds it. Its methods let go of the interpreter's lock while they run.
struct OutOfCoreHolder : torch::CustomClassHolder {
  explicit OutOfCoreHolder(std::unique_ptr<OutOfCoreJob> job) : job(std::move(job)) {}
  const std::unique_ptr<OutOfCoreJob> job;
};
struct OutOfCoreOnCpu : OutOfCoreHolder {
  using OutOfCoreHolder::OutOfCoreHolder;
};

using OptionalText = std::optional<std::string>;

std::optional<at::ScalarType> dtype_from(std::optional<int64_t> dtype) {
  if (!dtype) return std::nullopt;
  return static_cast<at::ScalarType>(*dtype);
}

std::optional<std::string_view> view_of(const OptionalText& text) {
  if (!text) return std::nullopt;
  return *text;
}

c10::intrusive_ptr<OutOfCoreHolder> start(const at::Tensor& a, const at::Tensor& b,
                                          const std::optional<at::Tensor>& out,
                                          const OptionalText& precision,
                                          std::optional<int64_t> out_dtype,
                                          const std::vector<std::string>& devices,
                                          std::optional<int64_t> memory, bool copy) {
  const OutOfCoreOptions options =
      options_of(view_of(precision), dtype_from(out_dtype), devices, memory, copy);
  OutOfCoreProduct product(a, b, out, options);
  std::vector<OutOfCoreTarget> targets = cuda_targets(product, options);
  return c10::make_intrusive<OutOfCoreHolder>(
      std::make_unique<OutOfCoreJob>(std::move(product), std::move(targets), copy));
}

// A job on CPUs that play devices, one for each capacity.
c10::intrusive_ptr<OutOfCoreOnCpu> start_on_cpu(const at::Tensor& a, const at::Tensor& b,
                                                const std::optional<at::Tensor>& out,
                                                const OptionalText& precision,
                                                std::optional<int64_t> out_dtype,
                                                const std::vector<int64_t>& capacities,
                                                std::optional<int64_t> memory, bool copy,
                                                int64_t fail_at, double slow_seconds) {
  const OutOfCoreOptions options =
      options_of(view_of(precision), dtype_from(out_dtype), {}, memory, copy);
  OutOfCoreProduct product(a, b, out, options);
  std::vector<OutOfCoreTarget> targets;
  // `fail_at` and `slow_seconds` are for the last device.
  for (size_t i = 0; i < capacities.size(); ++i) {
    const bool last = i + 1 == capacities.size();
    targets.push_back(cpu_target(product, options,
                                 {capacities[i], last ? fail_at : -1, last ? slow_seconds : 0}));
  }
  return c10::make_intrusive<OutOfCoreOnCpu>(
      std::make_unique<OutOfCoreJob>(std::move(product), std::move(targets), copy));
}

// wait(seconds) says whether the job has ended; progress() gives [tiles done, tiles, bytes in,
// bytes out, seconds, flops done]; stop() and result() as OutOfCoreJob's.
template <typename Holder>
void define_methods(torch::class_<Holder>& c) {
  using Self = c10::intrusive_ptr<Holder>;
  c.def("wait", [](const Self& self, double seconds) { return self->job->wait(seconds); });
  c.def("progress", [](const Self& self) {
    const OutOfCoreProgress p = self->job->progress();
    return std::make_tuple(p.tiles_done, p.tiles, p.bytes_in, p.bytes_out, p.seconds, p.flops_done);
  });
  c.def("stop", [](const Self& self) { self->job->stop(); });
  c.def("result", [](const Self& self) { return self->job->result(); });
}

}  // namespace

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

std::string explain_out_of_core_text(const at::Tensor& a, const at::Tensor& b,
                                     const std::vector<std::string>& devices,
                                     std::optional<std::string_view> precision,
                                     std::optional<at::ScalarType> out_dtype,
                                     std::optional<int64_t> memory, bool copy,
                                     std::optional<std::string_view> device) {
  return to_text(report_of(a, b, options_of(precision, out_dtype, devices, memory, copy), device));
}

std::string plan_out_of_core_json(const at::Tensor& a, const at::Tensor& b,
                                  const std::vector<std::string>& devices,
                                  std::optional<std::string_view> precision,
                                  std::optional<at::ScalarType> out_dtype,
                                  std::optional<int64_t> memory, bool copy,
                                  std::optional<std::string_view> device) {
  return to_json(report_of(a, b, options_of(precision, out_dtype, devices, memory, copy), device));
}

TORCH_LIBRARY_FRAGMENT(tiled, m) {
  auto c = m.class_<OutOfCoreHolder>("OutOfCore");
  c.def(torch::init(&start));
  define_methods(c);
}

TORCH_LIBRARY_FRAGMENT(tiled_debug, m) {
  auto c = m.class_<OutOfCoreOnCpu>("OutOfCoreOnCpu");
  c.def(torch::init(&start_on_cpu));
  define_methods(c);
  m.def("out_of_core_on_cpu_holds() -> int[]", [] {
    const CpuDevicesHold& hold = cpu_devices_hold();
    return std::vector<int64_t>{hold.bytes, hold.staging_bytes, hold.threads};
  });
}

}  // namespace tiled
