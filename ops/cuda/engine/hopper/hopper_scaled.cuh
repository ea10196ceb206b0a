// The steps of a scaled product. A stage is one block of K, which has a sum of its own: four wgmma
// into a fresh accumulator. The tensor core keeps some 14 bits of that; what adds it to the total,
// times its scales, is an fp32 multiply-add (core/scales.h has the order).
//
//     one set of sums: consumer 0   wgmma strip 0 | promote | wgmma strip 1 | promote | ...
//                      consumer 1      promote    |  wgmma  |    promote    |  wgmma  | ...
//
//     two sets:        each one     wgmma block 1 | wgmma block 2 | wgmma block 3 | ...
//                                      promote 0  |   promote 1   |   promote 2   | ...
//
// With one set a consumer waits for its own products, and while it promotes them others' are under
// way. (Turns at the tensor cores, handed on by barriers, took 5 to 20 % longer on an H100.) Where
// registers have room for two, its own next block's are.
#pragma once

#include <type_traits>

#include "cuda/engine/hopper/hopper_kernel.cuh"

namespace tiled {

// Sets of sums beside the totals, and beside what else a consumer keeps in registers.
template <typename Kernel>
constexpr int SETS_OF_SUMS =
    Kernel::STRIPS == 1 && 3 * Kernel::REGISTERS + 40 <= Kernel::CONSUMER_REGISTERS ? 2 : 1;

// Goes on with the totals in d. `factor`: by what sums are promoted (TileScales::Factor).
template <typename Kernel, typename TailOf, typename Factor>
__device__ __forceinline__ void multiply_scaled(Kernel& kernel, typename Kernel::Accumulators& d,
                                                int first, int last, uint32_t p_at, uint32_t q_at,
                                                Ring<Kernel::STAGES>& ring, const TailOf& tail_of,
                                                const typename Kernel::Scales& scales,
                                                Factor factor) {
  using P = typename Kernel::P;
  using Q = typename Kernel::Q;
  using Wgmma = ptx::Wgmma<typename Kernel::Operands, 2 * Kernel::REGISTERS>;
  using Sums = float[Kernel::REGISTERS];
  constexpr int STRIPS = Kernel::STRIPS;
  static_assert(P::BLOCK_K == SCALE_BLOCK, "a stage is a block of K");
  if (first == last) return;
  const typename Kernel::StageRelease release(kernel);
  uint32_t full_at = kernel.full(0);
  uint32_t p_start = ptx::descriptor_start(p_at), q_start = ptx::descriptor_start(q_at);
  ptx::opaque(full_at);
  ptx::opaque(p_start, q_start);
  bool is_full = ptx::mbarrier_test_wait(full_at + ring.stage * 8, ring.parity);
  Ring<Kernel::STAGES> ending = ring;  // the stage whose products end next
  auto places = scales.places();       // and its scales'

  int step = first;  // whose products begin next

  // Begins the products of a strip of the ring's stage. With the last one of a stage the next is
  // asked for, while products go on.
  const auto begin = [&](Sums& sums, int strip) {
    if (strip == 0) {
      maybe_delay();
      if constexpr (FAULT != Fault::NoFullWait)
        if (!is_full) ptx::mbarrier_wait(full_at + ring.stage * 8, ring.parity);
      if constexpr (Kernel::IS_GROUPED) {
        if (step + 1 == last)
          if (const Tail tail = tail_of(); tail.left != 0) kernel.clear_behind(tail, ring.stage);
      }
      ++step;
    }
    const uint32_t p = p_start + ring.stage * (P::BYTES / 16);
    const uint32_t q = q_start + ring.stage * (Q::BYTES / 16);
    ptx::declare_accumulators(sums);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < P::STEPS; ++k)
      Wgmma::template run<false, false>(
          sums, ptx::descriptor_at(P::LAYOUT, p + P::offset(64 * strip, k) / 16),
          ptx::descriptor_at(Q::LAYOUT, q + Q::offset(0, k) / 16), k != 0);
    ptx::wgmma_commit_group();
    if (strip + 1 < STRIPS) return;
    ring.advance();
    is_full = ptx::mbarrier_test_wait(full_at + ring.stage * 8, ring.parity);
  };
  // Waits for the strip's sums, while so many strips that began later go on, and promotes them.
  const auto end = [&](Sums& sums, int strip, auto later) {
    const auto factors = scales.block_factors(factor, places.stage, strip);
    ptx::wgmma_wait_group<decltype(later)::value>();
    ptx::finish_accumulators(sums);
    if (strip + 1 == STRIPS) {
      __syncwarp();  // all lanes have read the scales of the stage before
      release.arrive(ending.stage);
      ending.advance();
    }
    scales.promote(factor, d[strip], sums, factors, places.stage);
    if (strip + 1 == STRIPS) places.advance();
  };

  using None = std::integral_constant<int, 0>;
  using One = std::integral_constant<int, 1>;
  if constexpr (SETS_OF_SUMS<Kernel> == 1) {
    while (step < last) {
#pragma unroll
      for (int strip = 0; strip < STRIPS; ++strip) {
        Sums sums;
        begin(sums, strip);
        end(sums, strip, None());
      }
    }
  } else {
    Sums even, odd;
    begin(even, 0);
    while (step + 1 < last) {
      begin(odd, 0);
      end(even, 0, One());
      begin(even, 0);
      end(odd, 0, One());
    }
    if (step < last) {
      begin(odd, 0);
      end(even, 0, One());
      end(odd, 0, None());
    } else {
      end(even, 0, None());
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
