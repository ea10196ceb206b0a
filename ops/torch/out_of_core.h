// Products larger than a GPU's memory (docs/scale.md): what is asked, where it runs, and the job
// that does it.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cuda/plan/device.h"
#include "scale/report.h"
#include "torch/out_of_core_worker.h"
#include "torch/precision.h"

namespace tiled {

// a [M, K] and b [K, N] on the CPU, and C there, which is made if it is not given.
struct OutOfCoreProduct {
  at::Tensor a, b, c;

  // Refuses what does not fit, in torch's words, before anything is allocated. What is only planned
  // is on the device Meta.
  OutOfCoreProduct(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& out,
                   const OutOfCoreOptions& options, at::DeviceType device = at::kCPU);
};

// Where a product runs, and how.
struct OutOfCoreTarget {
  std::unique_ptr<OutOfCoreDevice> device;  // null if it is only planned
  std::string name;                         // of its kind
  MmOptions options;                        // the precision resolved, no out_dtype
  Arithmetic arithmetic;
  scale::Rates rates;
  int64_t memory;  // bytes that the product may use there
  scale::ProductOf product_of;
};

// The options of every product on this device, and what they mean there. `dtype` is the inputs',
// `type` C's.
OutOfCoreTarget target_on(const DeviceInfo& device, const OutOfCoreProduct& product,
                          const OutOfCoreOptions& options, int64_t memory);

// The GPUs that are asked for, or the current one; each once. A build without CUDA refuses (hooks).
std::vector<OutOfCoreTarget> cuda_targets(const OutOfCoreProduct& product,
                                          const OutOfCoreOptions& options);

// The plan for these targets, of which each may use so many bytes; refuses what does not fit at
// all.
scale::Report plan_out_of_core(const OutOfCoreProduct& product,
                               const std::vector<OutOfCoreTarget>& targets, bool copy,
                               int64_t memory);

// The least of the targets' memory: they share one plan.
int64_t memory_of(const std::vector<OutOfCoreTarget>& targets);

// What sums of this dtype, on their way to a result, are added in.
at::ScalarType sum_type_of(at::ScalarType dtype, at::ScalarType result);

// The plan as text and as JSON, for the operators (schema.cpp).
std::string explain_out_of_core_text(const at::Tensor& a, const at::Tensor& b,
                                     const std::vector<std::string>& devices,
                                     std::optional<std::string_view> precision,
                                     std::optional<at::ScalarType> out_dtype,
                                     std::optional<int64_t> memory, bool copy,
                                     std::optional<std::string_view> device);
std::string plan_out_of_core_json(const at::Tensor& a, const at::Tensor& b,
                                  const std::vector<std::string>& devices,
                                  std::optional<std::string_view> precision,
                                  std::optional<at::ScalarType> out_dtype,
                                  std::optional<int64_t> memory, bool copy,
                                  std::optional<std::string_view> device);

// A running product, in threads of its own. Functions may be called from any thread.
class OutOfCoreJob {
 public:
  OutOfCoreJob(OutOfCoreProduct product, std::vector<OutOfCoreTarget> targets, bool copy);
  ~OutOfCoreJob();  // stops it
  OutOfCoreJob(const OutOfCoreJob&) = delete;
  OutOfCoreJob& operator=(const OutOfCoreJob&) = delete;

  // Waits until all threads have ended, and says whether they have; not longer than this.
  bool wait(double seconds);

  OutOfCoreProgress progress();

  // No tile is begun any more; returns when all threads have ended and all memory is given back.
  void stop();

  // C, after the end; or the error, which says how much of C is done. The same at every call.
  at::Tensor result();

 private:
  void run();
  void attempt();

  // With mutex_ held.
  OutOfCoreProgress progress_now() const;
  std::string tiles_done_text() const;

  OutOfCoreProduct product_;
  std::vector<OutOfCoreTarget> targets_;
  const bool copy_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();

  std::mutex mutex_;  // of what follows
  std::condition_variable change_;
  std::optional<scale::Report> report_;  // none where there is nothing to do
  std::unique_ptr<SharedJob> shared_;    // of the last attempt
  bool stopping_ = false, ended_ = false;
  double seconds_ = 0;  // at the end
  std::exception_ptr error_;

  std::mutex join_mutex_;  // of what follows
  std::thread thread_;
};

}  // namespace tiled
