// An operand that TMA cannot read (its base or pitch is no multiple of 16 bytes, neither stride is
// 1, or tf32 that is not contiguous along K) is copied to where it can; what async_mma would
// read in small pieces, to where it reads 16 bytes; and fp32 to where register_tile is fastest,
// along m or n.
//
// Three ways: rows are copied in their own layout, 16 bytes of the copy a thread; or the matrix
// goes through shared memory in squares, read along the smaller stride and written along the other,
// an element a lane or 16 bytes: of fp32 that is aligned (transpose.cu), and of bytes that are
// contiguous (transpose_bytes.cu). Two operands that go the same way go in one grid. Bound by
// memory.
#include "cuda/parts/copy/repack.cuh"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/launch/launch_rung.h"

namespace tiled {
namespace {

constexpr int THREADS = COPY_THREADS;
constexpr int ROWS_A_THREAD = COPY_ROWS_A_THREAD;
constexpr int SQUARE = COPY_SQUARE;
constexpr int SQUARES = COPY_SQUARES;  // side by side in a block

template <typename T, bool SPACED>
__global__ void __launch_bounds__(THREADS)
    repack_rows(const __grid_constant__ RepackArguments args) {
  let_the_next_start();
  wait_for_kernels_before();
  constexpr int VECTOR = 16 / sizeof(T);
  const Task task = task_of(args);
  const Matrix& m = task.m;
  const int down = THREADS / m.across;
  const int x = threadIdx.x % m.across, y = threadIdx.x / m.across;
  const int64_t column = (task.x * m.across + x) * VECTOR;
  const SourceColumns<SPACED> source(args, task);
  if (source.are_left || column >= m.columns) return;
  for (int64_t entry = task.z; entry < m.batch; entry += m.blocks_z) {
    const T* from = static_cast<const T*>(m.from) + entry * m.from_batch;
    T* to = static_cast<T*>(m.to) + entry * m.to_batch + column;
    for (int64_t first = task.y * down * ROWS_A_THREAD + y; first < m.rows;
         first += int64_t{m.blocks_y} * down * ROWS_A_THREAD) {
      PieceOfLine<T> pieces[ROWS_A_THREAD];
#pragma unroll
      for (int i = 0; i < ROWS_A_THREAD; ++i) {
        const int64_t row = first + i * down;
        if (row < m.rows)
          pieces[i].load(from + row * m.from_row, column + source.further(), source.end());
      }
#pragma unroll
      for (int i = 0; i < ROWS_A_THREAD; ++i) {
        const int64_t row = first + i * down;
        if (row < m.rows) *reinterpret_cast<uint4*>(to + row * m.to_row) = pieces[i].value();
      }
    }
  }
}

template <typename T, bool SPACED>
__global__ void __launch_bounds__(THREADS)
    repack_squares(const __grid_constant__ RepackArguments args) {
  let_the_next_start();
  wait_for_kernels_before();
  __shared__ T squares[SQUARES][SQUARE][SQUARE + 1];
  const Task task = task_of(args);
  const Matrix& m = task.m;
  const int x = threadIdx.x % SQUARE, y = threadIdx.x / SQUARE;
  constexpr int STEP = THREADS / SQUARE, LOADS = SQUARE / STEP;
  const bool along_row = m.from_column <= m.from_row;  // the direction to read in
  // Zeros behind a row fill its last 16 bytes, which are read as one.
  constexpr int VECTOR = 16 / sizeof(T);
  const int64_t end = (m.columns + VECTOR - 1) / VECTOR * VECTOR;
  const int64_t column0 = task.x * SQUARE * SQUARES;
  const SourceColumns<SPACED> source(args, task);
  if (source.are_left) return;
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
          const int64_t column = column0 + source.further() + square * SQUARE + c;
          elements[square][i] = row + r < m.rows && column < source.end()
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
          if (row + y + i < m.rows && column < end)
            to[(row + y + i) * m.to_row + column] = squares[square][y + i][x];
        }
      __syncthreads();
    }
  }
}

Matrix matrix_of(const Side& from, const Side& to, const CopyGrid& grid, const Problem& problem) {
  const bool along_rows = to.row_stride == 1 && to.k_stride != 1;
  Matrix m{};
  m.from = from.data, m.to = const_cast<void*>(to.data);
  m.rows = grid.rows, m.columns = grid.columns;
  m.from_row = along_rows ? from.k_stride : from.row_stride;
  m.from_column = along_rows ? from.row_stride : from.k_stride;
  m.to_row = along_rows ? to.k_stride : to.row_stride;
  m.from_batch = from.batch_stride, m.to_batch = to.batch_stride;
  m.batch = entries_of(from, problem.batch);
  m.leaves_aligned = grid.spaced && is_in_place(from, problem);
  m.across = grid.across;
  m.blocks_x = grid.blocks_x, m.blocks_y = grid.blocks_y, m.blocks_z = grid.blocks_z;
  return m;
}

template <typename T, bool SPACED = false>
Kernel<RepackArguments> kernel_of(CopyBy by) {
  return by == CopyBy::Rows ? &repack_rows<T, SPACED> : &repack_squares<T, SPACED>;
}

// Only elements of 8 bits are spaced.
Kernel<RepackArguments> kernel_of(const CopyGrid& grid, int64_t element_bytes) {
  const CopyBy by = grid.by;
  if (by == CopyBy::Vectors) return transpose_kernel();
  if (by == CopyBy::Bytes) return transpose_bytes_kernel(grid.spaced);
  if (grid.spaced) return kernel_of<uint8_t, true>(by);
  switch (element_bytes) {
    case 1: return kernel_of<uint8_t>(by);
    case 2: return kernel_of<uint16_t>(by);
    case 4: return kernel_of<uint32_t>(by);
    default: return kernel_of<uint64_t>(by);
  }
}

}  // namespace

cudaError_t launch_copies(const Call& call, const Step& step) {
  const Problem& problem = call.problem;
  const Sides from = sides_of(problem, call.plan.swap_ab);
  const Sides to = sides_of(call.read, call.plan.swap_ab);
  const bool p_first = (step.key & OF_P) != 0;
  const Side& first = p_first ? from.p : from.q;
  const Side& first_copy = p_first ? to.p : to.q;
  const CopyGrid grid = copy_grid_of(first, first_copy, problem);
  RepackArguments args{};
  args.first = matrix_of(first, first_copy, grid, problem);
  args.first_blocks = static_cast<uint32_t>(grid.blocks());
  if (step.key == (OF_P | OF_Q))
    args.second = matrix_of(from.q, to.q, copy_grid_of(from.q, to.q, problem), problem);
  args.groups = problem.groups;
  args.group_count = static_cast<int32_t>(problem.batch), args.k = static_cast<int32_t>(problem.k);
  return launch_early(kernel_of(grid, size_of(problem.dtype)), step, call.stream, args);
}

}  // namespace tiled
