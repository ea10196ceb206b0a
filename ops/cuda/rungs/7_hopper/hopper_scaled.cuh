// The steps of a scaled product. A stage is one block of K, which has a sum of its own: four wgmma
// into a fresh accumulator. The tensor core keeps some 14 bits of that; what adds it to the total,
// times its scales, is an fp32 multiply-add (core/scales.h has the order).
//
//     consumer 0   wgmma strip 0 | promote | wgmma strip 1 | promote | ...
//     consumer 1      promote    |  wgmma  |    promote    |  wgmma  | ...
//
// A consumer waits for its own products, and while it promotes them others' are under way. (Turns
// at the tensor cores, handed on by barriers, took 5 to 20 % longer on an H100.)
#pragma once

#include "cuda/rungs/7_hopper/hopper_kernel.cuh"

namespace tiled {

// Goes on with the totals in d.
template <typename Kernel>
__device__ __forceinline__ void multiply_scaled(Kernel& kernel, typename Kernel::Accumulators& d,
                                                int first, int last, uint32_t p_at, uint32_t q_at,
                                                Ring<Kernel::STAGES>& ring,
                                                const typename Kernel::Scales& scales) {
  using P = typename Kernel::P;
  using Q = typename Kernel::Q;
  using Wgmma = ptx::Wgmma<typename TypesOf<typename P::Element>::Operands, 2 * Kernel::REGISTERS>;
  static_assert(P::BLOCK_K == SCALE_BLOCK, "a stage is a block of K");
  const typename Kernel::Word word(kernel);
  uint32_t full_at = kernel.full(0);
  uint32_t p_start = ptx::descriptor_start(p_at), q_start = ptx::descriptor_start(q_at);
  ptx::forget(full_at);
  ptx::forget(p_start, q_start);
  bool is_full = ptx::mbarrier_test_wait(full_at + ring.stage * 8, ring.parity);
  if (first == last) return;
  for (int step = first; step < last; ++step) {
    const uint32_t stage = ring.stage;
    maybe_delay();
    if constexpr (FAULT != Fault::NoFullWait)
      if (!is_full) ptx::mbarrier_wait(full_at + stage * 8, ring.parity);
    const uint32_t p = p_start + stage * (P::BYTES / 16), q = q_start + stage * (Q::BYTES / 16);
    const Ring<Kernel::STAGES> here = ring;
#pragma unroll
    for (int strip = 0; strip < Kernel::STRIPS; ++strip) {
      float sums[Kernel::REGISTERS];
      ptx::declare_accumulators(sums);
      ptx::wgmma_fence();
#pragma unroll
      for (int k = 0; k < P::STEPS; ++k) {
        Wgmma::template run<false, false>(
            sums, ptx::descriptor_at(P::LAYOUT, p + P::offset(64 * strip, k) / 16),
            ptx::descriptor_at(Q::LAYOUT, q + Q::offset(0, k) / 16), k != 0);
      }
      ptx::wgmma_commit_group();
      if (strip + 1 == Kernel::STRIPS) {
        ring.advance();
        is_full = ptx::mbarrier_test_wait(full_at + ring.stage * 8, ring.parity);
      }
      const auto factors = scales.block_factors(here, strip);
      ptx::wgmma_wait_group<0>();
      ptx::finish_accumulators(sums);
      if (strip + 1 == Kernel::STRIPS) word.send(stage);
      scales.promote(d[strip], sums, factors, here.of_two_laps());
    }
  }
}

template <typename Tile, typename T, bool FINISHES>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    hopper_scaled(const __grid_constant__ ScaledArguments args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  run_hopper<Hopper<Tile, T, false, false, FINISHES, /*GROUPED=*/false>, Tile>(args, memory);
}

// The same of groups.
template <typename Tile, typename T, bool FINISHES>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    hopper_scaled_of_groups(const __grid_constant__ ScaledArguments args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  run_hopper<Hopper<Tile, T, false, false, FINISHES, /*GROUPED=*/true>, Tile>(args, memory);
}

}  // namespace tiled
