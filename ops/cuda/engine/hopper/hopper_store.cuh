// How rung hopper stores: a warpgroup's accumulators to C, rounded once. Where there is an epilogue
// they have been through it (parts/epilogue/finish_accumulators.cuh).
//
// 16-bit elements go through a slice of shared memory, 64 x SLICE_Q elements, from where TMA or
// the warps write rows of C. The slice is [64 p][SLICE_Q q] where C's rows are contiguous along q;
// where they are along p (swap_ab, or a transposed C) stmatrix transposes, and it is
// [SLICE_Q q][64 p].
// Elements of 32 and 8 bits have slices of another form (element_slices.cuh).
#pragma once

#include <algorithm>

#include "cuda/engine/hopper/element_slices.cuh"
#include "cuda/parts/arithmetic/call_with.cuh"
#include "cuda/parts/epilogue/write_rows.cuh"
#include "cuda/parts/launch/fault.cuh"
#include "cuda/parts/launch/hopper_arguments.h"
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/global.cuh"
#include "cuda/ptx/opaque.cuh"
#include "cuda/ptx/stmatrix.cuh"
#include "cuda/ptx/swizzle.cuh"
#include "cuda/ptx/tma.cuh"

namespace tiled {

// Where a warpgroup's piece of D begins, and the piece's place in the batch and segments.
struct Place {
  int p, q, batch, segment;
};

// Where what is a unit's ends along P and Q, and whether that is no group's. Without groups the
// arguments are read where they are asked for, and take no registers.
template <bool GROUPED>
struct Extent {
  const HopperArguments& args;
  template <typename Unit>
  __device__ __forceinline__ Extent(const HopperArguments& a, const Unit&) : args(a) {}
  __device__ __forceinline__ int p() const { return args.p; }
  __device__ __forceinline__ int q() const { return args.q; }
  static constexpr bool is_blank = false;
};
template <>
struct Extent<true> {
  int p_end, q_end;
  bool is_blank;
  template <typename Unit>
  __device__ __forceinline__ Extent(const HopperArguments&, const Unit& unit)
      : p_end(unit.p_end), q_end(unit.q_end), is_blank(unit.is_blank) {}
  __device__ __forceinline__ int p() const { return p_end; }
  __device__ __forceinline__ int q() const { return q_end; }
};

// 64 x SLICE_Q accumulators, from column `first` of a warpgroup's, into the slice.
template <typename T, int SLICE_Q, bool ALONG_P, int COUNT>
__device__ __forceinline__ void fill_slice(uint32_t slice, const float (&d)[COUNT], int first,
                                           int thread) {
  constexpr int ROW_BYTES = ALONG_P ? 128 : SLICE_Q * 2;
  const int warp = thread / 32, lane = thread % 32;
  // Lane l gives the address of row l % 8 of matrix l / 8; the four matrices of 8 x 8 are
  // (rows 0-7, 8-15 of p) x (columns 0-7, 8-15 of q), p first.
  const int p = 16 * warp + (ALONG_P ? lane / 8 % 2 * 8 : lane % 16);
  const int q = ALONG_P ? lane % 8 + lane / 16 * 8 : lane / 16 * 8;
#pragma unroll
  for (int column = 0; column < SLICE_Q; column += 16) {
    const float* v = d + (first + column) / 2;
    const uint32_t values[4] = {pack(T(), v[0], v[1]), pack(T(), v[2], v[3]), pack(T(), v[4], v[5]),
                                pack(T(), v[6], v[7])};
    const uint32_t offset =
        ALONG_P ? (q + column) * ROW_BYTES + p * 2 : p * ROW_BYTES + (q + column) * 2;
    const uint32_t address = slice + ptx::swizzled<ROW_BYTES>(offset);
    if constexpr (ALONG_P)
      ptx::stmatrix_x4_trans(address, values);
    else
      ptx::stmatrix_x4(address, values);
  }
}

// Sums of a segment, which another kernel adds: 64 rows that are contiguous along q, or along p, in
// part beyond the problem if AT_EDGE. Nothing else is computed or asked between two stores: all
// blocks store at once, and that takes as long as the instructions do. Rows of sums end at a
// multiple of four, so that a pair whose first is there has room.
template <bool AT_EDGE, typename Sum, int COUNT>
__device__ __forceinline__ void store_sums(const HopperArguments& args, const HopperOutput& c,
                                           const Sum (&d)[COUNT], Place place, int thread) {
  const ptx::CachePolicy policy = ptx::leave_last();
  const int row = place.p + thread / 32 * 16 + thread % 32 / 4;
  const int column = place.q + thread % 4 * 2;
  float* at = static_cast<float*>(c.data) + place.batch * c.batch + place.segment * c.segment +
              row * c.p + column * c.q;
  const int rows = args.p - row, columns = args.q - column;  // from here to the edges
  const auto is_there = [&](int p, int q) { return !AT_EDGE || (p < rows && q < columns); };
  const auto word = [&](int i) {  // 32 bits, whatever they mean
    if constexpr (std::is_same_v<Sum, float>)
      return d[i];
    else
      return __int_as_float(d[i]);
  };
  if (c.q == 1) {
#pragma unroll
    for (int half = 0; half < 2; ++half, at += 8 * c.p)
#pragma unroll
      for (int j = 0; j < COUNT / 4; ++j)
        if (is_there(8 * half, 8 * j))
          ptx::store_global(reinterpret_cast<float2*>(at) + 4 * j,
                            make_float2(word(4 * j + 2 * half), word(4 * j + 2 * half + 1)),
                            policy);
  } else {
#pragma unroll
    for (int j = 0; j < COUNT / 4; ++j, at += 8 * c.q)
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (is_there(8 * half, 8 * j + i))
            ptx::store_global(at + i * c.q + 8 * half, word(4 * j + 2 * half + i), policy);
  }
}

// Where a warpgroup's slices lie, one after the other and then from the first again. Its own as a
// rule: each is filled while the others are copied out. But for a block's last tile the stages are
// done with, and the rows of P in them that only this warpgroup has read hold as much as the tile:
// no slice waits for another.
template <typename Tile, uint32_t STAGE_BYTES, int STAGES>
struct Slices {
  static constexpr uint32_t BYTES = Tile::SLICE_BYTES;
  static constexpr uint32_t IN_STAGE = Tile::GROUP_P * 128 / BYTES;  // of a warpgroup's rows
  static constexpr uint32_t IN_STAGES = STAGES * IN_STAGE;
  static_assert(Tile::GROUP_P * 128 % BYTES == 0 && IN_STAGES >= 2, "whole slices");

