// Lesson 2, shared_tile. A block of WIDTH x WIDTH threads computes a WIDTH x WIDTH tile of C from
// tiles of A and B that it brings to shared memory together (Kirk and Hwu, "Programming Massively
// Parallel Processors", chapter 5).
//
//                     B  +-------+            One phase:
//                        | tile  |  WIDTH     1. each thread stores one element of A's tile and
//                        +-------+               one of B's; outside the matrix it stores zero;
//        A                                    2. barrier: all stored before any use;
//        +-------+       +-------+            3. each thread does WIDTH multiply-adds;
//        | tile  |       | C     |  WIDTH     4. barrier: all uses done before the next store.
//        +-------+       +-------+
//          WIDTH           WIDTH              ceil(K / WIDTH) phases.
//
// The elements of a phase are loaded into registers while the phase before computes, so that the
// way from global memory is not waited for.
// Without barrier 2 a thread may read an element that its neighbour has not stored yet; without
// barrier 4 a fast thread overwrites a tile that a slow one still reads. A thread outside C
// (rows past M, columns past N) has nothing to store but still helps to load, and none leaves
// early, since all must meet at the barriers. Adding two matrices gains nothing from shared
// memory: there every element is used once; here each is used WIDTH times.
//
// Preconditions: none; every shape, stride and alignment.
// Traffic: each element of A is loaded N / WIDTH times instead of N, so global traffic is divided
// by WIDTH: the WIDTH x WIDTH tile does WIDTH flops per loaded element.
// Bound by: shared memory. Every multiply-add still takes two values from it.
// Measured: 10 %, 17 % and 19 % of cuBLAS for widths 8, 16 and 32 (fp32, 4096, H200;
// docs/ladder.md has them all).
// Next: lesson 3 keeps a thread tile of C in registers, so that one loaded value feeds many
// multiply-adds.
#include "core/segments.h"
#include "cuda/parts/arithmetic/signed_bytes.cuh"
#include "cuda/parts/epilogue/finish.cuh"
#include "cuda/parts/launch/launch_rung.h"

namespace tiled {

// Threads that a multiprocessor holds: 2,048 on 8.0, 9.0 and 10.x, and at least half as many
// anywhere.
#if defined(__CUDA_ARCH__) && \
    (__CUDA_ARCH__ == 800 || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200))
constexpr int THREADS_PER_SM = 2048;
#else
constexpr int THREADS_PER_SM = 1024;
#endif

// Blocks that a multiprocessor should hold: all its threads, or half of them where an accumulator
// takes more than one register.
template <typename T, int WIDTH>
constexpr int BLOCKS = (sizeof(Accumulator<T>) == 4 ? THREADS_PER_SM : 1024) / (WIDTH * WIDTH);

template <typename T, int WIDTH>
__global__ void __launch_bounds__(WIDTH* WIDTH, BLOCKS<T, WIDTH>)
    shared_tile(const __grid_constant__ Problem problem) {
  using Acc = Accumulator<T>;
  __shared__ Acc a_tile[WIDTH][WIDTH];  // [m][k]
  __shared__ Acc b_tile[WIDTH][WIDTH];  // [k][n]
  static_assert(SEGMENT_K % WIDTH == 0, "a phase must not straddle two segments");

  const int x = threadIdx.x, y = threadIdx.y;
  const int64_t tiles_n = (problem.n + WIDTH - 1) / WIDTH;
  const int64_t row = blockIdx.x / tiles_n * WIDTH + y;
  const int64_t column = blockIdx.x % tiles_n * WIDTH + x;

  const bool has_row = row < problem.m, has_column = column < problem.n;
  const int64_t a_phase = WIDTH * problem.a.col_stride;  // elements from a phase to the next
  const int64_t b_phase = WIDTH * problem.b.row_stride;

  for (int64_t entry = blockIdx.y; entry < problem.batch; entry += gridDim.y) {
    // This thread loads these elements in the first phase.
    const T* a = static_cast<const T*>(problem.a.data) + entry * problem.a.batch_stride +
                 row * problem.a.row_stride + x * problem.a.col_stride;
    const T* b = static_cast<const T*>(problem.b.data) + entry * problem.b.batch_stride +
                 y * problem.b.row_stride + column * problem.b.col_stride;
    Acc total{};
    for (int64_t segment = 0; segment < segment_count(problem.k); ++segment) {
      // Values of k from this phase to the segment's end.
      int left = static_cast<int>(segment_end(segment, problem.k) - segment_begin(segment));
      Chain<Acc> chain{};
      T a_next = has_row && x < left ? *a : T{}, b_next = has_column && y < left ? *b : T{};
      while (left > 0) {
        a_tile[y][x] = widen(a_next);
        b_tile[y][x] = widen(b_next);
        __syncthreads();
        left -= WIDTH, a += a_phase, b += b_phase;
        a_next = has_row && x < left ? *a : T{};  // on its way while this phase computes
        b_next = has_column && y < left ? *b : T{};
#pragma unroll
        for (int k = 0; k < WIDTH; ++k) chain = mul_add(a_tile[y][k], b_tile[k][x], chain);
        __syncthreads();
      }
      total = add(total, segment_sum(chain));
    }
    if (has_row && has_column) store_finished<T>(problem, total, entry, row, column);
  }
}

namespace {

template <int WIDTH>
Kernel<Problem> kernel_of(const Problem& problem) {
  return with_element_type(problem, [](auto tag) -> Kernel<Problem> {
    return &shared_tile<typename decltype(tag)::Type, WIDTH>;
  });
}

template <int WIDTH>
cudaError_t launch(const Call& call, const Step& step) {
  return launch_kernel(kernel_of<WIDTH>(call.problem), step, call.stream, call.problem);
}

template <int WIDTH>
const void* kernel(const Call& call) {
  return address_of(kernel_of<WIDTH>(call.problem));
}

}  // namespace

extern const RungLaunch SharedTile8Launch = {&launch<8>, &kernel<8>};
extern const RungLaunch SharedTile16Launch = {&launch<16>, &kernel<16>};
extern const RungLaunch SharedTile32Launch = {&launch<32>, &kernel<32>};

}  // namespace tiled
