// The consumers of fp16x3's kernels whose operands are both planes (fp16x3.cu says how they
// multiply), for units of any kind: whole tiles, stream-K's parts of tiles, tiles of groups.
#pragma once

#include "cuda/engine/fp16x3/fp16x3.cuh"

namespace tiled {

// 64 rows of a unit, from its row `row` on, to C.
template <typename Kernel>
__device__ __forceinline__ void store_unit(const Kernel& kernel, const typename Kernel::Sums& sums,
                                           const Unit& unit, uint32_t row) {
  kernel.store(sums, unit.p + row, unit.q, unit.batch);
}

template <typename Tile, bool P_MN_MAJOR, bool Q_MN_MAJOR>
using PlanesKernel = Fp16x3<Tile, Planes<Tile::BLOCK_P, 64, P_MN_MAJOR>,
                            Planes<Tile::BLOCK_Q, Tile::BLOCK_Q, Q_MN_MAJOR>>;

template <typename Tile, bool P_MN_MAJOR, bool Q_MN_MAJOR>
struct OfPlanes : PlanesKernel<Tile, P_MN_MAJOR, Q_MN_MAJOR> {
  using Base = PlanesKernel<Tile, P_MN_MAJOR, Q_MN_MAJOR>;
  using P = typename Base::P::Plane;
  using Q = typename Base::Q::Plane;
  using Set = typename Base::Set;
  using Base::args, Base::base, Base::full, Base::turn;
  static constexpr int STAGES = Base::STAGES, REGISTERS = Base::REGISTERS;
  static constexpr uint32_t Q_AT = Base::Q_AT;

  using Base::Base;

  __device__ __forceinline__ void multiply(Set& d, uint64_t p, uint64_t q, bool accumulate) {
    ptx::Wgmma<__half, Tile::BLOCK_Q>::template run<P_MN_MAJOR, Q_MN_MAJOR>(d, p, q, accumulate);
  }

  template <typename Turns>
  __device__ __forceinline__ void consume(const Turns& units, int consumer) {
    const int thread = threadIdx.x % 128;
    const uint32_t row = 64 * consumer;
    const uint32_t p_at = base + P::offset(row, 0), q_at = base + Q_AT;
    // The cross products come in A's and B's order also where P is B: the same bits either way.
    const uint32_t p_first = args.swap_ab ? P::BYTES >> 4 : 0;
    const uint32_t p_second = (P::BYTES >> 4) - p_first;
    const uint32_t q_first = args.swap_ab ? 0 : Q::BYTES >> 4;
    const uint32_t q_second = (Q::BYTES >> 4) - q_first;
    float4* const total = this->total_of(consumer);
    const typename Base::StageRelease release(*this);
    Ring<STAGES> ring;
    uint32_t waits = 0;
    for (uint32_t i = units.first; i < units.end; i += units.stride) {
      const auto unit = units.at(i);
      Set main, cross, sum;
      ptx::declare_accumulators(main);
      ptx::declare_accumulators(cross);
      for (int piece = 0; piece < unit.pieces; ++piece) {
        if constexpr (Turns::STREAM_K) {
          units.take_over(sum, unit, consumer);
        } else {
#pragma unroll
          for (int j = 0; j < REGISTERS; ++j) sum[j] = 0;
        }
        const int end = unit.end(piece);
        for (int step = unit.begin(piece); step < end; ++step, ring.advance()) {
          const uint32_t offset = ring.stage * Tile::STAGE_BYTES;
          const uint64_t p = ptx::descriptor(P::LAYOUT, p_at + offset);
          const uint64_t q = ptx::descriptor(Q::LAYOUT, q_at + offset);
          this->wait_full(ring.stage, ring.parity);
          if constexpr (Tile::CONSUMERS == 2) {
            // Consumer 1 after consumer 0, which follows consumer 1's step before.
            if (consumer == 1 || waits != 0)
              this->wait_turn(consumer, (waits - (consumer == 0)) % 2);
            ++waits;
          }
          ptx::wgmma_fence();
#pragma unroll
          for (int k = 0; k < P::STEPS; ++k) {
            const uint64_t pk = p + (P::offset(0, k) >> 4), qk = q + (Q::offset(0, k) >> 4);
            multiply(main, pk, qk, k != 0);
            multiply(cross, pk + p_first, qk + q_first, k != 0);
            multiply(cross, pk + p_second, qk + q_second, true);
            if (k >= P::STEPS - 2) ptx::wgmma_commit_group();
          }
          if constexpr (Tile::CONSUMERS == 2) {
            // The last quarter of the products covers the other's way to the tensor cores.
            ptx::wgmma_wait_group<1>();
            if (thread % 32 == 0) ptx::mbarrier_arrive(turn(1 - consumer));
          }
          ptx::wgmma_wait_group<0>();
          ptx::finish_accumulators(main);
          ptx::finish_accumulators(cross);
          release.arrive(ring.stage);
#pragma unroll
          for (int j = 0; j < REGISTERS; ++j)
            sum[j] = __fadd_rn(sum[j], __fmaf_rn(cross[j], 0x1p-11f, main[j]));
        }
        if (unit.pieces > 1) this->add_to_total(sum, total, piece == 0);
      }
      if constexpr (Turns::STREAM_K)
        if (units.hand_over(sum, unit, consumer)) continue;
      store_unit(*this, sum, unit, row);
    }
  }
};

}  // namespace tiled
