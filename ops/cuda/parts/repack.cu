// An operand that TMA cannot read (its base or pitch is no multiple of 16 bytes, neither stride is
// 1, or tf32 that does not lie along K) is copied to where it can; and fp32 to where register_tile
// is fastest, along m or n.
//
// Three ways: rows are copied as they lie, 16 bytes of the copy a thread; or the matrix goes
// through shared memory in squares, read along the smaller stride and written along the other, an
// element a lane or, for fp32 that is aligned, four (transpose.cu). Two operands that go the same
// way go in one grid. Bound by memory.
#include <algorithm>

#include "cuda/parts/launch_early.h"
#include "cuda/parts/repack.cuh"
#include "cuda/parts/repack.h"
#include "cuda/parts/shifted.cuh"
#include "cuda/plan/plan.h"
#include "cuda/plan/repack_layout.h"
#include "cuda/ptx/cluster.cuh"

namespace tiled {
namespace {

constexpr int THREADS = REPACK_THREADS;
constexpr int ROWS_A_THREAD = 4;
constexpr int SQUARE = 32;
constexpr int SQUARES = 4;  // side by side in a block
constexpr int64_t MAX_BLOCKS = 1 << 30;

template <typename T>
__global__ void __launch_bounds__(THREADS)
    repack_rows(const __grid_constant__ RepackArguments args) {
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
  constexpr int VECTOR = 16 / sizeof(T);
  const Task task = task_of(args);
  const Matrix& m = task.m;
  const int down = THREADS / m.across;
  const int x = threadIdx.x % m.across, y = threadIdx.x / m.across;
  const int64_t column = (task.x * m.across + x) * VECTOR;
  if (column >= m.columns) return;
  for (int64_t entry = task.z; entry < m.batch; entry += m.blocks_z) {
    const T* from = static_cast<const T*>(m.from) + entry * m.from_batch + column;
    T* to = static_cast<T*>(m.to) + entry * m.to_batch + column;
    for (int64_t first = task.y * down * ROWS_A_THREAD + y; first < m.rows;
         first += int64_t{m.blocks_y} * down * ROWS_A_THREAD) {
      // Aligned loads of 16 bytes, those of all rows under way together; two hold what is wanted.
      uint4 low[ROWS_A_THREAD], high[ROWS_A_THREAD];
      int skew[ROWS_A_THREAD];  // elements of `low` before it
#pragma unroll
      for (int i = 0; i < ROWS_A_THREAD; ++i) {
        const int64_t row = first + i * down;
        if (row >= m.rows) continue;
        const T* at = from + row * m.from_row;
        skew[i] = static_cast<int>(reinterpret_cast<uintptr_t>(at) % 16 / sizeof(T));
        const int end = skew[i] == 0 ? VECTOR : 2 * VECTOR - skew[i];
        if (column >= skew[i] && column + end <= m.columns) {
          const uint4* pieces = reinterpret_cast<const uint4*>(at - skew[i]);
          low[i] = pieces[0];
          high[i] = pieces[skew[i] == 0 ? 0 : 1];
        } else {  // at a row's ends: nothing outside of it is read
          T elements[VECTOR];
#pragma unroll
          for (int j = 0; j < VECTOR; ++j) elements[j] = column + j < m.columns ? at[j] : T(0);
          low[i] = reinterpret_cast<const uint4&>(elements);
          high[i] = low[i], skew[i] = 0;
        }
      }
#pragma unroll
      for (int i = 0; i < ROWS_A_THREAD; ++i) {
        const int64_t row = first + i * down;
        if (row < m.rows)
          *reinterpret_cast<uint4*>(to + row * m.to_row) =
              shifted(low[i], high[i], skew[i] * static_cast<int>(sizeof(T) / 2));
      }
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    repack_squares(const __grid_constant__ RepackArguments args) {
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
  __shared__ T squares[SQUARES][SQUARE][SQUARE + 1];
  const Task task = task_of(args);
  const Matrix& m = task.m;
  const int x = threadIdx.x % SQUARE, y = threadIdx.x / SQUARE;
  constexpr int STEP = THREADS / SQUARE, LOADS = SQUARE / STEP;
  const bool along_row = m.from_column <= m.from_row;  // the direction to read in
  const int64_t column0 = task.x * SQUARE * SQUARES;
  for (int64_t entry = task.z; entry < m.batch; entry += m.blocks_z) {
    const T* from = static_cast<const T*>(m.from) + entry * m.from_batch;
    T* to = static_cast<T*>(m.to) + entry * m.to_batch;
    for (int64_t row = task.y * SQUARE; row < m.rows; row += int64_t{m.blocks_y} * SQUARE) {
      T elements[SQUARES][LOADS];  // all under way before the first is stored
#pragma unroll
      for (int square = 0; square < SQUARES; ++square)
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
          const int r = along_row ? y + i * STEP : x, c = along_row ? x : y + i * STEP;
          const int64_t column = column0 + square * SQUARE + c;
          elements[square][i] = row + r < m.rows && column < m.columns
                                    ? from[(row + r) * m.from_row + column * m.from_column]
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
          if (row + y + i < m.rows && column < m.columns)
            to[(row + y + i) * m.to_row + column] = squares[square][y + i][x];
        }
      __syncthreads();
    }
  }
}

enum class By { Rows, Squares, Vectors };

// How one operand goes.
struct Way {
  By by;
  Matrix matrix;
};

Way way_of(const Copy& copy, const Problem& problem) {
  const Side &from = copy.from, &to = copy.to;
  const bool along_rows = to.row_stride == 1 && to.k_stride != 1;
  Way way{};
  Matrix& m = way.matrix;
  m.from = from.data, m.to = const_cast<void*>(to.data);
  m.rows = along_rows ? from.k : from.rows, m.columns = along_rows ? from.rows : from.k;
  m.from_row = along_rows ? from.k_stride : from.row_stride;
  m.from_column = along_rows ? from.row_stride : from.k_stride;
  m.to_row = along_rows ? to.k_stride : to.row_stride;
  m.from_batch = from.batch_stride, m.to_batch = to.batch_stride;
  m.batch = entries_of(from, problem.batch);
  const bool aligned = problem.dtype == DType::Float32 && from.alignment == 16;
  way.by = m.from_column == 1 && m.columns > 1 ? By::Rows
           : aligned && m.from_row == 1        ? By::Vectors
                                               : By::Squares;
  const int64_t vectors = blocks_over(m.columns, 16 / size_of(problem.dtype));
  m.across = 1;
  while (m.across < THREADS && m.across < vectors) m.across *= 2;
  int64_t wide = TRANSPOSE_SIDE, tall = TRANSPOSE_SIDE;
  if (way.by == By::Rows) wide = m.across, tall = THREADS / m.across * ROWS_A_THREAD;
  if (way.by == By::Squares) wide = SQUARE * SQUARES, tall = SQUARE;
  m.blocks_x = static_cast<int32_t>(blocks_over(way.by == By::Rows ? vectors : m.columns, wide));
  // As many as there is work for, and all of them together within a grid.
  const auto at_most = [](int64_t work, int64_t blocks) {
    return static_cast<int32_t>(std::clamp<int64_t>(MAX_BLOCKS / blocks, 1, work));
  };
  m.blocks_y = at_most(blocks_over(m.rows, tall), m.blocks_x);
  m.blocks_z = at_most(m.batch, int64_t{m.blocks_x} * m.blocks_y);
  return way;
}

uint32_t blocks_of(const Matrix& m) {
  return static_cast<uint32_t>(m.blocks_x) * m.blocks_y * m.blocks_z;
}

const void* kernel_of(By by, bool words) {
  if (by == By::Vectors) return transpose_kernel();
  if (by == By::Rows)
    return words ? reinterpret_cast<const void*>(&repack_rows<uint32_t>)
                 : reinterpret_cast<const void*>(&repack_rows<uint16_t>);
  return words ? reinterpret_cast<const void*>(&repack_squares<uint32_t>)
               : reinterpret_cast<const void*>(&repack_squares<uint16_t>);
}

}  // namespace

cudaError_t launch_copies(const Copy* copies, int count, const Problem& problem,
                          cudaStream_t stream) {
  const auto launch = [&](By by, RepackArguments args, uint32_t blocks) {
    const void* kernel = kernel_of(by, problem.dtype == DType::Float32);
    return launch_early(kernel, dim3(blocks), THREADS, /*shared=*/0, /*cluster=*/0, stream, &args);
  };
  Way ways[2];
  for (int i = 0; i < count; ++i) ways[i] = way_of(copies[i], problem);
  if (count == 2 && ways[0].by == ways[1].by) {
    const uint32_t first = blocks_of(ways[0].matrix);
    return launch(ways[0].by, {ways[0].matrix, ways[1].matrix, first},
                  first + blocks_of(ways[1].matrix));
  }
  for (int i = 0; i < count; ++i) {
    const uint32_t blocks = blocks_of(ways[i].matrix);
    const cudaError_t error = launch(ways[i].by, {ways[i].matrix, {}, blocks}, blocks);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace tiled
