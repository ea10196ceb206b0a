// Rung 9, fp16x3: fp32 accuracy from fp16 tensor cores. Each operand is cut in two fp16 parts,
// x 2^e = hi + lo 2^-11 (split.cu), and three of the four products are kept:
//
//     A B ~ hi hi + 2^-11 (hi lo + lo hi)         (Ootomo and Yokota, arXiv 2203.03341)
//
//     for each 64 of K:   main  = Ah Bh                       wgmma, from zero
//                         cross = Ah Bl + Al Bh               wgmma, from zero
//                         sum  += main + 2^-11 cross          fp32, rounded to nearest
//
// The tensor core truncates its sums, which adds up over K: hence the fresh accumulators for every
// 64. Roles, stages and grid are those of rung 7; where tiles do not divide among the clusters that
// run at once they are cut in time (parts/wrap_around.h): the sums, exact in fp32, are handed over
// at a multiple of 64 of K, so that bits stay as they are. While one consumer adds up, the other
// multiplies: each gives the other its turn shortly before its own products are done.
// Preconditions: planes as split.cu writes them; K is not 0.
// Bound by the power limit at large sizes: 3.9 to 4.8 times cuBLAS's fp32 from 4096 on, on an H200,
// split and guard included.
#include "cuda/parts/cut_turns.cuh"
#include "cuda/rungs/9_fp16x3/fp16x3.cuh"

namespace tiled {
namespace {

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
    const uint32_t p_first = args.exchanged ? P::BYTES >> 4 : 0;
    const uint32_t p_second = (P::BYTES >> 4) - p_first;
    const uint32_t q_first = args.exchanged ? 0 : Q::BYTES >> 4;
    const uint32_t q_second = (Q::BYTES >> 4) - q_first;
    float4* const total = this->total_of(consumer);
    Ring<STAGES> ring;
    uint32_t waits = 0;
    for (uint32_t i = units.first; i < units.end; i += units.stride) {
      const Unit unit = units.at(i);
      Set main, cross, sum;
      ptx::declare_accumulators(main);
      ptx::declare_accumulators(cross);
      for (int piece = 0; piece < unit.pieces; ++piece) {
        if constexpr (Turns::CUTS) {
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
          ptx::mbarrier_wait(full(ring.stage), ring.parity);
          if constexpr (Tile::CONSUMERS == 2) {
            // Consumer 1 after consumer 0, which follows consumer 1's step before.
            if (consumer == 1 || waits != 0)
              ptx::mbarrier_wait(turn(consumer), (waits - (consumer == 0)) % 2);
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
          this->release(ring.stage);
#pragma unroll
          for (int j = 0; j < REGISTERS; ++j)
            sum[j] = __fadd_rn(sum[j], __fmaf_rn(cross[j], 0x1p-11f, main[j]));
        }
        if (unit.pieces > 1) this->add_to_total(sum, total, piece == 0);
      }
      if constexpr (Turns::CUTS)
        if (units.hand_over(sum, unit, consumer)) continue;
      this->store(sum, unit.p + row, unit.q, unit.batch);
    }
  }
};

}  // namespace

template <typename Tile, bool P_MN_MAJOR, bool Q_MN_MAJOR>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    fp16x3(const __grid_constant__ Fp16x3Arguments args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  using Kernel = OfPlanes<Tile, P_MN_MAJOR, Q_MN_MAJOR>;
  run_fp16x3<Kernel>(args, memory,
                     [](const Kernel& kernel) { return WholeTurns(kernel.schedule); });
}

template <typename Tile, bool P_MN_MAJOR, bool Q_MN_MAJOR>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    fp16x3_cut(const __grid_constant__ Fp16x3Arguments args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  using Kernel = OfPlanes<Tile, P_MN_MAJOR, Q_MN_MAJOR>;
  using Turns = CutTurns<decltype(Kernel::schedule), Tile::CONSUMERS>;
  run_fp16x3<Kernel>(args, memory, [&](const Kernel& kernel) {
    return Turns::of(kernel.schedule, args.cuts, kernel.blocks, kernel.base + Kernel::CUT_AT);
  });
}

template <bool P_MN_MAJOR, bool Q_MN_MAJOR, typename... Tiles>
static Kernel<Fp16x3Arguments> function_of(TileList<Tiles...>, int tile, bool cuts) {
  static const Kernel<Fp16x3Arguments> whole[] = {&fp16x3<Tiles, P_MN_MAJOR, Q_MN_MAJOR>...};
  static const Kernel<Fp16x3Arguments> cut[] = {&fp16x3_cut<Tiles, P_MN_MAJOR, Q_MN_MAJOR>...};
  return cuts ? cut[tile] : whole[tile];
}

Kernel<Fp16x3Arguments> fp16x3_kernel(int tile, bool p_mn_major, bool q_mn_major, bool cuts) {
  const Fp16x3PlaneTiles tiles;
  if (p_mn_major)
    return q_mn_major ? function_of<true, true>(tiles, tile, cuts)
                      : function_of<true, false>(tiles, tile, cuts);
  return q_mn_major ? function_of<false, true>(tiles, tile, cuts)
                    : function_of<false, false>(tiles, tile, cuts);
}

}  // namespace tiled
