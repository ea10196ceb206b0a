// The epilogue of a warpgroup's accumulators where they are, in registers: sums before, what C gets
// after.
//
// Registers have names, not indices, so a loop over accumulators must be unrolled, and the
// epilogue's code would stand in the kernel a hundred times. Here the loop stays a loop and the
// values go round instead, in two rings, so that the moves are few. (Seen with CUDA 13.0: choosing
// a loop's accumulators by branches or a jump table spills hundreds of bytes. A function that is
// not inlined becomes a subroutine of the kernel: 4 instructions a value instead of 12 moves, but
// the widest tile spills 132 bytes, and the kernels are larger.)
//
//     outer:  d[0 .. 15] | d[16 .. 31] | ... | d[112 .. 127]     a turn moves all down by a step,
//             \________/                                         the finished step to the end
//     inner:  0-3 | 4-7 | 8-11 | 12-15                           the same with four of a step
//             \_/
//             two rows by two columns of C: one turn of the code
#pragma once

#include "cuda/parts/finish.cuh"
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

// The choice is made once for all COUNT values.
template <int COUNT>
__device__ __forceinline__ void activate(Activation activation, float (&values)[COUNT]) {
  const auto all = [&](auto constant) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) values[i] = activated(decltype(constant)::value, values[i]);
  };
  switch (activation) {
    case Activation::None: return;
#define ACTIVATION(activation, name) \
  case Activation::activation:       \
    return all(std::integral_constant<Activation, Activation::activation>());
#include "core/activations.inc"
  }
}

// What a matrix of C is finished for: rows and columns, outside of which nothing is read or
// written, and the entry of the batch.
struct Within {
  int rows, columns, entry;
};

// v: of (row, column), (row, column + 1), (row + 8, column) and (row + 8, column + 1), as wgmma has
// them. T is the inputs' element type, or C's.
template <typename T>
__device__ __forceinline__ void finish_four(const Epilogue& e, float (&v)[4], int row, int column,
                                            const Within& c) {
  const auto exists = [&](int i) { return row + i / 2 * 8 < c.rows && column + i % 2 < c.columns; };
  const auto index_in = [&](const auto& matrix, int i) {
    return c.entry * matrix.batch_stride + (row + i / 2 * 8) * matrix.row_stride +
           (column + i % 2) * matrix.col_stride;
  };
  float bias[4] = {}, input[4] = {};
  if (e.bias_along != Along::Nothing) {
    // Two are enough: both rows have the same, or both columns.
    const bool along_n = e.bias_along == Along::N;
    const int first = along_n ? column : row, apart = along_n ? 1 : 8;
    const int rest = (along_n ? c.columns : c.rows) - first;  // only those that exist are read
    float two[2];
    load_widened<T>(two, e.bias_dtype, e.bias,
                    c.entry * e.bias_batch_stride + first * e.bias_stride, apart * e.bias_stride,
                    rest > apart ? 2 : rest > 0);
    bias[0] = two[0], bias[1] = along_n ? two[1] : two[0];
    bias[2] = along_n ? two[0] : two[1], bias[3] = two[1];
  }
  if (e.reads_input()) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float one[1];
      load_widened<T>(one, e.input.dtype, e.input.data, index_in(e.input, i), 0, exists(i));
      input[i] = one[0];
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) v[i] = before_activation(e, v[i], bias[i], input[i]);
  if (e.before.data != nullptr) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (exists(i))
        store<T>(e.before.data, index_in(e.before, i), v[i], e.out_dtype == DType::Float32);
  }
  activate(e.activation, v);
}

// d[s]: wgmma's registers (ptx/wgmma.cuh) of the 64 rows from row + 64 s and the columns from
// `column` on. Elements outside of C become anything.
template <typename T, int STRIPS, int REGISTERS>
__device__ __forceinline__ void finish_accumulators(const Epilogue& e,
                                                    float (&d)[STRIPS][REGISTERS], int row,
                                                    int column, const Within& c) {
  constexpr int COUNT = STRIPS * REGISTERS;
  constexpr int STEP = COUNT % 16 == 0 ? 16 : 8;
  constexpr int FOURS = REGISTERS / 4;  // of a strip
  const int thread = threadIdx.x % 128;
  row += thread / 32 * 16 + thread % 32 / 4;
  column += thread % 4 * 2;
  float v[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; ++i) v[i] = d[i / REGISTERS][i % REGISTERS];
  go_round<STEP>(v, [&](int outer, float (&step)[STEP]) {
    go_round<4>(step, [&](int inner, float (&four)[4]) {
      const int i = outer * (STEP / 4) + inner;
      int r = row + i / FOURS * 64, q = column + i % FOURS * 8;
      // Addresses are computed anew each time: kept, they would take registers of accumulators.
      asm volatile("" : "+r"(r), "+r"(q));
      finish_four<typename ElementOf<T>::Type>(e, four, r, q, c);
    });
  });
#pragma unroll
  for (int i = 0; i < COUNT; ++i) d[i / REGISTERS][i % REGISTERS] = v[i];
}

}  // namespace tiled
