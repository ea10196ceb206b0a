// Products larger than a GPU's memory (docs/scale.md): what is asked, where it runs, and in which
// tiles.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/plan/device.h"
#include "out_of_core/device.h"
#include "scale/report.h"
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

// This device as a target: the options of every product there, and what they mean there. It may
// use `memory` bytes, unless the options name another number.
OutOfCoreTarget target_on(const DeviceInfo& device, const OutOfCoreProduct& product,
                          const OutOfCoreOptions& options, int64_t memory);

// The GPUs that are asked for, or the current one; each once. A build without CUDA refuses.
std::vector<OutOfCoreTarget> cuda_targets(const OutOfCoreProduct& product,
                                          const OutOfCoreOptions& options);

// The plan for these targets, of which each may use so many bytes; refuses what does not fit at
// all.
scale::Report plan_out_of_core(const OutOfCoreProduct& product,
                               const std::vector<OutOfCoreTarget>& targets, bool copy,
                               int64_t memory);

// The least of the targets' memory: they share one plan.
int64_t memory_of(const std::vector<OutOfCoreTarget>& targets);

// The type that sums of this dtype are added in on their way to a result.
at::ScalarType sum_type_of(at::ScalarType dtype, at::ScalarType result);

}  // namespace tiled
