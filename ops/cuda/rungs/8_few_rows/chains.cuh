// few_rows for fp32: the same ring, and chains of fused multiply-adds, which lanes have patches of
// (lanes.cu and patches.cu say how large).
//
//     stage:  P [rows][16 bytes of k], Q [columns][16 bytes of k], swizzled (lane_values.cuh)
//
// A step is 16 bytes of K of both; its registers are refilled as soon as it is done, AHEAD steps
// before they are needed.
#pragma once

#include "cuda/rungs/8_few_rows/lane_values.cuh"
#include "cuda/rungs/8_few_rows/ring.cuh"

namespace tiled {

template <typename Tile, bool P_MN_MAJOR, bool Q_MN_MAJOR>
class FewRowsChains : public FewRowsRing<Tile, 4, P_MN_MAJOR, Q_MN_MAJOR> {
  using Ring = FewRowsRing<Tile, 4, P_MN_MAJOR, Q_MN_MAJOR>;
  using Ring::args;
  using typename Ring::Place;

 public:
  using Ring::Ring;

  // A warp's share of every tile: LANES_P x LANES_Q patches.
  __device__ void consume(int warp) {
    // Lane i reads the same values of P as i ^ 1 and the same of Q as i ^ 2, where others do: then
    // the hardware serves a load of half a warp at once, instead of a quarter.
    const int lane = threadIdx.x % 32;
    const int lane_p = Tile::LANES_P == 32 ? lane : lane / 2 % 8;
    const int lane_q = Tile::LANES_P == 32 ? 0 : lane / 16 * 2 + lane % 2;
    p_row = P::row(warp % Tile::BANDS * (Tile::BLOCK_P / Tile::BANDS), lane_p);
    q_row = Q::row(warp / Tile::BANDS * Tile::COLUMNS, lane_q);
    p_offset = P::offset(p_row), q_offset = Q::offset(q_row);
    Place place(*this), last = place;
    uint32_t parity = 0;
    bool read = false;  // the stage before, by all lanes
    int tile = blockIdx.x;
    if (tile >= args.tiles) return;
    this->wait_full(place.full, parity);
#pragma unroll
    for (int step = 0; step < AHEAD; ++step) fetch(step, step, place.at);

    for (; tile < args.tiles; tile += gridDim.x) {
      const bool last_tile = tile + static_cast<int>(gridDim.x) >= args.tiles;
      int left = args.segment;
#pragma unroll
      for (int i = 0; i < SUMS; ++i) total[i] = 0;
      for (int stage = 0; stage < args.stages; ++stage) {
        maybe_delay();
#pragma unroll
        for (int step = 0; step < STEPS - AHEAD; ++step) {
          multiply(step % AHEAD);
          fetch(step % AHEAD, step + AHEAD, place.at);
          if (step == 0) this->release(last, read);
        }
        if (last_tile && stage + 1 == args.stages) {
#pragma unroll
          for (int step = 0; step < AHEAD; ++step) multiply(step);
        } else {
          last = place;
          if (place.advance(*this)) parity ^= 1;
          multiply(0);
          this->wait_full(place.full, parity);
          fetch(0, 0, place.at);
#pragma unroll
          for (int step = 1; step < AHEAD; ++step) {
            multiply(step);
            fetch(step, step, place.at);
          }
          read = this->has_read(chain);
        }
        if (HAS_TOTALS && --left == 0) add_segment_to_total(), left = args.segment;
      }
      if (!HAS_TOTALS || left != args.segment) add_segment_to_total();
      this->template store_totals<float>(
          total, this->corner_of(tile), p_row, q_row,
          [](int i) { return P::apart(i / Tile::PATCH_Q); },
          [](int i) { return Q::apart(i % Tile::PATCH_Q); });
    }
  }

 private:
  static_assert(Tile::LANES_P * Tile::LANES_Q == 32 && (Tile::LANES_P == 32 || Tile::LANES_P == 8));
  using P = LaneValues<Tile::PATCH_P, Tile::LANES_P, P_MN_MAJOR, 32>;
  using Q =
      LaneValues<Tile::PATCH_Q, Tile::LANES_Q, Q_MN_MAJOR, few_rows_q_strip(Tile::BLOCK_Q, 4)>;
  // Patches are for segments that are shared out: a tile has one (plan.cpp).
  static constexpr bool HAS_TOTALS = has_totals(Tile::BY);
  static constexpr int SUMS = Tile::PATCH_P * Tile::PATCH_Q;
  static constexpr int STEPS = 8 * Tile::BOXES;  // of 16 bytes of K, in a stage
  static constexpr int AHEAD = 4;                // as registers allow, of 8 sums at the most
  static_assert(STEPS % AHEAD == 0, "a step's registers are the same in every stage");

  __device__ __forceinline__ void fetch(int slot, int step, uint32_t stage) {
    constexpr int Q_AT = Tile::BOXES * Tile::P_BOX;
    P::load(p_values[slot], stage + p_offset, step / 8 * Tile::P_BOX, step % 8);
    Q::load(q_values[slot], stage + q_offset, Q_AT + step / 8 * Tile::Q_BOX, step % 8);
  }

  __device__ __forceinline__ void multiply(int slot) {
#pragma unroll
    for (int k = 0; k < P::K; ++k)
#pragma unroll
      for (int i = 0; i < SUMS; ++i)
        chain[i] = mul_add(p_values[slot].value[i / Tile::PATCH_Q][k],
                           q_values[slot].value[i % Tile::PATCH_Q][k], chain[i]);
  }

  __device__ __forceinline__ void add_segment_to_total() {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      total[i] += chain[i];
      chain[i] = 0;
    }
  }

  int p_row, q_row;  // of the tile, the lane's first
  uint32_t p_offset, q_offset;
  typename P::Step p_values[AHEAD];
  typename Q::Step q_values[AHEAD];
  float chain[SUMS] = {}, total[SUMS];
};

}  // namespace tiled
