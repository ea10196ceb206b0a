// Rung few_rows. A product of one to 64 rows reads a whole weight and does next to nothing with
// it: it takes as long as memory takes, or as its longest chain. So every block keeps its shared
// memory full of the weight on its way, all blocks have the same share of it whatever its size is
// (strips.h), and tensor cores go through all of K without a gap.
//
//                    k ->                 one stage: 256 bytes of K, two boxes of P and two of Q,
//     weight P   +---------------+        swizzled
//       8 to 64  |               |
//         rows   |    ------>    |        a ring of 6 to 40 stages that warps fill by TMA; it
//                |               |        runs on from tile to tile, so that memory does not wait
//                +---------------+        for the end of a tile (ring.cuh)
//     few Q    8 |    ------>    |
//                +---------------+        one warpgroup: wgmma on stage s while stage s + 1 arrives
//
// P is on wgmma's side of 64 rows, Q on its side of 8 to 64 columns, and both are read where TMA
// has put them: shared memory is touched once for each byte, and no thread loads anything. A wgmma
// takes its time by its columns: rows that a tile does not have cost nothing.
//
// Preconditions: both operands as TMA reads them, Q along K (the plan copies what is not); 16-bit
// elements, or fp32 as tf32 (rounded by TMA), then P along K too. More columns are several tiles,
// each of which reads the weight again. (few_rows_fp64.cu has the same for fp64, lanes.cu
// for fp32's chains of fused multiply-adds.)
// Bound by memory from some 2,000 rows of P on, below by the chain.
// Measured beside cuBLAS: docs/tables/h200.md.
#include "cuda/engine/few_rows/ring.cuh"
#include "cuda/parts/epilogue/finish_accumulators.cuh"

namespace tiled {

template <typename Tile, typename T, bool TREES, bool P_MN_MAJOR>
class FewRowsByWgmma : public FewRowsRing<Tile, sizeof(T), TREES, P_MN_MAJOR> {
  using Ring = FewRowsRing<Tile, sizeof(T), TREES, P_MN_MAJOR>;
  using Ring::args;
  using typename Ring::Place;
  using Element = typename ElementOf<T>::Type;

 public:
  using Ring::Ring;

  // A warp's share of every tile: 16 rows of the warpgroup's 64.
  __device__ void consume(int warp) {
    const int lane = threadIdx.x % 32;
    Place place(*this);
    uint32_t parity = 0;
    bool ready = false;  // whether the next stage is known to have arrived
    ptx::declare_accumulators(chain);
    const Steps steps(args);
    uint32_t start = ptx::descriptor_start(place.at);
    for (int tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
      Place last = place;  // the stage that the tensor cores may still read
      total.clear();
      const int stages = this->stages_of(tile);
      for (int i = 0, stage = 0; stage < stages; ++i) {
        const auto piece = this->piece_of(tile, i, stage);
        const int end = piece.whole_end();
        bool goes_on = false;
        for (; stage < end; ++stage, goes_on = true) {
          if (!ready) this->wait_full(place.full, parity);
          maybe_delay();
          Place next = place;
          const uint32_t wraps = next.advance(*this);
          ptx::wgmma_fence();
          multiply(steps, 0, start, goes_on);
          // Between the products: after them it would stand between two stages'.
          ready = this->is_full(next.full, parity ^ wraps);
          const uint32_t next_start = ptx::descriptor_start(next.at);
          multiply(steps, 1, start, true);
          ptx::wgmma_commit_group();
          ptx::wgmma_wait_group<1>();  // all but this stage's
          this->release(last, stage > 0);
          last = place, place = next, start = next_start, parity ^= wraps;
        }
        if (TREES && piece.rest != 0) {
          if (!ready) this->wait_full(place.full, parity);
          ready = false;
          ptx::wgmma_fence();
          multiply_rest(start, piece.rest, goes_on);
          ptx::wgmma_commit_group();
          ptx::wgmma_wait_group<1>();
          this->release(last, stage > 0);
          last = place, ++stage;
          if (place.advance(*this)) parity ^= 1;
          start = ptx::descriptor_start(place.at);
        }
        ptx::wgmma_wait_group<0>();
        ptx::finish_accumulators(chain);
        total.add([&](int j) { return chain[j]; }, this->additions_of(i), stage < stages);
      }
      this->release(last);
      const auto corner = this->corner_of(tile);
      this->template store_totals<Element>(
          total.sum, corner, warp * 16 + lane / 4, lane % 4 * 2,
          [](int i) { return i / 2 % 2 * 8; }, [](int i) { return i / 4 * 8 + i % 2; },
          args.finishes && finish_near_bias(corner));
    }
  }

