// The epilogue of a warpgroup's accumulators where they are, in registers: sums before, what C gets
// after.
//
// Registers have names, not indices, so a loop over accumulators must be unrolled, and the
// epilogue's code would stand in the kernel a hundred times. Here the loop stays a loop and the
// values go round instead, in two rings, so that the moves are few. (Seen with CUDA 13.0: choosing
// a loop's accumulators by branches or a jump table spills hundreds of bytes. A function that is
// not inlined becomes a subroutine of the kernel: 4 instructions a value instead of 9 moves, but
// the widest tile spills 132 bytes, and the kernels are larger.)
//
//     outer:  d[0 .. 31] | d[32 .. 63] | ... | d[96 .. 127]     a turn moves all down by a part,
//             \________/                                        the finished part to the end
//     inner:  0-15 | 16-31                                      the same with a step of a part
//             \__/
//             four times two rows by two columns of C: one turn of the code
//
// A step's values are computed side by side, 16 of them, or 8 or 4 where there are few registers to
// spare, or what divides their number: a multiply-add takes four cycles, and a multiprocessor's
// quarter has one or two warps that come here. bench/results/h200_epilogues.txt has what that is
// worth.
#pragma once

#include "cuda/parts/finish.cuh"
#include "cuda/ptx/forget.cuh"
#include "cuda/ptx/wgmma.cuh"

namespace tiled {

// The element type of C for operands of T.
template <typename T>
struct ElementOf {
  using Type = T;
};
template <>
struct ElementOf<ptx::Tf32> {
  using Type = float;
};

// The most values of a step, whole fours of them, that `count` values fall into.
constexpr int step_of(int count, int most) {
  while (count % most != 0) most -= 4;
  return most;
}

template <typename T>
constexpr DType DTYPE_OF = DType::Float32;
template <>
constexpr DType DTYPE_OF<__half> = DType::Float16;
template <>
constexpr DType DTYPE_OF<__nv_bfloat16> = DType::BFloat16;

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

// The choice is made once for all COUNT values.
template <int COUNT>
__device__ __forceinline__ void activate(const Epilogue& e, float (&values)[COUNT]) {
  with_activation<float>(e, [&](auto f) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) values[i] = f(values[i]);
  });
}

// What a matrix of C is finished for: rows and columns, outside of which nothing is read or
// written, and the entry of the batch.
struct Within {
  int rows, columns, entry;
};

// Which half of an epilogue is done: sums become the values before the activation, and those C's.
// Where the values before are kept, the two are done one after the other.
struct Halves {
  bool combines, activates;
};

// Four sums as wgmma has them: of (row, column), (row, column + 1), (row + 8, column) and
// (row + 8, column + 1).
struct FourAt {
  int row, column;
};

// The bias of fours of values, two elements each: both rows have the same two, or both columns.
// Past the end the last is read, so that no load waits behind a branch of its own.
template <typename Bias, int FOURS>
__device__ __forceinline__ void load_biases(const Epilogue& e, float (&two)[FOURS][2],
                                            const FourAt (&at)[FOURS], const Within& c) {
  const bool along_n = e.bias_along == Along::N;
  const int apart = along_n ? 1 : 8, last = (along_n ? c.columns : c.rows) - 1;
  const auto* bias = static_cast<const Bias*>(e.bias) + c.entry * e.bias_batch_stride;
#pragma unroll
  for (int j = 0; j < FOURS; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int index = (along_n ? at[j].column : at[j].row) + i * apart;
      two[j][i] = widen(bias[min(index, last) * e.bias_stride]);
    }
}

template <int FOURS>
__device__ __forceinline__ void load_biases(const Epilogue& e, float (&two)[FOURS][2],
                                            const FourAt (&at)[FOURS], const Within& c) {
  switch (e.bias_dtype) {
    case DType::Float16: return load_biases<__half>(e, two, at, c);
    case DType::BFloat16: return load_biases<__nv_bfloat16>(e, two, at, c);
    default: return load_biases<float>(e, two, at, c);
  }
}

// v = beta * input + v.
template <typename Input, int FOURS>
__device__ __forceinline__ void add_input(const Epilogue& e, float beta, float (&v)[4 * FOURS],
                                          const FourAt (&at)[FOURS], const Within& c) {
  const auto* input = static_cast<const Input*>(e.input.data) + c.entry * e.input.batch_stride;
#pragma unroll
  for (int j = 0; j < FOURS; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = min(at[j].row + i / 2 * 8, c.rows - 1);
      const int column = min(at[j].column + i % 2, c.columns - 1);
      v[4 * j + i] = fused(
          beta, widen(input[row * e.input.row_stride + column * e.input.col_stride]), v[4 * j + i]);
    }
}

// Elements of a bias that lie side by side.
template <typename T>
struct alignas(2 * sizeof(T)) BiasPair {
  T first, second;
};

// v = alpha * v + bias of columns in pairs: pair(j) of 8 j from here on.
template <typename Pair, int STRIPS, int REGISTERS>
__device__ __forceinline__ void add_pairs(float alpha, float (&d)[STRIPS][REGISTERS], Pair pair) {
#pragma unroll
  for (int j = 0; j < REGISTERS / 4; ++j) {
    const auto two = pair(j);
    const float first = widen(two.first), second = widen(two.second);
#pragma unroll
    for (int s = 0; s < STRIPS; ++s)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        d[s][4 * j + i] = fused(alpha, d[s][4 * j + i], i % 2 == 0 ? first : second);
  }
}

