// Groups' tiles, for the kernels of rung fp16x3 whose operands are both planes.
//
// A row's scale is of its own K. So what rows or columns groups share out are split as ever; but
// where they share out K, every group has scales of its own (split_entry()), its part of the planes
// begins at place_of_group(), and so does what the guard keeps of its rows. A group's K that
// is too short for two parts is the guard's alone, as in products without groups.
#pragma once

#include "cuda/engine/fp16x3/fp16x3.h"
#include "cuda/engine/fp16x3/layout.h"
#include "cuda/parts/schedule/grouped_schedule.cuh"

namespace tiled {

struct PlanesUnit : GroupedUnit {
  int first_k;   // in the planes
  bool is_left;  // to the guard
};

__device__ __forceinline__ int first_k_of(const PlanesUnit& unit) { return unit.first_k; }

template <typename Schedule, typename Tile>
struct PlanesTurns : GroupedTurns<Schedule, Tile, Tile::BLOCK_K, /*SPACED=*/false> {
  using Base = GroupedTurns<Schedule, Tile, Tile::BLOCK_K, /*SPACED=*/false>;
  const HopperArguments& grid;
  bool coarse;

  __device__ __forceinline__ PlanesTurns(const Schedule& schedule, bool is_coarse)
      : Base(schedule), grid(schedule.args), coarse(is_coarse) {}

  __device__ __forceinline__ PlanesUnit at(uint32_t index) const {
    PlanesUnit unit = {Base::at(index), 0, false};
    if (grid.groups_of_p || grid.groups_of_q) return unit;
    unit.first_k = static_cast<int>(place_of_group(unit.group_begin, unit.batch));
    unit.is_left = unit.k_size < fp16x3_least_k(coarse);
    if (unit.is_left) unit.last = unit.pieces = 0;
    return unit;
  }
};

// AllOfC of a group.
struct GroupOfC {
  const Fp16x3Arguments& args;
  const PlanesUnit& unit;
  __device__ __forceinline__ int first_k() const { return unit.first_k; }
  __device__ __forceinline__ int k() const { return unit.k_size; }
  __device__ __forceinline__ int p() const { return unit.p_end; }
  __device__ __forceinline__ int q() const { return unit.q_end; }
  __device__ __forceinline__ bool shares_k() const {
    return !args.grid.groups_of_p && !args.grid.groups_of_q;
  }
  __device__ __forceinline__ float tolerance() const {
    return shares_k() ? static_cast<float>(fp16x3_tolerance(unit.k_size, args.coarse))
                      : args.tolerance;
  }
  __device__ __forceinline__ bool may_begin_vectors(int q) const { return q % 4 == 0; }
  __device__ __forceinline__ int moved() const {
    return static_cast<int>(place_of_group(unit.group_begin, unit.batch)) - unit.group_begin;
  }
  __device__ __forceinline__ int marked_p(int p) const {
    return args.grid.groups_of_p ? p + moved() : p;
  }
  __device__ __forceinline__ int marked_q(int q) const {
    return args.grid.groups_of_q ? q + moved() : q;
  }
  __device__ __forceinline__ int sheet(int batch) const { return shares_k() ? batch : 0; }
};

// Zeros behind the last group, in C and where the values before an activation are kept: by THREADS
// of a block, ROWS from p0 and COLUMNS from q0 on.
template <int ROWS, int COLUMNS, int THREADS>
__device__ __forceinline__ void clear_rows(const HopperArguments& grid, int p0, int q0) {
  const HopperOutput& c = grid.c();
  const auto& pre_activation = grid.epilogue.pre_activation;
  for (int i = threadIdx.x % THREADS; i < ROWS * COLUMNS; i += THREADS) {
    const int p = p0 + (c.q == 1 ? i / COLUMNS : i % ROWS);
    const int q = q0 + (c.q == 1 ? i % COLUMNS : i / ROWS);
    if (p >= grid.p || q >= grid.q) continue;
    static_cast<float*>(c.data)[p * c.p + q * c.q] = 0;
    if (pre_activation.data != nullptr)
      static_cast<float*>(
          pre_activation.data)[p * pre_activation.row_stride + q * pre_activation.col_stride] = 0;
  }
}

}  // namespace tiled
