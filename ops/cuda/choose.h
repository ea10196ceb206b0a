// An asked rung, or none, to a plan; refuses a rung that does not support the problem.
#pragma once

#include <optional>
#include <string_view>

#include "check.h"
#include "cuda/plan.h"

namespace tiled {

inline Plan choose_plan(const Problem& problem, const DeviceInfo& device,
                        std::optional<std::string_view> asked) {
  if (!asked) {
    const Plan plan = make_plan(problem, device);
    TORCH_CHECK(supports(plan.algo, problem, device), "tiled_mm: no rung computes [", problem.batch,
                "] x [", problem.m, ", ", problem.k, "] x [", problem.k, ", ", problem.n, "] ",
                name_of(problem.dtype), " on ", device.name);
    return plan;
  }
  const std::optional<Algo> algo = parse_algo(*asked);
  if (!algo || !supports(*algo, problem, device))
    throw_unfit_algo(*asked, supported_algos(problem, device));
  return make_plan(problem, device, *algo);
}

}  // namespace tiled
