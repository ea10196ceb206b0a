// How a consumer's accumulators leave rung hopper: a part of them after the other through the
// epilogue, where there is one, and out (hopper_store.cuh). What is finished goes on its way while
// the next part is computed.
//
//     d[0 .. PART) | d[PART .. 2 PART) | ...      strips of 64 rows; of one wide strip, halves
//     \__________/ <- the next part moves here    every part goes through the same code, so that
//                                                 the kernel has it once
#pragma once

#include "cuda/parts/finish_slices.cuh"
#include "cuda/parts/hopper.h"
#include "cuda/parts/hopper_schedule.cuh"
#include "cuda/ptx/forget.cuh"
#include "cuda/rungs/7_hopper/hopper_store.cuh"

namespace tiled {

// The parts in which the accumulators of GROUP_P x GROUP_Q elements leave.
template <typename Tile, bool FINISHES>
struct Parts {
  static constexpr int STRIPS = Tile::GROUP_P / 64;
  static constexpr int ALONG_Q =  // of a strip
      FINISHES && STRIPS == 1 && Tile::GROUP_Q >= 192 && Tile::GROUP_Q % (2 * Tile::SLICE_Q) == 0
          ? 2
          : 1;
  static constexpr int COUNT = STRIPS * ALONG_Q, SIZE = Tile::GROUP_Q / 2 / ALONG_Q;  // registers
};

// A part: what `output` gets of the values, which are sums for the first of the outputs, and
// after it the values before the activation.
template <typename T, typename Tile, bool FINISHES, int HELD, typename Slices, int COUNT>
__device__ __forceinline__ void leave_by(const HopperArguments& args, int output, bool is_first,
                                         float (&values)[COUNT], Place place, Slices& slices,
                                         int barrier, int thread) {
  const HopperOutput& c = args.outputs[output];
  const bool by_slices = sizeof(T) == 2 && c.store != StorePath::Scatter;
  Activation activation = Activation::None;  // that slices go through
  if constexpr (FINISHES) {
    Halves halves = {is_first, output == 1};
    if (by_slices && halves.activates)
      activation = args.epilogue.activation, halves.activates = false;
    finish_accumulators<typename ElementOf<T>::Type, HELD>(
        args.epilogue, halves, reinterpret_cast<float (&)[1][COUNT]>(values), place.p, place.q,
        {args.p, args.q, place.batch});
  }
  if constexpr (sizeof(T) == 2) {
    if (by_slices) {
      store_slices<T, Tile>(args, c, values, activation, place, slices, barrier, thread);
      return;
    }
  }
  scatter<T>(args, c, values, place, thread);
}

// C; before it the values before the activation, where they are kept. d: of a unit's rows from
// `row` and columns from `column` on.
template <typename T, typename Tile, bool FINISHES, typename Slices, int STRIPS, int REGISTERS>
__device__ __forceinline__ void leave(const HopperArguments& args, float (&d)[STRIPS][REGISTERS],
                                      const Unit& unit, int row, int column, Slices& slices,
                                      int barrier) {
  using Parts = tiled::Parts<Tile, FINISHES>;
  constexpr int SIZE = Parts::SIZE, HELD = (Parts::COUNT - 1) * SIZE;
  float (&parts)[Parts::COUNT][SIZE] = reinterpret_cast<float (&)[Parts::COUNT][SIZE]>(d);
  const int first = FINISHES && args.keeps_before ? 0 : 1;
  const auto leave_part = [&](float (&values)[SIZE], int part) {
#pragma unroll 1
    for (int output = first; output < 2; ++output) {
      int p = unit.p + row + part / Parts::ALONG_Q * 64;
      int q = unit.q + column + part % Parts::ALONG_Q * 2 * SIZE;
      int thread = threadIdx.x % 128;
      // Addresses are computed anew each time: kept, they would take registers of accumulators.
      ptx::forget(p, q, thread);
      leave_by<T, Tile, FINISHES, HELD>(args, output, output == first, values,
                                        {p, q, unit.batch, unit.segment}, slices, barrier, thread);
    }
  };
  if constexpr (FINISHES) {
#pragma unroll 1
    for (int part = 0; part < Parts::COUNT; ++part) {
      leave_part(parts[0], part);
#pragma unroll
      for (int i = 0; i < HELD; ++i) parts[i / SIZE][i % SIZE] = parts[i / SIZE + 1][i % SIZE];
    }
  } else {
#pragma unroll
    for (int part = 0; part < Parts::COUNT; ++part) leave_part(parts[part], part);
  }
}

}  // namespace tiled
