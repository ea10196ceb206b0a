// The parts of an epilogue that a kernel does apart from the rest of it: beside its products, or
// beside its stores (finish_accumulators.cuh has the whole).
#pragma once

#include "cuda/parts/epilogue/finish_accumulators.cuh"
#include "cuda/ptx/prefetch.cuh"

namespace tiled {

// The values through the brief form of an activation (core/brief_activation.h), in code of their
// own, without a move: an activation has some twenty instructions.
template <int COUNT>
__device__ __forceinline__ void activate_briefly(Activation activation, float (&values)[COUNT]) {
  const auto activate = [&](auto f) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) values[i] = f(values[i]);
  };
  switch (activation) {
    case Activation::None: return;
#define ACTIVATION(activation, name) \
  case Activation::activation: return activate([](float x) { return elementary::brief_##name(x); });
#include "core/activations.inc"
  }
}

// Asks for the bias of a tile's rows or columns, from `row` and `column` on, so that it is near
// when the tile's sums are ready; one of C's type T, of others nothing, and of a scattered one a
// part.
template <typename T>
__device__ __forceinline__ void prefetch_bias(const Epilogue& e, int row, int rows, int column,
                                              int columns, const Within& c, int thread) {
  if (e.bias_along == Along::Nothing || e.bias_dtype != DTYPE_OF<T>) return;
  constexpr int SECTOR = 32 / sizeof(T);  // elements
  const bool along_n = e.bias_along == Along::N;
  const int index = (along_n ? column : row) + thread * SECTOR;
  const int end = along_n ? min(column + columns, c.columns) : min(row + rows, c.rows);
  if (index < end)
    ptx::prefetch_l1(static_cast<const T*>(e.bias) + c.entry * e.bias_batch_stride +
                     index * e.bias_stride);
}

}  // namespace tiled
