// Adds up the sums of a tree's parts (core/sum_tree.h), finishes them and rounds once.
//
//     parts      0    1    2    3        a thread has four neighbours of a row; `total` is in
//     additions  0    1    0    2        registers, what waits for it in the thread's own memory
//
//     total      0   0+1   2   (0+1)+(2+3)
//     waiting         -   0+1   -
//
// Trees of 2, 4, 8 and 16 leaves that are all as deep, which most are, stay in registers. Memory's
// rate bounds it: the sums of several parts are under way at once.
#include <algorithm>

#include "cuda/launch/launch.h"
#include "cuda/parts/epilogue/finish.cuh"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/launch/launch.h"
#include "cuda/parts/schedule/sums.cuh"

namespace tiled {
namespace {

constexpr int THREADS = SUMS_THREADS;
constexpr int VECTOR = SUMS_VECTOR;

// The group that has this row; the count of groups if it is behind the last one. Ends are taken as
// group_scan.cuh takes them.
__device__ __forceinline__ int64_t group_of(const Problem& p, int64_t row) {
  int64_t end = 0;
  for (int64_t group = 0; group < p.batch; ++group) {
    const int64_t given = p.groups.wide ? static_cast<const int64_t*>(p.groups.ends)[group]
                                        : static_cast<const int32_t*>(p.groups.ends)[group];
    end = max(end, min(given, p.m));
    if (row < end) return group;
  }
  return p.batch;
}

// The tree of PARTS leaves that are all as deep, in registers.
template <int PARTS, typename Sum>
__device__ __forceinline__ void add_even_tree(const TreePass& pass, const Sum* from,
                                              ptx::CachePolicy policy, Sum (&total)[VECTOR]) {
  Loaded<Sum> loaded[PARTS];
  Sum sums[PARTS][VECTOR] = {};
#pragma unroll
  for (int j = 0; j < PARTS; ++j) loaded[j].load(from + j * pass.part_stride, policy);
#pragma unroll
  for (int j = 0; j < PARTS; ++j) loaded[j].add_to(sums[j]);
#pragma unroll
  for (int width = 1; width < PARTS; width *= 2)
#pragma unroll
    for (int j = 0; j < PARTS; j += 2 * width)
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) sums[j][v] = add(sums[j][v], sums[j + width][v]);
#pragma unroll
  for (int v = 0; v < VECTOR; ++v) total[v] = sums[0][v];
}

// Any tree.
template <typename Sum>
__device__ __forceinline__ void add_tree(const TreePass& pass, const Sum* from,
                                         ptx::CachePolicy policy, Sum (&total)[VECTOR]) {
  constexpr int BATCH = 32 / sizeof(Sum);  // parts
  Sum waiting[MOST_WAITING][VECTOR];
  int top = 0;
#pragma unroll 1
  for (int s = 0; s < pass.parts; s += BATCH) {
    Loaded<Sum> loaded[BATCH];
#pragma unroll
    for (int j = 0; j < BATCH; ++j)
      if (s + j < pass.parts) loaded[j].load(from + (s + j) * pass.part_stride, policy);
#pragma unroll
    for (int j = 0; j < BATCH; ++j) {
      if (s + j >= pass.parts) break;
      if (s + j > 0) {
#pragma unroll
        for (int v = 0; v < VECTOR; ++v) waiting[top][v] = total[v];
        ++top;
      }
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) total[v] = Sum{};
      loaded[j].add_to(total);
      for (int a = pass.additions[s + j]; a > 0; --a) {
        --top;
#pragma unroll
        for (int v = 0; v < VECTOR; ++v) total[v] = add(waiting[top][v], total[v]);
      }
    }
  }
}

