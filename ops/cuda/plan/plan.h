// The planner: (Problem, DeviceInfo) -> Plan. Pure: no CUDA call, no allocation, no string; it runs
// on every call of the operator, and remembers what it chose. Tested where there is no GPU.
// Rung, tile, grids and access are chosen here alone; a kernel only follows where its own data lies
// (an edge, a vector inside C). explain/report.h has what a plan costs, and why.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "core/problem.h"
#include "cuda/plan/demand.h"
#include "cuda/plan/device.h"
#include "cuda/plan/sides.h"
#include "cuda/plan/way.h"

namespace tiled {

enum class Algo : int8_t;  // core/algo.h, which kernels need not know

// What a kernel of a plan is there for.
enum class Work : int8_t {
  Copy,     // an operand goes where the product can read it
  Split,    // fp16x3: into two parts, or room is cleared for that
  Product,  // the sums
  Clear,    // words by which the product's blocks tell each other what is done
  Sums,     // sums of segments that were shared out are added; K = 0: all are +0
  Guard,    // fp16x3: elements are computed again
};

constexpr const char* name_of(Work work) {
  switch (work) {
    case Work::Copy: return "copy";
    case Work::Split: return "split";
    case Work::Product: return "product";
    case Work::Clear: return "clear";
    case Work::Sums: return "sums";
    case Work::Guard: return "guard";
  }
  return "?";
}

// One kernel, as it is launched.
struct Step {
  Work work;
  int32_t cluster;  // blocks; 0: the kernel knows none
  int32_t threads_x, threads_y;
  int64_t grid_x;           // below 2^31
  int32_t grid_y;           // batch entries in flight; a block goes on to the next by this stride
  int64_t shared_bytes;     // of one block
  bool dynamic;             // they are given at the launch; else the kernel declares them
  int64_t workspace_bytes;  // what it writes for the kernels after it
};

struct Plan {
  static constexpr int MOST_STEPS = 5;

  Algo algo;
  Way way;                            // of the rung's own type
  int32_t block_m, block_n, block_k;  // elements of the tile
  int64_t tiles_m, tiles_n;
  Step steps[MOST_STEPS];  // in the order of their launch
  int32_t step_count;
  int64_t workspace_bytes;  // of global memory, for the time of the call
  Demand demand;

  void add(const Step& step) {
    if (step_count == MOST_STEPS) throw std::length_error("tiled_mm: a plan has too many steps");
    steps[step_count++] = step;
  }
  const Step* begin() const { return steps; }
  const Step* end() const { return steps + step_count; }

  // The kernel that reports are about: the product, or what stands for it.
  const Step& main_step() const {
    for (const Step& step : *this)
      if (step.work == Work::Product) return step;
    return steps[0];
  }
};

// The hardware's limits of a grid.
constexpr int64_t MAX_GRID_X = (int64_t{1} << 31) - 1;
constexpr int64_t MAX_GRID_Y = 65535;

constexpr int64_t WORKSPACE_ALIGNMENT = 256;  // bytes

constexpr int64_t workspace_aligned(int64_t bytes) {
  return (bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

// Whether this rung computes this problem on this device (a CUDA device).
bool supports(Algo algo, const Problem& problem, const DeviceInfo& device);

// The best plan with any rung. If no rung supports the problem (a grid beyond the hardware's, say),
// the plan has no step.
Plan make_plan(const Problem& problem, const DeviceInfo& device);
// The best plan with this rung, which must support the problem.
Plan make_plan(const Problem& problem, const DeviceInfo& device, Algo algo);

}  // namespace tiled
