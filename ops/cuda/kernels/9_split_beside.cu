// 9_split.cu for rows that lie beside each other, as A's do where it is stored by columns. Planes
// lie as the operand does, or along k.
//
// SPLIT_PANEL rows are shared by a team of blocks along k. A block
//
//     1. finds the extents of its part of the rows and adds them to those of whole rows
//     2. waits for its team, and then knows the rows' scales
//     3. writes hi and lo of its part: two tiles that it has kept, in registers and in shared
//        memory, and, where k is long, others that it reads again
//
// Where only the scales are wanted no block waits for its team: a few more, behind all others, wait
// for it and finish its panel.
//
// Blocks take their places by number, so that those that another waits for are on their way;
// sixteen multiprocessors hold a whole team, so on a GPU, or a part of one, with no fewer all of it
// gets there. Where some row of a panel loses something, the blocks add up what, and the last one
// of them to end has the sum. Bound by memory.
#include <algorithm>
#include <type_traits>

#include "cuda/kernels/split.cuh"
#include "cuda/launch_early.h"
#include "cuda/plan.h"

namespace tiled {
namespace {

constexpr int PANEL = SPLIT_PANEL;  // rows of a team, four a lane
constexpr int WARPS = 8;
constexpr int THREADS = WARPS * 32;
constexpr int BATCH = 8;               // loads of a lane
constexpr int TILE_K = WARPS * BATCH;  // that a block has in registers
constexpr int TEAM = 64;               // blocks at most
constexpr int FINISHERS = 8;           // of a panel
// Up to so many tiles each has a block of its own; beyond, the wait for the team is better shared.
constexpr int64_t ONE_EACH = 264;

// Four rows from `row` on, of which `rows` are left, at one k.
__device__ __forceinline__ float4 load_four(const float* at, int64_t rows, bool vectors) {
  if (vectors && rows >= 4) return *reinterpret_cast<const float4*>(at);
  return make_float4(rows > 0 ? at[0] : 0, rows > 1 ? at[1] : 0, rows > 2 ? at[2] : 0,
                     rows > 3 ? at[3] : 0);
}

// What a thread has: four rows from `row` of the panel on, and BATCH of k from `k` on: every
// WARPS-th, or, for planes along k, neighbours.
struct Place {
  int64_t entry, row0, left;  // batch entry; first row of the panel, and rows from there on
  int64_t k;
  int row;
};

using Loaded = float[BATCH][4];
constexpr bool goes_along_k(Form form) { return form == Form::AlongK || form == Form::Permuted; }
constexpr int k_step(Form form) { return goes_along_k(form) ? 1 : WARPS; }

template <Form FORM>
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

struct Shared {
  float4 kept[BATCH][THREADS];  // the last tile but one
  uint32_t most[PANEL], least[PANEL];
  unsigned long long lost[PANEL];
  uint32_t number;
  bool is_last;
};

__device__ __forceinline__ void keep(Shared& shared, const Loaded& x) {
#pragma unroll
  for (int i = 0; i < BATCH; ++i)
    shared.kept[i][threadIdx.x] = make_float4(x[i][0], x[i][1], x[i][2], x[i][3]);
}
__device__ __forceinline__ void take_kept(Loaded& x, const Shared& shared) {
#pragma unroll
  for (int i = 0; i < BATCH; ++i) {
    const float4 v = shared.kept[i][threadIdx.x];
    x[i][0] = v.x, x[i][1] = v.y, x[i][2] = v.z, x[i][3] = v.w;
  }
}

// The panel's extents grow by those of this block's part.
__device__ __forceinline__ void add_extents(Shared& shared, const Range (&ranges)[4],
                                            const Place& at, RowExtent* extents,
                                            uint32_t* measured) {
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
  if (threadIdx.x == 0) atomicAdd(measured, 1);
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

// Along k, in its own order or, `permuted`, in write's of 9_split.cu.
template <bool PLAIN>
__device__ __forceinline__ void write_along_k(const SplitArguments& args, const Loaded& x,
                                              const Place& at, const Scale (&scales)[4],
                                              uint32_t (&lost)[4], bool permuted) {
  static_assert(BATCH == 8, "half of 16");
  // Zeros beyond K: the pitch has room for them, and a permuted 16 is read whole.
  if (at.k >= (permuted ? (args.k + 15) / 16 * 16 : args.k)) return;
#pragma unroll
  for (int row = 0; row < 4; ++row) {
    if (at.row + row >= at.left) continue;
    PairParts pairs[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      pairs[j] = split_pair<PLAIN>(x[2 * j][row], x[2 * j + 1][row], scales[row], scales[row],
                                   lost[row], lost[row]);
    __half* to = args.to + 2 * at.entry * args.plane + (at.row0 + at.row + row) * args.to_pitch +
                 at.k / 16 * 16 + (permuted ? at.k % 16 / 2 : at.k % 16);
    const int first = permuted ? 2 : 1, second = permuted ? 1 : 2, on = permuted ? 8 : 4;
    write_four(to, pairs[0].hi, pairs[first].hi);
    write_four(to + on, pairs[second].hi, pairs[3].hi);
    write_four(to + args.plane, pairs[0].lo, pairs[first].lo);
    write_four(to + args.plane + on, pairs[second].lo, pairs[3].lo);
  }
}

// `shared` has the largest magnitudes of the rows, and takes what they lose.
template <Form FORM, bool PLAIN>
__device__ __forceinline__ void write(Shared& shared, const SplitArguments& args, const Loaded& x,
                                      const Place& at) {
  const uint4 most = *reinterpret_cast<const uint4*>(&shared.most[at.row]);
  const Scale scales[4] = {Scale(most.x), Scale(most.y), Scale(most.z), Scale(most.w)};
  uint32_t lost[4] = {};
  if constexpr (goes_along_k(FORM))
    write_along_k<PLAIN>(args, x, at, scales, lost, FORM == Form::Permuted);
  else
    write_as_they_lie<FORM != Form::Nothing, PLAIN>(args, x, at, scales, lost);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (lost[i] != 0) atomicAdd(&shared.lost[at.row + i], static_cast<unsigned long long>(lost[i]));
}

template <Form FORM>
__global__ void __launch_bounds__(THREADS, 4) split_beside(const SplitArguments args) {
  begin(args);
  __shared__ __align__(16) Shared shared;
  if (threadIdx.x == 0) shared.number = atomicAdd(args.panels, 1);
  __syncthreads();
  const uint32_t of_entry = static_cast<uint32_t>(blocks_over(args.rows, PANEL));
  const uint32_t members = of_entry * static_cast<uint32_t>(args.batch * args.team);
  const bool measures = FORM != Form::Nothing || shared.number < members;
  const uint32_t number = measures ? shared.number : shared.number - members;
  const uint32_t team = measures ? args.team : FINISHERS;
  const int tiles =
      measures ? args.own_tiles : static_cast<int>(blocks_over(args.k, FINISHERS * TILE_K));
  const uint32_t panel = number / team, part = number % team;
  Place at;
  at.entry = panel / of_entry;
  at.row0 = int64_t{panel % of_entry} * PANEL;
  at.left = args.rows - at.row0;
  const int warp = threadIdx.x / 32;
  at.k = int64_t{part} * tiles * TILE_K + (goes_along_k(FORM) ? warp * BATCH : warp);
  at.row = threadIdx.x % 32 * 4;
  RowExtent* const extents = args.extents + at.entry * args.rows + at.row0;
  uint32_t* const measured = args.panels + 1 + 2 * int64_t{panel};
  uint32_t* const ended = measured + 1;

  Loaded x;
  if (measures) {
    Range ranges[4];
    for (int tile = 0; tile < tiles; ++tile) {
      if (tile > 0) at.k += TILE_K;
      load<FORM>(x, args, at);
#pragma unroll
      for (int i = 0; i < BATCH; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) ranges[j].include(x[i][j]);
      if (FORM != Form::Nothing && tile == tiles - 2) keep(shared, x);
    }
    add_extents(shared, ranges, at, extents, measured);
  } else {
    at.k += int64_t{tiles} * TILE_K;
  }
  if (FORM == Form::Nothing && measures) return end(args);
  if (threadIdx.x == 0)
    while (ptx::load_acquire(measured) != args.team) __nanosleep(32);
  __syncthreads();

  const bool has_row = threadIdx.x < PANEL && threadIdx.x < at.left;
  Range range;  // of row threadIdx.x
  if (has_row) {
    range.most = __ldcg(&extents[threadIdx.x].most);
    range.least = ~__ldcg(&extents[threadIdx.x].least);
  }
  const Scale scale(range.most);
  if (threadIdx.x < PANEL) shared.most[threadIdx.x] = range.most, shared.lost[threadIdx.x] = 0;
  const bool is_plain = __syncthreads_and(scale.is_plain(range.least));
  const bool has_all = FORM == Form::Nothing && is_plain;
  for (int tile = tiles - 1; tile >= 0 && !has_all; --tile) {
    if (tile < tiles - 1 || !measures) {
      at.k -= TILE_K;
      if (FORM != Form::Nothing && tile == tiles - 2)
        take_kept(x, shared);
      else
        load<FORM>(x, args, at);
    }
    if (is_plain)
      write<FORM, true>(shared, args, x, at);
    else
      write<FORM, false>(shared, args, x, at);
  }
  bool has_sums = part == 0;
  if (!is_plain) {
    __syncthreads();
    if (has_row && shared.lost[threadIdx.x] != 0)
      atomicAdd(&extents[threadIdx.x].lost, shared.lost[threadIdx.x]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) shared.is_last = atomicAdd(ended, 1) + 1 == team;
    __syncthreads();
    has_sums = shared.is_last;
    __threadfence();
  }
  if (has_sums && has_row)
    args.scales[at.entry * args.rows + at.row0 + threadIdx.x] =
        scale.result(is_plain ? 0 : __ldcg(&extents[threadIdx.x].lost));
  end(args);
}

__global__ void __launch_bounds__(THREADS) clear_only(const SplitArguments args) {
  begin(args);
  clear(args);
}

}  // namespace

cudaError_t launch_split_beside(SplitArguments args, Form form, cudaStream_t stream) {
  const void* kernel =
      form == Form::AlongK     ? reinterpret_cast<const void*>(&split_beside<Form::AlongK>)
      : form == Form::Nothing  ? reinterpret_cast<const void*>(&split_beside<Form::Nothing>)
      : form == Form::Permuted ? reinterpret_cast<const void*>(&split_beside<Form::Permuted>)
                               : reinterpret_cast<const void*>(&split_beside<Form::AsTheyLie>);
  const int64_t panels = blocks_over(args.rows, PANEL) * args.batch;
  const int64_t tiles = blocks_over(args.k, TILE_K);  // of a panel
  args.own_tiles = static_cast<int32_t>(
      std::max<int64_t>(blocks_over(tiles, TEAM), panels * tiles > ONE_EACH ? 2 : 1));
  args.team = static_cast<int32_t>(blocks_over(tiles, args.own_tiles));
  const int64_t blocks = panels * (args.team + (form == Form::Nothing ? FINISHERS : 0));
  return launch_early(kernel, dim3(static_cast<unsigned>(blocks)), THREADS, /*shared=*/0,
                      /*cluster=*/0, stream, &args);
}

cudaError_t launch_clear(const SplitArguments& args, cudaStream_t stream) {
  const int64_t blocks = std::min<int64_t>(blocks_over(args.zero_count, THREADS), 256);
  return launch_early(reinterpret_cast<const void*>(&clear_only),
                      dim3(static_cast<unsigned>(blocks)), THREADS, /*shared=*/0, /*cluster=*/0,
                      stream, const_cast<SplitArguments*>(&args));
}

}  // namespace tiled
