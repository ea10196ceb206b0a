// The end of a group's K. TMA fills with zeros what a box has beyond the matrix, but where groups
// share out K the next one's elements follow, and 0 * Inf is no zero: the consumers clear them in
// both operands of the stage before they multiply.
#pragma once

#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/shared.cuh"
#include "cuda/ptx/swizzle.cuh"
#include "cuda/ptx/tma.cuh"

namespace tiled {

// k from `left` on of an OperandTile at `at`, by so many threads.
template <typename Operand>
__device__ __forceinline__ void clear_from(int left, uint32_t at, int thread, int threads) {
  if constexpr (Operand::IS_MN_MAJOR) {
    for (int atom = 0; atom < Operand::ATOMS; ++atom)
      for (int byte = left * Operand::ROW_BYTES + thread * 16; byte < Operand::ATOM_BYTES;
           byte += threads * 16)
        ptx::store_shared_v4(at + atom * Operand::ATOM_BYTES + byte, make_uint4(0, 0, 0, 0));
  } else {
    constexpr int WORDS = Operand::ROW_BYTES / 4;
    const int kept = left * static_cast<int>(sizeof(typename Operand::Element));  // bytes of a row
    for (int i = thread; i < Operand::BYTES / 4; i += threads) {
      const int first = i % WORDS * 4;  // byte of the row
      if (first + 4 <= kept) continue;
      const uint32_t word = at + ptx::swizzled<Operand::ROW_BYTES>(i * 4);
      const uint32_t mask = first >= kept ? 0 : (1u << 8 * (kept - first)) - 1;
      ptx::store_shared_u32(word, mask == 0 ? 0 : ptx::load_shared_u32(word) & mask);
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
