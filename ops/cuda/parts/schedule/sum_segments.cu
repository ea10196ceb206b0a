// The last kernel of split-K. The sums of segments are in a workspace: here each element's are
// added, in ascending order from +0, finished and rounded once. Where K is 0 there are none, and
// every sum is +0.
//
// Nothing here takes long but the way from L2, once for each BATCH of segments: their loads are all
// under way before the first is added. Past the last segment +0 is added, which changes no total:
// none of them is -0.
#include "cuda/parts/epilogue/finish.cuh"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/launch/launch_rung.h"
#include "cuda/parts/schedule/sums.cuh"

namespace tiled {
namespace {

constexpr int THREADS = SUMS_THREADS;
constexpr int VECTOR = SUMS_VECTOR;

struct SumArguments {
  const void* sums;  // [segments][batch][rows][pitch] of accumulators
  int64_t segments, segment_stride, entry_stride, pitch;
  int64_t rows, columns, batch;
  void* c;
  int64_t c_row, c_column, c_batch;  // strides, elements
  Epilogue epilogue;                 // of these rows and columns
};

template <typename Out>
__global__ void __launch_bounds__(THREADS) sum_segments(const __grid_constant__ SumArguments args) {
  let_the_next_start();
  wait_for_kernels_before();
  using Sum = Accumulator<Out>;
  constexpr int BATCH = 64 / sizeof(Sum);  // segments
  const ptx::CachePolicy policy = ptx::leave_first();
  const int64_t vectors = args.pitch / VECTOR;
  const int64_t count = args.rows * vectors;
  for (int64_t entry = blockIdx.y; entry < args.batch; entry += gridDim.y) {
    const Sum* sums = static_cast<const Sum*>(args.sums) + entry * args.entry_stride;
    Out* c = static_cast<Out*>(args.c) + entry * args.c_batch;
    for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < count;
         i += int64_t{gridDim.x} * THREADS) {
      const int64_t row = i / vectors, column = i % vectors * VECTOR;
      const Sum* from = sums + row * args.pitch + column;
      Sum total[VECTOR] = {};
#pragma unroll 1
      for (int64_t s = 0; s < args.segments; s += BATCH) {
        Loaded<Sum> loaded[BATCH] = {};
#pragma unroll
        for (int j = 0; j < BATCH; ++j)
          if (s + j < args.segments) loaded[j].load(from + (s + j) * args.segment_stride, policy);
#pragma unroll
        for (int j = 0; j < BATCH; ++j) loaded[j].add_to(total);
      }
      if (!leaves_sums(args.epilogue))
        finish_vector<Out>(args.epilogue, total, entry, row, column, args.columns);
      store_vector(c + row * args.c_row + column * args.c_column, args.c_column, total,
                   args.columns - column);
    }
  }
}

}  // namespace

cudaError_t launch_sums(const Call& call, const Step& step) {
  const Problem problem = problem_of_pass(call, step);
  const SumsLayout layout = sums_layout(problem);
  SumArguments args{};
  args.sums = layout.segments == 0 ? nullptr : call.at<void>(Area::Totals);
  args.segments = layout.segments, args.segment_stride = layout.entry * problem.batch;
  args.entry_stride = layout.entry, args.pitch = layout.pitch;
  args.rows = layout.rows, args.columns = layout.columns, args.batch = problem.batch;
  args.c = problem.c.data;
  args.c_row = layout.along_m ? problem.c.col_stride : problem.c.row_stride;
  args.c_column = layout.along_m ? problem.c.row_stride : problem.c.col_stride;
  args.c_batch = problem.c.batch_stride;
  args.epilogue = layout.along_m ? transposed(problem.epilogue) : problem.epilogue;
  const auto kernel = with_element_type(
      problem.epilogue.out_dtype,
      [](auto tag) -> Kernel<SumArguments> { return &sum_segments<typename decltype(tag)::Type>; });
  return launch_early(kernel, step, call.stream, args);
}

}  // namespace tiled
