// A block's tile in split_beside.cu: SPLIT_PANEL rows that lie beside each other by TILE_K of k,
// its way into registers, its extents, and its parts' way to the planes.
#pragma once

#include "cuda/parts/fault.cuh"
#include "cuda/parts/load_four.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/rungs/9_fp16x3/split.cuh"

namespace tiled::beside {

constexpr int PANEL = SPLIT_PANEL;  // rows of a team, four a lane
constexpr int WARPS = 8, THREADS = WARPS * 32;
constexpr int BATCH = 8;               // loads of a lane
constexpr int TILE_K = WARPS * BATCH;  // that a block has in registers

// What a thread has: four rows from `row` of the panel on, and BATCH of k from `k` on: every
// WARPS-th, or, for planes along k, neighbours.
struct Place {
  int64_t entry, row0, left;  // batch entry; first row of the panel, and rows from there on
  int64_t k;
  int row;
};

using Loaded = float[BATCH][4];
constexpr int k_step(SplitForm form) { return goes_along_k(form) ? 1 : WARPS; }

template <SplitForm FORM>
__device__ __forceinline__ void load(Loaded& x, const SplitArguments& args, const Place& at) {
  const float* from =
      args.from + at.entry * args.from_batch + at.k * args.from_k + at.row0 + at.row;
#pragma unroll
  for (int i = 0; i < BATCH; ++i) {
    const bool exists = at.k + i * k_step(FORM) < args.k;
    const float4 v = load_four(from + i * k_step(FORM) * args.from_k, exists ? at.left - at.row : 0,
                               args.vectors);
    x[i][0] = v.x, x[i][1] = v.y, x[i][2] = v.z, x[i][3] = v.w;
  }
}

struct SharedMemory {
  // The last tile but one; or a tile's planes along k, [hi, lo][row][16 times four of k].
  union {
    float4 kept[BATCH][THREADS];
    uint2 planes[2][PANEL][TILE_K / 4];
  };
  uint32_t most[PANEL], least[PANEL];
  unsigned long long lost[PANEL];
  uint32_t number;
  uint32_t inherited;  // wait_for_team's answer
  bool is_last;
};

__device__ __forceinline__ void keep(SharedMemory& shared, const Loaded& x) {
#pragma unroll
  for (int i = 0; i < BATCH; ++i)
    shared.kept[i][threadIdx.x] = make_float4(x[i][0], x[i][1], x[i][2], x[i][3]);
}
__device__ __forceinline__ void take_kept(Loaded& x, const SharedMemory& shared) {
#pragma unroll
  for (int i = 0; i < BATCH; ++i) {
    const float4 v = shared.kept[i][threadIdx.x];
    x[i][0] = v.x, x[i][1] = v.y, x[i][2] = v.z, x[i][3] = v.w;
  }
}

// The panel's extents grow by those of this block's part.
__device__ __forceinline__ void add_extents(SharedMemory& shared, const MagnitudeRange (&ranges)[4],
                                            const Place& at, RowExtent* extents) {
  if (threadIdx.x < PANEL) shared.most[threadIdx.x] = 0, shared.least[threadIdx.x] = ~0u;
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    atomicMax(&shared.most[at.row + j], ranges[j].most);
    atomicMin(&shared.least[at.row + j], ranges[j].least);
  }
  __syncthreads();
  if (threadIdx.x < PANEL && threadIdx.x < at.left) {
    atomicMax(&extents[threadIdx.x].most, shared.most[threadIdx.x]);
    atomicMax(&extents[threadIdx.x].least, ~shared.least[threadIdx.x]);
  }
  __threadfence();
  __syncthreads();
}

// How often a block looks, 32 nanoseconds apart, before it no longer waits for its team: a quarter
// of a millisecond, while a team that runs is complete within some ten microseconds.
constexpr int PATIENCE = FAULT == Fault::NoPatience ? 0 : 8192;
constexpr uint32_t LEFT = ~0u;

// Says that block `part` of `team` has measured, and waits for the others. Returns the blocks, a
// bit each, whose tiles this one writes beside its own; or LEFT where another will write its tiles.
//
// Whether all of a team get a place at the same time is not for a kernel to know: other kernels may
// hold the GPU, or there may be little of it. So no block waits for ever: who loses patience
// leaves, and gives its place back. Who measures last has nobody to wait for, and takes over from
// all who had left before; after it nobody leaves, since all see that the team is complete.
__device__ __forceinline__ uint32_t wait_for_team(SplitPanel* panel, uint32_t part, uint32_t team) {
  if (FAULT == Fault::NoTeamWait) return 0;
  const unsigned long long before = atomicAdd(&panel->team, 1ull);
  int looks = 0;
  while (static_cast<uint32_t>(ptx::load_acquire(&panel->team)) != team) {
    if (looks++ < PATIENCE) {
      __nanosleep(32);
    } else {
      const unsigned long long seen = atomicAdd(&panel->team, 1ull << (32 + part));
      if (static_cast<uint32_t>(seen) != team) return LEFT;
    }
  }
  return static_cast<uint32_t>(before) + 1 == team ? static_cast<uint32_t>(before >> 32) : 0;
}

// A tile's hi and lo, as the operand lies; or only what they lose.
template <bool WRITES, bool PLAIN>
__device__ __forceinline__ void write_as_they_lie(const SplitArguments& args, const Loaded& x,
                                                  const Place& at, const Scale (&scales)[4],
                                                  uint32_t (&lost)[4]) {
  __half* to = args.to + 2 * at.entry * args.plane + at.k * args.to_pitch + at.row0 + at.row;
#pragma unroll
  for (int i = 0; i < BATCH; ++i, to += WARPS * args.to_pitch) {
    if (at.row >= at.left || at.k + i * WARPS >= args.k) continue;
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
  if (k0 >= args.k) return;
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
    __half* to = args.to + (2 * at.entry + plane) * args.plane + (at.row0 + row) * args.to_pitch;
    *reinterpret_cast<uint4*>(to + k0 + 8 * vector) =
        *reinterpret_cast<const uint4*>(&shared.planes[plane][row][2 * swapped(row, vector)]);
  }
  __syncthreads();
}

// `shared` has the largest magnitudes of the rows, and takes what they lose.
template <SplitForm FORM, bool PLAIN>
__device__ __forceinline__ void write(SharedMemory& shared, const SplitArguments& args,
                                      const Loaded& x, const Place& at) {
  const uint4 most = *reinterpret_cast<const uint4*>(&shared.most[at.row]);
  const Scale scales[4] = {Scale(most.x), Scale(most.y), Scale(most.z), Scale(most.w)};
  uint32_t lost[4] = {};
  if constexpr (goes_along_k(FORM))
    write_along_k<PLAIN>(shared, args, x, at, scales, lost, FORM == SplitForm::Permuted);
  else
    write_as_they_lie<FORM != SplitForm::Nothing, PLAIN>(args, x, at, scales, lost);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (lost[i] != 0) atomicAdd(&shared.lost[at.row + i], static_cast<unsigned long long>(lost[i]));
}

}  // namespace tiled::beside
