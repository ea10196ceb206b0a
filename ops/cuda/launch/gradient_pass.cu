// Two steps. The first reads the gradient once. A block takes one of the groups of 32 rows that are
// summed (core/gradient_pass.h), of as many columns as 128 bytes have; a thread takes 16 bytes of a
// row, and of every eighth row below it, so that small matrices keep the whole GPU reading. What a
// column's sum takes up waits in shared memory, from where one thread adds it, row after row:
//
//     columns ->       128 bytes          128 bytes    ...
//     rows 0 .. 31     block 0            block 1             a row of sums
//     rows 32 .. 63    block of the next group                a row of sums
//
// The second adds 32 times 32 of these rows of sums to one, two levels of the order in one launch:
// up to 32768 rows take one such launch, and up to 2^25 two.
//
// Bound by: memory; of 16 bits behind gelu, gelu_tanh and silu by the derivative's arithmetic,
// which takes 1.3 times as long as memory does (docs/decisions/013).
#include <algorithm>

#include "core/activation_gradient.h"
#include "cuda/launch/launch.h"
#include "cuda/parts/arithmetic/element.cuh"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/launch/launch.h"

namespace tiled {
namespace {

constexpr int THREADS = 64;
constexpr int ROW_BYTES = 128;   // of a block's columns
constexpr int PIECES_AHEAD = 4;  // of a thread, in flight at once
constexpr int64_t SUMMED_BY_BLOCK = SUMMED_AT_ONCE * SUMMED_AT_ONCE;

// Sums on their way, or the bias' gradient: rows of `columns` elements.
struct SumRows {
  void* data;
  DType dtype;
};

struct FirstArguments {
  GradientPass pass;
  SumRows out;
};

struct SecondArguments {
  const void* sums;  // [count][columns]
  SumRows out;
  int64_t count, columns;
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
__global__ void __launch_bounds__(THREADS)
    pass_back(const __grid_constant__ FirstArguments arguments) {
  using Acc = Accumulator<T>;
  using Vector = Neighbours<T, COUNT>;
  constexpr bool READS_PRE_ACTIVATION = ACTIVATION != Activation::None;
  constexpr bool HAS_SLOPE =
      READS_PRE_ACTIVATION && ACTIVATION != Activation::Relu;  // another than 1
  constexpr int GROUP = static_cast<int>(SUMMED_AT_ONCE);
  constexpr int COLUMNS = ROW_BYTES / sizeof(T), ACROSS = COLUMNS / COUNT;
  constexpr int ROWS_AT_ONCE = THREADS / ACROSS, PIECES = GROUP / ROWS_AT_ONCE;
  constexpr int AHEAD = PIECES < PIECES_AHEAD ? PIECES : PIECES_AHEAD;
  static_assert(GROUP % ROWS_AT_ONCE == 0 && PIECES % AHEAD == 0, "no piece left over");
  __shared__ Vector gradients[GROUP][ACROSS];
  __shared__ alignas(16) Acc slopes[HAS_SLOPE ? GROUP : 1][COLUMNS];

  let_the_next_start();
  wait_for_kernels_before();
  const GradientPass& pass = arguments.pass;
  // Below 2^31, as the grid is.
  const auto blocks_across = static_cast<uint32_t>((pass.columns + COLUMNS - 1) / COLUMNS);
  const uint32_t group = blockIdx.x / blocks_across;
  const int64_t first_column = int64_t{blockIdx.x - group * blocks_across} * COLUMNS;
  const int64_t first_row = int64_t{group} * GROUP;
  const int rows = static_cast<int>(min(pass.rows - first_row, int64_t{GROUP}));
  const int across = threadIdx.x % ACROSS;
  const int64_t column = first_column + across * COUNT;

  // The address of this thread's first piece; its next ones are ROWS_AT_ONCE rows further on.
  const auto first = [&](const void* data, int64_t row_stride, int64_t col_stride) {
    return static_cast<const T*>(data) + (first_row + threadIdx.x / ACROSS) * row_stride +
           column * col_stride;
  };
  const GradientOperand &of_gradient = pass.gradient, &of_pre_activation = pass.pre_activation;
  const T* gradient_at = first(of_gradient.data, of_gradient.row_stride, of_gradient.col_stride);
  const T* pre_activation_at =
      first(of_pre_activation.data, of_pre_activation.row_stride, of_pre_activation.col_stride);
  T* result_at = const_cast<T*>(first(pass.result, pass.columns, 1));
  const int64_t gradient_step = ROWS_AT_ONCE * of_gradient.row_stride;
  const int64_t pre_activation_step = ROWS_AT_ONCE * of_pre_activation.row_stride;
  const int64_t result_step = ROWS_AT_ONCE * pass.columns;
  for (int piece = 0; piece < PIECES && column < pass.columns; piece += AHEAD) {
    Loaded<Vector> gradient[AHEAD], pre_activation[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
      const int row = threadIdx.x / ACROSS + (piece + i) * ROWS_AT_ONCE;
      if (row >= rows) break;
      gradient[i] = *reinterpret_cast<const Loaded<Vector>*>(gradient_at + i * gradient_step);
      if constexpr (READS_PRE_ACTIVATION)
        pre_activation[i] =
            *reinterpret_cast<const Loaded<Vector>*>(pre_activation_at + i * pre_activation_step);
    }
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
      const int row = threadIdx.x / ACROSS + (piece + i) * ROWS_AT_ONCE;
      if (row >= rows) break;
      Vector kept, result;
      const auto& g = reinterpret_cast<const Vector&>(gradient[i]);
      const auto& b = reinterpret_cast<const Vector&>(pre_activation[i]);
#pragma unroll
      for (int j = 0; j < COUNT; ++j) {
        Acc x{};
        if constexpr (READS_PRE_ACTIVATION) x = widen(b.values[j]);
        const PassedBack<Acc> passed =
            passed_back<sizeof(T) == 2>(ACTIVATION, widen(g.values[j]), x);
        kept.values[j] = Round<T, Acc>::from(passed.gradient);  // exact: it was one of these
        if constexpr (HAS_SLOPE) slopes[row][across * COUNT + j] = passed.slope;
        result.values[j] = Round<T, Acc>::from(passed.gradient * passed.slope);
      }
      gradients[row][across] = kept;
      // As four registers: the compiler would store a structure of elements in pieces of 4 bytes.
      if (pass.result != nullptr)
        *reinterpret_cast<Loaded<Vector>*>(result_at + i * result_step) =
            reinterpret_cast<const Loaded<Vector>&>(result);
    }
    gradient_at += AHEAD * gradient_step, pre_activation_at += AHEAD * pre_activation_step;
    result_at += AHEAD * result_step;
  }
  if (arguments.out.data == nullptr) return;
  __syncthreads();
  const int own = threadIdx.x;
  if (own >= COLUMNS || first_column + own >= pass.columns) return;
  Acc sum{};
#pragma unroll 8
  for (int row = 0; row < rows; ++row) {
    Acc slope = 1;
    if constexpr (HAS_SLOPE) slope = slopes[row][own];
    sum = fused(widen(gradients[row][own / COUNT].values[own % COUNT]), slope, sum);
  }
  store_sum(arguments.out, int64_t{group} * pass.columns + first_column + own, sum);
}

// A block makes 32 columns of one row y of `out`, the sum of up to 32 * 32 rows of sums from row
// 1024 y on: a warp adds up 32 of them, each lane a column, and the first warp what the warps have.
template <typename Acc>
__global__ void __launch_bounds__(32 * SUMMED_AT_ONCE)
    add_sums(const __grid_constant__ SecondArguments arguments) {
  __shared__ Acc of_warp[SUMMED_AT_ONCE][32];
  let_the_next_start();
  wait_for_kernels_before();
  const auto* sums = static_cast<const Acc*>(arguments.sums);
  const int64_t columns = arguments.columns;
  const auto blocks_across = static_cast<uint32_t>((columns + 31) / 32);
  const uint32_t y = blockIdx.x / blocks_across;
  const int64_t column = int64_t{blockIdx.x - y * blocks_across} * 32 + threadIdx.x;
  const int64_t begin = int64_t{y} * SUMMED_BY_BLOCK + threadIdx.y * SUMMED_AT_ONCE;
  const int64_t end = min(arguments.count, begin + SUMMED_AT_ONCE);
  // All loads at once: one after the other, they would take longer than the launch.
  Acc rows[SUMMED_AT_ONCE], sum{};
#pragma unroll
  for (int i = 0; i < SUMMED_AT_ONCE; ++i) {
    const int64_t row = begin + i;
    rows[i] = row < end && column < columns ? __ldcg(sums + row * columns + column) : Acc{};
  }
#pragma unroll
  for (int i = 0; i < SUMMED_AT_ONCE; ++i) sum += rows[i];  // a sum is not -0: 0 leaves it
  of_warp[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= columns) return;
  Acc total{};
  for (int i = 0; i < blockDim.y; ++i) total += of_warp[i][threadIdx.x];
  store_sum(arguments.out, y * columns + column, total);
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
  for (int64_t count = sum_groups(pass.rows); count > 1;) {
    const int64_t left = blocks_of_sums(count);
    Acc* const next = sums + count * pass.columns;
    const SumRows out =
        left == 1 ? SumRows{pass.bias, pass.bias_dtype} : SumRows{next, pass.sum_dtype()};
    Step step{};
    step.grid_x = (pass.columns + 31) / 32 * left, step.grid_y = 1;
    step.threads_x = 32;
    step.threads_y = static_cast<int16_t>(std::min(SUMMED_AT_ONCE, sum_groups(count)));
    const SecondArguments arguments = {sums, out, count, pass.columns};
    if (const cudaError_t error = launch_early(&add_sums<Acc>, step, stream, arguments);
        error != cudaSuccess)
      return error;
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
         (pass.activation == Activation::None || fits(pass.pre_activation)) &&
         reinterpret_cast<uintptr_t>(pass.result) % bytes == 0;
}

template <typename T, Activation ACTIVATION>
cudaError_t launch_first(const GradientPass& pass, const SumRows& out, cudaStream_t stream) {
  constexpr int COUNT = 16 / sizeof(T);
  constexpr int64_t COLUMNS = ROW_BYTES / sizeof(T);
  Step step{};
  step.grid_x = sum_groups(pass.rows) * ((pass.columns + COLUMNS - 1) / COLUMNS), step.grid_y = 1;
  step.threads_x = THREADS, step.threads_y = 1;
  const auto kernel =
      in_vectors<T>(pass, COUNT) ? &pass_back<T, ACTIVATION, COUNT> : &pass_back<T, ACTIVATION, 1>;
  return launch_early(kernel, step, stream, FirstArguments{pass, out});
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