// PARTS: of an even tree; 0 for any.
template <typename Out, int PARTS>
__global__ void __launch_bounds__(THREADS) tree_sum(const __grid_constant__ TreePass pass) {
  let_the_next_start();
  wait_for_kernels_before();
  using Sum = Accumulator<Out>;
  const ptx::CachePolicy policy = ptx::leave_first();
  const Problem& p = pass.problem;
  const Epilogue& epilogue = p.epilogue;
  const int64_t vectors = pass.pitch / VECTOR, count = p.m * vectors;
  const int64_t entries = is_grouped(p) ? 1 : p.batch;
  const bool by_group = is_grouped(p) && epilogue.bias_along != Along::Nothing;
  for (int64_t entry = blockIdx.y; entry < entries; entry += gridDim.y) {
    const Sum* sums = static_cast<const Sum*>(pass.sums) + entry * pass.entry_stride;
    Out* c = static_cast<Out*>(p.c.data) + entry * p.c.batch_stride;
    for (int64_t i = int64_t{blockIdx.x} * THREADS + threadIdx.x; i < count;
         i += int64_t{gridDim.x} * THREADS) {
      const int64_t row = i / vectors, column = i % vectors * VECTOR;
      const Sum* from = sums + row * pass.pitch + column;
      Sum total[VECTOR] = {};
      if constexpr (PARTS > 0)
        add_even_tree<PARTS>(pass, from, policy, total);
      else
        add_tree(pass, from, policy, total);
      const int64_t group = by_group ? group_of(p, row) : entry;
      const bool is_behind = by_group && group == p.batch;  // where C is zero
      if (!is_behind && !leaves_sums(epilogue))
        finish_vector<Out>(epilogue, total, group, row, column, p.n);
      if (is_behind && epilogue.pre_activation.data != nullptr)
        store_vector(static_cast<Out*>(epilogue.pre_activation.data) +
                         row * epilogue.pre_activation.row_stride +
                         column * epilogue.pre_activation.col_stride,
                     epilogue.pre_activation.col_stride, total, p.n - column);
      store_vector(c + row * p.c.row_stride + column * p.c.col_stride, p.c.col_stride, total,
                   p.n - column);
    }
  }
}

// How many leaves a tree has that are all as deep; 0 where some are deeper.
int even_parts(const TreePass& pass) {
  for (int i = 0; i < pass.parts; ++i) {
    int additions = 0;  // a binary counter's carries
    for (int at = i + 1; at % 2 == 0; at /= 2) ++additions;
    if (pass.additions[i] != additions) return 0;
  }
  return pass.parts;
}

template <typename Out>
Kernel<TreePass> kernel_of(int parts) {
  constexpr int MOST = 64 / sizeof(Accumulator<Out>);  // parts that registers have room for
  switch (parts) {
    case 1: return &tree_sum<Out, 1>;  // of a conversion
    case 2: return &tree_sum<Out, 2>;
    case 4: return &tree_sum<Out, 4>;
    case 8:
      if constexpr (MOST >= 8) return &tree_sum<Out, 8>;
      break;
    case 16:
      if constexpr (MOST >= 16) return &tree_sum<Out, 16>;
      break;
  }
  return &tree_sum<Out, 0>;
}

}  // namespace

cudaError_t launch_tree_sum(const TreePass& pass, cudaStream_t stream) {
  constexpr int64_t MOST_BLOCKS = 65536;  // of an entry; they go on by this stride
  const Problem& p = pass.problem;
  Step step{};
  step.work = Work::Sums;
  step.threads_x = THREADS, step.threads_y = 1;
  step.grid_x = std::min(blocks_over(p.m * (pass.pitch / VECTOR), THREADS), MOST_BLOCKS);
  step.grid_y = is_grouped(p) ? 1 : static_cast<int32_t>(std::min<int64_t>(p.batch, MAX_GRID_Y));
  const int parts = even_parts(pass);
  const auto kernel = with_element_type(p.epilogue.out_dtype, [&](auto tag) -> Kernel<TreePass> {
    using Out = typename decltype(tag)::Type;
    if constexpr (std::is_integral_v<Out>)
      return nullptr;  // integers have no tree
    else
      return kernel_of<Out>(parts);
  });
  return launch_early(kernel, step, stream, pass);
}

}  // namespace tiled
