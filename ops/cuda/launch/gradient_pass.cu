// Two steps. The first reads the gradient once: a thread takes one group of 32 rows of a few
// columns, so that it alone adds up their sums, in registers, and neighbours take the next columns.
// It writes 1/32 of a row of sums for every row, 3 % of what it moves.
//
//     columns ->            thread (0, 0)   thread (0, 1)   ...
//     rows 0 .. 31           [COUNT] sums    [COUNT] sums           to sums[0]
//     rows 32 .. 63         thread (1, 0)   ...                     to sums[1]
//
// The second adds 32 times 32 of these rows of sums to one, two levels of the order in one launch:
// up to 32768 rows take one such launch, and up to 2^25 two.
//
// Bound by: memory where a group of 16 bytes a thread fills the GPU; the derivative's arithmetic
// where gelu is asked of 16-bit gradients. Small matrices take one column a thread: eight times the
// threads, and the bits are the same.
#include "core/activation_gradient.h"
#include "cuda/launch/gradient_pass.h"
#include "cuda/parts/element.cuh"

namespace tiled {
namespace {

constexpr int THREADS = 128;
constexpr int ROWS_AHEAD = 4;              // in flight at once, for every thread
constexpr int64_t ENOUGH_THREADS = 65536;  // below it, a column a thread
constexpr int64_t SUMMED_BY_BLOCK = SUMMED_AT_ONCE * SUMMED_AT_ONCE;
static_assert(SUMMED_AT_ONCE % ROWS_AHEAD == 0, "whole steps");

// Sums on their way, or the bias' gradient: rows of `columns` elements.
struct SumRows {
  void* data;
  DType dtype;
};

template <typename T, int COUNT>
struct alignas(COUNT * sizeof(T)) Neighbours {
  T values[COUNT];
};

// The same as they are loaded: 16 bytes wait in four registers, whatever is made of them.
template <typename Vector>
using Loaded = std::conditional_t<sizeof(Vector) == sizeof(uint4), uint4, Vector>;

// A sum, rounded once where the rows are not of its type.
__device__ __forceinline__ void store_sum(const SumRows& rows, int64_t index, float sum) {
  switch (rows.dtype) {
    case DType::Float16: return store<__half>(rows.data, index, sum, false);
    case DType::BFloat16: return store<__nv_bfloat16>(rows.data, index, sum, false);
    default: return store<float>(rows.data, index, sum, false);
  }
}
__device__ __forceinline__ void store_sum(const SumRows& rows, int64_t index, double sum) {
  store<double>(rows.data, index, sum, false);
}

}  // namespace

// COUNT above 1 wants neighbours in a row of every matrix, on multiples of COUNT elements.
template <typename T, Activation ACTIVATION, int COUNT>
__global__ void __launch_bounds__(THREADS, sizeof(Accumulator<T>) == 4 ? 6 : 5)
    pass_back(const __grid_constant__ GradientPass pass, const __grid_constant__ SumRows out) {
  using Acc = Accumulator<T>;
  using Vector = Neighbours<T, COUNT>;
  constexpr bool READS_BEFORE = ACTIVATION != Activation::None;
  const int64_t across = pass.columns / COUNT;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
  const int64_t group = at / across, column = at % across * COUNT;
  const int64_t end = min(pass.rows, (group + 1) * SUMMED_AT_ONCE);

  const auto load = [&](const GradientOperand& x, int64_t row) {
    return *reinterpret_cast<const Loaded<Vector>*>(static_cast<const T*>(x.data) +
                                                    row * x.row_stride + column * x.col_stride);
  };
  Acc sums[COUNT] = {};
  for (int64_t row = group * SUMMED_AT_ONCE; row < end; row += ROWS_AHEAD) {
    Loaded<Vector> gradient[ROWS_AHEAD], before[ROWS_AHEAD];
#pragma unroll
    for (int i = 0; i < ROWS_AHEAD; ++i) {
      if (row + i >= end) break;
      gradient[i] = load(pass.gradient, row + i);
      if constexpr (READS_BEFORE) before[i] = load(pass.before, row + i);
    }
#pragma unroll
    for (int i = 0; i < ROWS_AHEAD; ++i) {
      if (row + i >= end) break;
      Vector result;
      const auto& g = reinterpret_cast<const Vector&>(gradient[i]);
      const auto& b = reinterpret_cast<const Vector&>(before[i]);
#pragma unroll
      for (int j = 0; j < COUNT; ++j) {
        Acc x{};
        if constexpr (READS_BEFORE) x = widen(b.values[j]);
        const PassedBack<Acc> passed = passed_back(ACTIVATION, widen(g.values[j]), x, sums[j]);
        result.values[j] = Round<T, Acc>::from(passed.gradient);
        sums[j] = passed.sum;
      }
      if (pass.result != nullptr)
        *reinterpret_cast<Vector*>(static_cast<T*>(pass.result) + (row + i) * pass.columns +
                                   column) = result;
    }
  }
  if (out.data == nullptr || group * SUMMED_AT_ONCE >= pass.rows) return;
#pragma unroll
  for (int j = 0; j < COUNT; ++j) store_sum(out, group * pass.columns + column + j, sums[j]);
}

// Row y of `out` becomes the sum of up to 32 * 32 rows of sums from row 1024 y on: a warp adds up
// 32 of them, each lane a column, and the first warp what the warps have.
template <typename Acc>
__global__ void add_sums(const Acc* __restrict__ sums, const __grid_constant__ SumRows out,
                         int64_t count, int64_t columns) {
  __shared__ Acc of_warp[SUMMED_AT_ONCE][32];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x;
  const int64_t begin = blockIdx.y * SUMMED_BY_BLOCK + threadIdx.y * SUMMED_AT_ONCE;
  Acc sum{};
  if (column < columns) {
#pragma unroll 8
    for (int64_t i = begin; i < min(count, begin + SUMMED_AT_ONCE); ++i)
      sum += sums[i * columns + column];
  }
  of_warp[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= columns) return;
  Acc total{};
  for (int i = 0; i < blockDim.y; ++i) total += of_warp[i][threadIdx.x];
  store_sum(out, blockIdx.y * columns + column, total);
}

namespace {

int64_t blocks_of_sums(int64_t count) { return (count + SUMMED_BY_BLOCK - 1) / SUMMED_BY_BLOCK; }

// Rows of sums that wait while `count` of them are added up: the first step's, and what each launch
// of the second but the last leaves of those before it.
int64_t waiting_rows(int64_t count) {
  if (count == 1) return 0;
  int64_t rows = count;
  while ((count = blocks_of_sums(count)) > 1) rows += count;
  return rows;
}

template <typename Acc>
cudaError_t launch_add_sums(const GradientPass& pass, Acc* sums, cudaStream_t stream) {
  const unsigned across = static_cast<unsigned>((pass.columns + 31) / 32);
  for (int64_t count = sum_groups(pass.rows); count > 1;) {
    const int64_t left = blocks_of_sums(count);
    Acc* const next = sums + count * pass.columns;
    const SumRows out =
        left == 1 ? SumRows{pass.bias, pass.bias_dtype} : SumRows{next, pass.sum_dtype()};
    const dim3 grid(across, static_cast<unsigned>(left));
    const dim3 block(32, static_cast<unsigned>(min(SUMMED_AT_ONCE, sum_groups(count))));
    add_sums<Acc><<<grid, block, 0, stream>>>(sums, out, count, pass.columns);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
    sums = next;
    count = left;
  }
  return cudaSuccess;
}

// Whether rows can be read COUNT elements at a time.
template <typename T>
bool in_vectors(const GradientPass& pass, int count) {
  const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
  const auto fits = [&](const GradientOperand& x) {
    return x.col_stride == 1 && x.row_stride % count == 0 &&
           reinterpret_cast<uintptr_t>(x.data) % bytes == 0;
  };
  return pass.columns % count == 0 && fits(pass.gradient) &&
         (pass.activation == Activation::None || fits(pass.before)) &&
         reinterpret_cast<uintptr_t>(pass.result) % bytes == 0;
}

template <typename T, Activation ACTIVATION>
cudaError_t launch_first(const GradientPass& pass, const SumRows& out, cudaStream_t stream) {
  constexpr int COUNT = 16 / sizeof(T);
  const int64_t groups = sum_groups(pass.rows);
  const bool wide = in_vectors<T>(pass, COUNT) && groups * pass.columns >= COUNT * ENOUGH_THREADS;
  const int64_t threads = groups * pass.columns / (wide ? COUNT : 1);
  const auto kernel = wide ? &pass_back<T, ACTIVATION, COUNT> : &pass_back<T, ACTIVATION, 1>;
  const unsigned blocks = static_cast<unsigned>((threads + THREADS - 1) / THREADS);
  kernel<<<blocks, THREADS, 0, stream>>>(pass, out);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch_of(const GradientPass& pass, void* workspace, cudaStream_t stream) {
  SumRows out = {workspace, pass.sum_dtype()};
  if (pass.bias == nullptr || sum_groups(pass.rows) == 1) out = {pass.bias, pass.bias_dtype};
  const auto first = [&] {
    switch (pass.activation) {
      case Activation::None: return launch_first<T, Activation::None>(pass, out, stream);
#define ACTIVATION(activation, name) \
  case Activation::activation: return launch_first<T, Activation::activation>(pass, out, stream);
#include "core/activations.inc"
    }
    return cudaErrorInvalidValue;
  };
  if (const cudaError_t error = first(); error != cudaSuccess || pass.bias == nullptr) return error;
  return launch_add_sums(pass, static_cast<Accumulator<T>*>(workspace), stream);
}

}  // namespace

int64_t pass_back_workspace(const GradientPass& pass) {
  if (pass.bias == nullptr) return 0;
  return waiting_rows(sum_groups(pass.rows)) * pass.columns * size_of(pass.sum_dtype());
}

cudaError_t launch_pass_back(const GradientPass& pass, void* workspace, cudaStream_t stream) {
  switch (pass.dtype) {
    case DType::Float32: return launch_of<float>(pass, workspace, stream);
    case DType::Float64: return launch_of<double>(pass, workspace, stream);
    case DType::Float16: return launch_of<__half>(pass, workspace, stream);
    case DType::BFloat16: return launch_of<__nv_bfloat16>(pass, workspace, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace tiled
