// The epilogue of a warpgroup's accumulators where they are, in registers: sums before, what C gets
// after.
//
// The loop over them stays a loop (go_round.cuh): unrolled, the epilogue's code would stand in the
// kernel a hundred times. A step's values are computed side by side, 16 of them, or 8 or 4 where
// there are few registers to spare, or what divides their number: a multiply-add takes four cycles,
// and a multiprocessor's quarter has one or two warps that come here.
// docs/decisions/003 has what that is worth.
#pragma once

#include "cuda/parts/arithmetic/go_round.cuh"
#include "cuda/parts/epilogue/finish.cuh"
#include "cuda/ptx/opaque.cuh"
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

template <typename T>
constexpr DType DTYPE_OF = DType::Float32;
template <>
constexpr DType DTYPE_OF<__half> = DType::Float16;
template <>
constexpr DType DTYPE_OF<__nv_bfloat16> = DType::BFloat16;

// The choice is made once for all COUNT values.
template <int COUNT>
__device__ __forceinline__ void activate(const Epilogue& e, float (&values)[COUNT]) {
  with_activation<float>(e, [&](auto f) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) values[i] = f(values[i]);
  });
}

// The bounds that a matrix of C is finished for: rows and columns, outside of which nothing is read
// or written, and the entry of the batch.
struct Within {
  int rows, columns, entry;
};

// Which half of an epilogue is done: sums become the pre-activations, and those C's.
// Where the pre-activations are kept, the two are done one after the other.
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

// Elements of a bias that are side by side.
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

// The epilogues that most layers ask for, without turns: the sum itself, or alpha * sum + bias,
// where the bias has elements of T one after the other, pairs of them if C's columns have one each.
// Whether it was so; else nothing is done. Past the end the last are read: elements outside of C
// become anything.
template <typename T, int STRIPS, int REGISTERS>
__device__ __forceinline__ bool add_near_bias(const Epilogue& e, float (&d)[STRIPS][REGISTERS],
                                              int row, int column, const Within& c) {
  if (e.reads_input()) return false;
  const float alpha = static_cast<float>(e.alpha.real);
  if (e.bias_along == Along::Nothing) return alpha == 1;
  if (e.bias_dtype != DTYPE_OF<T> || e.bias_stride != 1) return false;
  const bool along_n = e.bias_along == Along::N;
  const auto* bias = static_cast<const T*>(e.bias) + c.entry * e.bias_batch_stride;
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
    ptx::opaque(p, q);
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