// What most layers ask for, without turns: alpha * sum + bias, where the bias has elements of T one
// after the other, pairs of them if C's columns have one each. Whether it was so; else nothing is
// done. Past the end the last are read: elements outside of C become anything.
template <typename T, int STRIPS, int REGISTERS>
__device__ __forceinline__ bool add_near_bias(const Epilogue& e, float (&d)[STRIPS][REGISTERS],
                                              int row, int column, const Within& c) {
  const bool along_n = e.bias_along == Along::N;
  if (e.bias_along == Along::Nothing || e.bias_dtype != DTYPE_OF<T> || e.bias_stride != 1 ||
      e.reads_input())
    return false;
  const auto* bias = static_cast<const T*>(e.bias) + c.entry * e.bias_batch_stride;
  const float alpha = static_cast<float>(e.alpha.real);
  const int thread = threadIdx.x % 128;
  if (along_n) {
    if (reinterpret_cast<uintptr_t>(bias) % sizeof(BiasPair<T>) != 0 || c.columns % 2 != 0)
      return false;
    const auto* pairs = reinterpret_cast<const BiasPair<T>*>(bias + column) + thread % 4;
    const int last = c.columns / 2 - 1 - column / 2 - thread % 4;
    if (column + 2 * REGISTERS <= c.columns)
      add_pairs(alpha, d, [&](int j) { return pairs[4 * j]; });
    else
      add_pairs(alpha, d, [&](int j) { return pairs[min(4 * j, last)]; });
  } else {
    row += thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
    for (int s = 0; s < STRIPS; ++s) {
      const float first = widen(bias[min(row + 64 * s, c.rows - 1)]);
      const float second = widen(bias[min(row + 64 * s + 8, c.rows - 1)]);
#pragma unroll
      for (int i = 0; i < REGISTERS; ++i)
        d[s][i] = fused(alpha, d[s][i], i % 4 < 2 ? first : second);
    }
  }
  return true;
}

// d[s]: wgmma's registers (ptx/wgmma.cuh) of the 64 rows from row + 64 s and the columns from
// `column` on. Elements outside of C become anything. Nothing is stored. HELD: registers that a
// thread keeps beside these.
template <typename T, int HELD = 0, int STRIPS, int REGISTERS>
__device__ __forceinline__ void finish_accumulators(const Epilogue& e, Halves halves,
                                                    float (&d)[STRIPS][REGISTERS], int row,
                                                    int column, const Within& c) {
  if (halves.combines && add_near_bias<T>(e, d, row, column, c)) halves.combines = false;
  if (!halves.combines && (!halves.activates || e.activation == Activation::None)) return;
  if (!halves.combines && e.activation == Activation::Relu) {
#pragma unroll
    for (int i = 0; i < STRIPS * REGISTERS; ++i) {
      float& value = d[i / REGISTERS][i % REGISTERS];
      value = elementary::relu(value);
    }
    return;
  }
  constexpr int COUNT = STRIPS * REGISTERS;
  // Where registers are to spare: steps of 16, and a turn's bias loaded while the one before it is
  // computed.
  constexpr bool AHEAD = COUNT + HELD <= 144;
  constexpr int STEP = step_of(COUNT, AHEAD ? 16 : HELD == 0 ? 8 : 4);
  constexpr int FOURS = REGISTERS / 4;  // of a strip
  const int thread = threadIdx.x % 128;
  row += thread / 32 * 16 + thread % 32 / 4;
  column += thread % 4 * 2;
  // Once for all of them: a conversion or comparison of doubles takes as long as many products.
  const float alpha = static_cast<float>(e.alpha.real), beta = static_cast<float>(e.beta.real);
  const bool has_bias = e.bias_along != Along::Nothing, along_m = e.bias_along == Along::M;
  const bool reads_input = e.reads_input();
  const auto places = [&](int turn, FourAt(&at)[STEP / 4]) {
    int p = row, q = column;
    // Addresses are computed anew each time: kept, they would take registers of accumulators.
    ptx::forget(p, q);
#pragma unroll
    for (int j = 0; j < STEP / 4; ++j) {
      const int i = turn * (STEP / 4) + j;
      at[j] = {p + i / FOURS * 64, q + i % FOURS * 8};
    }
  };
  FourAt at[STEP / 4];
  float two[STEP / 4][2] = {};  // the bias of a turn's
  if constexpr (AHEAD) {
    places(0, at);
    if (halves.combines && has_bias) load_biases(e, two, at, c);
  }
  float v[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; ++i) v[i] = d[i / REGISTERS][i % REGISTERS];
  go_round_in_parts<STEP>(v, [&](int turn, float (&step)[STEP]) {
    if (halves.combines) {
      if constexpr (!AHEAD) {
        places(turn, at);
        if (has_bias) load_biases(e, two, at, c);
      }
#pragma unroll
      for (int j = 0; j < STEP / 4; ++j) {
        const float bias[4] = {two[j][0], along_m ? two[j][0] : two[j][1],
                               along_m ? two[j][1] : two[j][0], two[j][1]};
#pragma unroll
        for (int i = 0; i < 4; ++i) step[4 * j + i] = fused(alpha, step[4 * j + i], bias[i]);
      }
      if (reads_input) {
        places(turn, at);
        switch (e.input.dtype) {
          case DType::Float16: add_input<__half>(e, beta, step, at, c); break;
          case DType::BFloat16: add_input<__nv_bfloat16>(e, beta, step, at, c); break;
          default: add_input<float>(e, beta, step, at, c);
        }
      }
      if constexpr (AHEAD) {
        places(turn + 1, at);
        if (has_bias) load_biases(e, two, at, c);
      }
    }
    if (halves.activates) activate(e, step);
  });
#pragma unroll
  for (int i = 0; i < COUNT; ++i) d[i / REGISTERS][i % REGISTERS] = v[i];
}

}  // namespace tiled
