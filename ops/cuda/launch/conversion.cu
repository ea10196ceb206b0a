// The kernels that a product needs beside the one of another dtype that computes it
// (plan/conversion.h): operands are copied, of complex numbers so that their parts are rows in
// turn, and a pass finishes the product's sums, of complex numbers combined. Bound by memory.
#include <algorithm>
#include <utility>

#include "cuda/launch/launch.h"
#include "cuda/parts/epilogue/finish.cuh"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/launch/launch.h"
#include "cuda/parts/schedule/sums.cuh"
#include "cuda/plan/repack_layout.h"

namespace tiled {
namespace {

constexpr int THREADS = SUMS_THREADS;
constexpr int VECTOR = SUMS_VECTOR;     // complex elements of a thread in the pass
constexpr int64_t MOST_BLOCKS = 65536;  // they go on by this stride

// A line of elements becomes a line of the copy, of complex numbers two lines. Lines are an
// operand's rows, or the values of one k of all rows: `rows` counts lines, and `k` their elements.
struct ConvertedCopy {
  Side from, to;
  int64_t entries;
  int32_t across;  // threads side by side along a line, a power of two
  int64_t pieces;  // of COPIED<From> * across elements, in a line
};
struct ConvertedCopies {
  ConvertedCopy operands[2];
};

// Elements of a thread's piece, which is loaded before it is stored.
template <typename From>
constexpr int COPIED = sizeof(From) == 2 ? 16 : 4;

template <typename From, typename To>
__global__ void __launch_bounds__(THREADS)
    copy_converted(const __grid_constant__ ConvertedCopies args) {
  let_the_next_start();
  wait_for_kernels_before();
  constexpr int LINES = sizeof(From) > sizeof(To) ? 2 : 1;  // of the copy, for one of elements
  constexpr int PIECE = COPIED<From>;
  const ConvertedCopy& x = args.operands[blockIdx.y];
  const uint32_t down = THREADS / x.across, rows = x.from.rows, pieces = x.pieces;
  const uint32_t count = x.entries * rows * pieces;  // below 2^28, as the workspace's elements are
  for (uint32_t i = blockIdx.x * down + threadIdx.x / x.across; i < count; i += gridDim.x * down) {
    const uint32_t piece = i % pieces, line = i / pieces, row = line % rows, entry = line / rows;
    const auto* from = static_cast<const From*>(x.from.data) + entry * x.from.batch_stride +
                       row * x.from.row_stride;
    To* const to = static_cast<To*>(const_cast<void*>(x.to.data)) + entry * x.to.batch_stride +
                   int64_t{LINES} * row * x.to.row_stride;
    const int64_t k0 = int64_t{piece} * PIECE * x.across + threadIdx.x % x.across;
    From values[PIECE];
#pragma unroll
    for (int j = 0; j < PIECE; ++j)
      if (const int64_t k = k0 + j * x.across; k < x.from.k) values[j] = from[k * x.from.k_stride];
#pragma unroll
    for (int j = 0; j < PIECE; ++j)
      if (const int64_t k = k0 + j * x.across; k < x.from.k) {
        if constexpr (LINES == 2)
          to[k] = values[j].re, to[k + x.to.row_stride] = values[j].im;
        else
          to[k] = widen(values[j]);
      }
  }
}

struct CombineArguments {
  const void* sums;  // real: [batch][2 m][pitch]
  int64_t pitch, entry_stride;
  Problem whole;
};

template <typename Real>
__global__ void __launch_bounds__(THREADS)
    combine_parts(const __grid_constant__ CombineArguments args) {
  let_the_next_start();
  wait_for_kernels_before();
  using Out = Complex<Real>;
  const ptx::CachePolicy policy = ptx::leave_first();
  const Problem& p = args.whole;
  const int64_t vectors = (p.n + VECTOR - 1) / VECTOR, count = p.m * vectors;
  for (int64_t entry = blockIdx.y; entry < p.batch; entry += gridDim.y) {
    const Real* const sums = static_cast<const Real*>(args.sums) + entry * args.entry_stride;
    Out* const c = static_cast<Out*>(p.c.data) + entry * p.c.batch_stride;
    for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < count;
         i += int64_t{gridDim.x} * THREADS) {
      const int64_t row = i / vectors, column = i % vectors * VECTOR;
      const Real* const from = sums + 2 * row * args.pitch + 2 * column;
      Loaded<Out> by_re, by_im;  // the sums of A's real parts, and of its imaginary ones
      by_re.load(reinterpret_cast<const Out*>(from), policy);
      by_im.load(reinterpret_cast<const Out*>(from + args.pitch), policy);
      Out re[VECTOR] = {}, im[VECTOR] = {}, total[VECTOR];
      by_re.add_to(re);
      by_im.add_to(im);
#pragma unroll
      for (int v = 0; v < VECTOR; ++v)
        total[v] =
            add(Out{}, segment_sum(FourChains<Real>{re[v].re, im[v].im, re[v].im, im[v].re}));
      if (!leaves_sums(p.epilogue)) finish_vector<Out>(p.epilogue, total, entry, row, column, p.n);
      store_vector(c + row * p.c.row_stride + column * p.c.col_stride, p.c.col_stride, total,
                   p.n - column);
    }
  }
}

// Lines of the copy as rows.
void turn(Side& side) {
  std::swap(side.rows, side.k);
  std::swap(side.row_stride, side.k_stride);
}

template <typename From>
ConvertedCopy copy_of(Side from, Side to, int64_t batch) {
  if (to.row_stride == 1 && to.k_stride != 1) turn(from), turn(to);
  ConvertedCopy x = {from, to, entries_of(to, batch), 1, 0};
  while (x.across < THREADS && x.across * COPIED<From> < from.k) x.across *= 2;
  x.pieces = blocks_over(from.k, int64_t{COPIED<From>} * x.across);
  return x;
}

Step step_of(int64_t blocks, int64_t grid_y) {
  Step step{};
  step.threads_x = THREADS, step.threads_y = 1;
  step.grid_x = std::clamp<int64_t>(blocks, 1, MOST_BLOCKS);
  step.grid_y = static_cast<int32_t>(std::min(grid_y, MAX_GRID_Y));
  return step;
}

template <typename From, typename To>
cudaError_t launch_copies(const Conversion& conversion, const Problem& product,
                          cudaStream_t stream) {
  ConvertedCopies copies{};
  int count = 0;
  if (conversion.copies_a)
    copies.operands[count++] =
        copy_of<From>(side_a(conversion.whole), side_a(product), product.batch);
  if (conversion.copies_b)
    copies.operands[count++] =
        copy_of<From>(side_b(conversion.whole), side_b(product), product.batch);
  if (count == 0) return cudaSuccess;
  int64_t blocks = 0;
  for (int i = 0; i < count; ++i) {
    const ConvertedCopy& x = copies.operands[i];
    blocks = std::max(blocks, blocks_over(x.entries * x.from.rows * x.pieces, THREADS / x.across));
  }
  return launch_early<ConvertedCopies>(&copy_converted<From, To>, step_of(blocks, count), stream,
                                       copies);
}

template <typename Real>
cudaError_t launch_combining(const Problem& whole, const Result& sums, cudaStream_t stream) {
  const CombineArguments pass = {sums.data, sums.row_stride, sums.batch_stride, whole};
  const int64_t vectors = whole.m * blocks_over(whole.n, VECTOR);
  return launch_early<CombineArguments>(
      &combine_parts<Real>, step_of(blocks_over(vectors, THREADS), whole.batch), stream, pass);
}

// Sums that are C's but for what comes behind them: a tree of one part.
cudaError_t launch_finishing(const Problem& whole, const Result& sums, cudaStream_t stream) {
  TreePass pass{};
  pass.problem = whole, pass.sums = sums.data, pass.parts = 1;
  pass.entry_stride = sums.batch_stride, pass.pitch = sums.row_stride;
  return launch_tree_sum(pass, stream);
}

using Pass = cudaError_t (*)(const Problem& whole, const Result& sums, cudaStream_t stream);

template <typename From, typename To>
cudaError_t launch_as(const Conversion& conversion, const Plan& plan, char* workspace,
                      cudaStream_t stream, Pass launch_pass) {
  Problem product = conversion.product;
  char* const a = workspace + workspace_aligned(plan.workspace_bytes);
  char* const b = a + conversion.a_bytes;
  if (conversion.copies_a) product.a.data = a;
  if (conversion.copies_b) product.b.data = b;
  product.c.data = b + conversion.b_bytes;
  cudaError_t error = launch_copies<From, To>(conversion, product, stream);
  if (error == cudaSuccess) error = launch(product, plan, workspace, stream);
  return error == cudaSuccess ? launch_pass(conversion.whole, product.c, stream) : error;
}

}  // namespace

cudaError_t launch_conversion(const Conversion& conversion, const Plan& plan, void* workspace,
                              cudaStream_t stream) {
  char* const at = static_cast<char*>(workspace);
  switch (conversion.whole.dtype) {
    case DType::Float16:
      return launch_as<__half, float>(conversion, plan, at, stream, &launch_finishing);
    case DType::BFloat16:
      return launch_as<__nv_bfloat16, float>(conversion, plan, at, stream, &launch_finishing);
    case DType::Complex64:
      return launch_as<Complex<float>, float>(conversion, plan, at, stream,
                                              &launch_combining<float>);
    default:
      return launch_as<Complex<double>, double>(conversion, plan, at, stream,
                                                &launch_combining<double>);
  }
}

}  // namespace tiled
