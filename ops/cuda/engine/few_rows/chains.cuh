// few_rows for fp32: the same ring, and chains of fused multiply-adds, which lanes have thread
// tiles of (lanes.cu and patches.cu say how large).
//
//     stage:  P [rows][16 bytes of k], Q [columns][16 bytes of k], swizzled (lane_values.cuh)
//
// A step is 16 bytes of K of both, loaded AHEAD steps before it is needed. Where registers allow,
// loads go to others than those that are being read, or the compiler holds them back until these
// are free, in a heap for which the chain then waits.
#pragma once

#include <type_traits>

#include "cuda/engine/few_rows/lane_values.cuh"
#include "cuda/engine/few_rows/ring.cuh"
#include "cuda/ptx/opaque_sum.cuh"

namespace tiled {

template <typename Tile, bool TREES, bool P_MN_MAJOR, bool Q_MN_MAJOR>
class FewRowsChains : public FewRowsRing<Tile, 4, TREES, P_MN_MAJOR, Q_MN_MAJOR> {
  using Ring = FewRowsRing<Tile, 4, TREES, P_MN_MAJOR, Q_MN_MAJOR>;
  using Ring::args;
  using typename Ring::Place;

 public:
  using Ring::Ring;

  // A warp's share of every tile: LANES_P x LANES_Q thread tiles.
  __device__ void consume(int warp) {
    // Lane i reads the same values of P as i ^ 1 and the same of Q as i ^ 2, where others do: then
    // the hardware serves a load of half a warp at once, instead of a quarter.
    const int lane = threadIdx.x % 32;
    const int lane_p = Tile::LANES_P == 32 ? lane : lane / 2 % 8;
    const int lane_q = Tile::LANES_P == 32 ? 0 : lane / 16 * 2 + lane % 2;
    p_row = P::row(warp % Tile::BANDS * (Tile::BLOCK_P / Tile::BANDS), lane_p);
    q_row = Q::row(warp / Tile::BANDS * Tile::COLUMNS, lane_q);
    p_offset = P::offset(p_row), q_offset = Q::offset(q_row);
    Place place(*this), next = place, last = place;
    uint32_t parity = 0;  // of the next stage
    uint32_t bits = 0;    // of the stage before: has_read() votes on them beside the next products
    bool has_last = false;
    int tile = blockIdx.x;
    if (tile >= args.tiles) return;
    // Stages of this block that are not done.
    uint32_t left = this->stages_of_block();
    this->wait_full(place.full, parity);
    if (next.advance(*this)) parity ^= 1;
    if (left > 1) this->wait_full(next.full, parity);
#pragma unroll
    for (int step = 0; step < AHEAD; ++step) fetch(step, place.at);

    // One stage's products, and between them what comes AHEAD steps later. The next stage has
    // arrived before: a wait in the middle would part loads from the products that hide them. Only
    // at the end comes that for the stage after it, if there is one. `steps`: what the stage has of
    // the piece, at least AHEAD of them, since these are loaded.
    const auto multiply_stage = [&](auto has_next, auto steps) {
      maybe_delay();
      Place after = next;
      const uint32_t wraps = after.advance(*this);
      bool ready = false;
#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
        if (step < steps) multiply(step);
        if (step + AHEAD < STEPS) {
          if (step + AHEAD < steps) fetch(step + AHEAD, place.at);
        } else if (has_next)
          fetch(step + AHEAD - STEPS, next.at);
        if (step == 0) this->release(last, this->has_read(bits) & has_last);
        if (has_next && step == STEPS / 2) ready = this->is_full(after.full, parity ^ wraps);
      }
      bits = this->bits_of(chain) | (has_next ? bits_of_loads() : 0), has_last = true;
      last = place, place = next, next = after, parity ^= wraps;
      if (has_next && --left > 1 && !ready) this->wait_full(next.full, parity);
    };
    for (; tile < args.tiles; tile += gridDim.x) {
      // After the very last stage nothing is loaded.
      const bool last_tile = tile + static_cast<int>(gridDim.x) >= args.tiles;
      total.clear();
      const int stages = this->stages_of(tile), before_last = stages - last_tile;
      for (int i = 0, stage = 0; stage < stages; ++i) {
        const auto piece = this->piece_of(tile, i, stage);
        const int end = piece.whole_end();
        for (; stage < min(end, before_last); ++stage)
          multiply_stage(std::true_type(), ALL_STEPS());
        if (stage < end) multiply_stage(std::false_type(), ALL_STEPS()), ++stage;
        if constexpr (TREES)
          if (piece.rest != 0) {
            multiply_stage(stage < before_last,
                           (piece.rest + AHEAD * P::K - 1) / (AHEAD * P::K) * AHEAD);
            ++stage;
          }
        add_piece(i, stage < stages);
      }
      this->template store_totals<float>(
          total.sum, this->corner_of(tile), p_row, q_row,
          [](int i) { return P::apart(i / Tile::THREAD_TILE_Q); },
          [](int i) { return Q::apart(i % Tile::THREAD_TILE_Q); });
    }
  }

