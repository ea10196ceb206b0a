// The kernels of rung few_rows have this in common: a ring of stages that few threads fill by TMA,
// tile after tile, and the store of a tile's totals.
#pragma once

#include "core/segments.h"
#include "cuda/engine/few_rows/kernels.h"
#include "cuda/engine/few_rows/totals.cuh"
#include "cuda/parts/epilogue/finish.cuh"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/launch/fault.cuh"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/opaque.cuh"
#include "cuda/ptx/swizzle.cuh"
#include "cuda/ptx/tma.cuh"

namespace tiled {

template <typename Tile_, int ELEMENT_BYTES, bool TREES, bool P_MN_MAJOR, bool Q_MN_MAJOR = false>
class FewRowsRing {
 public:
  using Tile = Tile_;
  using Arguments = FewRowsArgumentsOf<TREES>;

  __device__ FewRowsRing(const Arguments& args, uint8_t* memory) : args(args) {
    base = ptx::shared_address(memory);
    // The compiler would rather compute it again in every step than keep it.
    ptx::opaque(base);
    barriers = base + args.stage.barriers, end = barriers + 16 * args.stage.ring;
    ptx::opaque(barriers, end);
  }

  __device__ void initialise_barriers() const {
    // Lines of constants come in the shadow of the kernel before, and not behind the first stage.
    uint32_t begin = 0, additions = 0;
    if constexpr (TREES) {
      const int warp = threadIdx.x / 32;
      begin = args.leaves.begins[warp], additions = args.additions[warp];
    }
    if (threadIdx.x == 0) {
      ptx::prefetch_tensormap(&args.p_maps[0]);
      ptx::prefetch_tensormap(&args.q_map);
      for (int stage = 0; stage < args.stage.ring; ++stage) {
        ptx::mbarrier_init(barriers + 16 * stage, 1);
        ptx::mbarrier_init(barriers + 16 * stage + EMPTY, Tile::WARPS);
      }
      ptx::fence_mbarrier_init();
    }
    if constexpr (TREES) ptx::opaque(begin, additions);
    __syncthreads();
  }

  // Stage after stage is filled, tile after tile, by threads that take turns: one alone needs
  // longer for a stage's copies than products of few columns take.
  __device__ void produce(int producer) const {
    Place place(*this);
    int until_turn = producer;  // stages of the others
    uint32_t parity = 1;        // of a phase before the first: no wait in the first lap
    for (int tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
      const Corner corner = corner_of(tile);
      if (tile == static_cast<int>(blockIdx.x)) wait_for_kernels_before();
      const CUtensorMap* p_map = &args.p_maps[P_MN_MAJOR ? 0 : corner.height - args.strips.least()];
      const uint32_t loads = Tile::BOXES * 128 * args.strip * corner.height + args.q_loads;
      const int stages = stages_of(tile);
      for (int i = 0, before = 0; before < stages; ++i) {
        const Piece piece = piece_of(tile, i, before);
        const int begin = begin_of(corner, i), stages_of_piece = piece.end - before;
        before = piece.end;
        for (int stage = 0; stage < stages_of_piece; ++stage, --until_turn) {
          if (until_turn == 0) {
            until_turn = Tile::PRODUCERS;
            if constexpr (FAULT != Fault::NoEmptyWait)
              ptx::mbarrier_wait(place.full + EMPTY, parity);
            maybe_delay();
            ptx::mbarrier_arrive_expect_tx(place.full, loads);
#pragma unroll
            for (int box = 0; box < Tile::BOXES; ++box) {
              int k = stage * STAGE_K + box * BOX_K;
              // The boxes of a leaf's last stage that are the next leaf's are read from outside of
              // K, as zeros.
              if (TREES && piece.rest != 0 && k >= (stages_of_piece - 1) * STAGE_K + piece.rest)
                k = OUTSIDE;
              load(place, box, corner, p_map, begin + k);
            }
          }
          if (place.advance(*this)) parity ^= 1;
        }
      }
    }
  }

