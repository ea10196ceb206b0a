// What a complex product needs beside a real one (plan/real_parts.h): operands are copied so that
// their parts are rows in turn, and a pass combines the product's sums and finishes them. Bound by
// memory.
#include <algorithm>

#include "cuda/launch/launch.h"
#include "cuda/parts/early_start.cuh"
#include "cuda/parts/finish.cuh"
#include "cuda/parts/launch.h"
#include "cuda/parts/sums.cuh"
#include "cuda/plan/repack_layout.h"

namespace tiled {
namespace {

constexpr int THREADS = SUMS_THREADS;
constexpr int VECTOR = SUMS_VECTOR;     // complex elements of a thread in the pass
constexpr int COPIED = 4;               // and of a thread's piece of a copy
constexpr int64_t MOST_BLOCKS = 65536;  // they go on by this stride

struct PartsCopy {
  Side from;  // complex
  Side to;    // real: rows 2 i and 2 i + 1 are row i's parts
  int64_t entries;
  int32_t across;  // threads side by side along K, a power of two
  int64_t pieces;  // of COPIED * across elements, in a row
};
struct PartsCopies {
  PartsCopy operands[2];
};

template <typename Real>
__global__ void __launch_bounds__(THREADS) copy_parts(const __grid_constant__ PartsCopies args) {
  let_the_next_start();
  wait_for_kernels_before();
  const PartsCopy& x = args.operands[blockIdx.y];
  const int down = THREADS / x.across;
  const int64_t count = x.entries * x.from.rows * x.pieces;
  for (int64_t i = int64_t{blockIdx.x} * down + threadIdx.x / x.across; i < count;
       i += int64_t{gridDim.x} * down) {
    const int64_t piece = i % x.pieces, line = i / x.pieces;
    const int64_t row = line % x.from.rows, entry = line / x.from.rows;
    const auto* from = static_cast<const Complex<Real>*>(x.from.data) +
                       entry * x.from.batch_stride + row * x.from.row_stride;
    Real* const re = static_cast<Real*>(const_cast<void*>(x.to.data)) + entry * x.to.batch_stride +
                     2 * row * x.to.row_stride;
    Real* const im = re + x.to.row_stride;
    const int64_t k0 = piece * COPIED * x.across + threadIdx.x % x.across;
    Complex<Real> values[COPIED];
#pragma unroll
    for (int j = 0; j < COPIED; ++j)
      if (const int64_t k = k0 + j * x.across; k < x.from.k) values[j] = from[k * x.from.k_stride];
#pragma unroll
    for (int j = 0; j < COPIED; ++j)
      if (const int64_t k = k0 + j * x.across; k < x.from.k)
        re[k] = values[j].re, im[k] = values[j].im;
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

PartsCopy copy_of(const Side& from, const Side& to, int64_t batch) {
  PartsCopy x = {from, to, entries_of(to, batch), 1, 0};
  while (x.across < THREADS && x.across * COPIED < from.k) x.across *= 2;
  x.pieces = blocks_over(from.k, int64_t{COPIED} * x.across);
  return x;
}

Step step_of(int64_t blocks, int64_t grid_y) {
  Step step{};
  step.threads_x = THREADS, step.threads_y = 1;
  step.grid_x = std::clamp<int64_t>(blocks, 1, MOST_BLOCKS);
  step.grid_y = static_cast<int32_t>(std::min(grid_y, MAX_GRID_Y));
  return step;
}

template <typename Real>
cudaError_t launch_copies(const RealParts& parts, const Problem& product, cudaStream_t stream) {
  PartsCopies copies{};
  int count = 0;
  if (parts.copies_a)
    copies.operands[count++] = copy_of(side_a(parts.whole), side_a(product), product.batch);
  if (parts.copies_b)
    copies.operands[count++] = copy_of(side_b(parts.whole), side_b(product), product.batch);
  int64_t blocks = 0;
  for (int i = 0; i < count; ++i) {
    const PartsCopy& x = copies.operands[i];
    blocks = std::max(blocks, blocks_over(x.entries * x.from.rows * x.pieces, THREADS / x.across));
  }
  return launch_early<PartsCopies>(&copy_parts<Real>, step_of(blocks, count), stream, copies);
}

template <typename Real>
cudaError_t launch_as(const RealParts& parts, const Plan& plan, char* workspace,
                      cudaStream_t stream) {
  Problem product = parts.product;
  char* const a = workspace + workspace_aligned(plan.workspace_bytes);
  char* const b = a + parts.a_bytes;
  char* const r = b + parts.b_bytes;
  if (parts.copies_a) product.a.data = a;
  if (parts.copies_b) product.b.data = b;
  product.c.data = r;
  if (parts.copies_a || parts.copies_b)
    if (const cudaError_t error = launch_copies<Real>(parts, product, stream); error != cudaSuccess)
      return error;
  if (const cudaError_t error = launch(product, plan, workspace, stream); error != cudaSuccess)
    return error;
  const Problem& whole = parts.whole;
  const CombineArguments pass = {r, product.c.row_stride, product.c.batch_stride, whole};
  const int64_t vectors = whole.m * blocks_over(whole.n, VECTOR);
  return launch_early<CombineArguments>(
      &combine_parts<Real>, step_of(blocks_over(vectors, THREADS), whole.batch), stream, pass);
}

}  // namespace

cudaError_t launch_real_parts(const RealParts& parts, const Plan& plan, void* workspace,
                              cudaStream_t stream) {
  const auto launch =
      parts.product.dtype == DType::Float32 ? &launch_as<float> : &launch_as<double>;
  return launch(parts, plan, static_cast<char*>(workspace), stream);
}

}  // namespace tiled
