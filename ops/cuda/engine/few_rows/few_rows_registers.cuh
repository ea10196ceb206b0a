// few_rows for tf32 whose weight is contiguous along m or n, which wgmma cannot read in shared
// memory: the same ring, and wgmma with P from registers, which its warps load from the stage.
//
//     weight P   +---------------+
//     warp 0  16 | ------------> |  loads        a thread has a stage's P in 8 steps of 32 bytes of
//       ...      |               |  --------->   K; two steps are a group of wgmma:
//     warp 3  16 | ------------> |
//                +---------------+               group    i - 2    i - 1      i      i + 1
//     few Q    8 | ------------> |  as it is              runs     waits   issued   loaded
//                +---------------+
//
// A warp that has no rows of a low tile loads nothing. (For 16 bits wgmma from shared memory
// is faster: loads are instructions, and a chain of few columns waits for those.)
//
// Preconditions are few_rows.cuh's. Bound by the warps' instructions, some 55 cycles for 32 bytes
// of K, up to 4,000 rows of P, and beyond by memory.
#pragma once

#include "cuda/engine/few_rows/ring.cuh"
#include "cuda/engine/few_rows/weight_fragments.cuh"
#include "cuda/parts/epilogue/finish_accumulators.cuh"
#include "cuda/ptx/wgmma.cuh"

namespace tiled {

template <typename Tile, bool TREES, bool P_MN_MAJOR>
class FewRowsByRegisters : public FewRowsRing<Tile, sizeof(float), TREES, P_MN_MAJOR> {
  static_assert(P_MN_MAJOR, "else wgmma reads it where it is");
  static_assert(!TREES, "a group of steps may have more of K than a leaf's last stage");
  using Ring = FewRowsRing<Tile, sizeof(float), TREES, P_MN_MAJOR>;
  using Ring::args;
  using typename Ring::Place;

 public:
  using Ring::Ring;

  // A warp's share of every tile: 16 rows of the warpgroup's 64.
  __device__ void consume(int warp) {
    const int lane = threadIdx.x % 32;
    has_rows = warp * 16 * 128 < args.stage.p_box;
    fragments.set_addresses(warp, lane);
    Place place(*this);
    uint32_t parity = 0;
    bool ready = false;  // whether the next stage is known to have arrived
    ptx::declare_accumulators(chain);
    for (int tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
      Place last = place;  // the stage whose Q the tensor cores may still read
      int left = args.segment;
      bool goes_on = false;
#pragma unroll
      for (int i = 0; i < SUMS; ++i) total[i] = 0;
      this->wait_full(place.full, parity);
      fetch(0, place.at);
      for (int stage = 0; stage < args.stages; ++stage) {
        maybe_delay();
        Place next = place;
        const uint32_t wraps = next.advance(*this);
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
          // The group that last read the registers of the next one has ended.
          ptx::wgmma_wait_group<GROUPS - 2>();
          if (group == 2 && stage > 0) this->release(last);
          if (group + 1 < GROUPS) {
            fetch(group + 1, place.at);
          } else if (stage + 1 < args.stages) {
            if (!ready) this->wait_full(next.full, parity ^ wraps);
            fetch(0, next.at);
          }
          multiply(group, place.at, goes_on || group > 0);
          if (group == GROUPS - 2) ready = this->is_full(next.full, parity ^ wraps);
        }
        last = place, place = next, parity ^= wraps;
        goes_on = --left > 0;
        if (!goes_on) add_segment_to_total(), left = args.segment;
      }
      if (goes_on) add_segment_to_total();
      this->release(last);
      this->template store_totals<float>(
          total, this->corner_of(tile), WeightFragments::row(warp, lane), lane % 4 * 2,
          [](int i) { return WeightFragments::down(i / 2 % 2); },
          [](int i) { return i / 4 * 8 + i % 2; });
    }
  }

 private:
  static constexpr int SUMS = Tile::COLUMNS / 2;  // of a thread
  static constexpr int GROUPS = 4, STEPS = 2;     // of a stage; of 32 bytes of K, in a group
  static_assert(Tile::BOXES * 4 == GROUPS * STEPS);
  static constexpr uint64_t Q_LAYOUT = ptx::descriptor_layout<128>(0, 1024);

  // A group's P, from the stage at `at`. A warp without rows keeps its zeros.
  __device__ __forceinline__ void fetch(int group, uint32_t at) {
    const uint32_t box = at + group * STEPS / 4 * args.stage.p_box;
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      // Registers that tensor cores read up to the wait before this are kept up to here.
      uint32_t (&a)[4] = p[group][step];
      ptx::opaque(a[0], a[1]), ptx::opaque(a[2], a[3]);
      if (has_rows) fragments.fetch(a, box, (group * STEPS + step) % 4);
    }
  }

  __device__ __forceinline__ void multiply(int group, uint32_t at, bool goes_on) {
    const int box = group * STEPS / 4;
    uint64_t q = ptx::descriptor(Q_LAYOUT, at + args.stage.q_at + box * Tile::Q_BOX) +
                 group * STEPS % 4 * (32 >> 4);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < STEPS; ++step, q += 32 >> 4)
      ptx::Wgmma<ptx::Tf32, Tile::COLUMNS>::run_from_registers(chain, p[group][step], q,
                                                               goes_on || step > 0);
    ptx::wgmma_commit_group();
  }

  __device__ __forceinline__ void add_segment_to_total() {
    ptx::wgmma_wait_group<0>();
    ptx::finish_accumulators(chain);
#pragma unroll
    for (int i = 0; i < SUMS; ++i) total[i] += chain[i];
  }

  bool has_rows;
  WeightFragments fragments;
  uint32_t p[GROUPS][STEPS][4] = {};
  float chain[SUMS], total[SUMS];
};

}  // namespace tiled
