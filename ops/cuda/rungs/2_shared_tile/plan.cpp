// Rung shared_tile as the planner sees it: three widths, a rung each.
#include <algorithm>

#include "cuda/plan/candidate.h"
#include "cuda/plan/kernel_name.h"
#include "cuda/plan/rung.h"

namespace tiled {
namespace {

// A warp takes a row of B's tile for every k and an element of A's for every k, four of them in one
// load: 1.25 cycles of shared memory for a multiply-add. `cycles` is what was measured on an H200
// for 4-byte accumulators, barriers and the stores to shared memory included.
constexpr double cycles_of_width(int width) { return width == 8 ? 3.3 : width == 16 ? 2.1 : 1.75; }

constexpr Candidate candidate_of(int width, int accumulator) {
  const int threads = width * width;
  const double busy = threads / WARP_SIZE * width * cycles_of_width(width) * (accumulator / 4);
  return {width,
          width,
          width,
          width,
          width,
          int64_t{2} * threads * accumulator,
          std::min(THREADS_IN_FLIGHT / threads, BLOCKS_IN_FLIGHT),
          busy,
          LOAD_LATENCY + BARRIER_LATENCY + busy};
}

template <int WIDTH>
constexpr Algo ALGO = WIDTH == 8    ? Algo::SharedTile8
                      : WIDTH == 16 ? Algo::SharedTile16
                                    : Algo::SharedTile32;

template <int WIDTH>
constexpr Rung RUNG = {
    ALGO<WIDTH>,
    [](const Problem& problem, const DeviceInfo& device) {
      return is_of_chains(problem, device) &&
             can_launch(candidate_of(WIDTH, accumulator_bytes(problem.dtype)), problem, device);
    },
    [](const Problem& problem, const DeviceInfo& device, Consider consider) {
      consider(Way(),
               cycles_of(candidate_of(WIDTH, accumulator_bytes(problem.dtype)), problem, device));
    },
    [](const Problem& problem, const DeviceInfo&, const Way& way) {
      return plan_of(ALGO<WIDTH>, candidate_of(WIDTH, accumulator_bytes(problem.dtype)), problem,
                     way);
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
