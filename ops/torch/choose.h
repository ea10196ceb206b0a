// An asked rung, or none, to a plan; refuses a rung that does not support the problem.
#pragma once

#include <optional>
#include <vector>

#include "cuda/plan/plan.h"
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

// The plan with the rung that the options name, else the best. Where that rung does not fit, the
// refusal lists those that do, by the inputs' dtype and the other options.
inline Plan choose_plan(const Problem& problem, const DeviceInfo& device, at::ScalarType dtype,
                        const MmOptions& options) {
  if (!options.algo) {
    const Plan plan = make_plan(problem, device);
    TORCH_CHECK(plan.step_count > 0, "tiled_mm: no rung computes [", problem.batch, "] x [",
                problem.m, ", ", problem.k, "] x [", problem.k, ", ", problem.n, "] ",
                name_of(problem.dtype), " on ", device.name);
    return plan;
  }
  const std::optional<Algo> algo = parse_algo(*options.algo);
  if (!algo || !supports(*algo, problem, device)) {
    const bool left_out = algo && on_tensor_cores(*algo) && leaves_out_hopper_kernels(device);
    throw_unfit_algo(*options.algo, fitting_algos(problem, device, dtype, options),
                     left_out ? HOPPER_LEFT_OUT : nullptr);
  }
  return make_plan(problem, device, *algo);
}

}  // namespace tiled
