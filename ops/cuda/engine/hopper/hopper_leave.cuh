// How a consumer's accumulators leave rung hopper: a part of them after the other through the
// epilogue, where there is one, and out (hopper_store.cuh). What is finished goes on its way while
// the next part is computed.
//
//     d[0 .. SIZE) | d[SIZE .. 2 SIZE) | ...      of a strip of 64 rows, a slice of columns each;
//     \__________/ <- the next part moves here    every part goes through the same code, so that
//                                                 the kernel has it once
//
// A block has one tile as a rule, or a few, so that instructions are read about as often as they
// are executed. Where another kernel ran before they come from afar, some 25 ns for 128 bytes
// (docs/decisions/014): short code is worth the moves.
#pragma once

#include "cuda/engine/hopper/hopper_store.cuh"
#include "cuda/parts/epilogue/finish_slices.cuh"
#include "cuda/parts/launch/hopper_arguments.h"
#include "cuda/parts/schedule/hopper_schedule.cuh"
#include "cuda/ptx/opaque.cuh"

namespace tiled {

// The parts in which the accumulators of GROUP_P x BLOCK_Q elements leave: with an epilogue, slices
// where these are wide enough for values side by side.
template <typename Tile, bool FINISHES>
struct Parts {
  static constexpr int STRIPS = Tile::GROUP_P / 64;
  static constexpr bool BY_SLICES =
      FINISHES && Tile::SLICE_Q >= 32 && Tile::BLOCK_Q % Tile::SLICE_Q == 0;
  static constexpr int OF_STRIP = BY_SLICES ? Tile::BLOCK_Q / Tile::SLICE_Q : 1;
  static constexpr int COUNT = STRIPS * OF_STRIP;
  static constexpr int SIZE = Tile::BLOCK_Q / 2 / OF_STRIP;  // registers
};

// Rows of C that are no group's are zero, whatever the epilogue.
template <int COUNT>
__device__ __forceinline__ void clear_if(bool is_blank, float (&values)[COUNT]) {
  if (!is_blank) return;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) values[i] = 0;
}

// A part: what `output` gets of the values, which are sums for the first of the outputs, and
// pre-activations after it.
template <typename T, typename Tile, bool FINISHES, bool GROUPED, int HELD, typename Slices,
          typename Sum, int COUNT>
__device__ __forceinline__ void leave_by(const HopperArguments& args, int output, bool is_first,
                                         Sum (&values)[COUNT], Place place,
                                         const Extent<GROUPED>& end, Slices& slices, int barrier,
                                         int thread) {
  const HopperOutput& c = args.outputs[output];
  if constexpr (!FINISHES && !GROUPED) {  // segments may be shared out
    if (args.segments != 1) {
      const bool is_whole = place.p + 64 <= args.p && place.q + 2 * COUNT <= args.q;
      return is_whole ? store_sums<false>(args, c, values, place, thread)
                      : store_sums<true>(args, c, values, place, thread);
    }
  }
  const bool rounds = sizeof(T) == 2 && !c.unrounded;
  if constexpr (FINISHES) {
    Halves halves = {is_first, output == 1};
    Activation activation = Activation::None;  // in its brief form, which 16 bits take
    if (rounds && halves.activates) activation = args.epilogue.activation, halves.activates = false;
    finish_accumulators<typename ElementOf<T>::Type, HELD>(
        args.epilogue, halves, reinterpret_cast<float (&)[1][COUNT]>(values), place.p, place.q,
        {end.p(), end.q(), place.batch});
    if constexpr (sizeof(T) == 2) activate_briefly(activation, values);
    if constexpr (GROUPED) clear_if(end.is_blank, values);
  }
  if (c.unrounded)
    store_slices<Sum, Tile, GROUPED>(args, c, values, place, end, slices, barrier, thread);
  else if constexpr (sizeof(T) == 2)
    store_slices<T, Tile, GROUPED>(args, c, values, place, end, slices, barrier, thread);
  else if constexpr (sizeof(T) == 1 && std::is_unsigned_v<T>)  // the low 8 bits have no sign
    store_slices<uint8_t, Tile, GROUPED>(args, c, values, place, end, slices, barrier, thread);
}

// Stores C, and before it the pre-activations where they are kept. d: a unit's accumulators from
// its row `row` on.
template <typename T, typename Tile, bool FINISHES, bool GROUPED, typename Unit, typename Slices,
          typename Sum, int STRIPS, int REGISTERS>
__device__ __forceinline__ void leave(const HopperArguments& args, Sum (&d)[STRIPS][REGISTERS],
                                      const Unit& unit, int row, Slices& slices, int barrier) {
  using Parts = tiled::Parts<Tile, FINISHES>;
  constexpr int SIZE = Parts::SIZE, HELD = (Parts::COUNT - 1) * SIZE;
  Sum(&parts)[Parts::COUNT][SIZE] = reinterpret_cast<Sum(&)[Parts::COUNT][SIZE]>(d);
  const int first = FINISHES && args.keeps_pre_activation ? 0 : 1;
  const auto leave_part = [&](Sum(&values)[SIZE], int part) {
#pragma unroll 1
    for (int output = first; output < 2; ++output) {
      int p = unit.p + row + part / Parts::OF_STRIP * 64;
      int q = unit.q + part % Parts::OF_STRIP * 2 * SIZE;
      int thread = threadIdx.x % 128;
      // Addresses are computed anew each time: kept, they would take registers of accumulators.
      ptx::opaque(p, q, thread);
      leave_by<T, Tile, FINISHES, GROUPED, HELD>(
          args, output, output == first, values, {p, q, unit.batch, unit.segment},
          Extent<GROUPED>(args, unit), slices, barrier, thread);
    }
  };
  if constexpr (FINISHES) {
    // The next part of a strip, or the next strip, takes the place of the one before.
    const auto advance = [&](int by, int last) {
#pragma unroll
      for (int to = 0; to + by < last; ++to)
#pragma unroll
        for (int i = 0; i < SIZE; ++i) parts[to][i] = parts[to + by][i];
    };
#pragma unroll 1
    for (int strip = 0; strip < Parts::COUNT; strip += Parts::OF_STRIP) {
#pragma unroll 1
      for (int part = 0; part < Parts::OF_STRIP; ++part) {
        leave_part(parts[0], strip + part);
        advance(1, Parts::OF_STRIP);
      }
      advance(Parts::OF_STRIP, Parts::COUNT);
    }
  } else {
#pragma unroll
    for (int part = 0; part < Parts::COUNT; ++part) leave_part(parts[part], part);
  }
}

}  // namespace tiled
