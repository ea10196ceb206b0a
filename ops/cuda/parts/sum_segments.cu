// Where segments of K were shared out among blocks, their sums wait in a workspace: here each
// element's are added, in ascending order from +0, finished and rounded once.
#include <algorithm>

#include "cuda/parts/finish.cuh"
#include "cuda/parts/launch_early.h"
#include "cuda/parts/repack.h"
#include "cuda/ptx/cluster.cuh"

namespace tiled {
namespace {

constexpr int THREADS = 256;
constexpr int VECTOR = 4;               // elements of a thread, neighbours in a row
constexpr int64_t MOST_BLOCKS = 65536;  // of an entry; they go on by this stride

struct SumArguments {
  const float* sums;  // [segments][batch][rows][pitch]
  int64_t segments, segment_stride, entry_stride, pitch;
  int64_t rows, columns;
  void* c;
  int64_t c_row, c_column, c_batch;  // strides, elements
  Epilogue epilogue;                 // of these rows and columns
};

template <typename Out>
__global__ void __launch_bounds__(THREADS) sum_segments(const __grid_constant__ SumArguments args) {
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
  const int64_t vectors = args.pitch / VECTOR;
  const int64_t count = args.rows * vectors;
  const float* sums = args.sums + blockIdx.y * args.entry_stride;
  Out* c = static_cast<Out*>(args.c) + blockIdx.y * args.c_batch;
  for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * THREADS) {
    const int64_t row = i / vectors, column = i % vectors * VECTOR;
    const float* from = sums + row * args.pitch + column;
    float total[VECTOR] = {};
#pragma unroll 4
    for (int64_t s = 0; s < args.segments; ++s) {
      const float4 sum = __ldcg(reinterpret_cast<const float4*>(from + s * args.segment_stride));
      total[0] += sum.x, total[1] += sum.y, total[2] += sum.z, total[3] += sum.w;
    }
    if (!leaves_sums(args.epilogue))
      finish_vector<Out>(args.epilogue, total, blockIdx.y, row, column, args.columns);
    Out out[VECTOR];
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) out[j] = Round<Out, float>::from(total[j]);
    Out* to = c + row * args.c_row + column * args.c_column;
    if (args.c_column == 1 && column + VECTOR <= args.columns &&
        reinterpret_cast<uintptr_t>(to) % sizeof(out) == 0) {
      struct alignas(sizeof(out)) Vector {
        Out values[VECTOR];
      };
      *reinterpret_cast<Vector*>(to) = reinterpret_cast<const Vector&>(out);
    } else {
      for (int j = 0; j < VECTOR && column + j < args.columns; ++j) to[j * args.c_column] = out[j];
    }
  }
}

}  // namespace

cudaError_t launch_sum_segments(const Problem& problem, const float* sums, int64_t segments,
                                bool along_m, int64_t pitch, int64_t entry, cudaStream_t stream) {
  SumArguments args;
  args.sums = sums;
  args.segments = segments, args.segment_stride = entry * problem.batch;
  args.entry_stride = entry, args.pitch = pitch;
  args.rows = along_m ? problem.n : problem.m, args.columns = along_m ? problem.m : problem.n;
  args.c = problem.c.data;
  args.c_row = along_m ? problem.c.col_stride : problem.c.row_stride;
  args.c_column = along_m ? problem.c.row_stride : problem.c.col_stride;
  args.c_batch = problem.c.batch_stride;
  args.epilogue = along_m ? transposed(problem.epilogue) : problem.epilogue;
  const void* kernel = nullptr;
  switch (problem.epilogue.out_dtype) {
    case DType::Float16: kernel = reinterpret_cast<const void*>(&sum_segments<__half>); break;
    case DType::BFloat16:
      kernel = reinterpret_cast<const void*>(&sum_segments<__nv_bfloat16>);
      break;
    default: kernel = reinterpret_cast<const void*>(&sum_segments<float>);
  }
  const int64_t blocks = blocks_over(args.rows * (pitch / VECTOR), THREADS);
  const dim3 grid(static_cast<unsigned>(std::min(blocks, MOST_BLOCKS)),
                  static_cast<unsigned>(problem.batch));
  return launch_early(kernel, grid, THREADS, /*shared=*/0, /*cluster=*/0, stream, &args);
}

}  // namespace tiled
