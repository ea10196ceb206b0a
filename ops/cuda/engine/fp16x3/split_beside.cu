// split.cu for rows that lie beside each other, as A's do where it is stored by columns. Planes
// lie as the operand does, or along k.
//
// Two kernels have SPLIT_PANEL rows in common with other blocks, along k. The first, of both
// operands, finds the ranges of its parts of rows. The second takes whole rows' from these, and so
// has their scales; it reads its tiles once more and writes hi and lo. Where some row of a panel
// loses something, its blocks add up what, and the last of them to end has the sum. Bound by
// memory; the second kernel goes from the last panel to the first, to find more in the L2 cache.
#include "cuda/engine/fp16x3/split.cuh"
#include "cuda/parts/copy/load_four.cuh"

namespace tiled {
namespace {

constexpr int PANEL = SPLIT_PANEL;  // rows, four a lane
constexpr int WARPS = 8, THREADS = WARPS * 32;
constexpr int BATCH = 8;               // loads of a lane
constexpr int TILE_K = WARPS * BATCH;  // that a block has in registers

// A thread has four rows from `row` of the panel on, and BATCH of k from `k` on: every
// WARPS-th, or, for planes along k, neighbours.
struct Place {
  int64_t row0, left;  // first row of the panel, and rows from there on
  int64_t k;
  int row;
  SplitEntry part;
};

using Loaded = float[BATCH][4];
constexpr int k_step(SplitForm form) { return goes_along_k(form) ? 1 : WARPS; }

template <SplitForm FORM>
__device__ __forceinline__ void load(Loaded& x, const SplitArguments& args, const Place& at) {
  const float* from = args.from + at.part.from + at.k * args.from_k + at.row0 + at.row;
#pragma unroll
  for (int i = 0; i < BATCH; ++i) {
    const bool exists = at.k + i * k_step(FORM) < at.part.k;
    const float4 v = load_four(from + i * k_step(FORM) * args.from_k, exists ? at.left - at.row : 0,
                               args.vectors);
    x[i][0] = v.x, x[i][1] = v.y, x[i][2] = v.z, x[i][3] = v.w;
  }
}

__device__ __forceinline__ uint32_t panels_of_entry(const SplitArguments& args) {
  return static_cast<uint32_t>(blocks_over(args.rows, PANEL));
}

// The tiles of block `number`, of `blocks` that share a panel, and where they begin.
template <SplitForm FORM, bool OF_GROUPS>
__device__ __forceinline__ uint32_t find_place(Place& at, const SplitArguments& args,
                                               uint32_t number, uint32_t blocks) {
  const uint32_t of_entry = panels_of_entry(args), panel = number / blocks;
  const int warp = threadIdx.x / 32;
  at.part = split_entry<OF_GROUPS>(args, panel / of_entry);
  const uint32_t tiles =
      (static_cast<uint32_t>(blocks_over(at.part.k, TILE_K)) + blocks - 1) / blocks;
  at.row0 = int64_t{panel % of_entry} * PANEL;
  at.left = args.rows - at.row0;
  at.k = int64_t{number % blocks} * tiles * TILE_K + (goes_along_k(FORM) ? warp * BATCH : warp);
  at.row = threadIdx.x % 32 * 4;
  return tiles;
}

struct SharedMemory {
  uint2 planes[2][PANEL][TILE_K / 4];  // of a tile along k, [hi, lo][row][16 times four of k]
  uint32_t most[PANEL];
  unsigned long long lost[PANEL];
  bool is_last;
};

// A tile's hi and lo, as the operand lies; or only what they lose.
template <bool WRITES, bool PLAIN, bool OF_GROUPS>
__device__ __forceinline__ void write_as_they_lie(const SplitArguments& args, const Loaded& x,
                                                  const Place& at, const Scale (&scales)[4],
                                                  uint32_t (&lost)[4]) {
  __half* to = args.to + at.part.to + at.k * args.to_pitch + at.row0 + at.row;
  // A group's planes are read by whole tiles.
  const int64_t end = OF_GROUPS ? blocks_over(at.part.k, TILE_K) * TILE_K : at.part.k;
#pragma unroll
  for (int i = 0; i < BATCH; ++i, to += WARPS * args.to_pitch) {
    if (at.row >= at.left || at.k + i * WARPS >= end) continue;
    PairParts pairs[2];
#pragma unroll
    for (int j = 0; j < 4; j += 2)
      pairs[j / 2] =
          split_pair<PLAIN>(x[i][j], x[i][j + 1], scales[j], scales[j + 1], lost[j], lost[j + 1]);
    if (!WRITES) continue;
    write_four(to, pairs[0].hi, pairs[1].hi);
    write_four(to + args.plane, pairs[0].lo, pairs[1].lo);
  }
}

// Along k, in its own order or, `permuted`, in write's of split.cu. Through shared memory, so
// that whole cache lines leave together: 16 bytes of a row change places so that its neighbours'
// meet in fewer banks.
__device__ __forceinline__ int swapped(int row, int vector) { return vector ^ (row / 4 % 8); }

template <bool PLAIN>
__device__ __forceinline__ void write_along_k(SharedMemory& shared, const SplitArguments& args,
                                              const Loaded& x, const Place& at,
                                              const Scale (&scales)[4], uint32_t (&lost)[4],
                                              bool permuted) {
  static_assert(BATCH == 8 && TILE_K == 64, "half of 16; a cache line");
  const int warp = threadIdx.x / 32;
  const int64_t k0 = at.k - warp * BATCH;  // the tile's
  if (k0 >= at.part.k) return;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int row = at.row + r;
    PairParts pairs[4];  // zeros beyond K: the pitch has room for them
#pragma unroll
    for (int j = 0; j < 4; ++j)
      pairs[j] =
          split_pair<PLAIN>(x[2 * j][r], x[2 * j + 1][r], scales[r], scales[r], lost[r], lost[r]);
    const auto put = [&](int fours, const PairParts& one, const PairParts& other) {
      const int place = 2 * swapped(row, fours / 2) + fours % 2;
      write_four(reinterpret_cast<__half*>(&shared.planes[0][row][place]), one.hi, other.hi);
      write_four(reinterpret_cast<__half*>(&shared.planes[1][row][place]), one.lo, other.lo);
    };
    put(permuted ? warp / 2 * 4 + warp % 2 : 2 * warp, pairs[0], pairs[permuted ? 2 : 1]);
    put(permuted ? warp / 2 * 4 + warp % 2 + 2 : 2 * warp + 1, pairs[permuted ? 1 : 2], pairs[3]);
  }
  __syncthreads();
  constexpr int VECTORS = TILE_K / 8;
#pragma unroll
  for (int i = threadIdx.x; i < 2 * PANEL * VECTORS; i += THREADS) {
    const int plane = i / (PANEL * VECTORS), row = i / VECTORS % PANEL, vector = i % VECTORS;
    if (row >= at.left) continue;
    __half* to = args.to + at.part.to + plane * args.plane + (at.row0 + row) * args.to_pitch;
    *reinterpret_cast<uint4*>(to + k0 + 8 * vector) =
        *reinterpret_cast<const uint4*>(&shared.planes[plane][row][2 * swapped(row, vector)]);
  }
  __syncthreads();
}

// `shared` has the largest magnitudes of the rows, and takes what they lose.
template <SplitForm FORM, bool PLAIN, bool OF_GROUPS>
__device__ __forceinline__ void write(SharedMemory& shared, const SplitArguments& args,
                                      const Loaded& x, const Place& at) {
  const uint4 most = *reinterpret_cast<const uint4*>(&shared.most[at.row]);
  const Scale scales[4] = {Scale(most.x), Scale(most.y), Scale(most.z), Scale(most.w)};
  uint32_t lost[4] = {};
  if constexpr (goes_along_k(FORM))
    write_along_k<PLAIN>(shared, args, x, at, scales, lost, FORM == SplitForm::Permuted);
  else
    write_as_they_lie<FORM != SplitForm::Nothing, PLAIN, OF_GROUPS>(args, x, at, scales, lost);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (lost[i] != 0) atomicAdd(&shared.lost[at.row + i], static_cast<unsigned long long>(lost[i]));
}

template <bool OF_GROUPS>
__global__ void __launch_bounds__(THREADS, 4)
    measure(const __grid_constant__ MeasureArguments operands) {
  begin(operands.first);
  clear(operands.first);
  __shared__ uint32_t most[PANEL], least[PANEL];
  if (threadIdx.x < PANEL) most[threadIdx.x] = 0, least[threadIdx.x] = ~0u;
  __syncthreads();
  const bool is_second = blockIdx.x >= operands.first_blocks;
  const SplitArguments& args = is_second ? operands.second : operands.first;
  const auto number = static_cast<uint32_t>(blockIdx.x - is_second * operands.first_blocks);
  Place at;
  const uint32_t tiles =
      find_place<SplitForm::AsTheyLie, OF_GROUPS>(at, args, number, args.shares.measurers);
  MagnitudeRange ranges[4];
  for (uint32_t tile = 0; tile < tiles; ++tile, at.k += TILE_K) {
    Loaded x;
    load<SplitForm::AsTheyLie>(x, args, at);
#pragma unroll
    for (int i = 0; i < BATCH; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) ranges[j].include(x[i][j]);
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    atomicMax(&most[at.row + j], ranges[j].most);
    atomicMin(&least[at.row + j], ranges[j].least);
  }
  __syncthreads();
  if (threadIdx.x < PANEL)
    args.ranges[int64_t{number} * PANEL + threadIdx.x] = {most[threadIdx.x], least[threadIdx.x]};
  end(operands.first);
}

// With four blocks on a multiprocessor its loads in flight would be spilled: on an H100 it took a
// tenth longer.
template <SplitForm FORM, bool OF_GROUPS = false>
__global__ void __launch_bounds__(THREADS, 3)
    split_beside(const __grid_constant__ SplitArguments args) {
  begin(args);
  __shared__ __align__(16) SharedMemory shared;
  const auto number = static_cast<uint32_t>(gridDim.x - 1 - blockIdx.x);  // the last measured first
  const uint32_t blocks = args.shares.writers, panel = number / blocks;
  Place at;
  const uint32_t found = find_place<FORM, OF_GROUPS>(at, args, number, blocks);
  const bool has_row = threadIdx.x < PANEL && threadIdx.x < at.left;
  MagnitudeRange range;  // of row threadIdx.x
  if (has_row)
    for (int i = 0; i < args.shares.measurers; ++i) {
      const int64_t measured = int64_t{panel} * args.shares.measurers + i;
      const MagnitudeRange part = args.ranges[measured * PANEL + threadIdx.x];
      range.most = max(range.most, part.most), range.least = min(range.least, part.least);
    }
  const Scale scale(range.most);
  if (threadIdx.x < PANEL) shared.most[threadIdx.x] = range.most, shared.lost[threadIdx.x] = 0;
  const bool is_plain = __syncthreads_and(scale.is_plain(range.least));
  const uint32_t tiles = FORM == SplitForm::Nothing && is_plain ? 0 : found;
  for (uint32_t tile = 0; tile < tiles; ++tile, at.k += TILE_K) {
    Loaded x;
    load<FORM>(x, args, at);
    if (is_plain)
      write<FORM, true, OF_GROUPS>(shared, args, x, at);
    else
      write<FORM, false, OF_GROUPS>(shared, args, x, at);
  }
  bool has_sums = number % blocks == 0;
  unsigned long long* const lost = args.panels[panel].lost;
  if (!is_plain) {
    __syncthreads();
    if (has_row && shared.lost[threadIdx.x] != 0)
      atomicAdd(&lost[threadIdx.x], shared.lost[threadIdx.x]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) shared.is_last = atomicAdd(&args.panels[panel].ended, 1) + 1 == blocks;
    __syncthreads();
    has_sums = shared.is_last;
    __threadfence();
  }
  if (has_sums && has_row)
    args.scales[int64_t{panel / panels_of_entry(args)} * args.rows + at.row0 + threadIdx.x] =
        scale.result(is_plain ? 0 : __ldcg(&lost[threadIdx.x]));
  end(args);
}

}  // namespace

Kernel<SplitArguments> split_beside_kernel(SplitForm form, bool of_groups) {
  if (of_groups)
    return form == SplitForm::AlongK ? &split_beside<SplitForm::AlongK, true>
                                     : &split_beside<SplitForm::AsTheyLie, true>;
  switch (form) {
    case SplitForm::AlongK: return &split_beside<SplitForm::AlongK>;
    case SplitForm::Nothing: return &split_beside<SplitForm::Nothing>;
    case SplitForm::Permuted: return &split_beside<SplitForm::Permuted>;
    default: return &split_beside<SplitForm::AsTheyLie>;
  }
}

Kernel<MeasureArguments> measure_kernel(bool of_groups) {
  return of_groups ? &measure<true> : &measure<false>;
}

}  // namespace tiled
