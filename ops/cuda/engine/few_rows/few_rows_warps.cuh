// few_rows for 16 bits where few multiprocessors have rows of the weight, or these are contiguous
// along m or n: the same ring, and tensor cores by mma.sync, which has the bits of wgmma.
//
//     weight P   +---------------+
//     warp 0  16 | ------------> |        a warp has half a stage's fragments in registers while
//     warp 1  16 | ------------> |        those of the other half come in:
//                +---------------+
//     few Q    8 | ------------> |        load 4 | mma 0 | load 5 | mma 1 | ...
//
// wgmma reads 64 rows of P for every step, whether a tile has them or not, and waits for four
// warps. A mma.sync takes 25.6 cycles of an H200's after the one before, and little else stands
// between them: a warp waits for no other, and ldmatrix transposes what is contiguous along m or n
// at no cost. It is ahead by up to 9 % where the chain is the bound (docs/decisions/016); wider
// tiles were behind.
//
// Preconditions are few_rows.cuh's. Bound by the chain up to some 2,000 rows of P, and beyond by
// memory.
#pragma once

#include <type_traits>

#include "cuda/engine/few_rows/ring.cuh"
#include "cuda/engine/few_rows/word_fragments.cuh"
#include "cuda/parts/arithmetic/element.cuh"
#include "cuda/ptx/mma.cuh"

namespace tiled {

template <typename Tile, typename T, bool TREES, bool P_MN_MAJOR>
class FewRowsByWarps : public FewRowsRing<Tile, sizeof(T), TREES, P_MN_MAJOR> {
  using Ring = FewRowsRing<Tile, sizeof(T), TREES, P_MN_MAJOR>;
  using Ring::args;
  using typename Ring::Place;

 public:
  using Ring::Ring;

  // A warp's share of every tile: 16 rows and EIGHTS of eight columns.
  __device__ void consume(int warp) {
    const int lane = threadIdx.x % 32;
    const int band = warp % Tile::BANDS, column = warp / Tile::BANDS * Tile::COLUMNS;
    fragments.set_addresses(lane, band, column, args.stage.q_at, args.stage.p_box);
    Place place(*this), last = place;
    uint32_t parity = 0;
    bool read = false;  // the stage before, by all lanes
    int tile = blockIdx.x;
    if (tile >= args.tiles) return;
    this->wait_full(place.full, parity);
#pragma unroll
    for (int step = 0; step < AHEAD; ++step) fragments.fetch(step, place.at);

    // One stage's products, of so many steps, and between them the fragments of what comes AHEAD
    // steps later.
    const auto multiply_stage = [&](auto goes_on, auto steps) {
      maybe_delay();
      Place next = place;
      const uint32_t wraps = next.advance(*this);
      const bool ready = goes_on && this->is_full(next.full, parity ^ wraps);
      uint32_t bits = 0;  // of all loads of this stage
#pragma unroll
      for (int step = 0; step < STEPS - AHEAD; ++step) {
        fragments.fetch(step + AHEAD, place.at);
        multiply(step, bits, step < steps);
        if (step == 0) this->release(last, read);
      }
      if (goes_on && !ready) this->wait_full(next.full, parity ^ wraps);
#pragma unroll
      for (int step = STEPS - AHEAD; step < STEPS; ++step) {
        if (goes_on) fragments.fetch(step + AHEAD - STEPS, next.at);
        multiply(step, bits, step < steps);
      }
      read = this->has_read(bits);
      last = place, place = next, parity ^= wraps;
    };
    for (; tile < args.tiles; tile += gridDim.x) {
      total.clear();
      // After the very last stage nothing is loaded.
      const bool last_tile = tile + static_cast<int>(gridDim.x) >= args.tiles;
      const int stages = this->stages_of(tile), before_last = stages - last_tile;
      for (int i = 0, stage = 0; stage < stages; ++i) {
        const auto piece = this->piece_of(tile, i, stage);
        const int end = piece.whole_end();
        for (; stage < min(end, before_last); ++stage)
          multiply_stage(std::true_type(), ALL_STEPS());
        if (stage < end) multiply_stage(std::false_type(), ALL_STEPS()), ++stage;
        if constexpr (TREES)
          if (piece.rest != 0) {
            multiply_stage(stage < before_last, (piece.rest + STEP_K - 1) / STEP_K);
            ++stage;
          }
        add_piece(i, stage < stages);
      }
      this->template store_totals<T>(
          total.sum, this->corner_of(tile), band * 16 + lane / 4, column + lane % 4 * 2,
          [](int i) { return i / 2 % 2 * 8; }, [](int i) { return i / 4 * 8 + i % 2; });
    }
  }

 private:
  using Operands = FewRowsWords<Tile, P_MN_MAJOR>;
  static constexpr int STEPS = Operands::STEPS;  // in a stage
  static constexpr int AHEAD = STEPS / 2;        // a load's way is shorter than so many products
  static constexpr int SUMS = 4 * Tile::EIGHTS;  // of a thread
  using Totals = FewRowsTotals<float, SUMS, TREES, Tile::WAITING>;
  static constexpr int STEP_K = 32 / sizeof(T);  // elements
  using ALL_STEPS = std::integral_constant<int, STEPS>;

  // Elements that are loaded and not multiplied must have been read too.
  __device__ __forceinline__ void multiply(int step, uint32_t& bits, bool counts) {
    bits |= fragments.bits_of(step);
    if (!counts) return;
#pragma unroll
    for (int eight = 0; eight < Tile::EIGHTS; ++eight)
      ptx::mma(T(), chain[eight], fragments.p[step], fragments.q[step][eight]);
  }

  __device__ __forceinline__ void add_piece(int i, bool waits) {
    total.add([&](int j) { return chain[j / 4][j % 4]; }, this->additions_of(i), waits);
#pragma unroll
    for (int j = 0; j < SUMS; ++j) chain[j / 4][j % 4] = 0;
  }

  Operands fragments;
  float chain[Tile::EIGHTS][4] = {};
  Totals total;
};

}  // namespace tiled
