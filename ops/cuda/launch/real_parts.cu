// What a complex product needs beside a real one (plan/real_parts.h): operands are copied so that
// their parts are rows in turn, and a pass combines the product's sums and finishes them. Bound by
// memory.
#include <algorithm>

#include "cuda/launch/launch.h"
#include "cuda/launch/real_parts.h"
#include "cuda/parts/early_start.cuh"
#include "cuda/parts/finish.cuh"
#include "cuda/parts/launch.h"
#include "cuda/parts/sums.cuh"
#include "cuda/plan/sides.h"

namespace tiled {
namespace {

constexpr int THREADS = SUMS_THREADS;
constexpr int VECTOR = SUMS_VECTOR;     // complex elements of a thread in the pass
constexpr int PIECES = 2;               // of a thread in a copy, under way at once
constexpr int64_t MOST_BLOCKS = 65536;  // they go on by this stride

// Neighbours along K whose real parts are 16 bytes, as their imaginary ones are.
template <typename Real>
constexpr int PIECE = 16 / sizeof(Real);

struct PartsCopy {
  Side from;  // complex
  Side to;    // real: rows 2 i and 2 i + 1 are row i's parts
  int64_t entries;
  bool by_vectors;    // pieces are read by 16 bytes
  int32_t across;     // threads side by side along K, a power of two
  int64_t stretches;  // of PIECES * across pieces, in a row
};
struct PartsCopies {
  PartsCopy operands[2];
};

// The piece from `from` on, in which so many elements exist; those behind them are 0.
template <typename Real>
__device__ __forceinline__ void load_piece(Complex<Real> (&piece)[PIECE<Real>],
                                           const Complex<Real>* from, int64_t stride, int64_t exist,
                                           bool by_vectors) {
  if (by_vectors && exist >= PIECE<Real>) {
    auto& words = reinterpret_cast<uint4(&)[2]>(piece);
    words[0] = reinterpret_cast<const uint4*>(from)[0];
    words[1] = reinterpret_cast<const uint4*>(from)[1];
    return;
  }
#pragma unroll
  for (int i = 0; i < PIECE<Real>; ++i) piece[i] = i < exist ? from[i * stride] : Complex<Real>{};
}

template <typename Real>
__global__ void __launch_bounds__(THREADS) copy_parts(const __grid_constant__ PartsCopies args) {
  let_the_next_start();
  wait_for_kernels_before();
  const PartsCopy& x = args.operands[blockIdx.y];
  const int down = THREADS / x.across;
  const int64_t count = x.entries * x.from.rows * x.stretches;
  for (int64_t i = int64_t{blockIdx.x} * down + threadIdx.x / x.across; i < count;
       i += int64_t{gridDim.x} * down) {
    const int64_t stretch = i % x.stretches, line = i / x.stretches;
    const int64_t row = line % x.from.rows, entry = line / x.from.rows;
    const auto* from = static_cast<const Complex<Real>*>(x.from.data) +
                       entry * x.from.batch_stride + row * x.from.row_stride;
    Real* const re = static_cast<Real*>(const_cast<void*>(x.to.data)) + entry * x.to.batch_stride +
                     2 * row * x.to.row_stride;
    Real* const im = re + x.to.row_stride;
    const int64_t first = stretch * PIECES * x.across + threadIdx.x % x.across;
    const auto k_of = [&](int j) { return (first + j * x.across) * PIECE<Real>; };
    alignas(16) Complex<Real> pieces[PIECES][PIECE<Real>];
#pragma unroll
    for (int j = 0; j < PIECES; ++j)
      if (const int64_t k = k_of(j); k < x.from.k)
        load_piece(pieces[j], from + k * x.from.k_stride, x.from.k_stride, x.from.k - k,
                   x.by_vectors);
    // A row of the copy has room for whole pieces.
#pragma unroll
    for (int j = 0; j < PIECES; ++j) {
      const int64_t k = k_of(j);
      if (k >= x.from.k) break;
      alignas(16) Real parts[2][PIECE<Real>];
#pragma unroll
      for (int p = 0; p < PIECE<Real>; ++p)
        parts[0][p] = pieces[j][p].re, parts[1][p] = pieces[j][p].im;
      *reinterpret_cast<uint4*>(re + k) = reinterpret_cast<const uint4&>(parts[0]);
      *reinterpret_cast<uint4*>(im + k) = reinterpret_cast<const uint4&>(parts[1]);
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

template <typename Real>
PartsCopy copy_of(const Side& from, const Side& to, int64_t batch) {
  PartsCopy x = {from, to, to.batch_stride == 0 ? 1 : batch, false, 1, 0};
  x.by_vectors = from.k_stride == 1 && from.alignment == 16;
  const int64_t pieces = blocks_over(from.k, PIECE<Real>);
  while (x.across < THREADS && x.across * PIECES < pieces) x.across *= 2;
  x.stretches = blocks_over(pieces, int64_t{PIECES} * x.across);
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
    copies.operands[count++] = copy_of<Real>(side_a(parts.whole), side_a(product), product.batch);
  if (parts.copies_b)
    copies.operands[count++] = copy_of<Real>(side_b(parts.whole), side_b(product), product.batch);
  int64_t blocks = 0;
  for (int i = 0; i < count; ++i) {
    const PartsCopy& x = copies.operands[i];
    blocks =
        std::max(blocks, blocks_over(x.entries * x.from.rows * x.stretches, THREADS / x.across));
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