 private:
  static_assert(Tile::LANES_P * Tile::LANES_Q == 32 && (Tile::LANES_P == 32 || Tile::LANES_P == 8));
  using P = LaneValues<Tile::THREAD_TILE_P, Tile::LANES_P, P_MN_MAJOR, 32>;
  using Q = LaneValues<Tile::THREAD_TILE_Q, Tile::LANES_Q, Q_MN_MAJOR,
                       few_rows_q_strip(Tile::BLOCK_Q, 4)>;
  static constexpr int SUMS = Tile::THREAD_TILE_P * Tile::THREAD_TILE_Q;
  using Totals = FewRowsTotals<float, SUMS, TREES, Tile::WAITING>;
  static constexpr int STEPS = 8 * Tile::BOXES;  // of 16 bytes of K, in a stage
  using ALL_STEPS = std::integral_constant<int, STEPS>;
  static constexpr int AHEAD = 4;  // as registers allow, of 8 sums at the most
  // Steps that have registers.
  static constexpr int SLOTS = Tile::THREAD_TILE_P + Tile::THREAD_TILE_Q <= 5 ? 2 * AHEAD : AHEAD;
  static_assert(STEPS % SLOTS == 0, "a step's registers are the same in every stage");

  __device__ __forceinline__ void fetch(int step, uint32_t stage) {
    const int slot = step % SLOTS;
    constexpr int Q_AT = Tile::BOXES * Tile::P_BOX;
    P::load(p_values[slot], stage + p_offset, step / 8 * Tile::P_BOX, step % 8);
    Q::load(q_values[slot], stage + q_offset, Q_AT + step / 8 * Tile::Q_BOX, step % 8);
  }

  __device__ __forceinline__ void multiply(int step) {
    const int slot = step % SLOTS;
    // The compiler would have the products of a stage's end before the wait for the next one, whose
    // loads would then stand alone.
#pragma unroll
    for (int i = 0; i < SUMS; ++i) ptx::opaque_sum(chain[i]);
#pragma unroll
    for (int k = 0; k < P::K; ++k)
#pragma unroll
      for (int i = 0; i < SUMS; ++i)
        chain[i] = mul_add(p_values[slot].value[i / Tile::THREAD_TILE_Q][k],
                           q_values[slot].value[i % Tile::THREAD_TILE_Q][k], chain[i]);
  }

  // Bits of what has been loaded of the next stage. Their value is not used: without a use in this
  // stage the compiler would issue these loads behind all of its products, and the next stage would
  // wait for them.
  __device__ __forceinline__ uint32_t bits_of_loads() const {
    uint32_t bits = 0;
#pragma unroll
    for (int step = 0; step < AHEAD; ++step)
      bits |=
          __float_as_uint(p_values[step].value[0][0]) | __float_as_uint(q_values[step].value[0][0]);
    return bits;
  }

  __device__ __forceinline__ void add_piece(int i, bool waits) {
    total.add([&](int j) { return chain[j]; }, this->additions_of(i), waits);
#pragma unroll
    for (int j = 0; j < SUMS; ++j) chain[j] = 0;
  }

  int p_row, q_row;  // of the tile, the lane's first
  uint32_t p_offset, q_offset;
  typename P::Step p_values[SLOTS];
  typename Q::Step q_values[SLOTS];
  float chain[SUMS] = {};
  Totals total;
};

}  // namespace tiled
