// Where segments of K were shared out among blocks, their sums wait in a workspace: here each
// element's are added, in ascending order from +0, finished and rounded once. Where K is 0 there
// are none, and every sum is +0: of fp64 that is all there is to do.
#include "cuda/parts/finish.cuh"
#include "cuda/parts/launch.h"
#include "cuda/parts/repack.h"
#include "cuda/ptx/cluster.cuh"

namespace tiled {
namespace {

constexpr int THREADS = SUMS_THREADS;
constexpr int VECTOR = SUMS_VECTOR;

struct SumArguments {
  const float* sums;  // [segments][batch][rows][pitch]
  int64_t segments, segment_stride, entry_stride, pitch;
  int64_t rows, columns, batch;
  void* c;
  int64_t c_row, c_column, c_batch;  // strides, elements
  Epilogue epilogue;                 // of these rows and columns
};

template <typename Out>
__global__ void __launch_bounds__(THREADS) sum_segments(const __grid_constant__ SumArguments args) {
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
  using Sum = Accumulator<Out>;
  const int64_t vectors = args.pitch / VECTOR;
  const int64_t count = args.rows * vectors;
  for (int64_t entry = blockIdx.y; entry < args.batch; entry += gridDim.y) {
    const float* sums = args.sums + entry * args.entry_stride;
    Out* c = static_cast<Out*>(args.c) + entry * args.c_batch;
    for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < count;
         i += int64_t{gridDim.x} * THREADS) {
      const int64_t row = i / vectors, column = i % vectors * VECTOR;
      const float* from = sums + row * args.pitch + column;
      Sum total[VECTOR] = {};
      if constexpr (std::is_same_v<Sum, float>) {
#pragma unroll 4
        for (int64_t s = 0; s < args.segments; ++s) {
          const float4 sum =
              __ldcg(reinterpret_cast<const float4*>(from + s * args.segment_stride));
          total[0] += sum.x, total[1] += sum.y, total[2] += sum.z, total[3] += sum.w;
        }
      }
      if (!leaves_sums(args.epilogue))
        finish_vector<Out>(args.epilogue, total, entry, row, column, args.columns);
      Out out[VECTOR];
#pragma unroll
      for (int j = 0; j < VECTOR; ++j) out[j] = Round<Out, Sum>::from(total[j]);
      Out* to = c + row * args.c_row + column * args.c_column;
      if (args.c_column == 1 && column + VECTOR <= args.columns &&
          reinterpret_cast<uintptr_t>(to) % sizeof(out) == 0) {
        struct alignas(sizeof(out) < 16 ? sizeof(out) : 16) Vector {
          Out values[VECTOR];
        };
        *reinterpret_cast<Vector*>(to) = reinterpret_cast<const Vector&>(out);
      } else {
        for (int j = 0; j < VECTOR && column + j < args.columns; ++j)
          to[j * args.c_column] = out[j];
      }
    }
  }
}

}  // namespace

cudaError_t launch_sum_segments(const Problem& problem, const SumsLayout& layout, const float* sums,
                                const Step& step, cudaStream_t stream) {
  SumArguments args{};
  args.sums = sums;
  args.segments = layout.segments, args.segment_stride = layout.entry * problem.batch;
  args.entry_stride = layout.entry, args.pitch = layout.pitch;
  args.rows = layout.rows, args.columns = layout.columns, args.batch = problem.batch;
  args.c = problem.c.data;
  args.c_row = layout.along_m ? problem.c.col_stride : problem.c.row_stride;
  args.c_column = layout.along_m ? problem.c.row_stride : problem.c.col_stride;
  args.c_batch = problem.c.batch_stride;
  args.epilogue = layout.along_m ? transposed(problem.epilogue) : problem.epilogue;
  Kernel<SumArguments> kernel = &sum_segments<float>;
  if (problem.epilogue.out_dtype == DType::Float16) kernel = &sum_segments<__half>;
  if (problem.epilogue.out_dtype == DType::BFloat16) kernel = &sum_segments<__nv_bfloat16>;
  if (problem.epilogue.out_dtype == DType::Float64) kernel = &sum_segments<double>;
  return launch_early(kernel, step, stream, args);
}

}  // namespace tiled