 private:
  static constexpr int SUMS = Tile::COLUMNS / 2;  // of a thread
  using Totals = FewRowsTotals<float, SUMS, TREES, Tile::WAITING>;
  static constexpr int STEPS = 4;  // of 32 bytes of K, in one of two boxes
  static_assert(Tile::BOXES == 2);
  static constexpr uint64_t Q_LAYOUT = ptx::descriptor_layout<128>(0, 1024);

  // Where the steps of K begin, as a descriptor's lower half has it, that is in units of 16 bytes;
  // its upper half stays. One warp issues an instruction in some three cycles and a product takes
  // 18, so what can be known before the loop is.
  struct Steps {
    uint32_t p_upper;      // of P's descriptors
    uint32_t p[2][STEPS];  // from a stage's begin on, of either box
    uint32_t q[2];         // of either box; a step is two further
    __device__ __forceinline__ explicit Steps(const FewRowsArguments& args) {
      const uint64_t layout = layout_of_p(args);
      p_upper = static_cast<uint32_t>(layout >> 32);
#pragma unroll
      for (int box = 0; box < 2; ++box) {
        q[box] = static_cast<uint32_t>(Q_LAYOUT) + ((args.stage.q_at + box * Tile::Q_BOX) >> 4);
#pragma unroll
        for (int i = 0; i < STEPS; ++i)
          p[box][i] =
              static_cast<uint32_t>(layout) + (box * args.stage.p_box >> 4) + i * p_step(args);
      }
    }
  };
  // Along K: rows of 128 bytes of it. Along m or n: a row has a strip's elements, and from strip to
  // strip it is 64 rows.
  static __device__ __forceinline__ uint64_t layout_of_p(const FewRowsArguments& args) {
    if (P_MN_MAJOR && args.strip == 32) return ptx::descriptor_layout<64>(64 * 64, 8 * 64);
    return ptx::descriptor_layout<128>(64 * 128, 8 * 128);
  }
  // From one step of K to the next: 32 bytes along K, or 16 rows of a strip.
  static __device__ __forceinline__ uint32_t p_step(const FewRowsArguments& args) {
    return P_MN_MAJOR ? args.strip * sizeof(T) : 32 >> 4;
  }

  // The products of one of a stage's boxes.
  __device__ __forceinline__ void multiply(const Steps& steps, int box, uint32_t start,
                                           bool goes_on) {
#pragma unroll
    for (int i = 0; i < STEPS; ++i)
      ptx::Wgmma<T, Tile::COLUMNS>::template run<P_MN_MAJOR, false>(
          chain, ptx::descriptor_of(steps.p_upper, start + steps.p[box][i]),
          ptx::descriptor_of(Q_LAYOUT >> 32, start + steps.q[box] + 2 * i), goes_on || i > 0);
  }

  // The products of a stage's first `rest` elements of K, steps of whole ones.
  __device__ __forceinline__ void multiply_rest(uint32_t start, int rest, bool goes_on) {
    const uint64_t layout = layout_of_p(args);
#pragma unroll 1
    for (int i = 0; i * (32 / static_cast<int>(sizeof(T))) < rest; ++i) {
      const int box = i / STEPS, step = i % STEPS;
      const uint32_t p = static_cast<uint32_t>(layout) + start + (box * args.stage.p_box >> 4) +
                         step * p_step(args);
      const uint32_t q = static_cast<uint32_t>(Q_LAYOUT) + start +
                         ((args.stage.q_at + box * Tile::Q_BOX) >> 4) + 2 * step;
      ptx::Wgmma<T, Tile::COLUMNS>::template run<P_MN_MAJOR, false>(
          chain, ptx::descriptor_of(layout >> 32, p), ptx::descriptor_of(Q_LAYOUT >> 32, q),
          goes_on || i > 0);
    }
  }

  // A layer's epilogue, whose bias all threads load side by side; whether it was one.
  template <typename Corner>
  __device__ __forceinline__ bool finish_near_bias(const Corner& corner) {
    if (args.epilogue.pre_activation.data != nullptr ||
        !add_near_bias<Element>(args.epilogue, reinterpret_cast<float (&)[1][SUMS]>(total.sum),
                                corner.p, corner.q, {args.p, args.q, corner.entry}))
      return false;
    if (args.epilogue.activation != Activation::None)
      go_round<4>(total.sum, [&](int, float (&four)[4]) { activate(args.epilogue, four); });
    return true;
  }

  float chain[SUMS];
  Totals total;
};

}  // namespace tiled
