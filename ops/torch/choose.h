// An asked rung, or none, to a plan; refuses a rung that does not support the problem.
#pragma once

#include <ATen/Context.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cuda/plan/conversion.h"
#include "cuda/plan/plan.h"
#include "cuda/plan/rung.h"
#include "torch/check.h"
#include "torch/precision.h"

namespace tiled {

// The rungs that would compute the problem if they were asked for, the other options being these. A
// rung's name may decide the arithmetic, so each is tried with its own.
inline std::vector<Algo> fitting_algos(Problem problem, const DeviceInfo& device,
                                       at::ScalarType dtype, MmOptions options) {
  std::vector<Algo> fitting;
  for (Algo algo : ALL_ALGOS) {
    options.algo = name_of(algo);
    problem.arithmetic = resolve_arithmetic(dtype, {at::kCUDA, &device}, options);
    if (supports(algo, problem, device)) fitting.push_back(algo);
  }
  return fitting;
}

// A product that suits every rung but for its dtype and arithmetic.
inline Problem easy_problem(DType dtype, Arithmetic arithmetic) {
  constexpr int64_t SIZE = 64;
  Problem problem;
  problem.batch = 1;
  problem.m = problem.n = problem.k = SIZE;
  problem.dtype = problem.epilogue.out_dtype = dtype;
  problem.arithmetic = arithmetic;
  problem.a = problem.b = {nullptr, SIZE, 1, 0, alignment_of(nullptr, dtype, SIZE, 1, 0)};
  problem.c = {nullptr, SIZE, 1, 0, alignment_of(nullptr, dtype, SIZE, 1, 0)};
  return problem;
}

// Why a rung refuses a problem on a device: it is the CPU's, has no kernel there, computes other
// dtypes and precisions, or, where it computes these, is not for such sizes or strides.
inline std::string why_unfit(Algo algo, const Problem& problem, const DeviceInfo& device) {
  if (rung_of(algo) == nullptr) return "it runs on CPU tensors, and these are on a GPU";
  std::vector<std::string> computed;
  const auto ask = [&](DType dtype, Arithmetic arithmetic, const char* precision) {
    if (!supports(algo, easy_problem(dtype, arithmetic), device)) return;
    computed.push_back(name_of(dtype));
    if (on_tensor_cores(algo)) computed.back() += precision;
  };
  for (const DType dtype : ALL_DTYPES) {
    const bool is_float = dtype == DType::Float32;
    ask(dtype, Arithmetic::Fma, is_float ? " with precision='ieee'" : "");
    if (dtype == DType::Float16 || dtype == DType::BFloat16) ask(dtype, Arithmetic::Tensor, "");
    if (!is_float) continue;
    ask(dtype, Arithmetic::Tf32, " with precision='tf32'");
    ask(dtype, Arithmetic::Fp16x3, " with precision='fp16x3'");
  }
  if (computed.empty())
    return leaves_out_hopper_kernels(device)
               ? HOPPER_LEFT_OUT
               : "it has no kernel for " + device.name + " of compute capability " +
                     capability_name(device.capability);
  if (supports(algo, easy_problem(problem.dtype, problem.arithmetic), device))
    return "it is not for these sizes or strides";
  return "it computes " + joined(computed);
}

// So many multiprocessors torch's setting for its own products
// (torch._C._set_sm_carveout_experimental) keeps from ours, for kernels of communication.
inline int32_t kept_from_products() {
  return at::globalContext()._SMCarveout_EXPERIMENTAL().value_or(0);
}

// Whether any rung computes the problem.
inline bool any_rung_computes(const Problem& problem, const DeviceInfo& device) {
  const Ladder rungs = ladder();
  return std::any_of(rungs.begin(), rungs.end(),
                     [&](const Rung* rung) { return supports(rung->algo, problem, device); });
}

// The plan with the rung that the options name, else the best. Where that rung does not fit, the
// refusal lists those that do, by the inputs' dtype and the other options.
inline Plan plan_on(const Problem& problem, const DeviceInfo& device, at::ScalarType dtype,
                    const MmOptions& options) {
  if (!options.algo) {
    const Plan plan = make_plan(problem, device);
    TORCH_CHECK_NOT_IMPLEMENTED(plan.step_count > 0 || !is_scaled(problem),
                                "tiled_mm: scaled products of ", name_of(problem.dtype),
                                " have no kernel for ", device.name, " of compute capability ",
                                capability_name(device.capability));
    TORCH_CHECK(plan.step_count > 0, "tiled_mm: no rung computes [", problem.batch, "] x [",
                problem.m, ", ", problem.k, "] x [", problem.k, ", ", problem.n, "] ",
                name_of(problem.dtype), " on ", device.name);
    return plan;
  }
  const std::optional<Algo> algo = parse_algo(*options.algo);
  if (!algo || !supports(*algo, problem, device))
    throw_unfit_algo(*options.algo, fitting_algos(problem, device, dtype, options),
                     algo ? why_unfit(*algo, problem, device) : "");
  return make_plan(problem, device, *algo);
}

// The device that this setting leaves.
inline DeviceInfo planned_part(const DeviceInfo& device) {
  return leaving_free(device, kept_from_products());
}

// The plan on that part of the device.
inline Plan choose_plan(const Problem& problem, const DeviceInfo& device, at::ScalarType dtype,
                        const MmOptions& options) {
  return kept_from_products() > 0 ? plan_on(problem, planned_part(device), dtype, options)
                                  : plan_on(problem, device, dtype, options);
}

// The plan of the product of another dtype that computes this one (cuda/plan/conversion.h), where
// that is faster and no rung is named.
inline std::optional<Plan> plan_of_conversion(const Problem& problem, const DeviceInfo& full,
                                              const MmOptions& options) {
  if (options.algo || !may_be_converted(problem)) return std::nullopt;
  const DeviceInfo device = planned_part(full);
  if (!is_converted(problem, device)) return std::nullopt;
  return make_plan(conversion_of(problem).product, device);
}

}  // namespace tiled
