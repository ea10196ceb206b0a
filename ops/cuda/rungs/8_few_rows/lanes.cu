// few_rows for fp32: the same ring, and chains of fused multiply-adds. A lane has a row of
// the weight and a chain for each of its columns, whose values all lanes read at once.
//
//     stage:  P [32 rows][16 bytes of k], swizzled: the eight lanes that load together meet 32
//             different banks;  Q [columns][16 bytes of k]: one place for all lanes
//
// A step is 16 bytes of K of both; its registers are refilled as soon as it is done, AHEAD steps
// before they are needed. Bound by memory, below some 2,500 rows of P by the chain (5 cycles a
// multiply-add), and from 8 columns on by shared memory's rate.
#include "cuda/ptx/shared.cuh"
#include "cuda/rungs/8_few_rows/ring.cuh"

namespace tiled {

template <typename Tile, bool P_MN_MAJOR>
class FewRowsByLanes : public FewRowsRing<Tile, 4, P_MN_MAJOR> {
  using Ring = FewRowsRing<Tile, 4, P_MN_MAJOR>;
  using Ring::args;
  using typename Ring::Place;

 public:
  using Ring::Ring;

  // A warp's share of every tile: 32 rows, a lane each, and COLUMNS columns.
  __device__ void consume(int warp) {
    lane = threadIdx.x % 32;
    band = warp % Tile::BANDS, group = warp / Tile::BANDS;
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
      for (int i = 0; i < COLUMNS; ++i) total[i] = 0;
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
        if (--left == 0) add_segment_to_total(), left = args.segment;
      }
      if (left != args.segment) add_segment_to_total();
      this->template store_totals<float>(
          total, this->corner_of(tile), band * 32 + lane, group * COLUMNS, [](int) { return 0; },
          [](int i) { return i; });
    }
  }

 private:
  static constexpr int COLUMNS = Tile::COLUMNS;
  static constexpr int STEPS = 8 * Tile::BOXES;  // of 16 bytes of K, in a stage
  static constexpr int STEP_K = 4;               // elements
  static constexpr int AHEAD = 4;
  static_assert(STEPS % AHEAD == 0, "a step's registers are the same in every stage");

  struct Vector {
    float element[STEP_K];
  };
  static __device__ __forceinline__ Vector load_vector(uint32_t address) {
    const uint4 v = ptx::load_shared_v4(address);
    return {__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w)};
  }

  __device__ __forceinline__ void fetch(int slot, int step, uint32_t stage) {
    const uint32_t box = stage + step / 8 * Tile::P_BOX;
    const int chunk = step % 8;
    if constexpr (P_MN_MAJOR) {
#pragma unroll
      for (int i = 0; i < STEP_K; ++i) {
        const int k = chunk * STEP_K + i;
        p_values[slot].element[i] = __uint_as_float(
            ptx::load_shared_u32(box + band * 32 * 128 + ptx::swizzled<128>(k * 128 + lane * 4)));
      }
    } else {
      p_values[slot] = load_vector(box + ptx::swizzled<128>((band * 32 + lane) * 128 + chunk * 16));
    }
    const uint32_t q = stage + Tile::BOXES * Tile::P_BOX + step / 8 * Tile::Q_BOX;
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i)
      q_values[slot][i] =
          load_vector(q + ptx::swizzled<128>((group * COLUMNS + i) * 128 + chunk * 16));
  }

  __device__ __forceinline__ void multiply(int slot) {
#pragma unroll
    for (int k = 0; k < STEP_K; ++k)
#pragma unroll
      for (int i = 0; i < COLUMNS; ++i)
        chain[i] = mul_add(p_values[slot].element[k], q_values[slot][i].element[k], chain[i]);
  }

  __device__ __forceinline__ void add_segment_to_total() {
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) {
      total[i] += chain[i];
      chain[i] = 0;
    }
  }

  int lane, band, group;
  Vector p_values[AHEAD], q_values[AHEAD][COLUMNS];
  float chain[COLUMNS] = {}, total[COLUMNS];
};

Kernel<FewRowsArguments> few_rows_lanes(int tile, bool p_mn_major) {
  constexpr FewRowsBy BY = FewRowsBy::Lanes;
  return p_mn_major ? few_rows_kernel<BY, FewRowsByLanes, true>(FewRowsTiles(), tile)
                    : few_rows_kernel<BY, FewRowsByLanes, false>(FewRowsTiles(), tile);
}

}  // namespace tiled
