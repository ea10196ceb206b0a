// repack.cu for aligned fp32 that is contiguous along the copy's columns: squares of 64 x 64 go
// through shared memory, 16 bytes of memory a lane at both ends.
//
//     read: a lane has 4 rows of a column of the copy       written: 4 columns of a row
//
// In shared memory a row is [16 vectors] of 4 columns, vector v of row r at place v ^ (r / 4) % 8:
// so the lanes that write it, of different r / 4, meet two to a bank, and those that read it none.
// Bound by memory.
#include "cuda/parts/copy/load_four.cuh"
#include "cuda/parts/copy/repack.cuh"
#include "cuda/parts/launch/early_start.cuh"

namespace tiled {
namespace {

constexpr int SIDE = COPY_VECTOR_SIDE;
constexpr int ACROSS = SIDE / 4;             // vectors of a row
constexpr int DOWN = COPY_THREADS / ACROSS;  // rows or columns at a time
constexpr int STEPS = SIDE / DOWN;

__device__ __forceinline__ int place(int row, int vector) {
  return row * ACROSS + (vector ^ (row / 4 % 8));
}

__global__ void __launch_bounds__(COPY_THREADS)
    transpose(const __grid_constant__ RepackArguments args) {
  let_the_next_start();
  wait_for_kernels_before();
  __shared__ float4 square[SIDE * ACROSS];
  const Task task = task_of(args);
  const Matrix& m = task.m;
  const int x = threadIdx.x % ACROSS, y = threadIdx.x / ACROSS;
  const int64_t column0 = task.x * SIDE;
  for (int64_t entry = task.z; entry < m.batch; entry += m.blocks_z) {
    const float* from = static_cast<const float*>(m.from) + entry * m.from_batch;
    float* to = static_cast<float*>(m.to) + entry * m.to_batch;
    for (int64_t row0 = task.y * SIDE; row0 < m.rows; row0 += int64_t{m.blocks_y} * SIDE) {
      float4 read[STEPS];  // all under way before the first is stored
#pragma unroll
      for (int i = 0; i < STEPS; ++i) {
        const int64_t row = row0 + 4 * x, column = column0 + y + i * DOWN;
        const int64_t rows = column < m.columns ? m.rows - row : 0;  // that exist
        read[i] = load_four(from + column * m.from_column + row, rows, /*vectors=*/true);
      }
#pragma unroll
      for (int i = 0; i < STEPS; ++i) {
        const int column = y + i * DOWN;
        const float elements[4] = {read[i].x, read[i].y, read[i].z, read[i].w};
#pragma unroll
        for (int j = 0; j < 4; ++j)
          reinterpret_cast<float*>(&square[place(4 * x + j, column / 4)])[column % 4] = elements[j];
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < STEPS; ++i) {
        const int row = y + i * DOWN;
        if (row0 + row >= m.rows || column0 + 4 * x >= m.columns) continue;
        // A pitch is whole cache lines, so there is room for four.
        *reinterpret_cast<float4*>(to + (row0 + row) * m.to_row + column0 + 4 * x) =
            square[place(row, x)];
      }
      __syncthreads();
    }
  }
}

}  // namespace

Kernel<RepackArguments> transpose_kernel() { return &transpose; }

}  // namespace tiled
