// few_rows for fp64: the same ring, and tensor cores by mma.sync, which are chains of fused
// multiply-adds (ptx/mma.cuh). wgmma knows no fp64.
//
//     weight P   +---------------+
//     warp 0  16 | ------------> |        P is on mma.sync's side of 16 rows, Q on its side of 8
//     warp 1  16 | ------------> |        columns: a single row costs what eight do
//                +---------------+
//     few Q    8 | ------------> |
//
// A warp goes through all of K with nothing between one instruction of its chain and the next but
// the loads of the stage after: a multiply and the load that refills its registers stand side by
// side, so that the chain covers the load's way.
#include "cuda/engine/few_rows/fragments.cuh"
#include "cuda/engine/few_rows/instances.cuh"
#include "cuda/engine/few_rows/ring.cuh"

namespace tiled {

template <typename Tile, bool TREES, bool P_MN_MAJOR, bool Q_MN_MAJOR>
class FewRowsByDoubles : public FewRowsRing<Tile, 8, TREES, P_MN_MAJOR, Q_MN_MAJOR> {
  using Ring = FewRowsRing<Tile, 8, TREES, P_MN_MAJOR, Q_MN_MAJOR>;
  // Leaves end with a box, and the boxes behind it are zero.
  static_assert(!TREES || tree_unit(Arithmetic::Fma) % Ring::BOX_K == 0);
  using Ring::args;
  using typename Ring::Place;

 public:
  using Ring::Ring;

  // A warp's share of every tile: 16 rows and EIGHTS of eight columns.
  __device__ void consume(int warp) {
    lane = threadIdx.x % 32;
    band = warp % Tile::BANDS, group = warp / Tile::BANDS;
    fragments.set_addresses(lane, band, group * Tile::COLUMNS);
    Place place(*this), last = place;
    uint32_t parity = 0;
    bool read = false;  // the stage before, by all lanes
    int tile = blockIdx.x;
    if (tile >= args.tiles) return;
    this->wait_full(place.full, parity);
#pragma unroll
    for (int step = 0; step < STEPS; ++step) fragments.fetch(step, place.at);

    bool ready = false;  // whether the next stage is known to have arrived
    // One stage's products, and between them the next stage's fragments.
    const auto multiply_and_fetch = [&] {
      maybe_delay();
      multiply(0);
      this->release(last, read);
      last = place;
      if (place.advance(*this)) parity ^= 1;
      if (!ready) this->wait_full(place.full, parity);
      fragments.fetch(0, place.at);
#pragma unroll
      for (int step = 1; step < STEPS; ++step) {
        multiply(step);
        fragments.fetch(step, place.at);
        if (step == STEPS - 2) {
          Place next = place;
          const uint32_t wraps = next.advance(*this);
          ready = this->is_full(next.full, parity ^ wraps);
        }
      }
      read = this->has_read(chain);
    };
    for (; tile < args.tiles; tile += gridDim.x) {
      total.clear();
      const bool last_tile = tile + static_cast<int>(gridDim.x) >= args.tiles;
      const int stages = this->stages_of(tile), before_last = stages - last_tile;
      for (int i = 0, stage = 0; stage < stages; ++i) {
        const int end = this->piece_of(tile, i, stage).end;
        for (; stage < min(end, before_last); ++stage) multiply_and_fetch();
        if (stage < end) {
#pragma unroll
          for (int step = 0; step < STEPS; ++step) multiply(step);
          ++stage;
        }
        add_piece(i, stage < stages);
      }
      store(tile);
    }
  }

 private:
  using Operands = FewRowsDoubles<Tile, P_MN_MAJOR, Q_MN_MAJOR>;
  static constexpr int STEPS = Operands::STEPS;  // in a stage
  static constexpr int SUMS = 4 * Tile::EIGHTS;  // of a thread
  using Totals = FewRowsTotals<double, SUMS, TREES, Tile::WAITING>;

  __device__ __forceinline__ void multiply(int step) {
#pragma unroll
    for (int eight = 0; eight < Tile::EIGHTS; ++eight)
      ptx::mma(chain[eight], fragments.p[step], fragments.q[step][eight]);
  }

  __device__ __forceinline__ void add_piece(int i, bool waits) {
    total.add([&](int j) { return chain[j / 4][j % 4]; }, this->additions_of(i), waits);
#pragma unroll
    for (int j = 0; j < SUMS; ++j) chain[j / 4][j % 4] = 0;
  }

  __device__ __forceinline__ void store(int tile) {
    this->template store_totals<double>(
        total.sum, this->corner_of(tile), band * 16 + Operands::p_place(lane / 4),
        group * Tile::COLUMNS, [](int i) { return i / 2 % 2 * 8; },
        [&](int i) { return i / 4 * 8 + Operands::q_place(lane % 4 * 2 + i % 2); });
  }

  int lane, band, group;
  Operands fragments;
  double chain[Tile::EIGHTS][4] = {};
  Totals total;
};

struct OfDoubles {
  template <typename Tile, bool TREES, bool P_MN_MAJOR, bool Q_MN_MAJOR>
  using Of = FewRowsByDoubles<Tile, TREES, P_MN_MAJOR, Q_MN_MAJOR>;
};

template <bool TREES>
FewRowsKernel<TREES> few_rows_fp64(int tile, bool p_mn_major, bool q_mn_major) {
  return few_rows_kernel<FewRowsBy::Mma, OfDoubles, TREES>(tile, p_mn_major, q_mn_major);
}
template FewRowsKernel<false> few_rows_fp64<false>(int, bool, bool);
template FewRowsKernel<true> few_rows_fp64<true>(int, bool, bool);

}  // namespace tiled
