// A consumer adds up the sums of pieces of K. Of segments it adds each one's to its tile's
// total, which stays in registers where they have room for it; else it waits in the workspace, in
// register order. There a tree's sums wait for their right-hand neighbours.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/engine/hopper/tiles.h"

namespace tiled {

// d = 0 + d, which makes -0 to 0: a total of one segment.
template <int STRIPS, int REGISTERS>
__device__ __forceinline__ void total_alone(float (&d)[STRIPS][REGISTERS]) {
#pragma unroll
  for (int i = 0; i < STRIPS * REGISTERS; ++i) d[i / REGISTERS][i % REGISTERS] += 0;
}

// add(d, piece, pieces): the total so far and segment `piece` of so many, in turn; the last leaves
// the total in d. One alone has no code between its products and its store but total_alone().
template <typename Tile, bool IN_REGISTERS>
struct Total;

template <typename Tile>
struct Total<Tile, /*IN_REGISTERS=*/true> {
  static constexpr int STRIPS = Tile::GROUP_P / 64, REGISTERS = Tile::BLOCK_Q / 2;
  float sum[STRIPS][REGISTERS];

  __device__ __forceinline__ Total(float*, int) {}
  __device__ __forceinline__ void add(float (&d)[STRIPS][REGISTERS], int piece, int pieces) {
    if (pieces == 1) return total_alone(d);
    const bool is_first = piece == 0, is_last = piece == pieces - 1;
#pragma unroll
    for (int i = 0; i < STRIPS * REGISTERS; ++i) {
      float &total = sum[i / REGISTERS][i % REGISTERS], &value = d[i / REGISTERS][i % REGISTERS];
      total = (is_first ? 0 : total) + value;
      if (is_last) value = total;
    }
  }
};

template <typename Tile>
struct Total<Tile, /*IN_REGISTERS=*/false> {
  static constexpr int STRIPS = Tile::GROUP_P / 64, REGISTERS = Tile::BLOCK_Q / 2;
  static constexpr int VECTORS = STRIPS * REGISTERS / 4;
  float4* at;  // this thread's first, of [block][consumer][VECTORS][128]

  __device__ __forceinline__ Total(float* workspace, int consumer)
      : at(reinterpret_cast<float4*>(workspace) +
           (static_cast<int64_t>(blockIdx.x) * Tile::CONSUMERS + consumer) * (VECTORS * 128) +
           threadIdx.x % 128) {}

  // Loads go out in batches: one by one, each would wait for the L2 cache on its own.
  __device__ __forceinline__ void add(float (&d)[STRIPS][REGISTERS], int piece, int pieces) {
    if (pieces == 1) return total_alone(d);
    const bool is_first = piece == 0, is_last = piece == pieces - 1;
    constexpr int BATCH = STRIPS * REGISTERS >= 192 ? 4 : 8;
    const auto value = [&](int i) -> float& { return d[i / REGISTERS][i % REGISTERS]; };
#pragma unroll
    for (int first = 0; first < VECTORS; first += BATCH) {
      float4 sum[BATCH];
#pragma unroll
      for (int i = 0; i < BATCH; ++i)
        sum[i] = is_first || first + i >= VECTORS ? make_float4(0, 0, 0, 0)
                                                  : __ldcg(at + (first + i) * 128);
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        if (first + i >= VECTORS) continue;
        const int j = 4 * (first + i);
        value(j) = sum[i].x + value(j), value(j + 1) = sum[i].y + value(j + 1);
        value(j + 2) = sum[i].z + value(j + 2), value(j + 3) = sum[i].w + value(j + 3);
        if (!is_last)
          __stcg(at + (first + i) * 128,
                 make_float4(value(j), value(j + 1), value(j + 2), value(j + 3)));
      }
    }
  }
};

// A tree's sums that wait, the first of them the largest. The first few stay in registers: with
// room for two, one of eight leaves' sums leaves them. The others are stored. A thread reads what
// it has written itself, so that none waits for another.
template <typename Tile>
struct WaitingSums {
  static constexpr int STRIPS = Tile::GROUP_P / 64, REGISTERS = Tile::BLOCK_Q / 2;
  static constexpr int VECTORS = STRIPS * REGISTERS / 4, KEPT = Tile::SUMS_KEPT;
  float4* stored;  // this thread's first, of [waiting][block][consumer][VECTORS][128]
  int count = 0;
  float kept[KEPT][STRIPS][REGISTERS];

  __device__ __forceinline__ WaitingSums(float* workspace, int consumer)
      : stored(reinterpret_cast<float4*>(workspace) +
               (static_cast<int64_t>(blockIdx.x) * Tile::CONSUMERS + consumer) * (VECTORS * 128) +
               threadIdx.x % 128) {}

  // A leaf's sums: so many that wait are added to them, and if the root is not done they wait. A
  // sum that is -0 is 0 in front of any other, and so is one that waits.
  __device__ __forceinline__ void add(float (&d)[STRIPS][REGISTERS], int additions, bool is_root) {
    if (additions == 0) total_alone(d);
#pragma unroll 1
    for (; additions > 0; --additions) add_last(d);
    if (!is_root) put(d);
  }

 private:
  __device__ __forceinline__ float4* place(int number) const {
    return stored + static_cast<int64_t>(number) * gridDim.x * (Tile::CONSUMERS * VECTORS * 128);
  }

  __device__ __forceinline__ void add_last(float (&d)[STRIPS][REGISTERS]) {
    --count;
#pragma unroll
    for (int number = 0; number < KEPT; ++number) {
      if (count != number) continue;
#pragma unroll
      for (int i = 0; i < STRIPS * REGISTERS; ++i) {
        float& value = d[i / REGISTERS][i % REGISTERS];
        value = kept[number][i / REGISTERS][i % REGISTERS] + value;
      }
    }
    if (count >= KEPT) add_stored(d, place(count - KEPT));
  }

  __device__ __forceinline__ void put(const float (&d)[STRIPS][REGISTERS]) {
#pragma unroll
    for (int number = 0; number < KEPT; ++number) {
      if (count != number) continue;
#pragma unroll
      for (int i = 0; i < STRIPS * REGISTERS; ++i)
        kept[number][i / REGISTERS][i % REGISTERS] = d[i / REGISTERS][i % REGISTERS];
    }
    if (count >= KEPT) store(d, place(count - KEPT));
    ++count;
  }

  // Loads go out in batches, as a total's.
  __device__ __forceinline__ void add_stored(float (&d)[STRIPS][REGISTERS], const float4* from) {
    constexpr int BATCH = 4;  // eight would take registers that sums wait in
#pragma unroll
    for (int first = 0; first < VECTORS; first += BATCH) {
      float4 sum[BATCH];
#pragma unroll
      for (int i = 0; i < BATCH && first + i < VECTORS; ++i)
        sum[i] = __ldcg(from + (first + i) * 128);
#pragma unroll
      for (int i = 0; i < BATCH && first + i < VECTORS; ++i) {
        float* const value = &d[0][0] + 4 * (first + i);
        value[0] = sum[i].x + value[0], value[1] = sum[i].y + value[1];
        value[2] = sum[i].z + value[2], value[3] = sum[i].w + value[3];
      }
    }
  }

  __device__ __forceinline__ void store(const float (&d)[STRIPS][REGISTERS], float4* to) {
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
      const float* const value = &d[0][0] + 4 * i;
      __stcg(to + i * 128, make_float4(value[0], value[1], value[2], value[3]));
    }
  }
};

}  // namespace tiled
