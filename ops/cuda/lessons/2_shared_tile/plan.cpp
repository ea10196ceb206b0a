// Rung shared_tile as the planner sees it: three widths, a rung each.
#include <algorithm>

#include "cuda/plan/candidate.h"
#include "cuda/plan/kernel_name.h"
#include "cuda/plan/rung.h"

namespace tiled {
namespace {

constexpr Candidate candidate_of(int width, int accumulator) {
  const int threads = width * width;
  return {width,
          width,
          width,
          width,
          width,
          int64_t{2} * threads * accumulator,
          std::min(THREADS_IN_FLIGHT / threads, BLOCKS_IN_FLIGHT)};
}

template <int WIDTH>
constexpr Algo ALGO = WIDTH == 8    ? Algo::SharedTile8
                      : WIDTH == 16 ? Algo::SharedTile16
                                    : Algo::SharedTile32;

template <int WIDTH>
constexpr Rung RUNG = {
    ALGO<WIDTH>,
    Use::Chosen,
    [](const Problem& problem, const DeviceInfo& device) {
      return is_of_chains(problem, device) &&
             can_launch(candidate_of(WIDTH, accumulator_bytes(problem.dtype)), problem, device);
    },
    [](const Problem&, const DeviceInfo&, Visit visit) { visit(Way()); },
    [](const Problem& problem, const DeviceInfo& device, const Way& way) {
      const Candidate candidate = candidate_of(WIDTH, accumulator_bytes(problem.dtype));
      Plan plan = plan_of(ALGO<WIDTH>, candidate, problem, way);
      plan.add(product_of(candidate, plan, problem, device));
      plan.demand = demand_of(problem, WIDTH, WIDTH, 0, candidate.resident);
      return plan;
    },
    [](const Problem& problem, const DeviceInfo&, const Plan&) {
      Description d;
      d.kernel =
          std::string("shared_tile<") + element_type(problem) + ", " + std::to_string(WIDTH) + ">";
      return d;
    }};

}  // namespace

extern const Rung SharedTile8Rung = RUNG<8>, SharedTile16Rung = RUNG<16>,
                  SharedTile32Rung = RUNG<32>;

}  // namespace tiled
