// Rung fp16x3: fp32 accuracy from fp16 tensor cores. Each operand is cut in two fp16 parts,
// x 2^e = hi + lo 2^-11 (split.cu), and three of the four products are kept:
//
//     A B ~ hi hi + 2^-11 (hi lo + lo hi)         (Ootomo and Yokota, arXiv 2203.03341)
//
//     for each 64 of K:   main  = Ah Bh                       wgmma, from zero
//                         cross = Ah Bl + Al Bh               wgmma, from zero
//                         sum  += main + 2^-11 cross          fp32, rounded to nearest
//
// The tensor core truncates its sums, which adds up over K: hence the fresh accumulators for every
// 64. Roles, stages and grid are those of hopper; where tiles do not divide among the clusters that
// run at once stream-K cuts them (plan/stream_k.h): the sums, exact in fp32, are handed over
// at a multiple of 64 of K, so that bits stay as they are. While one consumer adds up, the other
// multiplies: each gives the other its turn shortly before its own products are done.
// Preconditions: planes as split.cu writes them; K is not 0.
// Bound by the power limit at large sizes: 3.9 to 4.8 times cuBLAS's fp32 from 4096 on, on an H200,
// split and guard included.
#include "cuda/engine/fp16x3/planes.cuh"
#include "cuda/parts/schedule/stream_k_turns.cuh"

namespace tiled {

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
    fp16x3_stream_k(const __grid_constant__ Fp16x3Arguments args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  using Kernel = OfPlanes<Tile, P_MN_MAJOR, Q_MN_MAJOR>;
  using Turns = StreamKTurns<decltype(Kernel::schedule), Tile::CONSUMERS>;
  run_fp16x3<Kernel>(args, memory, [&](const Kernel& kernel) {
    return Turns::of(kernel.schedule, args.stream_k, kernel.blocks, kernel.base + Kernel::CUT_AT);
  });
}

template <bool P_MN_MAJOR, bool Q_MN_MAJOR, typename... Tiles>
static Kernel<Fp16x3Arguments> function_of(TileList<Tiles...>, int tile, bool stream_k) {
  static const Kernel<Fp16x3Arguments> whole[] = {&fp16x3<Tiles, P_MN_MAJOR, Q_MN_MAJOR>...};
  static const Kernel<Fp16x3Arguments> cut[] = {&fp16x3_stream_k<Tiles, P_MN_MAJOR, Q_MN_MAJOR>...};
  return stream_k ? cut[tile] : whole[tile];
}

Kernel<Fp16x3Arguments> fp16x3_kernel(int tile, bool p_mn_major, bool q_mn_major, bool stream_k) {
  const Fp16x3PlaneTiles tiles;
  if (p_mn_major)
    return q_mn_major ? function_of<true, true>(tiles, tile, stream_k)
                      : function_of<true, false>(tiles, tile, stream_k);
  return q_mn_major ? function_of<false, true>(tiles, tile, stream_k)
                    : function_of<false, false>(tiles, tile, stream_k);
}

}  // namespace tiled
