// What the two kernels of rung few_rows have in common: a ring of stages that one thread fills by
// TMA, tile after tile, and the store of a tile's totals.
#pragma once

#include "core/segments.h"
#include "cuda/parts/fault.cuh"
#include "cuda/parts/finish.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/forget.cuh"
#include "cuda/ptx/swizzle.cuh"
#include "cuda/ptx/tma.cuh"
#include "cuda/rungs/8_few_rows/kernels.h"
#include "cuda/rungs/8_few_rows/tiles.h"

namespace tiled {

template <typename Tile, int ELEMENT_BYTES, bool P_MN_MAJOR>
class FewRowsRing {
 public:
  __device__ FewRowsRing(const FewRowsArguments& args, uint8_t* memory) : args(args) {
    base = ptx::shared_address(memory);
    // The compiler would rather compute it again in every step than keep it.
    ptx::forget(base);
    barriers = base + Tile::STAGES * Tile::STAGE_BYTES;
  }

  __device__ void initialise_barriers() const {
    if (threadIdx.x == 0) {
      ptx::prefetch_tensormap(&args.p_map);
      ptx::prefetch_tensormap(&args.q_map);
      for (int stage = 0; stage < Tile::STAGES; ++stage) {
        ptx::mbarrier_init(barriers + 16 * stage, 1);
        ptx::mbarrier_init(barriers + 16 * stage + EMPTY, Tile::WARPS);
      }
      ptx::fence_mbarrier_init();
    }
    __syncthreads();
  }

  // One thread fills stage after stage, tile after tile.
  __device__ void produce() const {
    Place place(*this);
    uint32_t parity = 1;  // of a phase before the first: nobody waits in the first lap
    for (int tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
      const Corner corner = corner_of(tile);
      for (int stage = 0; stage < args.stages; ++stage) {
        if constexpr (FAULT != Fault::NoEmptyWait) ptx::mbarrier_wait(place.full + EMPTY, parity);
        maybe_delay();
        ptx::mbarrier_arrive_expect_tx(place.full, args.stage_loads);
#pragma unroll
        for (int box = 0; box < Tile::BOXES; ++box)
          load(place, box, corner, (stage * Tile::BOXES + box) * BOX_K);
        if (place.advance(*this)) parity ^= 1;
      }
    }
  }

 protected:
  static constexpr int BOX_K = 128 / ELEMENT_BYTES;                         // elements
  static constexpr int ATOM = few_rows_atom(Tile::BLOCK_P, ELEMENT_BYTES);  // elements of mn
  static constexpr int ROW_BYTES = ATOM * ELEMENT_BYTES;                    // of P along m or n
  static constexpr uint32_t Q_AT = Tile::BOXES * Tile::P_BOX;               // bytes, in a stage
  static constexpr uint32_t EMPTY = 8;  // bytes from a stage's full barrier

  // A place in the ring.
  struct Place {
    uint32_t at, full;  // the stage, its barrier

    __device__ explicit Place(const FewRowsRing& ring) : at(ring.base), full(ring.barriers) {}
    // Whether a new lap begins.
    __device__ __forceinline__ bool advance(const FewRowsRing& ring) {
      at += Tile::STAGE_BYTES, full += 16;
      if (full != ring.barriers + 16 * Tile::STAGES) return false;
      at = ring.base, full = ring.barriers;
      return true;
    }
  };

  // The first row of P and of Q of a tile, and its entry of the batch. Tiles that read the same
  // rows of P follow each other.
  struct Corner {
    int p, q, entry;
  };
  __device__ __forceinline__ Corner corner_of(int tile) const {
    const int band = tile / args.columns;
    return {band % args.bands * Tile::BLOCK_P, tile % args.columns * Tile::BLOCK_Q,
            band / args.bands};
  }

  __device__ __forceinline__ void wait_full(uint32_t full, uint32_t parity) const {
    if constexpr (FAULT != Fault::NoFullWait) ptx::mbarrier_wait(full, parity);
  }

  // The warp's word that it has read a stage.
  __device__ __forceinline__ void release(const Place& place) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(place.full + EMPTY);
  }

  // A thread's totals go to C: the i-th to row + down(i), column + right(i). Few instructions: a
  // block that ends has nothing else to do meanwhile, and they are not in the cache of
  // instructions.
  template <typename Element, int COUNT, typename Down, typename Right>
  __device__ __forceinline__ void store_totals(Accumulator<Element> (&totals)[COUNT], int entry,
                                               int row, int column, Down down, Right right) const {
    if (args.finishes) {
      for_each_in_turn<1>(totals, [&](int i) {
        const int p = row + down(i), q = column + right(i);
        if (p < args.p && q < args.q)
          totals[0] = finish<Element>(args.epilogue, totals[0], entry, p, q);
      });
    }
    const int64_t first = entry * args.c_batch + row * args.c_p + column * args.c_q;
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      if (row + down(i) < args.p && column + right(i) < args.q)
        store<Element>(args.c, first + down(i) * args.c_p + right(i) * args.c_q, totals[i],
                       args.c_fp32);
  }

  const FewRowsArguments& args;
  uint32_t base, barriers;

 private:
  __device__ __forceinline__ void load(const Place& place, int box, const Corner& corner,
                                       int k) const {
    // Columns past Q's last are whatever was in shared memory; no other column sees them.
    const uint32_t p = place.at + box * Tile::P_BOX;
    const uint32_t q = place.at + Q_AT + box * Tile::Q_BOX;
    const int p_entry = args.p_batch ? corner.entry : 0;
    if constexpr (P_MN_MAJOR) {
#pragma unroll
      for (int at = 0; at < Tile::BLOCK_P; at += ATOM)
        ptx::tma_load(p + at * 128, &args.p_map, corner.p + at, k, p_entry, place.full);
    } else {
      ptx::tma_load(p, &args.p_map, k, corner.p, p_entry, place.full);
    }
    ptx::tma_load(q, &args.q_map, k, corner.q, args.q_batch ? corner.entry : 0, place.full);
  }
};

// The blocks of both kernels: WARPS warps that multiply, and one that loads.
template <typename Work, typename Tile>
__device__ __forceinline__ void run_few_rows(const FewRowsArguments& args, uint8_t* memory) {
  Work work(args, memory);
  work.initialise_barriers();
  ptx::griddepcontrol_launch_dependents();
  if constexpr (FAULT != Fault::NoDependencyWait) ptx::griddepcontrol_wait();
  // The same value in all lanes, known to the compiler as such.
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp < Tile::WARPS)
    work.consume(warp);
  else if (ptx::elect_sync())
    work.produce();
}

}  // namespace tiled