 protected:
  static constexpr int BOX_K = 128 / ELEMENT_BYTES;  // elements
  static constexpr int STAGE_K = Tile::BOXES * BOX_K;
  static constexpr int OUTSIDE = 1 << 30;  // of any K that so few leaves have
  static constexpr uint32_t EMPTY = 8;     // bytes from a stage's full barrier

  // A piece of K, one chain: the tile's stage with which it ends, and how much of K, in elements,
  // the last one has, if it has what is not the piece's (0: it has not).
  struct Piece {
    int end, rest;
    __device__ __forceinline__ int whole_end() const { return end - (rest != 0); }
  };
  // A tile's i-th, before which so many stages are. What is beyond K is zero.
  __device__ __forceinline__ Piece piece_of(int tile, int i, int before) const {
    if constexpr (TREES) {
      const int32_t* const begins = args.leaves.begins + args.by_tiles.quotient(tile) + i;
      const int size = begins[1] - begins[0];
      return {before + (size + STAGE_K - 1) / STAGE_K, size % STAGE_K};
    } else {
      return {min(before + args.segment, args.stages), 0};
    }
  }
  // A tile's stages. Leaves that are shared out have some more and others less.
  __device__ __forceinline__ int stages_of(int tile) const {
    if constexpr (TREES)
      if (args.shares_leaves) return piece_of(tile, 0, 0).end;
    return args.stages;
  }

  // A place in the ring.
  struct Place {
    uint32_t at, full;  // the stage, its barrier

    __device__ explicit Place(const FewRowsRing& ring) : at(ring.base), full(ring.barriers) {}
    // Whether a new lap begins.
    __device__ __forceinline__ bool advance(const FewRowsRing& ring) {
      at += ring.args.stage.bytes, full += 16;
      if (full != ring.end) return false;
      at = ring.base, full = ring.barriers;
      return true;
    }
  };

  // The first rows of P and of Q of a tile, the strips of P that it has, its entry of the batch,
  // and in split-K its segment. Tiles that read the same rows of P follow each
  // other.
  struct Corner {
    int p, height, q, entry, segment;
  };
  __device__ __forceinline__ Corner corner_of(int tile) const {
    const int segment = args.by_tiles.quotient(tile);
    tile -= segment * args.by_tiles.value;
    const int along_p = args.by_columns.quotient(tile);
    const int turn = args.by_blocks.quotient(along_p);
    const int entry = args.strips.by_rounds.quotient(turn);
    const StripRange range =
        args.strips.tile(turn - entry * args.strips.rounds(), along_p - turn * args.strips.blocks);
    return {range.first * args.strip, range.end - range.first,
            static_cast<int>(tile - along_p * args.by_columns.value) * Tile::BLOCK_Q, entry,
            segment};
  }

  // Where a tile's i-th piece begins in K, elements.
  __device__ __forceinline__ int begin_of(const Corner& corner, int i) const {
    if constexpr (TREES) return args.leaves.begins[corner.segment + i];
    return (corner.segment + i) * args.segment * STAGE_K;
  }

  // The stages of all of this block's tiles.
  __device__ __forceinline__ uint32_t stages_of_block() const {
    const int first = blockIdx.x;
    if constexpr (!TREES) return ((args.tiles - 1 - first) / gridDim.x + 1) * args.stages;
    uint32_t stages = 0;
    for (int tile = first; tile < args.tiles; tile += gridDim.x) stages += stages_of(tile);
    return stages;
  }

  // How many of the sums that wait the tile's i-th leaf is added to.
  __device__ __forceinline__ int additions_of(int i) const {
    if constexpr (TREES) return args.additions[i];
    return 0;
  }

  __device__ __forceinline__ void wait_full(uint32_t full, uint32_t parity) const {
    if constexpr (FAULT != Fault::NoFullWait) ptx::mbarrier_wait(full, parity);
  }

  // Whether it is, without waiting; it may say no once too often.
  __device__ __forceinline__ bool is_full(uint32_t full, uint32_t parity) const {
    return FAULT == Fault::NoFullWait || ptx::mbarrier_test_wait(full, parity);
  }

