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
    constexpr int CHUNKS = Operand::ROW_BYTES / 16;
    const int kept = left * static_cast<int>(sizeof(typename Operand::Element));  // bytes of a row
    for (int i = thread; i < Operand::BYTES / 16; i += threads) {
      const int of_chunk = kept - i % CHUNKS * 16;  // of its bytes those that are kept
      if (of_chunk >= 16) continue;
      const uint32_t chunk = at + ptx::swizzled<Operand::ROW_BYTES>(i * 16);
      uint4 v = make_uint4(0, 0, 0, 0);
      if (of_chunk > 0) {
        v = ptx::load_shared_v4(chunk);
        uint32_t* const words = &v.x;
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          const int bytes = of_chunk - 4 * w;
          if (bytes < 4) words[w] &= bytes <= 0 ? 0 : (1u << 8 * bytes) - 1;
        }
      }
      ptx::store_shared_v4(chunk, v);
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
