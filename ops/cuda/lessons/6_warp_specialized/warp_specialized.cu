// Lesson 6, warp_specialized. Copying and multiplying no longer wait for each other: a producer
// warp keeps a ring of stages filled, and two consumer warpgroups, each with half of the tile's
// rows, read it. Two mbarriers a stage carry the word between them.
//
//     producer       wait empty[s] -> expect bytes at full[s], TMA -> stage s   s = 0, 1, 2, 3, 0
//     consumers      wait full[s]  -> wgmma; when the next is under way: arrive empty[s]
//
//                 128 of n
//               +---------+     consumer 0: rows 0 to 63
//        128    |    0    |     consumer 1: rows 64 to 127
//        of m   |---------|     both read all of B's stage
//               |    1    |
//               +---------+
//
// Preconditions: as lesson 5's.
// Bound by shared memory and by the tile's end: while C is stored nothing is multiplied. Seven
// tenths of cuBLAS's speed at 4096, bf16, on an H200. Next: hopper keeps its blocks, shares
// operands within a cluster and stores beside the next tile.
#include "cuda/lessons/6_warp_specialized/tile.h"
#include "cuda/parts/epilogue/wgmma_store.cuh"
#include "cuda/parts/launch/wgmma.h"
#include "cuda/parts/launch/wgmma_operands.cuh"
#include "cuda/parts/pipeline/operand_tile.cuh"
#include "cuda/parts/pipeline/ring.cuh"
#include "cuda/ptx/cluster.cuh"

namespace tiled {

template <typename T, bool A_MN_MAJOR, bool B_MN_MAJOR>
__global__ void __launch_bounds__(WarpSpecializedTile::THREADS, 1)
    warp_specialized(const __grid_constant__ WgmmaArguments args) {
  using Tile = WarpSpecializedTile;
  using A = OperandTile<T, Tile::BLOCK_M, 64, A_MN_MAJOR>;
  using B = OperandTile<T, Tile::BLOCK_N, Tile::BLOCK_N, B_MN_MAJOR>;
  constexpr int REGISTERS = Tile::BLOCK_N / 2;
  extern __shared__ __align__(1024)
      uint8_t memory[];  // [STAGES][A, B], full[STAGES], empty[STAGES]
  const uint32_t base = ptx::shared_address(memory);
  const uint32_t barriers = base + Tile::STAGES * Tile::STAGE_BYTES;
  const auto full = [&](uint32_t stage) { return barriers + stage * 8; };
  const auto empty = [&](uint32_t stage) { return barriers + (Tile::STAGES + stage) * 8; };
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Tile::STAGES; ++stage) {
      ptx::mbarrier_init(full(stage), 1);
      ptx::mbarrier_init(empty(stage), Tile::CONSUMERS * 4);  // the consumers' warps
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  const Problem& problem = args.problem;
  const int tiles_n = static_cast<int>((problem.n - 1) / Tile::BLOCK_N + 1);
  const int row = blockIdx.x / tiles_n * Tile::BLOCK_M;
  const int column = blockIdx.x % tiles_n * Tile::BLOCK_N;
  const int steps = static_cast<int>((problem.k + A::BLOCK_K - 1) / A::BLOCK_K);
  const int segment = static_cast<int>(segment_steps<A::BLOCK_K>(problem.k));  // steps
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  Ring<Tile::STAGES> ring;

  if (warp == Tile::CONSUMERS * 4) {
    const bool issues = ptx::elect_sync();
    const auto a_part = A::part(1, 0);
    const auto b_part = B::part(1, 0);
    for (int64_t entry = blockIdx.y; entry < problem.batch; entry += gridDim.y) {
      const int a_entry = problem.a.batch_stride ? entry : 0;
      const int b_entry = problem.b.batch_stride ? entry : 0;
      for (int step = 0; step < steps; ++step, ring.advance()) {
        ptx::mbarrier_wait(empty(ring.stage), ring.parity ^ 1);
        if (!issues) continue;
        const uint32_t at = base + ring.stage * Tile::STAGE_BYTES, barrier = full(ring.stage);
        ptx::mbarrier_arrive_expect_tx(barrier, Tile::STAGE_BYTES);
        A::load(a_part, at, &args.a_map, row, step * A::BLOCK_K, a_entry, barrier);
        B::load(b_part, at + A::BYTES, &args.b_map, column, step * A::BLOCK_K, b_entry, barrier);
      }
    }
    return;
  }

  const int first_row = warp / 4 * 64;
  const auto release = [&](uint32_t stage) {
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(empty(stage));
  };
  for (int64_t entry = blockIdx.y; entry < problem.batch; entry += gridDim.y) {
    float total[REGISTERS] = {}, chain[REGISTERS];
    ptx::declare_accumulators(chain);
    for (int first = 0; first < steps; first += segment) {
      const int last = min(first + segment, steps);
      uint32_t previous = 0;
      for (int step = first; step < last; ++step, ring.advance()) {
        ptx::mbarrier_wait(full(ring.stage), ring.parity);
        const uint32_t at = base + ring.stage * Tile::STAGE_BYTES;
        ptx::wgmma_fence();
#pragma unroll
        for (int k = 0; k < A::STEPS; ++k)
          ptx::Wgmma<T, Tile::BLOCK_N>::template run<A_MN_MAJOR, B_MN_MAJOR>(
              chain, ptx::descriptor(A::LAYOUT, at + A::offset(first_row, k)),
              ptx::descriptor(B::LAYOUT, at + A::BYTES + B::offset(0, k)), step != first || k != 0);
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<1>();  // all but this group: the previous stage has been read
        if (step != first) release(previous);
        previous = ring.stage;
      }
      ptx::wgmma_wait_group<0>();
      ptx::finish_accumulators(chain);
      release(previous);
#pragma unroll
      for (int i = 0; i < REGISTERS; ++i) total[i] += chain[i];
    }
    store_accumulators<T>(problem, total, entry, row + first_row, column);
  }
}

namespace {

Kernel<WgmmaArguments> kernel_of(const Problem& problem) {
  return with_wgmma_operands(problem, [](auto type, auto a, auto b) -> Kernel<WgmmaArguments> {
    using T = typename decltype(type)::Type;
    return &warp_specialized<T, decltype(a)::value, decltype(b)::value>;
  });
}

cudaError_t launch(const Call& call, const Step& step) {
  return launch_lesson(kernel_of(call.problem), call, step);
}

const void* kernel(const Call& call) { return address_of(kernel_of(call.problem)); }

}  // namespace

extern const RungLaunch WarpSpecializedLaunch = {&launch, &kernel};

}  // namespace tiled