  // The warp's word that it has read a stage, if it has.
  __device__ __forceinline__ void release(const Place& place, bool has = true) const {
    __syncwarp();
    ptx::mbarrier_arrive_if(has && threadIdx.x % 32 == 0, place.full + EMPTY);
  }

  // Always true, but known only when the sums are that hang on all of a stage's loads. A warp that
  // has only asked for these may not give its word: they wait behind its stores, microseconds where
  // these miss a page, and the word does not, so that TMA would overwrite what is still to be read.
  template <typename T, int COUNT>
  __device__ __forceinline__ bool has_read(const T (&sums)[COUNT]) const {
    return has_read(bits_of(sums));
  }
  // The same by bits of the sums, or of all that has been loaded, for which the chain need not be
  // waited for.
  __device__ __forceinline__ bool has_read(uint32_t bits) const {
    if constexpr (FAULT == Fault::NoReadWait) return true;
    return __all_sync(~0u, (bits & args.nothing) == 0);
  }
  template <typename T, int COUNT>
  static __device__ __forceinline__ uint32_t bits_of(const T (&sums)[COUNT]) {
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) bits |= low_bits(sums[i]);
    return bits;
  }

  // A thread's totals go to C: the i-th to row first.p + row + down(i), column first.q + column +
  // right(i). Few instructions: a block that ends has nothing else to do meanwhile, and they are
  // not in the cache of instructions. `finished`: by the epilogue, if there is one.
  template <typename Element, int COUNT, typename Down, typename Right>
  __device__ __forceinline__ void store_totals(Accumulator<Element> (&totals)[COUNT], Corner first,
                                               int row, int column, Down down, Right right,
                                               bool finished = false) const {
    // Rows past the tile's belong to other blocks.
    const int rows = min(args.p - first.p, first.height * args.strip) - row;
    const int columns = args.q - first.q - column;
    row += first.p, column += first.q;
    if (args.finishes && !finished) {
      for_each_in_turn<1>(totals, [&](int i) {
        if (down(i) < rows && right(i) < columns)
          totals[0] = finish<Element>(args.epilogue, totals[0], first.entry, row + down(i),
                                      column + right(i));
      });
    }
    const int64_t entry = int64_t{first.segment} * args.batch + first.entry;
    const int64_t at = entry * args.c_batch + row * args.c_p + column * args.c_q;
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      if (down(i) < rows && right(i) < columns)
        store<Element>(args.c, at + down(i) * args.c_p + right(i) * args.c_q, totals[i],
                       args.c_fp32);
  }

  const Arguments& args;
  uint32_t base, barriers, end;  // of the ring and of its barriers

 private:
  static __device__ __forceinline__ uint32_t low_bits(float x) { return __float_as_uint(x); }
  static __device__ __forceinline__ uint32_t low_bits(const double (&x)[4]) {
    return __double2loint(x[0]);
  }

  __device__ __forceinline__ void load(const Place& place, int box, const Corner& corner,
                                       const CUtensorMap* p_map, int k) const {
    // Rows past Q's last are whatever was in shared memory; no other column sees them.
    const uint32_t p = place.at + box * args.stage.p_box;
    const uint32_t q = place.at + args.stage.q_at + box * Tile::Q_BOX;
    const int p_entry = args.p_batch ? corner.entry : 0;
    if constexpr (P_MN_MAJOR) {
      for (int i = 0, to = 0; i < corner.height; ++i, to += args.strip)
        ptx::tma_load(p + to * 128, p_map, corner.p + to, k, p_entry, place.full);
    } else {
      ptx::tma_load(p, p_map, k, corner.p, p_entry, place.full);
    }
    const int q_entry = args.q_batch ? corner.entry : 0;
    if constexpr (Q_MN_MAJOR) {
#pragma unroll
      for (int to = 0; to < Tile::BLOCK_Q; to += few_rows_q_strip(Tile::BLOCK_Q, ELEMENT_BYTES))
        ptx::tma_load(q + to * 128, &args.q_map, corner.q + to, k, q_entry, place.full);
    } else {
      ptx::tma_load(q, &args.q_map, k, corner.q, q_entry, place.full);
    }
  }
};

}  // namespace tiled
