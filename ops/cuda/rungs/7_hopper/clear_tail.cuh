// The end of a group's K. TMA fills with zeros what a box has beyond the matrix, but where groups
// share out K the next one's elements follow, and 0 * Inf is no zero: the consumers clear them in
// both operands of the stage before they multiply.
#pragma once

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/shared_u16.cuh"
#include "cuda/ptx/swizzle.cuh"
#include "cuda/ptx/tma.cuh"

namespace tiled {

// The step of a unit whose stage K fills in part, and how much of it, elements; none: -1.
struct Tail {
  int step = -1, left = 0;
  static __device__ __forceinline__ Tail of(int k_size, int block_k) {
    const int left = k_size % block_k;
    return {left == 0 ? -1 : k_size / block_k, left};
  }
};

// k from `left` on of an OperandTile of 16-bit elements at `at`, by so many threads.
template <typename Operand>
__device__ __forceinline__ void clear_from(int left, uint32_t at, int thread, int threads) {
  const uint4 zeros = make_uint4(0, 0, 0, 0);
  if constexpr (Operand::MN_MAJOR) {
    for (int atom = 0; atom < Operand::ATOMS; ++atom)
      for (int byte = left * Operand::ROW_BYTES + thread * 16; byte < Operand::ATOM_BYTES;
           byte += threads * 16)
        ptx::store_shared_v4(at + atom * Operand::ATOM_BYTES + byte, zeros);
  } else {
    for (int row = thread; row < Operand::ROWS; row += threads) {
      const auto place = [&](int k) { return at + ptx::swizzled<128>(row * 128 + k * 2); };
      int k = left;
      for (; k % 8 != 0; ++k) ptx::store_shared_u16(place(k), 0);
      for (; k < Operand::BLOCK_K; k += 8) ptx::store_shared_v4(place(k), zeros);
    }
  }
}

// By the consumers that share the tile: all of them, or one that has it alone.
template <typename Tile, typename P, typename Q>
__device__ __forceinline__ void clear_tail(int left, uint32_t p_at, uint32_t q_at) {
  constexpr int THREADS = Tile::PING_PONG ? 128 : 128 * Tile::CONSUMERS;
  const int consumer = Tile::PING_PONG ? static_cast<int>(threadIdx.x) / 128 - 1 : 0;
  const int thread = static_cast<int>(threadIdx.x) - 128 - consumer * 128;
  clear_from<P>(left, p_at, thread, THREADS);
  clear_from<Q>(left, q_at, thread, THREADS);
  ptx::fence_proxy_async();
  // Barriers 1 to CONSUMERS are those of slices.
  ptx::barrier_sync(1 + Tile::CONSUMERS + consumer, THREADS);
}

}  // namespace tiled
