// An operand that TMA cannot read (its base or pitch is no multiple of 16 bytes, neither stride is
// 1, or tf32 that does not lie along K) is copied to where it can; and fp32 to where register_tile
// is fastest, along m or n.
//
// Two ways: rows are copied as they lie, 16 bytes of the copy a thread; or the matrix goes through
// shared memory in squares, read along the smaller stride and written along the other. Bound by
// memory.
#include <algorithm>

#include "cuda/launch_early.h"
#include "cuda/plan.h"
#include "cuda/ptx/cluster.cuh"
#include "cuda/repack.h"
#include "cuda/repack_layout.h"

namespace tiled {
namespace {

constexpr int THREADS = 256;
constexpr int ROWS_A_THREAD = 4;
constexpr int SQUARE = 32;
constexpr int SQUARES = 4;  // side by side in a block

struct RepackArguments {
  const void* from;
  void* to;
  int64_t rows, columns;                      // of the copy; elements lie along a row
  int64_t from_row, from_column, from_batch;  // strides, elements
  int64_t to_row, to_batch;                   // strides, elements
  int64_t batch;
  int across;  // threads side by side along a row, a power of two
};

// Eight or four elements, 16 bytes, from `from` on; all of them lie in the row, and for 16-bit
// elements so does one more on each side. Words are loaded whatever the alignment is, so that the
// loads of several rows can be under way together.
__device__ __forceinline__ uint4 gather(const uint16_t* from) {
  const uint32_t shift = reinterpret_cast<uintptr_t>(from) % 4 * 8;  // bits: 0 or 16
  const uint32_t* words = reinterpret_cast<const uint32_t*>(from - shift / 16);
  uint32_t w[5];
#pragma unroll
  for (int i = 0; i < 4; ++i) w[i] = words[i];
  w[4] = shift ? words[4] : 0;
  return make_uint4(__funnelshift_r(w[0], w[1], shift), __funnelshift_r(w[1], w[2], shift),
                    __funnelshift_r(w[2], w[3], shift), __funnelshift_r(w[3], w[4], shift));
}
__device__ __forceinline__ uint4 gather(const uint32_t* from) {
  return make_uint4(from[0], from[1], from[2], from[3]);
}

template <typename T>
__global__ void __launch_bounds__(THREADS) repack_rows(const RepackArguments args) {
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
  constexpr int VECTOR = 16 / sizeof(T);
  const int down = THREADS / args.across;
  const int x = threadIdx.x % args.across, y = threadIdx.x / args.across;
  const int64_t column = (int64_t{blockIdx.x} * args.across + x) * VECTOR;
  if (column < args.columns) {
    const bool inside = column > 0 && column + VECTOR < args.columns;
    for (int64_t entry = blockIdx.z; entry < args.batch; entry += gridDim.z) {
      const T* from = static_cast<const T*>(args.from) + entry * args.from_batch;
      T* to = static_cast<T*>(args.to) + entry * args.to_batch;
      for (int64_t first = int64_t{blockIdx.y} * down * ROWS_A_THREAD + y; first < args.rows;
           first += int64_t{gridDim.y} * down * ROWS_A_THREAD) {
        uint4 values[ROWS_A_THREAD];
#pragma unroll
        for (int i = 0; i < ROWS_A_THREAD; ++i) {
          const int64_t row = first + i * down;
          if (row >= args.rows) continue;
          const T* at = from + row * args.from_row + column;
          if (inside) {
            values[i] = gather(at);
          } else {
            T elements[VECTOR];
#pragma unroll
            for (int j = 0; j < VECTOR; ++j) elements[j] = column + j < args.columns ? at[j] : T(0);
            values[i] = reinterpret_cast<const uint4&>(elements);
          }
        }
#pragma unroll
        for (int i = 0; i < ROWS_A_THREAD; ++i) {
          const int64_t row = first + i * down;
          if (row < args.rows)
            *reinterpret_cast<uint4*>(to + row * args.to_row + column) = values[i];
        }
      }
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(THREADS) repack_squares(const RepackArguments args) {
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
  __shared__ T squares[SQUARES][SQUARE][SQUARE + 1];
  const int x = threadIdx.x % SQUARE, y = threadIdx.x / SQUARE;
  constexpr int STEP = THREADS / SQUARE, LOADS = SQUARE / STEP;
  const bool along_row = args.from_column <= args.from_row;  // the direction to read in
  const int64_t column0 = int64_t{blockIdx.x} * SQUARE * SQUARES;
  for (int64_t entry = blockIdx.z; entry < args.batch; entry += gridDim.z) {
    const T* from = static_cast<const T*>(args.from) + entry * args.from_batch;
    T* to = static_cast<T*>(args.to) + entry * args.to_batch;
    for (int64_t row = int64_t{blockIdx.y} * SQUARE; row < args.rows;
         row += int64_t{gridDim.y} * SQUARE) {
      T elements[SQUARES][LOADS];  // all under way before the first is stored
#pragma unroll
      for (int square = 0; square < SQUARES; ++square)
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
          const int r = along_row ? y + i * STEP : x, c = along_row ? x : y + i * STEP;
          const int64_t column = column0 + square * SQUARE + c;
          elements[square][i] = row + r < args.rows && column < args.columns
                                    ? from[(row + r) * args.from_row + column * args.from_column]
                                    : T(0);
        }
#pragma unroll
      for (int square = 0; square < SQUARES; ++square)
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
          const int r = along_row ? y + i * STEP : x, c = along_row ? x : y + i * STEP;
          squares[square][r][c] = elements[square][i];
        }
      __syncthreads();
#pragma unroll
      for (int square = 0; square < SQUARES; ++square)
#pragma unroll
        for (int i = 0; i < SQUARE; i += STEP) {
          const int64_t column = column0 + square * SQUARE + x;
          if (row + y + i < args.rows && column < args.columns)
            to[(row + y + i) * args.to_row + column] = squares[square][y + i][x];
        }
      __syncthreads();
    }
  }
}

}  // namespace

cudaError_t launch_repack(const Side& from, const Side& to, const Problem& problem,
                          cudaStream_t stream) {
  const bool along_rows = to.row_stride == 1 && to.k_stride != 1;
  const bool copies = along_rows ? from.row_stride == 1 && from.rows > 1  // as they lie
                                 : from.k_stride == 1 && from.k > 1;
  RepackArguments args;
  args.from = from.data, args.to = const_cast<void*>(to.data);
  args.rows = along_rows ? from.k : from.rows, args.columns = along_rows ? from.rows : from.k;
  args.from_row = along_rows ? from.k_stride : from.row_stride;
  args.from_column = along_rows ? from.row_stride : from.k_stride;
  args.to_row = along_rows ? to.k_stride : to.row_stride;
  args.from_batch = from.batch_stride, args.to_batch = to.batch_stride;
  args.batch = entries_of(from, problem.batch);
  const int64_t vector = 16 / size_of(problem.dtype);
  const int64_t vectors = blocks_over(args.columns, vector);
  args.across = 1;
  while (args.across < THREADS && args.across < vectors) args.across *= 2;
  const int64_t wide = copies ? args.across : SQUARE * SQUARES;
  const int64_t tall = copies ? THREADS / args.across * ROWS_A_THREAD : SQUARE;
  const dim3 blocks(static_cast<unsigned>(blocks_over(copies ? vectors : args.columns, wide)),
                    static_cast<unsigned>(std::min(blocks_over(args.rows, tall), MAX_GRID_Y)),
                    static_cast<unsigned>(std::min(args.batch, MAX_GRID_Y)));
  const bool wide_elements = problem.dtype == DType::Float32;
  const void* kernel =
      copies ? (wide_elements ? reinterpret_cast<const void*>(&repack_rows<uint32_t>)
                              : reinterpret_cast<const void*>(&repack_rows<uint16_t>))
             : (wide_elements ? reinterpret_cast<const void*>(&repack_squares<uint32_t>)
                              : reinterpret_cast<const void*>(&repack_squares<uint16_t>));
  return launch_early(kernel, blocks, THREADS, /*shared=*/0, /*cluster=*/0, stream, &args);
}

}  // namespace tiled
