// An asked rung, or none, to a plan; refuses a rung that does not support the problem.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cuda/plan/plan.h"
#include "torch/check.h"
#include "torch/precision.h"

namespace tiled {

// The rungs that compute the problem where this precision, or none, is asked for. Some decide the
// arithmetic by their name, so each is seen with its own.
inline std::vector<Algo> fitting_algos(Problem problem, const DeviceInfo& device,
                                       at::ScalarType dtype,
                                       std::optional<std::string_view> precision) {
  std::vector<Algo> fitting;
  for (Algo algo : ALL_ALGOS) {
    problem.arithmetic = resolve_arithmetic(dtype, {at::kCUDA, &device}, precision, name_of(algo));
    if (supports(algo, problem, device)) fitting.push_back(algo);
  }
  return fitting;
}

// `dtype` of the inputs and `precision` as asked name what fits where `asked` does not.
inline Plan choose_plan(const Problem& problem, const DeviceInfo& device,
                        std::optional<std::string_view> asked, at::ScalarType dtype,
                        std::optional<std::string_view> precision) {
  if (!asked) {
    const Plan plan = make_plan(problem, device);
    TORCH_CHECK(supports(plan.algo, problem, device), "tiled_mm: no rung computes [", problem.batch,
                "] x [", problem.m, ", ", problem.k, "] x [", problem.k, ", ", problem.n, "] ",
                name_of(problem.dtype), " on ", device.name);
    return plan;
  }
  const std::optional<Algo> algo = parse_algo(*asked);
  if (!algo || !supports(*algo, problem, device)) {
    const bool left_out = algo && on_tensor_cores(*algo) && leaves_out_hopper_kernels(device);
    throw_unfit_algo(*asked, fitting_algos(problem, device, dtype, precision),
                     left_out ? HOPPER_LEFT_OUT : nullptr);
  }
  return make_plan(problem, device, *algo);
}

}  // namespace tiled
