// fp16x3.cu for products with groups: the same planes, stages and sums, of tiles that each block
// finds by itself (grouped_schedule.cuh).
#include "cuda/engine/fp16x3/groups.cuh"
#include "cuda/engine/fp16x3/planes.cuh"

namespace tiled {

template <typename Kernel>
__device__ __forceinline__ void store_unit(const Kernel& kernel, const typename Kernel::Sums& sums,
                                           const PlanesUnit& unit, uint32_t row) {
  const int p = unit.p + static_cast<int>(row);
  if (unit.is_left) return;
  if (unit.is_blank)
    clear_rows<64, Kernel::Tile::BLOCK_Q, 128>(kernel.args.grid, p, unit.q);
  else
    kernel.store(sums, p, unit.q, unit.batch, GroupOfC{kernel.args, unit});
}

template <typename Tile, bool P_MN_MAJOR, bool Q_MN_MAJOR>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    fp16x3_of_groups(const __grid_constant__ Fp16x3Arguments args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  using Kernel = OfPlanes<Tile, P_MN_MAJOR, Q_MN_MAJOR>;
  run_fp16x3<Kernel>(args, memory, [&](const Kernel& kernel) {
    return PlanesTurns<decltype(Kernel::schedule), Tile>(kernel.schedule, args.coarse);
  });
}

template <bool P_MN_MAJOR, bool Q_MN_MAJOR, typename... Tiles>
static Kernel<Fp16x3Arguments> function_of(TileList<Tiles...>, int tile) {
  static const Kernel<Fp16x3Arguments> kernels[] = {
      &fp16x3_of_groups<Tiles, P_MN_MAJOR, Q_MN_MAJOR>...};
  return kernels[tile];
}

Kernel<Fp16x3Arguments> fp16x3_groups_kernel(int tile, bool p_mn_major, bool q_mn_major) {
  const Fp16x3PlaneTiles tiles;
  if (p_mn_major)
    return q_mn_major ? function_of<true, true>(tiles, tile)
                      : function_of<true, false>(tiles, tile);
  return q_mn_major ? function_of<false, true>(tiles, tile)
                    : function_of<false, false>(tiles, tile);
}

}  // namespace tiled
