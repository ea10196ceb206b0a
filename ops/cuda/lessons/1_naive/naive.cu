// Lesson 1, naive. One thread computes one element of C and reads all it needs from global memory.
//
//              n ->                      Each step of the loop loads one element of A and one of B
//         B  . . | . .                   and does one multiply-add: 2 flops for 2 loads, whatever
//     k   v  . . | . .                   the size of the problem. An element of A is loaded by N
//            . . | . .                   threads and an element of B by M of them; only the caches
//  A         . . v . .                   save the memory from that.
//  . . . .
//  - - - >   . . C . .   <- one thread
//  . . . .
//
// Preconditions: none; every shape, stride and alignment.
// Bound by: the load/store units. Two loads for each multiply-add, all of them through L1.
// Measured: a few hundredths of cuBLAS in fp32, and less the larger the problem (docs/ladder.md).
// Next: lesson 2 loads every element once per tile and shares it between the threads of a block.
#include "core/segments.h"
#include "cuda/parts/arithmetic/signed_bytes.cuh"
#include "cuda/parts/epilogue/finish.cuh"
#include "cuda/parts/launch/launch_rung.h"

namespace tiled {

// Called, so that an epilogue that few products have takes no registers from the loop.
template <typename T>
__device__ __noinline__ Accumulator<T> finish_apart(const Epilogue& e, Accumulator<T> sum,
                                                    int64_t entry, int64_t row, int64_t column) {
  return finish<T>(e, sum, entry, row, column);
}

template <typename T>
__global__ void naive(const __grid_constant__ Problem problem) {
  const int64_t tiles_n = (problem.n + blockDim.x - 1) / blockDim.x;
  const int64_t row = blockIdx.x / tiles_n * blockDim.y + threadIdx.y;
  const int64_t column = blockIdx.x % tiles_n * blockDim.x + threadIdx.x;
  if (row >= problem.m || column >= problem.n) return;

  for (int64_t entry = blockIdx.y; entry < problem.batch; entry += gridDim.y) {
    const T* a = static_cast<const T*>(problem.a.data) + entry * problem.a.batch_stride +
                 row * problem.a.row_stride;
    const T* b = static_cast<const T*>(problem.b.data) + entry * problem.b.batch_stride +
                 column * problem.b.col_stride;
    Accumulator<T> total{};
    for (int64_t segment = 0; segment < segment_count(problem.k); ++segment) {
      Chain<Accumulator<T>> chain{};
      for (int64_t k = segment_begin(segment); k < segment_end(segment, problem.k); ++k)
        chain =
            mul_add(widen(a[k * problem.a.col_stride]), widen(b[k * problem.b.row_stride]), chain);
      total = add(total, segment_sum(chain));
    }
    if (!leaves_sums(problem.epilogue))
      total = finish_apart<T>(problem.epilogue, total, entry, row, column);
    store<T>(
        problem.c.data,
        entry * problem.c.batch_stride + row * problem.c.row_stride + column * problem.c.col_stride,
        total, stores_accumulator(problem));
  }
}

namespace {

Kernel<Problem> kernel_of(const Problem& problem) {
  return with_element_type(
      problem, [](auto tag) -> Kernel<Problem> { return &naive<typename decltype(tag)::Type>; });
}

cudaError_t launch(const Call& call, const Step& step) {
  return launch_kernel(kernel_of(call.problem), step, call.stream, call.problem);
}

const void* kernel(const Call& call) { return address_of(kernel_of(call.problem)); }

}  // namespace

extern const RungLaunch NaiveLaunch = {&launch, &kernel};

}  // namespace tiled
