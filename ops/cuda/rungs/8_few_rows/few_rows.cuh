// Rung 8, few_rows. A product of one to 64 rows reads a whole weight and does next to nothing with
// it: it takes as long as memory takes, or as its longest chain. So every block keeps its shared
// memory full of the weight on its way, and a warp goes through all of K with nothing between one
// instruction of its chain and the next but the loads of the stage after.
//
//                    k ->                 one stage: 256 bytes of K, two boxes
//     weight P   +---------------+        of P and two of Q, swizzled
//     warp 0  16 | ------------> |
//     warp 1  16 | ------------> |        a ring of 7 to 20 stages that one warp fills by TMA;
//                +---------------+        it runs on from tile to tile, so that memory does not
//     few Q    8 | ------------> |        wait for the end of a tile (ring.cuh)
//                +---------------+
//
// P is on mma.sync's side of 16 rows, Q on its side of 8 columns: a single row costs what eight do.
// A multiply and the load that refills its registers from the next stage stand side by side, so
// that the chain of mma.sync, some 25 cycles a step, covers the load's way. (lanes.cu has the same
// for fp32's chains of fused multiply-adds.)
//
// Preconditions: both operands as TMA reads them, Q along K (the plan copies what is not); 16-bit
// elements, fp64, whose mma.sync are chains of fused multiply-adds (ptx/mma.cuh), or fp32 as tf32
// (rounded by TMA), then P along K too. More than 64 columns are several tiles, each of which reads
// the weight again.
// Bound by memory from some 2,000 rows of P on, below by the chain. docs/performance.md has it
// beside cuBLAS. Next: rung 9, fp32's accuracy from tensor cores.
#include "cuda/parts/finish_accumulators.cuh"
#include "cuda/rungs/8_few_rows/fragments.cuh"
#include "cuda/rungs/8_few_rows/ring.cuh"

namespace tiled {

template <typename Tile, typename T, bool P_MN_MAJOR>
class FewRowsByMma : public FewRowsRing<Tile, sizeof(T), P_MN_MAJOR> {
  using Ring = FewRowsRing<Tile, sizeof(T), P_MN_MAJOR>;
  using Ring::args;
  using typename Ring::Corner;
  using typename Ring::Place;

 public:
  using Ring::Ring;

  // A warp's share of every tile: 16 rows and EIGHTS of eight columns.
  __device__ void consume(int warp) {
    lane = threadIdx.x % 32;
    band = warp % Tile::BANDS, group = warp / Tile::BANDS;
    fragments.set_addresses(lane, band, Ring::Q_AT, group * Tile::COLUMNS);
    Place place(*this);
    uint32_t parity = 0;
    int tile = blockIdx.x;
    if (tile >= args.tiles) return;
    this->wait_full(place.full, parity);
#pragma unroll
    for (int step = 0; step < STEPS; ++step) fragments.fetch(step, place.at);
    this->release(place);

    bool ready = false;  // whether the next stage is known to have arrived
    // One stage's products, and between them the next stage's fragments.
    const auto multiply_and_fetch = [&] {
      maybe_delay();
      if (place.advance(*this)) parity ^= 1;
      multiply(0);
      if (!ready) this->wait_full(place.full, parity);
      fragments.fetch(0, place.at);
#pragma unroll
      for (int step = 1; step < STEPS; ++step) {
        multiply(step);
        fragments.fetch(step, place.at);
        if (step == STEPS - 2) {
          Place next = place;
          const uint32_t wraps = next.advance(*this);
          ready = FAULT == Fault::NoFullWait || ptx::mbarrier_test_wait(next.full, parity ^ wraps);
        }
      }
      this->release(place);
    };
    for (; tile < args.tiles; tile += gridDim.x) {
      int left = args.segment;
#pragma unroll
      for (int i = 0; i < SUMS; ++i) total[i] = 0;
      for (int stage = 1; stage < args.stages; ++stage) {
        multiply_and_fetch();
        if (--left == 0) add_segment_to_total(), left = args.segment;
      }
      if (tile + static_cast<int>(gridDim.x) < args.tiles) {
        multiply_and_fetch();
      } else {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) multiply(step);
      }
      add_segment_to_total();
      store(tile);
    }
  }

 private:
  using Element = typename ElementOf<T>::Type;
  using Operands = Fragments<Tile, T, P_MN_MAJOR, Ring::ATOM>;
  using Sum = typename Operands::Sum;
  static constexpr int STEPS = Operands::STEPS;  // in a stage
  static constexpr int SUMS = 4 * Tile::EIGHTS;  // of a thread

  __device__ __forceinline__ void multiply(int step) {
#pragma unroll
    for (int eight = 0; eight < Tile::EIGHTS; ++eight)
      if constexpr (std::is_same_v<T, double>)
        ptx::mma(chain[eight], fragments.p[step], fragments.q[step][eight]);
      else
        ptx::mma(Element(), chain[eight], fragments.p[step], fragments.q[step][eight]);
  }

  __device__ __forceinline__ void add_segment_to_total() {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      total[i] += chain[i / 4][i % 4];
      chain[i / 4][i % 4] = 0;
    }
  }

  __device__ __forceinline__ void store(int tile) {
    const Corner corner = this->corner_of(tile);
    this->template store_totals<Element>(
        total, corner.entry, corner.p + band * 16 + Operands::p_place(lane / 4),
        corner.q + group * Tile::COLUMNS, [](int i) { return i / 2 % 2 * 8; },
        [&](int i) { return i / 4 * 8 + Operands::q_place(lane % 4 * 2 + i % 2); });
  }

  int lane, band, group;
  Operands fragments;
  Sum chain[Tile::EIGHTS][4] = {}, total[SUMS];
};

template <typename Tile, typename T, bool P_MN_MAJOR>
__global__ void __launch_bounds__(Tile::THREADS, 1)
    few_rows(const __grid_constant__ FewRowsArguments args) {
  extern __shared__ __align__(1024) uint8_t memory[];
  run_few_rows<FewRowsByMma<Tile, T, P_MN_MAJOR>, Tile>(args, memory);
}

template <typename Tile, typename T, bool P_MN_MAJOR>
Kernel<FewRowsArguments> few_rows_instance() {
  if constexpr (Tile::LANES || !fits_registers(Tile::THREADS, sizeof(T)) ||
                (P_MN_MAJOR && !takes_mn_major(Tile::BLOCK_P, sizeof(T))))
    return nullptr;  // not planned for
  else
    return &few_rows<Tile, T, P_MN_MAJOR>;
}

template <typename T, bool P_MN_MAJOR, typename... Tiles>
Kernel<FewRowsArguments> few_rows_function(TileList<Tiles...>, int tile) {
  static const Kernel<FewRowsArguments> functions[] = {
      few_rows_instance<Tiles, T, P_MN_MAJOR>()...};
  return functions[tile];
}

}  // namespace tiled