  uint32_t own, stages;  // addresses of the first
  uint32_t filled = 0;   // so far; in the stages from 0 on
  bool in_stages = false;

  __device__ __forceinline__ void use_stages() { in_stages = true, filled = 0; }
  __device__ __forceinline__ uint32_t next() {
    const uint32_t n = filled++, place = n % IN_STAGES;
    return in_stages ? stages + place / IN_STAGE * STAGE_BYTES + place % IN_STAGE * BYTES
                     : own + n % Tile::SLICES * BYTES;
  }
  // Returns when the slice that comes next has been copied out, to the thread that said so.
  __device__ __forceinline__ void wait_next() const {
    if (in_stages)
      ptx::bulk_wait_group_read<IN_STAGES - 2>();
    else
      ptx::bulk_wait_group_read<Tile::SLICES - 2>();
  }
};

// A warpgroup's 64 rows of accumulators through its slices, to a C of Element: while one leaves the
// next is filled. Where the last begins within the one before it, the same elements leave twice.
// Slices that warps write are a loop, of which only what fills them is unrolled, since registers
// have no index: else the code that writes would stand in the kernel for each of them.
// GROUPED: a slice that reaches beyond its group is written by the warps, since TMA knows C's end
// alone; its empty group of copies keeps the count of slices that wait_next() goes by.
template <typename Element, typename Tile, bool GROUPED, bool ALONG_P, bool COPIES, typename Slices,
          typename Sum, int COUNT>
__device__ __forceinline__ void store_slices_as(const HopperArguments& args, const HopperOutput& c,
                                                const Sum (&d)[COUNT], Place place,
                                                const Extent<GROUPED>& end, Slices& slices,
                                                int barrier, int thread) {
  constexpr int COLUMNS = 2 * COUNT;
  constexpr int WIDTH = slice_columns(Tile::SLICE_Q, sizeof(Element));
  constexpr int SLICES = (COLUMNS + WIDTH - 1) / WIDTH;
  constexpr int BOX = ALONG_P ? slice_row(sizeof(Element)) : 64;  // of p
  const bool is_first_warp = __shfl_sync(~0u, thread / 32, 0) == 0;
#pragma unroll(COPIES && !GROUPED ? SLICES : 1)
  for (int slice = 0; slice < SLICES; ++slice) {
    const int first = min(slice * WIDTH, COLUMNS - WIDTH);
    // Addresses are computed anew for each slice: kept, they would take registers.
    ptx::opaque(thread);
    const uint32_t address = slices.next();
    call_with<SLICES>(slice, [&](auto constant) {
      constexpr int FROM = std::min(constant.value * WIDTH, COLUMNS - WIDTH);
      if constexpr (sizeof(Element) == 2)
        fill_slice<Element, WIDTH, ALONG_P>(address, d, FROM, thread);
      else
        fill_elements<Element, WIDTH, ALONG_P>(address, d, FROM, thread);
    });
    if constexpr (COPIES) {
      ptx::fence_proxy_async();
      // (Else the barrier says so.)
      if (FAULT != Fault::NoSliceWait && is_first_warp && ptx::elect_sync()) slices.wait_next();
    }
    maybe_delay();
    if constexpr (FAULT != Fault::NoSliceBarrier) ptx::barrier_sync(barrier, 128);
    const int p = place.p, q = place.q + first;
    const bool is_copied = COPIES && (!GROUPED || (p + 64 <= end.p() && q + WIDTH <= end.q()));
    if constexpr (COPIES) {
      if (is_first_warp && ptx::elect_sync()) {
        const int entry = GROUPED ? place.batch * args.c_batch : place.batch;
#pragma unroll
        for (int box = 0; box < 64; box += BOX)
          if (is_copied)
            ptx::tma_store(&c.map, address + box * WIDTH * sizeof(Element), ALONG_P ? p + box : q,
                           ALONG_P ? q : p, entry);
        ptx::bulk_commit_group();
      }
    }
    if (!is_copied) {
      Element* const to = static_cast<Element*>(c.data) + place.batch * c.batch + p * c.p + q * c.q;
      const int ps = end.p() - p, qs = end.q() - q;
      if constexpr (ALONG_P) {
#pragma unroll 1
        for (int box = 0; box < 64; box += BOX)
          write_rows<WIDTH, BOX, 128>(address + box * WIDTH * sizeof(Element), to + box * c.p, c.q,
                                      COPIES ? 1 : c.p, qs, ps - box, thread);
      } else {
        write_rows<64, WIDTH, 128>(address, to, c.p, COPIES ? 1 : c.q, ps, qs, thread);
      }
    }
  }
}

// Each of the four ways in a row of its own: what a launch executes lies side by side.
template <typename T, typename Tile, bool GROUPED, typename Slices, typename Sum, int COUNT>
__device__ __forceinline__ void store_slices(const HopperArguments& args, const HopperOutput& c,
                                             const Sum (&d)[COUNT], Place place,
                                             const Extent<GROUPED>& end, Slices& slices,
                                             int barrier, int thread) {
  const bool along_p = c.q != 1 && (c.p == 1 || c.p < c.q);
  if (c.by_tma) {
    if (along_p)
      store_slices_as<T, Tile, GROUPED, true, true>(args, c, d, place, end, slices, barrier,
                                                    thread);
    else
      store_slices_as<T, Tile, GROUPED, false, true>(args, c, d, place, end, slices, barrier,
                                                     thread);
  } else if (along_p) {
    store_slices_as<T, Tile, GROUPED, true, false>(args, c, d, place, end, slices, barrier, thread);
  } else {
    store_slices_as<T, Tile, GROUPED, false, false>(args, c, d, place, end, slices, barrier,
                                                    thread);
  }
}

}  // namespace tiled
