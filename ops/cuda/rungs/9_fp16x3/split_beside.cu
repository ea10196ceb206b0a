// split.cu for rows that lie beside each other, as A's do where it is stored by columns. Planes
// lie as the operand does, or along k.
//
// SPLIT_PANEL rows are shared by a team of blocks along k. A block
//
//     1. finds the extents of its part of the rows and adds them to those of whole rows
//     2. waits for its team, and then knows the rows' scales
//     3. writes hi and lo of its part: the tile that it has in registers, for planes as they lie
//        one that it has kept in shared memory, and, where k is long, others that it reads again
//
// Where only the scales are wanted no block waits for its team: a few more, behind all others, wait
// for it and finish its panel.
//
// Blocks take their places by number, so that those that another waits for are on their way; if
// they do not come, since other kernels hold the GPU or it has too few multiprocessors for a team,
// who has waited long enough leaves, and the last of the team writes for all who have
// (wait_for_team). Where some row of a panel loses something, the blocks add up what, and the last
// one of them to end has the sum. Bound by memory.
#include <type_traits>

#include "cuda/rungs/9_fp16x3/split_beside.cuh"

namespace tiled {
namespace {

using namespace beside;

constexpr int FINISHERS = SPLIT_FINISHERS;

// The tiles of blocks that have left. A function of its own, since it is hardly ever called, and
// would cost registers where it is not.
template <SplitForm FORM>
__device__ __noinline__ void write_inherited(SharedMemory& shared, const SplitArguments& args,
                                             Place at, int tiles) {
  const int warp = threadIdx.x / 32;
  for (uint32_t rest = shared.inherited; rest != 0; rest &= rest - 1)
    for (int tile = 0; tile < tiles; ++tile) {
      at.k = ((int64_t{__ffs(rest)} - 1) * tiles + tile) * TILE_K +
             (goes_along_k(FORM) ? warp * BATCH : warp);
      Loaded x;
      load<FORM>(x, args, at);
      write<FORM, false>(shared, args, x, at);
    }
}

template <SplitForm FORM>
__global__ void __launch_bounds__(THREADS, 4)
    split_beside(const __grid_constant__ SplitArguments args) {
  begin(args);
  __shared__ __align__(16) SharedMemory shared;
  if (threadIdx.x == 0) shared.number = atomicAdd(&args.panels->number, 1);
  __syncthreads();
  const uint32_t of_entry = static_cast<uint32_t>(blocks_over(args.rows, PANEL));
  const uint32_t members = of_entry * static_cast<uint32_t>(args.batch * args.team);
  const bool measures = FORM != SplitForm::Nothing || shared.number < members;
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
  SplitPanel* const of_panel = args.panels + panel;

  Loaded x;
  if (measures) {
    MagnitudeRange ranges[4];
    for (int tile = 0; tile < tiles; ++tile) {
      if (tile > 0) at.k += TILE_K;
      load<FORM>(x, args, at);
#pragma unroll
      for (int i = 0; i < BATCH; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) ranges[j].include(x[i][j]);
      if (FORM == SplitForm::AsTheyLie && tile == tiles - 2) keep(shared, x);
    }
    add_extents(shared, ranges, at, extents);
  } else {
    at.k += int64_t{tiles} * TILE_K;
  }
  uint32_t inherited = 0;
  if (threadIdx.x == 0) {
    if (FORM != SplitForm::Nothing)
      inherited = wait_for_team(of_panel, part, team);
    else if (measures)
      atomicAdd(&of_panel->team, 1);
    else
      while (static_cast<uint32_t>(ptx::load_acquire(&of_panel->team)) != args.team)
        __nanosleep(32);
    shared.inherited = inherited;
  }
  const bool leaves = __syncthreads_or(inherited == LEFT);
  if ((FORM == SplitForm::Nothing && measures) || leaves) return end(args);

  const bool has_row = threadIdx.x < PANEL && threadIdx.x < at.left;
  MagnitudeRange range;  // of row threadIdx.x
  if (has_row) {
    range.most = __ldcg(&extents[threadIdx.x].most);
    range.least = ~__ldcg(&extents[threadIdx.x].least);
  }
  const Scale scale(range.most);
  if (threadIdx.x < PANEL) shared.most[threadIdx.x] = range.most, shared.lost[threadIdx.x] = 0;
  const bool is_plain = __syncthreads_and(scale.is_plain(range.least));
  const bool has_all = FORM == SplitForm::Nothing && is_plain;
  for (int tile = tiles - 1; tile >= 0 && !has_all; --tile) {
    if (tile < tiles - 1 || !measures) {
      at.k -= TILE_K;
      if (FORM == SplitForm::AsTheyLie && tile == tiles - 2)
        take_kept(x, shared);
      else
        load<FORM>(x, args, at);
    }
    if (is_plain)
      write<FORM, true>(shared, args, x, at);
    else
      write<FORM, false>(shared, args, x, at);
  }
  if (shared.inherited != 0) write_inherited<FORM>(shared, args, at, tiles);
  bool has_sums = part == 0 || shared.inherited & 1;
  if (!is_plain) {
    __syncthreads();
    if (has_row && shared.lost[threadIdx.x] != 0)
      atomicAdd(&extents[threadIdx.x].lost, shared.lost[threadIdx.x]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      const uint32_t parts = 1 + __popc(shared.inherited);
      shared.is_last = atomicAdd(&of_panel->ended, parts) + parts == team;
    }
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

Kernel<SplitArguments> split_beside_kernel(SplitForm form) {
  switch (form) {
    case SplitForm::AlongK: return &split_beside<SplitForm::AlongK>;
    case SplitForm::Nothing: return &split_beside<SplitForm::Nothing>;
    case SplitForm::Permuted: return &split_beside<SplitForm::Permuted>;
    default: return &split_beside<SplitForm::AsTheyLie>;
  }
}

Kernel<SplitArguments> clear_kernel() { return &clear_only; }

}  // namespace tiled
