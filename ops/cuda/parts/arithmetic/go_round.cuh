// A loop over values in registers that is not unrolled.
//
// Registers have names, not indices, so a loop over accumulators must be unrolled, and the
// code of what is done to each would stand in the kernel a hundred times. Here the loop stays a
// loop and the values go round instead, in two rings, so that the moves are few. (Seen with
// CUDA 13.0: choosing a loop's accumulators by branches or a jump table spills hundreds of bytes. A
// function that is not inlined becomes a subroutine of the kernel: 4 instructions a value instead
// of 9 moves, but the widest tile spills 132 bytes, and the kernels are larger.)
//
//     outer:  d[0 .. 31] | d[32 .. 63] | ... | d[96 .. 127]     a turn moves all down by a part,
//             \________/                                        the finished part to the end
//     inner:  0-15 | 16-31                                      the same with a step of a part
//             \__/
//             four times two rows by two columns of C: one turn of the code
#pragma once

namespace tiled {

// The most values of a step, whole fours of them, that `count` values fall into.
constexpr int step_of(int count, int most) {
  while (count % most != 0) most -= 4;
  return most;
}

// body(turn, the STEP values that begin at STEP * turn), turn by turn.
template <int STEP, int COUNT, typename Body>
__device__ __forceinline__ void go_round(float (&values)[COUNT], Body body) {
  static_assert(COUNT % STEP == 0, "whole turns");
#pragma unroll 1
  for (int turn = 0; turn < COUNT / STEP; ++turn) {
    float first[STEP];
#pragma unroll
    for (int i = 0; i < STEP; ++i) first[i] = values[i];
    body(turn, first);
#pragma unroll
    for (int i = 0; i + STEP < COUNT; ++i) values[i] = values[i + STEP];
#pragma unroll
    for (int i = 0; i < STEP; ++i) values[COUNT - STEP + i] = first[i];
  }
}

// The outer ring's part for the fewest moves: COUNT + part of them for every part, and part + step
// for every step.
constexpr int part_of(int count, int step) {
  int best = count, least = count * (count + step);
  for (int part = step; part < count; part += step) {
    if (count % part != 0) continue;
    const int inner = part == step ? 0 : (part + step) * (count / step);
    const int moves = (count + part) * (count / part) + inner;
    if (moves < least) best = part, least = moves;
  }
  return best;
}

// The same by two rings.
template <int STEP, int COUNT, typename Body>
__device__ __forceinline__ void go_round_in_parts(float (&values)[COUNT], Body body) {
  constexpr int PART = part_of(COUNT, STEP);
  if constexpr (PART == STEP || PART == COUNT)
    go_round<STEP>(values, body);
  else
    go_round<PART>(values, [&](int outer, float (&part)[PART]) {
      go_round<STEP>(
          part, [&](int inner, float (&step)[STEP]) { body(outer * (PART / STEP) + inner, step); });
    });
}

}  // namespace tiled
