// The last kernel of split-K. The sums of segments are in a workspace: here each element's are
// added, in ascending order from +0, finished and rounded once. Where K is 0 there are none, and
// every sum is +0.
//
// Nothing here takes long but the way from L2, once for each BATCH of segments: their loads are all
// under way before the first is added. Past the last segment +0 is added, which changes no total:
// none of them is -0.
#include "cuda/parts/early_start.cuh"
#include "cuda/parts/finish.cuh"
#include "cuda/parts/launch_rung.h"
#include "cuda/plan/sums.h"
#include "cuda/plan/turned.h"
#include "cuda/ptx/global.cuh"

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

// VECTOR accumulators as they come from L2.
template <typename Sum>
struct Loaded {
  static constexpr int WORDS = VECTOR * sizeof(Sum) / sizeof(uint4);
  uint4 words[WORDS];

  __device__ __forceinline__ void load(const Sum* from, ptx::CachePolicy policy) {
#pragma unroll
    for (int i = 0; i < WORDS; ++i)
      words[i] = ptx::load_global(reinterpret_cast<const uint4*>(from) + i, policy);
  }
  __device__ __forceinline__ void add_to(Sum (&total)[VECTOR]) const {
    const auto& sums = reinterpret_cast<const Sum(&)[VECTOR]>(words);
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) total[i] = add(total[i], sums[i]);
  }
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

cudaError_t launch_sums(const Call& call, const Step& step) {
  const Problem problem = step.key == TRANSPOSED ? turned(call.problem) : call.problem;
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
