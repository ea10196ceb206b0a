// The planner: (Problem, DeviceInfo) -> Plan. Pure: no CUDA call, no allocation, no string; it runs
// on every call of the operator and takes well under a microsecond. Tested where there is no GPU.
// Rung, tile, grid and access are chosen here alone; a kernel only follows where its own data lies
// (an edge, a vector inside C). What a plan costs and why is report.h's.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/algo.h"
#include "core/problem.h"
#include "core/segments.h"
#include "cuda/plan/device.h"
#include "cuda/plan/hopper_plan.h"

namespace tiled {

// How register_tile, or mma_tile in fp64, reads an operand from global memory.
enum class Access : int8_t {
  AlongK,    // vectors of elements that are neighbours in k
  AlongMN,   // vectors of elements that are neighbours in m (A) or n (B)
  Elements,  // one at a time, any strides, lanes along the smaller stride (by cp.async: along k,
             // or if mma_tile's operand lies so, along m or n)
};

// Which of register_tile's tiles for its accumulator, or of mma_tile's for fp64 (tiles.h).
enum class TileSize : int8_t { Large, Medium, Small };

struct Plan {
  Algo algo;
  HopperPlan hopper;  // hopper and fp16x3 (whose tiles are others)
  int32_t slots;      // fp16x3 of few rows only: FewRowsBlock's
  TileSize tile;      // register_tile, and mma_tile in fp64
  bool async;         // register_tile only: fp32 by cp.async (AsyncTiles), each operand as it can
  Access access_a;    // register_tile, where unless async both are read by vectors, or neither;
  Access access_b;    // and mma_tile in fp64
  bool transpose_a;   // async only: the operand is copied first, to lie along m or n
  bool transpose_b;   // async only
  int32_t block_m, block_n, block_k;  // elements of the tile
  int32_t threads_x, threads_y;
  int64_t tiles_m, tiles_n;
  int64_t grid_x;           // tiles_m * tiles_n, below 2^31
  int32_t grid_y;           // batch entries in flight; a block goes on to the next by this stride
  int64_t shared_bytes;     // of one block
  int64_t workspace_bytes;  // of global memory, for the time of the call
  int32_t guard_blocks;     // fp16x3 only: of the kernel that computes elements again
};

// mma_tile in fp64 is a kernel of its own, of Arithmetic::Fma, with named tiles and access.
inline bool is_fp64_mma(const Problem& problem, const Plan& plan) {
  return plan.algo == Algo::MmaTile && problem.dtype == DType::Float64;
}

// The product of two counts, or the largest int64 if that is less.
inline int64_t saturating_product(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

// Their sum, likewise.
inline int64_t saturating_sum(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

// The hardware's limits of a grid.
constexpr int64_t MAX_GRID_X = (int64_t{1} << 31) - 1;
constexpr int64_t MAX_GRID_Y = 65535;

// Bytes of the value that a chain is summed in; shared memory holds operands widened to it.
constexpr int accumulator_bytes(DType dtype) {
  switch (dtype) {
    case DType::Float32:
    case DType::Float16:
    case DType::BFloat16:
    case DType::Int8:
    case DType::Int16:
    case DType::Int32:
    case DType::UInt8: return 4;
    case DType::Float64:
    case DType::Complex64:
    case DType::Int64: return 8;
    case DType::Complex128: return 16;
  }
  return 0;
}

// Bytes of the workspace, from its beginning, where blocks keep their tiles' running totals between
// segments of K: those of the kernels whose registers do not hold them.
inline int64_t totals_bytes(const Problem& problem, const Plan& plan) {
  const bool keeps = plan.algo == Algo::RegisterTile || is_fp64_mma(problem, plan);
  if (!keeps || segment_count(problem.k) < 2) return 0;
  const int64_t tile = int64_t{plan.block_m} * plan.block_n * accumulator_bytes(problem.dtype);
  return saturating_product(saturating_product(plan.grid_x, plan.grid_y), tile);
}

// Whether this rung computes this problem on this device (a CUDA device).
bool supports(Algo algo, const Problem& problem, const DeviceInfo& device);

// The rungs that do, in the order of the ladder.
std::vector<Algo> supported_algos(const Problem& problem, const DeviceInfo& device);

// The best plan with any rung. If no rung supports the problem (a grid beyond the hardware's, say),
// the plan is one that `supports` refuses.
Plan make_plan(const Problem& problem, const DeviceInfo& device);
// The best plan with this rung, which must support the problem.
Plan make_plan(const Problem& problem, const DeviceInfo& device, Algo algo);

}  // namespace tiled
