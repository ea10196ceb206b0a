// The epilogue of a warpgroup's accumulators, where they are: sums before, what C gets after.
//
// wgmma needs its accumulators in registers that the instructions name, so a loop over them must be
// unrolled, and the epilogue's code would stand in a kernel a hundred times over. A call would
// bring the compiler to serialise the wgmmas. So a loop that is not unrolled takes four of them at
// a time, finding its four by branches that are the same for all threads:
//
//     for i = 0, 1, ...    i < 8 ? (i < 4 ? ... d[0 to 3] ...) : ...  ->  v[4]
//                          v[4] finished, both rows and columns of it
//                          v[4]  ->  d[4 i], ..., d[4 i + 3]
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

// body(turn, the STEP values that begin at STEP * turn) for every turn, in a loop that is not
// unrolled: the values go round.
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

// body(std::integral_constant<Activation, activation>()), so that what hangs on it stands outside of
// the loops over elements.
template <typename Body>
__device__ __forceinline__ void with_activation(Activation activation, Body body) {
  switch (activation) {
    case Activation::None: return;
    case Activation::Relu: return body(std::integral_constant<Activation, Activation::Relu>());
    case Activation::Gelu: return body(std::integral_constant<Activation, Activation::Gelu>());
    case Activation::GeluTanh:
      return body(std::integral_constant<Activation, Activation::GeluTanh>());
    case Activation::Silu: return body(std::integral_constant<Activation, Activation::Silu>());
  }
}

// Four sums of T's kind: (row, column), (row, column + 1), (row + 8, column), (row + 8, column + 1)
// of the `rows` x `columns` of C, outside of which nothing is read or written.
template <typename T>
__device__ __forceinline__ void finish_four(const Epilogue& e, float (&v)[4], int64_t entry,
                                            int row, int column, int rows, int columns) {
  const auto exists = [&](int i) { return row + i / 2 * 8 < rows && column + i % 2 < columns; };
  const auto index_in = [&](const auto& matrix, int i) {
    return entry * matrix.batch_stride + (row + i / 2 * 8) * matrix.row_stride +
           (column + i % 2) * matrix.col_stride;
  };
  float bias[4] = {}, input[4] = {};
  if (e.bias_along != Along::Nothing) {
    // Two are enough: they are the same in both rows, or in both columns.
    const bool along_n = e.bias_along == Along::N;
    const int first = along_n ? column : row, apart = along_n ? 1 : 8;
    const int count = along_n ? columns - column : (rows - row + 7) / 8;
    float two[2];
    load_widened<T>(two, e.bias_dtype, e.bias,
                    entry * e.bias_batch_stride + first * e.bias_stride, apart * e.bias_stride,
                    count);
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
  const auto activate = [&](auto activation) {
#pragma unroll
    for (int i = 0; i < 4; ++i) v[i] = activated(decltype(activation)::value, v[i]);
  };
  with_activation(e.activation, activate);
}

// d[s]: wgmma's registers (ptx/wgmma.cuh) of the 64 rows from row + 64 s and the columns from
// `column` on, of a C of rows x columns elements.
template <typename T, int STRIPS, int REGISTERS>
__device__ __forceinline__ void finish_accumulators(const Epilogue& e, float (&d)[STRIPS][REGISTERS],
                                                    int64_t entry, int row, int column, int rows,
                                                    int columns) {
  constexpr int QUADS = REGISTERS / 4;  // of a strip
  const int thread = threadIdx.x % 128;
  row += thread / 32 * 16 + thread % 32 / 4;
  column += thread % 4 * 2;
  float v[STRIPS * REGISTERS];
#pragma unroll
  for (int i = 0; i < STRIPS * REGISTERS; ++i) v[i] = d[i / REGISTERS][i % REGISTERS];
  constexpr int STEP = STRIPS * REGISTERS % 32 == 0 ? 32 : STRIPS * REGISTERS % 16 == 0 ? 16 : 8;
  go_round<STEP>(v, [&](int outer, float (&step)[STEP]) {
    go_round<4>(step, [&](int inner, float (&four)[4]) {
      const int i = outer * (STEP / 4) + inner;
      // Places are computed anew each time: kept, they would take the registers of accumulators.
      int r = row + i / QUADS * 64, c = column + i % QUADS * 8, b = entry;
      asm volatile("" : "+r"(r), "+r"(c), "+r"(b));
      finish_four<T>(e, four, b, r, c, rows, columns);
    });
  });
#pragma unroll
  for (int i = 0; i < STRIPS * REGISTERS; ++i) d[i / REGISTERS][i % REGISTERS] = v[i];
}

}  // namespace tiled
