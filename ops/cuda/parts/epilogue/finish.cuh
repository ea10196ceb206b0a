// From a finished sum to the value that C gets (core/epilogue.h), for every kernel and every store.
//
// All of it is for epilogues that are not the identity: code that stores asks leaves_sums(), which
// is the same for the whole launch.
//
// A kernel that holds many sums in registers would get as many copies of this code if it went
// through them in a loop that is unrolled; by for_each_in_turn() it gets one.
#pragma once

#include <type_traits>

#include "core/finish.h"
#include "cuda/parts/arithmetic/element.cuh"

namespace tiled {

// Epilogue::is_identity() by the factors' bits: GPUs that are made for fp32 take dozens of cycles
// to compare doubles, more than a short product has. Where it says no without need (-0 for 0), the
// epilogue is applied and changes nothing.
__device__ __forceinline__ bool leaves_sums(const Epilogue& e) {
  const auto is = [](const Factor& f, int64_t bits, int64_t value) {
    return reinterpret_cast<const int64_t&>(f.real) == bits &&
           reinterpret_cast<const int64_t&>(f.imaginary) == 0 && f.integer == value;
  };
  return e.activation == Activation::None && e.bias_along == Along::Nothing &&
         is(e.alpha, 0x3ff0000000000000, 1) && is(e.beta, 0, 0) && e.pre_activation.data == nullptr;
}

// body(turn) for turn = 0, 1, ... COUNT / STEP - 1, in a loop that is not unrolled although it goes
// through registers: the values go round, so that the body finds those of its turn, which are
// values[STEP * turn] and on before and after the loop, in values[0] to values[STEP - 1]. It costs
// COUNT moves a turn.
template <int STEP, int COUNT, typename Value, typename Body>
__device__ __forceinline__ void for_each_in_turn(Value (&values)[COUNT], Body body) {
  static_assert(COUNT % STEP == 0, "whole turns");
#pragma unroll 1
  for (int turn = 0; turn < COUNT / STEP; ++turn) {
    body(turn);
    Value first[STEP];
#pragma unroll
    for (int i = 0; i < STEP; ++i) first[i] = values[i];
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      values[i] = i + STEP < COUNT ? values[i + STEP] : first[i + STEP - COUNT];
  }
}

// COUNT elements of T from data[index] on, `step` apart, widened; those that do not exist are 0.
template <typename T, int COUNT>
__device__ __forceinline__ void load_as(Accumulator<T> (&values)[COUNT], const void* data,
                                        int64_t index, int64_t step, int64_t exist) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i)
    values[i] = i < exist ? widen(static_cast<const T*>(data)[index + i * step]) : Accumulator<T>{};
}

// The same by dtype: fp32 sums take fp32, fp16 and bf16, all others C's own type T.
template <typename T, int COUNT>
__device__ __forceinline__ void load_widened(Accumulator<T> (&values)[COUNT], DType dtype,
                                             const void* data, int64_t index, int64_t step,
                                             int64_t exist) {
  if constexpr (std::is_same_v<Accumulator<T>, float>) {
    switch (dtype) {
      case DType::Float16: return load_as<__half>(values, data, index, step, exist);
      case DType::BFloat16: return load_as<__nv_bfloat16>(values, data, index, step, exist);
      default: return load_as<float>(values, data, index, step, exist);
    }
  } else {
    load_as<T>(values, data, index, step, exist);
  }
}

// COUNT sums of row `row` of C from `column` on become what C gets there, unrounded; the
// pre-activations are stored where that is asked. C has `columns` columns, and nothing past them is
// read or written. T is the inputs' element type, or C's.
template <typename T, int COUNT>
__device__ __forceinline__ void finish_vector(const Epilogue& e, Accumulator<T> (&values)[COUNT],
                                              int64_t entry, int64_t row, int64_t column,
                                              int64_t columns) {
  using Acc = Accumulator<T>;
  const int64_t exist = columns - column;
  Acc bias[COUNT] = {}, input[COUNT] = {};
  if (e.bias_along != Along::Nothing) {
    const bool along_n = e.bias_along == Along::N;
    load_widened<T>(bias, e.bias_dtype, e.bias,
                    entry * e.bias_batch_stride + (along_n ? column : row) * e.bias_stride,
                    along_n ? e.bias_stride : 0, exist);
  }
  const auto index_in = [&](const auto& matrix) {
    return entry * matrix.batch_stride + row * matrix.row_stride + column * matrix.col_stride;
  };
  if (e.reads_input())
    load_widened<T>(input, e.input.dtype, e.input.data, index_in(e.input), e.input.col_stride,
                    exist);
#pragma unroll
  for (int i = 0; i < COUNT; ++i) values[i] = pre_activation_of(e, values[i], bias[i], input[i]);
  if (e.pre_activation.data != nullptr) {
    const int64_t index = index_in(e.pre_activation);
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      if (i < exist)
        store<T>(e.pre_activation.data, index + i * e.pre_activation.col_stride, values[i],
                 e.out_dtype == DType::Float32);
  }
  if constexpr (std::is_floating_point_v<Acc>) {
    if (e.activation == Activation::None) return;
    for_each_in_turn<1>(values, [&](int) { values[0] = activated(e, values[0]); });
  }
}

// The value that C gets for a finished sum.
template <typename T>
__device__ __forceinline__ Accumulator<T> finish(const Epilogue& e, Accumulator<T> sum,
                                                 int64_t entry, int64_t row, int64_t column) {
  Accumulator<T> values[1] = {sum};
  finish_vector<T>(e, values, entry, row, column, column + 1);
  return values[0];
}

// Store one finished sum, whatever the epilogue.
template <typename T>
__device__ __forceinline__ void store_finished(const Problem& problem, Accumulator<T> sum,
                                               int64_t entry, int64_t row, int64_t column) {
  if (!leaves_sums(problem.epilogue)) sum = finish<T>(problem.epilogue, sum, entry, row, column);
  store<T>(
      problem.c.data,
      entry * problem.c.batch_stride + row * problem.c.row_stride + column * problem.c.col_stride,
      sum, stores_accumulator(problem));
}

}  // namespace tiled
