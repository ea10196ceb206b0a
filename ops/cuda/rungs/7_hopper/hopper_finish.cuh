// C behind an epilogue: how rung hopper's accumulators leave where they are not C yet. A few at a
// time they are finished and rounded into a slice of shared memory, which leaves as the bare
// product's do (hopper_store.cuh).
//
//     d[0 .. COUNT)  --jump table-->  v[STEP]  --bias, activation-->  slice  --TMA-->  C
//
// Registers have names, not indices. So that the epilogue's code stands in the kernel once, a turn
// takes its accumulators through a jump table, one move each; they are read only, and stay where
// they are. (Put back, they cost a spill of hundreds of bytes; parts/finish_accumulators.cuh, for
// rungs that need them all back, has them go round instead, 8 to 12 moves each.)
//
// Where the values before the activation are kept, each slice goes out twice, once of either; the
// second time only the few operations before the activation are done again.
#pragma once

#include "cuda/parts/finish_accumulators.cuh"
#include "cuda/ptx/forget.cuh"
#include "cuda/rungs/7_hopper/hopper_store.cuh"

namespace tiled {

// v = the STEP accumulators from STEP * turn on.
template <int STEP, int STRIPS, int REGISTERS>
__device__ __forceinline__ void take(int turn, const float (&d)[STRIPS][REGISTERS],
                                     float (&v)[STEP]) {
  const auto from = [&](auto constant) {
    constexpr int FIRST = STEP * decltype(constant)::value;
    if constexpr (FIRST < STRIPS * REGISTERS) {
#pragma unroll
      for (int i = 0; i < STEP; ++i) v[i] = d[(FIRST + i) / REGISTERS][(FIRST + i) % REGISTERS];
    }
  };
  static_assert(STRIPS * REGISTERS <= 24 * STEP, "the cases below");
  switch (turn) {
#define CASE(n) \
  case n: return from(std::integral_constant<int, n>());
#define FOUR_CASES(n) CASE(n) CASE(n + 1) CASE(n + 2) CASE(n + 3)
    FOUR_CASES(0)
    FOUR_CASES(4)
    FOUR_CASES(8)
    FOUR_CASES(12)
    FOUR_CASES(16)
    FOUR_CASES(20)
#undef FOUR_CASES
#undef CASE
    default: __builtin_unreachable();
  }
}

// The epilogue of STEP accumulators at a time: fours of 64 rows from `row` and of columns from
// `column` on, one beside the other. A thread is one of a warpgroup's.
template <int STEP>
struct FinishStep {
  static constexpr int FOURS = STEP / 4;

  const Epilogue& e;
  Within c;
  // Once for all of them: a conversion or comparison of doubles takes as long as many products.
  float alpha, beta;
  bool has_bias, along_m, reads_input;

  __device__ __forceinline__ FinishStep(const Epilogue& epilogue, const Within& within)
      : e(epilogue),
        c(within),
        alpha(static_cast<float>(e.alpha.real)),
        beta(static_cast<float>(e.beta.real)),
        has_bias(e.bias_along != Along::Nothing),
        along_m(e.bias_along == Along::M),
        reads_input(e.reads_input()) {}

  __device__ __forceinline__ void places(FourAt (&at)[FOURS], int row, int column,
                                         int thread) const {
    row += thread / 32 * 16 + thread % 32 / 4;
    column += thread % 4 * 2;
#pragma unroll
    for (int j = 0; j < FOURS; ++j) at[j] = {row, column + 8 * j};
  }

  __device__ __forceinline__ void load_bias(float (&bias)[FOURS][2], int row, int column,
                                            int thread) const {
    if (!has_bias) return;
    FourAt at[FOURS];
    places(at, row, column, thread);
    load_biases(e, bias, at, c);
  }

