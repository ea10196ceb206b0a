// Rung hopper's kernel: what a block's warps are.
#pragma once

#include "cuda/engine/hopper/hopper.cuh"
#include "cuda/parts/launch/early_start.cuh"

namespace tiled {

// Whether there are kernels of the tile for a P of this layout: wgmma takes tf32 that is not
// contiguous along k from registers, where these have room.
template <typename Tile, typename T, bool P_MN_MAJOR>
constexpr bool has_hopper_kernel() {
  return !(sizeof(T) == 4 && P_MN_MAJOR) ||
         reads_by_registers(Tile::GROUP_P, Tile::BLOCK_Q, Tile::CONSUMERS);
}

template <typename Kernel, typename Tile>
__device__ __forceinline__ void run_hopper(const typename Kernel::Arguments& args,
                                           uint8_t* memory) {
  Kernel kernel(args, memory);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&args.p_map);
    ptx::prefetch_tensormap(&args.q_map);
    for (int output = args.keeps_pre_activation ? 0 : 1; output < 2; ++output)
      if (args.outputs[output].by_tma) ptx::prefetch_tensormap(&args.outputs[output].map);
  }
  kernel.initialise_barriers();
  let_the_next_start();
  // The same value in all lanes, known to the compiler as such.
  const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    if constexpr (Tile::MOVES_REGISTERS) ptx::setmaxnreg_dec<Tile::PRODUCER_REGISTERS>();
    const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
    if (warp < Kernel::PRODUCERS) kernel.produce(kernel.units(), warp);
    if (warp == 2) kernel.find_units();
    if (warp == 3) Kernel::Scales::fill(kernel);
  } else {
    if constexpr (Tile::MOVES_REGISTERS) ptx::setmaxnreg_inc<Tile::CONSUMER_REGISTERS>();
    kernel.consume(kernel.units(), warpgroup - 1);
  }
}

template <typename Tile, typename T, bool P_MN_MAJOR, bool Q_MN_MAJOR, bool FINISHES>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    hopper(const __grid_constant__ HopperArguments args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  using Kernel = Hopper<Tile, T, P_MN_MAJOR, Q_MN_MAJOR, FINISHES, /*GROUPED=*/false>;
  run_hopper<Kernel, Tile>(args, memory);
}

// The same, whose K a tree sums.
template <typename Tile, typename T, bool P_MN_MAJOR, bool Q_MN_MAJOR>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    hopper_of_trees(const __grid_constant__ TreeArguments args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  using Kernel = Hopper<Tile, T, P_MN_MAJOR, Q_MN_MAJOR, /*FINISHES=*/true, /*GROUPED=*/false,
                        /*TREES=*/true>;
  run_hopper<Kernel, Tile>(args, memory);
}

// The kernel of a product with groups.
template <typename Tile, typename T, bool P_MN_MAJOR, bool Q_MN_MAJOR, bool FINISHES>
__global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS_PER_SM)
    hopper_of_groups(const __grid_constant__ HopperArguments args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  using Kernel = Hopper<Tile, T, P_MN_MAJOR, Q_MN_MAJOR, FINISHES, /*GROUPED=*/true>;
  run_hopper<Kernel, Tile>(args, memory);
}

}  // namespace tiled
