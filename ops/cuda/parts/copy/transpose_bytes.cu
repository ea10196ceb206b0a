// repack.cu for bytes that are contiguous along the copy's columns, wherever they begin: squares of
// 128 x 128 go through shared memory, 16 bytes of memory a lane at both ends.
//
//     read: a lane has 16 rows of 4 columns of the copy,     written: 16 columns of a row
//           and makes 16 words of them, 4 columns of a row
//
// In shared memory a row is [8 vectors] of 16 columns, vector v of row r at place v ^ r / 16: so
// neither the lanes that write words of rows 16 apart nor those that read a row meet in a bank.
// Bound by memory.
#include "cuda/parts/copy/repack.cuh"
#include "cuda/parts/launch/early_start.cuh"

namespace tiled {
namespace {

constexpr int SIDE = COPY_BYTE_SIDE;
constexpr int ACROSS = SIDE / 16;            // vectors of a row
constexpr int DOWN = COPY_THREADS / ACROSS;  // rows at a time, or fours of columns
constexpr int STEPS = SIDE / DOWN;
static_assert(STEPS == 4, "a thread reads the columns of a word");

// Rows of four bytes, a column each, become columns.
__device__ __forceinline__ void transpose_four(uint32_t (&w)[4]) {
  const uint32_t first[2] = {__byte_perm(w[0], w[1], 0x5140), __byte_perm(w[0], w[1], 0x7362)};
  const uint32_t last[2] = {__byte_perm(w[2], w[3], 0x5140), __byte_perm(w[2], w[3], 0x7362)};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    w[2 * i] = __byte_perm(first[i], last[i], 0x5410);
    w[2 * i + 1] = __byte_perm(first[i], last[i], 0x7632);
  }
}

template <bool SPACED>
__global__ void __launch_bounds__(COPY_THREADS)
    transpose_bytes(const __grid_constant__ RepackArguments args) {
  let_the_next_start();
  wait_for_kernels_before();
  __shared__ uint4 square[SIDE * ACROSS];
  const auto vector_of = [&](int row, int vector) -> uint4& {
    return square[row * ACROSS + (vector ^ row / 16)];
  };
  const Task task = task_of(args);
  const Matrix& m = task.m;
  const int x = threadIdx.x % ACROSS, y = threadIdx.x / ACROSS;
  const int64_t column0 = task.x * SIDE;
  const SourceColumns<SPACED> source(args, task);
  if (source.are_left) return;
  for (int64_t entry = task.z; entry < m.batch; entry += m.blocks_z) {
    const uint8_t* from = static_cast<const uint8_t*>(m.from) + entry * m.from_batch;
    uint8_t* to = static_cast<uint8_t*>(m.to) + entry * m.to_batch;
    for (int64_t row0 = task.y * SIDE; row0 < m.rows; row0 += int64_t{m.blocks_y} * SIDE) {
      PieceOfLine<uint8_t> pieces[STEPS];
#pragma unroll
      for (int i = 0; i < STEPS; ++i) {
        const int64_t row = row0 + 16 * x, column = column0 + STEPS * y + i + source.further();
        pieces[i] = {};
        if (row < m.rows && column < source.end())
          pieces[i].load(from + column * m.from_column, row, m.rows);
      }
      uint32_t words[STEPS][4];  // of a column, four rows each
#pragma unroll
      for (int i = 0; i < STEPS; ++i) {
        const uint4 v = pieces[i].value();
        words[i][0] = v.x, words[i][1] = v.y, words[i][2] = v.z, words[i][3] = v.w;
      }
#pragma unroll
      for (int four = 0; four < 4; ++four) {
        uint32_t w[4] = {words[0][four], words[1][four], words[2][four], words[3][four]};
        transpose_four(w);
#pragma unroll
        for (int j = 0; j < 4; ++j)
          reinterpret_cast<uint32_t*>(&vector_of(16 * x + 4 * four + j, y / 4))[y % 4] = w[j];
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < STEPS; ++i) {
        const int row = y + i * DOWN;
        if (row0 + row >= m.rows || column0 + 16 * x >= m.columns) continue;
        // A pitch is whole cache lines, so there is room for 16.
        *reinterpret_cast<uint4*>(to + (row0 + row) * m.to_row + column0 + 16 * x) =
            vector_of(row, x);
      }
      __syncthreads();
    }
  }
}

}  // namespace

Kernel<RepackArguments> transpose_bytes_kernel(bool spaced) {
  return spaced ? &transpose_bytes<true> : &transpose_bytes<false>;
}

}  // namespace tiled
