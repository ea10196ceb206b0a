// Lesson 5, tma_wgmma. Hopper's instructions alone: one thread asks the copy engine (TMA) for a box
// of A and a box of B, and one warpgroup multiplies them where they are in shared memory (wgmma).
// No thread touches an operand any more.
//
//     thread 0          TMA -> stage 0     TMA -> stage 1      TMA -> stage 0
//     all 128 threads          wait full[0]  wgmma  sync   wait full[1]  wgmma  sync   ...
//
//     A stage: [64 of m][128 bytes of k] and [128 of n][128 bytes of k], swizzled
//     (parts/pipeline/operand_tile.cuh); the two mbarriers count the bytes that have arrived.
//
// Preconditions: base and long strides of A and B are multiples of 16 bytes; sizes below 2^31; tf32
// operands are contiguous along k.
// Bound by latency: nothing is copied while the threads wait for the end of a stage's wgmma. Half
// of cuBLAS's speed at 4096, bf16, on an H200. Next: lesson 6 lets one warp copy and others
// multiply.
#include "core/segments.h"
#include "cuda/lessons/5_tma_wgmma/tile.h"
#include "cuda/parts/epilogue/wgmma_store.cuh"
#include "cuda/parts/launch/wgmma.h"
#include "cuda/parts/launch/wgmma_operands.cuh"
#include "cuda/parts/pipeline/operand_tile.cuh"

namespace tiled {

template <typename T, bool A_MN_MAJOR, bool B_MN_MAJOR>
__global__ void __launch_bounds__(TmaWgmmaTile::THREADS)
    tma_wgmma(const __grid_constant__ WgmmaArguments args) {
  using Tile = TmaWgmmaTile;
  using A = OperandTile<T, Tile::BLOCK_M, Tile::BLOCK_M, A_MN_MAJOR>;
  using B = OperandTile<T, Tile::BLOCK_N, Tile::BLOCK_N, B_MN_MAJOR>;
  constexpr int REGISTERS = Tile::BLOCK_N / 2;
  extern __shared__ __align__(1024) uint8_t memory[];  // [STAGES][A, B], then full[STAGES]
  const uint32_t base = ptx::shared_address(memory);
  const auto full = [&](int stage) { return base + Tile::STAGES * Tile::STAGE_BYTES + stage * 8; };
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Tile::STAGES; ++stage) ptx::mbarrier_init(full(stage), 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  const Problem& problem = args.problem;
  const int tiles_n = static_cast<int>((problem.n - 1) / Tile::BLOCK_N + 1);
  const int row = blockIdx.x / tiles_n * Tile::BLOCK_M;
  const int column = blockIdx.x % tiles_n * Tile::BLOCK_N;
  const int steps = static_cast<int>((problem.k + A::BLOCK_K - 1) / A::BLOCK_K);
  const int segment = static_cast<int>(segment_steps<A::BLOCK_K>(problem.k));  // steps
  const auto a_part = A::part(1, 0);
  const auto b_part = B::part(1, 0);
  uint32_t filled = 0, used = 0;  // stages, counted on and on

  for (int64_t entry = blockIdx.y; entry < problem.batch; entry += gridDim.y) {
    const int a_entry = problem.a.batch_stride ? entry : 0;
    const int b_entry = problem.b.batch_stride ? entry : 0;
    const auto fill = [&](int step) {
      const int stage = filled++ % Tile::STAGES;
      const uint32_t at = base + stage * Tile::STAGE_BYTES;
      if (threadIdx.x != 0) return;
      ptx::mbarrier_arrive_expect_tx(full(stage), Tile::STAGE_BYTES);
      A::load(a_part, at, &args.a_map, row, step * A::BLOCK_K, a_entry, full(stage));
      B::load(b_part, at + A::BYTES, &args.b_map, column, step * A::BLOCK_K, b_entry, full(stage));
    };
    float total[REGISTERS] = {}, chain[REGISTERS];
    ptx::declare_accumulators(chain);
    if (steps > 0) fill(0);
    for (int first = 0; first < steps; first += segment) {
      const int last = min(first + segment, steps);
      for (int step = first; step < last; ++step) {
        if (step + 1 < steps) fill(step + 1);
        const int stage = used % Tile::STAGES;
        ptx::mbarrier_wait(full(stage), used++ / Tile::STAGES % 2);
        const uint32_t at = base + stage * Tile::STAGE_BYTES;
        ptx::wgmma_fence();
#pragma unroll
        for (int k = 0; k < A::STEPS; ++k)
          ptx::Wgmma<T, Tile::BLOCK_N>::template run<A_MN_MAJOR, B_MN_MAJOR>(
              chain, ptx::descriptor(A::LAYOUT, at + A::offset(0, k)),
              ptx::descriptor(B::LAYOUT, at + A::BYTES + B::offset(0, k)), step != first || k != 0);
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<0>();
        __syncthreads();  // all have read the stage: it may be filled again
      }
      ptx::finish_accumulators(chain);
#pragma unroll
      for (int i = 0; i < REGISTERS; ++i) total[i] += chain[i];
    }
    store_accumulators<T>(problem, total, entry, row, column);
  }
}

namespace {

Kernel<WgmmaArguments> kernel_of(const Problem& problem) {
  return with_wgmma_operands(problem, [](auto type, auto a, auto b) -> Kernel<WgmmaArguments> {
    using T = typename decltype(type)::Type;
    return &tma_wgmma<T, decltype(a)::value, decltype(b)::value>;
  });
}

cudaError_t launch(const Call& call, const Step& step) {
  return launch_lesson(kernel_of(call.problem), call, step);
}

const void* kernel(const Call& call) { return address_of(kernel_of(call.problem)); }

}  // namespace

extern const RungLaunch TmaWgmmaLaunch = {&launch, &kernel};

}  // namespace tiled