  // Sums become the values before the activation.
  __device__ __forceinline__ void combine(float (&v)[STEP], const float (&bias)[FOURS][2], int row,
                                          int column, int thread) const {
#pragma unroll
    for (int j = 0; j < FOURS; ++j) {
      const float right = along_m ? bias[j][0] : bias[j][1];
      const float below = along_m ? bias[j][1] : bias[j][0];
      const float of[4] = {bias[j][0], right, below, bias[j][1]};
#pragma unroll
      for (int i = 0; i < 4; ++i) v[4 * j + i] = fused(alpha, v[4 * j + i], of[i]);
    }
    if (!reads_input) return;
    FourAt at[FOURS];
    places(at, row, column, thread);
    switch (e.input.dtype) {
      case DType::Float16: return add_input<__half>(e, beta, v, at, c);
      case DType::BFloat16: return add_input<__nv_bfloat16>(e, beta, v, at, c);
      default: return add_input<float>(e, beta, v, at, c);
    }
  }
};

// A warpgroup's STRIPS x 64 x GROUP_Q accumulators, finished, to C and where it is kept to
// `before`.
template <typename T, typename Tile, int STRIPS, int REGISTERS>
__device__ __forceinline__ void store_finished(const HopperArguments& args,
                                               const float (&d)[STRIPS][REGISTERS], Place place,
                                               uint32_t shared, int barrier, int thread,
                                               uint32_t& slices) {
  constexpr int COUNT = STRIPS * REGISTERS, SLICE = Tile::SLICE_Q / 2;  // accumulators of a thread
  // Where registers are to spare: 16 values are computed side by side, for a multiply-add takes
  // four cycles, and a multiprocessor's quarter has one or two warps that come here; and a turn's
  // bias arrives while the one before it is computed.
  constexpr bool AHEAD = COUNT <= 144;
  constexpr int STEP = SLICE % 16 == 0 && AHEAD ? 16 : 8;
  constexpr int TURNS = SLICE / STEP, IN_STRIP = REGISTERS / SLICE;
  static_assert(SLICE % STEP == 0 && REGISTERS % SLICE == 0, "whole slices");
  const FinishStep<STEP> finish(args.epilogue, {args.p, args.q, place.batch});
  const auto place_of = [&](int slice) -> Place {
    int p = place.p, q = place.q;
    // Addresses are computed anew each time: kept, they would take registers of accumulators.
    ptx::forget(p, q);
    return {p + slice / IN_STRIP * 64, q + slice % IN_STRIP * Tile::SLICE_Q, place.batch,
            place.segment};
  };
  const auto load_bias = [&](int slice, int turn, float (&bias)[STEP / 4][2]) {
    const Place at = place_of(slice);
    finish.load_bias(bias, at.p, at.q + turn * STEP * 2, thread);
  };
  float bias[STEP / 4][2] = {};
  if constexpr (AHEAD) load_bias(0, 0, bias);
  const int first = args.keeps_before ? 0 : 1;
#pragma unroll 1
  for (int slice = 0; slice < COUNT / SLICE; ++slice)
#pragma unroll 1
    for (int output = first; output < 2; ++output) {
      const HopperOutput& c = args.outputs[output];
      const bool scatters = sizeof(T) == 4 || c.store == StorePath::Scatter;
      const uint32_t address = shared + slices % 2 * Tile::SLICE_BYTES;
#pragma unroll 1
      for (int turn = 0; turn < TURNS; ++turn) {
        float v[STEP];
        take(slice * TURNS + turn, d, v);
        Place at = place_of(slice);
        at.q += turn * STEP * 2;
        if constexpr (!AHEAD) finish.load_bias(bias, at.p, at.q, thread);
        finish.combine(v, bias, at.p, at.q, thread);
        if constexpr (AHEAD) {  // past C's end its last element
          const bool last = turn + 1 == TURNS;
          load_bias(slice + (last && output == 1), last ? 0 : turn + 1, bias);
        }
        if (output == 1) activate(args.epilogue.activation, v);
        if (scatters)
          scatter<T>(args, c, v, at, thread);
        else if constexpr (sizeof(T) == 2)
          fill_columns<T, Tile::SLICE_Q>(address, v, turn * STEP * 2, c.q != 1, thread);
      }
      if constexpr (sizeof(T) == 2) {
        if (scatters) continue;
        ++slices;
        if (c.q == 1)
          send_slice<Tile, false>(args, c, place_of(slice), address, barrier, thread);
        else
          send_slice<Tile, true>(args, c, place_of(slice), address, barrier, thread);
      }
    }
}

}  // namespace tiled
