// Elements that fp16x3 cannot vouch for are computed again, in fp64 and rounded once: elements of
// which the fp16 parts have lost too much to be sure of the error bound, products of rows or
// columns with NaN or Inf, sums that came out too large for a number, and everything where K is
// short.
//
// fp64, since a chain in fp32 would have K as the constant of its bound, and could overflow on the
// way where the result does not; products of two fp32 numbers are exact there. Every 64 of K are a
// chain of fused multiply-adds, and the chains are added in ascending order: so one element can be
// shared out over a block.
//
// A block takes one listed square of 64 x 64 elements after the other and stores those elements
// only that are marked, through the epilogue; so the others keep their bits, and whether an element
// is computed again depends on its own row and column alone. Usually the list is empty, or has a
// square with an element or two: up to FEW of them are computed one by one, a chain a thread; more
// by the whole square, bound by the rate of fp64.
#include "cuda/engine/fp16x3/guard_marks.cuh"
#include "cuda/parts/epilogue/finish.cuh"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/launch/launch.h"
#include "cuda/parts/schedule/for_groups.cuh"

namespace tiled {
namespace {

constexpr int SQUARE = GUARD_SQUARE;
constexpr int BLOCK_K = 8;
constexpr int THREADS = GUARD_THREADS;
constexpr int THREAD_TILE = 4;     // x THREAD_TILE elements a thread
constexpr int PITCH = SQUARE + 2;  // of shared memory, elements
constexpr int LOADS = SQUARE * BLOCK_K / THREADS;
constexpr int CHAIN = 64;     // of K
constexpr uint32_t FEW = 32;  // elements of a square
static_assert(CHAIN % BLOCK_K == 0);

struct Tiles {
  double a[BLOCK_K][PITCH];  // [k][m]
  double b[BLOCK_K][PITCH];  // [k][n]
};

// Where element i of THREAD_TILE along one side stands in the square, `lane` of 16 having it: two
// and two neighbours, so that lanes that load 16 bytes each meet different banks.
__device__ __forceinline__ int place(int lane, int i) { return i / 2 * 32 + lane * 2 + i % 2; }
__device__ __forceinline__ void take(double (&x)[THREAD_TILE], const double (&line)[PITCH],
                                     int lane) {
#pragma unroll
  for (int i = 0; i < THREAD_TILE; i += 2) {
    const double2 v = *reinterpret_cast<const double2*>(&line[place(lane, i)]);
    x[i] = v.x, x[i + 1] = v.y;
  }
}

// LOADS elements of an operand's tile a thread, lanes along the direction in which it lies.
__device__ __forceinline__ void load(double (&tile)[BLOCK_K][PITCH], const float* data,
                                     int64_t row0, int64_t k0, int64_t rows, int64_t k_end,
                                     int64_t row_stride, int64_t k_stride) {
  const bool along_k = k_stride == 1;
#pragma unroll
  for (int i = 0; i < LOADS; ++i) {
    const int at = i * THREADS + threadIdx.x;
    const int r = along_k ? at / BLOCK_K : at % SQUARE, k = along_k ? at % BLOCK_K : at / SQUARE;
    tile[k][r] =
        row0 + r < rows && k0 + k < k_end ? data[(row0 + r) * row_stride + (k0 + k) * k_stride] : 0;
  }
}

// The elements of a square that are computed again, as long as they are few.
struct List {
  uint32_t count;
  uint16_t elements[FEW];  // row * SQUARE + column
};

// A row's or column's elements along k.
struct Line {
  const float* data;
  int64_t stride;
};

// One element by the whole block; the first thread has it.
__device__ __forceinline__ double sum_of(const Line& a, const Line& b, int64_t k,
                                         double (&chains)[THREADS]) {
  double total = 0;
  for (int64_t first = 0; first < k; first += THREADS * CHAIN) {
    const int64_t begin = first + threadIdx.x * CHAIN, end = min(begin + CHAIN, k);
    double chain = 0;
#pragma unroll 16
    for (int64_t i = begin; i < end; ++i)
      chain = __fma_rn(a.data[i * a.stride], b.data[i * b.stride], chain);
    chains[threadIdx.x] = chain;
    __syncthreads();
    if (threadIdx.x == 0) {
      const int count = static_cast<int>(min(int64_t{THREADS}, (k - first + CHAIN - 1) / CHAIN));
#pragma unroll 8
      for (int i = 0; i < count; ++i) total = __dadd_rn(total, chains[i]);
    }
    __syncthreads();
  }
  return total;
}

__device__ __forceinline__ float rounded(double total) {
  return __fadd_rn(__double2float_rn(total), 0);  // zeros are positive
}

// A block's shared memory.
struct __align__(16) Memory {
  union {
    Tiles tiles;
    double chains[THREADS];
  };
  List few;
};

// The square of batch entry `batch` from (m0, n0) on, whose marks are the list's of `square`; or
// all its elements.
__device__ __forceinline__ void compute_square(const Problem& p, const GuardList& list, bool all,
                                               uint32_t square, int64_t batch, int64_t m0,
                                               int64_t n0, Memory& memory) {
  Tiles& tiles = memory.tiles;
  List& few = memory.few;
  const int row = threadIdx.x / 16, column = threadIdx.x % 16;  // lanes of place()
  const float* a = static_cast<const float*>(p.a.data) + batch * p.a.batch_stride;
  const float* b = static_cast<const float*>(p.b.data) + batch * p.b.batch_stride;
  const uint32_t written = all ? 0 : list.listed[square];
  uint32_t mask = 0;  // of this thread's elements
#pragma unroll
  for (int y = 0; y < THREAD_TILE; ++y)
#pragma unroll
    for (int x = 0; x < THREAD_TILE; ++x) {
      const int64_t m = m0 + place(row, y), n = n0 + place(column, x);
      if (m >= p.m || n >= p.n) continue;
      const bool again = all || is_marked(list, square, written, static_cast<uint32_t>(m),
                                          static_cast<uint32_t>(n));
      mask |= again ? 1u << (y * THREAD_TILE + x) : 0;
    }
  if (!all) {
    if (threadIdx.x == 0) few.count = 0;
    __syncthreads();
#pragma unroll
    for (int e = 0; e < THREAD_TILE * THREAD_TILE; ++e)
      if (mask & 1u << e) {
        const uint32_t at = atomicAdd(&few.count, 1);
        if (at < FEW)
          few.elements[at] = place(row, e / THREAD_TILE) * SQUARE + place(column, e % THREAD_TILE);
      }
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(list.recomputed, few.count);
    if (few.count <= FEW) {
      for (uint32_t at = 0; at < few.count; ++at) {
        const int64_t m = m0 + few.elements[at] / SQUARE, n = n0 + few.elements[at] % SQUARE;
        const double total = sum_of({a + m * p.a.row_stride, p.a.col_stride},
                                    {b + n * p.b.col_stride, p.b.row_stride}, p.k, memory.chains);
        if (threadIdx.x == 0) store_finished<float>(p, rounded(total), batch, m, n);
      }
      return;
    }
  }
  double total[THREAD_TILE][THREAD_TILE] = {};
  for (int64_t begin = 0; begin < p.k; begin += CHAIN) {
    const int64_t end = min(begin + CHAIN, p.k);
    double chain[THREAD_TILE][THREAD_TILE] = {};
    for (int64_t k0 = begin; k0 < end; k0 += BLOCK_K) {
      __syncthreads();
      load(tiles.a, a, m0, k0, p.m, end, p.a.row_stride, p.a.col_stride);
      load(tiles.b, b, n0, k0, p.n, end, p.b.col_stride, p.b.row_stride);
      __syncthreads();
#pragma unroll
      for (int k = 0; k < BLOCK_K; ++k) {
        double left[THREAD_TILE], right[THREAD_TILE];
        take(left, tiles.a[k], row);
        take(right, tiles.b[k], column);
#pragma unroll
        for (int y = 0; y < THREAD_TILE; ++y)
#pragma unroll
          for (int x = 0; x < THREAD_TILE; ++x)
            chain[y][x] = __fma_rn(left[y], right[x], chain[y][x]);
      }
    }
#pragma unroll
    for (int y = 0; y < THREAD_TILE; ++y)
#pragma unroll
      for (int x = 0; x < THREAD_TILE; ++x) total[y][x] = __dadd_rn(total[y][x], chain[y][x]);
  }
  float sums[THREAD_TILE * THREAD_TILE];
#pragma unroll
  for (int e = 0; e < THREAD_TILE * THREAD_TILE; ++e)
    sums[e] = rounded(total[e / THREAD_TILE][e % THREAD_TILE]);
  for_each_in_turn<1>(sums, [&](int e) {
    if (mask & 1u << e)
      store_finished<float>(p, sums[0], batch, m0 + place(row, e / THREAD_TILE),
                            n0 + place(column, e % THREAD_TILE));
  });
}

__global__ void __launch_bounds__(THREADS, 2) guard(const __grid_constant__ GuardArguments args) {
  let_the_next_start();
  wait_for_kernels_before();
  const GuardList& list = args.list;
  const bool all = list.count == nullptr;
  const uint32_t count =
      all ? list.squares_m * list.squares_n * static_cast<uint32_t>(args.problem.batch)
          : *list.count;
  if (blockIdx.x >= count) return;  // nearly always, and soon
  __shared__ Memory memory;
  for (uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
    const uint32_t square = all ? i : list.squares[i];
    const uint32_t line = square / list.squares_n;
    compute_square(args.problem, list, all, square, line / list.squares_m,
                   int64_t{line % list.squares_m} * SQUARE,
                   int64_t{square % list.squares_n} * SQUARE, memory);
    __syncthreads();
  }
}

// The same of groups, whose squares stand at place_of_group(). Where they share out K, those whose
// part of it is too short for two fp16 parts are in no list.
__global__ void __launch_bounds__(THREADS, 2)
    guard_of_groups(const __grid_constant__ GuardArguments args) {
  let_the_next_start();
  wait_for_kernels_before();
  __shared__ Memory memory;
  const GuardList& list = args.list;
  const Problem& all = args.problem;
  const Shared shared = all.groups.shared;
  const bool lists = list.count != nullptr;
  if (!lists || shared == Shared::K)
    for_tiles_of_groups<SQUARE, SQUARE>(
        all,
        [&](const Problem& p, int64_t number) {
          const int64_t squares_n = (p.n + SQUARE - 1) / SQUARE;
          compute_square(p, list, /*all=*/true, 0, 0, number / squares_n * SQUARE,
                         number % squares_n * SQUARE, memory);
        },
        [&](int begin, int end) { return !lists || end - begin < fp16x3_least_k(args.coarse); });
  if (!lists) return;
  const uint32_t count = *list.count;
  if (blockIdx.x >= count) return;
  __shared__ SharedProblem place;
  Problem& problem = place.get();
  __shared__ int64_t first;  // of the shared size in the group
  const int64_t size = shared == Shared::M ? all.m : shared == Shared::N ? all.n : all.k;
  GroupScan scan(all.groups, static_cast<int>(all.batch), static_cast<int>(size),
                 /*has_rest=*/false, [&](int begin, int end) -> uint32_t {
                   if (shared == Shared::K) return 1;
                   return (place_of_group(end, 1) - place_of_group(begin, 0)) / SQUARE;
                 });
  for (uint32_t i = blockIdx.x; i < count; i += gridDim.x) {
    const uint32_t square = list.squares[i], line = square / list.squares_n;
    const uint32_t m = line % list.squares_m, n = square % list.squares_n;
    if (threadIdx.x < 32) {
      const GroupTile tile = scan.at(shared == Shared::M   ? m
                                     : shared == Shared::N ? n
                                                           : line / list.squares_m);
      if (threadIdx.x == 0) {
        problem = problem_of_group(all, tile.group, tile.begin, tile.end);
        first = int64_t{tile.number} * SQUARE;
      }
    }
    __syncthreads();
    compute_square(problem, list, /*all=*/false, square, 0,
                   shared == Shared::M ? first : int64_t{m} * SQUARE,
                   shared == Shared::N ? first : int64_t{n} * SQUARE, memory);
    __syncthreads();
  }
}

}  // namespace

Kernel<GuardArguments> guard_kernel(bool of_groups) {
  return of_groups ? &guard_of_groups : &guard;
}

}  // namespace tiled
