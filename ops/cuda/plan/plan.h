// The planner: (Problem, DeviceInfo) -> Plan. Pure: no CUDA call, no allocation, no string; it runs
// on every call of the operator, and remembers what it chose. Tested where there is no GPU.
// Rung, tile, grids and access are chosen here alone; a kernel only follows where its own data is
// (an edge, a vector inside C). explain/report.h has what a plan costs, and why.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "core/problem.h"
#include "cuda/plan/demand.h"
#include "cuda/plan/device.h"
#include "cuda/plan/sides.h"
#include "cuda/plan/way.h"

namespace tiled {

enum class Algo : int8_t;  // core/algo.h, which kernels need not know

// The work of a kernel of a plan.
enum class Work : int8_t {
  Copy,     // operands go where the product can read them
  Split,    // fp16x3: an operand goes into two parts, or room is cleared for that
  Product,  // the sums
  Clear,    // words by which the product's blocks tell each other what is done
  Sums,     // the sums of split-K are added; K = 0: all are +0
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

// An area of the workspace, where kernels of a plan find what others leave.
enum class Area : int8_t {
  P,
  Q,       // the operands' copies, or fp16x3's parts of them
  Totals,  // the product's running totals, sums of segments, or accumulators that blocks hand over
  Words,   // by which blocks hand these over
  // fp16x3's: scales of rows; ranges of rows that lie beside each other, and what panels of them
  // lose; the guard's count, the squares that it lists, and their marks.
  ScalesP,
  ScalesQ,
  RangesP,
  RangesQ,
  PanelsP,
  PanelsQ,
  Guard,
  Squares,
  Marks,
  COUNT
};

// Bits of Step::key: which operands a copy or a split takes.
constexpr int8_t OF_P = 1, OF_Q = 2;

// One kernel, as it is launched. The kernel itself follows from its work, its key, and the plan's
// way: the launch of the work, or of the rung, knows it by these.
struct Step {
  Work work;
  int8_t key;      // of copies and splits OF_P and OF_Q; else of the work's own
  int8_t cluster;  // blocks; 0: the kernel knows none
  bool dynamic;    // shared memory is given at the launch; else the kernel declares it
  int16_t threads_x, threads_y;
  int32_t grid_y;           // batch entries in flight; a block goes on to the next by this stride
  int32_t shared_bytes;     // of one block
  int64_t grid_x;           // below 2^31
  int64_t workspace_bytes;  // what it writes for the kernels after it
};

// Whether an operand is copied before the product, and how its elements lie then.
enum class CopyTo : int8_t {
  Nothing,
  AlongK,
  AlongRows,
  Spaced,  // along K, and each of the groups that share out K begins a line (repack_layout.h)
};

struct Plan {
  static constexpr int MOST_STEPS = 5;

  Algo algo;
  bool swap_ab;           // P is B's transpose and Q is A; else P is A and Q B's transpose
  CopyTo copy_p, copy_q;  // how the product reads them
  int8_t step_count;
  Way way;                            // of the rung's own type
  int32_t block_m, block_n, block_k;  // elements of the tile
  int64_t tiles_m, tiles_n;
  Step steps[MOST_STEPS];                        // in the order of their launch
  int64_t areas[static_cast<int>(Area::COUNT)];  // bytes from the workspace's begin
  int64_t workspace_bytes;                       // of global memory, for the time of the call
  Demand demand;

  void add(const Step& step) {
    if (step_count == MOST_STEPS) throw std::length_error("tiled_mm: a plan has too many steps");
    steps[step_count++] = step;
  }
  // Gives an area the next so many bytes of the workspace.
  void take(Area area, int64_t bytes) {
    areas[static_cast<int>(area)] = workspace_bytes;
    workspace_bytes = saturating_sum(workspace_bytes, bytes);
  }
  // Adds a kernel that leaves so many bytes of totals.
  void add_with_totals(Step step, int64_t bytes) {
    step.workspace_bytes = bytes;
    take(Area::Totals, bytes);
    add(step);
  }
  int64_t at(Area area) const { return areas[static_cast<int>(area)]; }
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

// A plan with its tiles, of so many elements of P, Q and K, and no step yet.
Plan plan_of(Algo algo, const Way& way, const Problem& problem, bool swap_ab, int32_t block_p,
             int32_t block_q, int32_t block_k);

// Whether this rung computes this problem on this device (a CUDA device).
bool supports(Algo algo, const Problem& problem, const DeviceInfo& device);

// The best plan with any rung. If no rung supports the problem (a grid beyond the hardware's, say),
// the plan has no step.
Plan make_plan(const Problem& problem, const DeviceInfo& device);
// The best plan with this rung, which must support the problem.
Plan make_plan(const Problem& problem, const DeviceInfo& device, Algo algo);

}  // namespace tiled
