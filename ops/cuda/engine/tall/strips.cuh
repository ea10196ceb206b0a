// A warp's own ring of stages, which it fills with its strips of the long operand, step of K after
// step, strip after strip, by itself: no other warp waits for it.
//
//     along k:  [ROWS][STEP_K], a line is a row's step        along m:  [STEP_K][ROWS], a line is a
//     k
//
// A line takes some bytes more than its elements. Where lines begin at multiples of 16 bytes they
// begin a line of the stage, too (where all do, it is swizzled); else they are copied from the
// multiple before them, and begin as many bytes behind the line's begin (shift()). What is there
// belongs to the matrix, or is left out.
#pragma once

#include "cuda/engine/tall/way.h"
#include "cuda/parts/launch/fault.cuh"
#include "cuda/parts/pipeline/copy_in_part.cuh"
#include "cuda/ptx/opaque.cuh"
#include "cuda/ptx/shared_u16.cuh"
#include "cuda/ptx/swizzle.cuh"

namespace tiled {

// The thread's lane, from which nothing is kept beside the sums: what is computed of it, mostly
// addresses, is computed anew.
__device__ __forceinline__ int lane_anew() {
  uint32_t lane = threadIdx.x % 32;
  ptx::opaque(lane);
  return static_cast<int>(lane);
}

// An element's bits to shared memory.
__device__ __forceinline__ void store_shared_bits(uint32_t at, uint16_t bits) {
  ptx::store_shared_u16(at, bits);
}
__device__ __forceinline__ void store_shared_bits(uint32_t at, uint32_t bits) {
  ptx::store_shared_u32(at, bits);
}
template <typename T>
using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;

template <typename Tile, typename T, bool ALONG_M, bool PLAIN>
class Strips {
 public:
  static constexpr int LINES = ALONG_M ? Tile::STEP_K : Tile::ROWS;
  static constexpr int LENGTH = ALONG_M ? Tile::ROWS : Tile::STEP_K;  // elements of a line
  static constexpr bool SWIZZLES = Tile::swizzles(PLAIN);
  static constexpr int PITCH = Tile::pitch(ALONG_M, SWIZZLES);  // bytes
  static_assert(LINES * PITCH <= Tile::STAGE_BYTES);

  // The strips of a matrix from `first` on, `step` apart; the ring is in shared memory at `ring`.
  __device__ __forceinline__ Strips(const TallArguments& args, int64_t entry, uint32_t ring,
                                    int first, int step)
      : args_(args),
        ring_(ring),
        step_(step),
        strip_(first),
        strips_(static_cast<int>((args.problem.m + Tile::ROWS - 1) / Tile::ROWS)) {
    const Operand& a = args.problem.a;
    begin_ = static_cast<const T*>(a.data) + entry * a.batch_stride;
#pragma unroll 1
    for (int stage = 0; stage < Tile::STAGES - 1; ++stage) start_next();
  }

  __device__ __forceinline__ int count() const { return strips_; }

  // The stage that is read next, once it has come; the one read before is filled again.
  __device__ __forceinline__ uint32_t next() {
    if constexpr (FAULT != Fault::NoFullWait) ptx::cp_async_wait_group<Tile::STAGES - 2>();
    maybe_delay();
    __syncwarp();
    const uint32_t stage = ring_ + read_;
    read_ = after(read_);
    start_next();
    return stage;
  }

  // Bytes before line `line` of a stage, whose first line is that of (row, k).
  __device__ __forceinline__ uint32_t shift(int64_t row, int64_t k, int line) const {
    const auto first = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at(row, k)));
    return (first + line * static_cast<uint32_t>(pitch() * sizeof(T))) % 16;
  }

 private:
  static constexpr int PER_PIECE = 16 / sizeof(T);

  static __device__ __forceinline__ uint32_t after(uint32_t stage) {
    return stage == (Tile::STAGES - 1) * Tile::STAGE_BYTES ? 0 : stage + Tile::STAGE_BYTES;
  }
  __device__ __forceinline__ int64_t pitch() const {  // elements from line to line
    return ALONG_M ? args_.problem.a.col_stride : args_.problem.a.row_stride;
  }
  __device__ __forceinline__ const T* at(int64_t row, int64_t k) const {
    return begin_ + row * args_.problem.a.row_stride + k * args_.problem.a.col_stride;
  }
  // Behind the matrix's last element.
  __device__ __forceinline__ const T* end() const {
    return at(args_.problem.m - 1, args_.problem.k - 1) + 1;
  }

  __device__ __forceinline__ void start_next() {
    if (strip_ < strips_) {
      const int64_t row = int64_t{strip_} * Tile::ROWS;
      const int rows = static_cast<int>(min(args_.problem.m - row, int64_t{Tile::ROWS}));
      const int ks = static_cast<int>(min(args_.problem.k - k_, int64_t{Tile::STEP_K}));
      const int lines = ALONG_M ? ks : rows, length = ALONG_M ? rows : ks;
      if (PLAIN || args_.read == TallRead::Sixteen)
        copy_pieces(ring_ + write_, at(row, k_), lines, length);
      else if (args_.read == TallRead::Shifted)
        copy_shifted(ring_ + write_, at(row, k_), lines, length);
      else
        copy_elements(ring_ + write_, at(row, k_), rows, ks);
      k_ += Tile::STEP_K;
      if (k_ >= args_.problem.k) k_ = 0, strip_ += step_;
    }
    ptx::cp_async_commit_group();
    write_ = after(write_);
  }

  // Tensor cores read steps of 16 of k, so what of such a step does not exist becomes zero.
  static constexpr int filled(int count) { return Tile::CHAINS ? count : (count + 15) / 16 * 16; }

  __device__ __forceinline__ void copy_pieces(uint32_t stage, const T* from, int lines,
                                              int length) const {
    const int lane = lane_anew(), across = 1 << args_.lanes;
    const int piece = lane & (across - 1), down = 32 >> args_.lanes;
    const int exist = length - piece * PER_PIECE;  // elements of the piece
    if (piece * PER_PIECE >= (ALONG_M ? length : filled(length))) return;
    int line = lane >> args_.lanes;
    // A line has four pieces at most, so that a lane goes down by eight lines, whose swizzle is the
    // same, or by a multiple of them.
    const uint32_t in_stage = line * PITCH + piece * 16;
    uint32_t to = stage + (SWIZZLES ? ptx::swizzled<64>(in_stage) : in_stage);
    from += line * pitch() + piece * PER_PIECE;
    const int64_t further = down * pitch();
    if (exist >= PER_PIECE) {
#pragma unroll 4
      for (; line < lines; line += down, to += down * PITCH, from += further)
        ptx::cp_async_16(to, from);
    } else if (exist > 0) {
#pragma unroll 1
      for (; line < lines; line += down, to += down * PITCH, from += further) {
        if (from + PER_PIECE <= end())
          ptx::cp_async_16(to, from, exist * static_cast<int>(sizeof(T)));
        else
          copy_part<16>(to, from, exist);
      }
    }
    const int last = ALONG_M ? filled(lines) : exist <= 0 ? lines : line;
#pragma unroll 1
    for (; line < last; line += down, to += down * PITCH) clear_shared<16>(to);
  }

  __device__ __forceinline__ void copy_shifted(uint32_t stage, const T* from, int lines,
                                               int length) const {
    const int lane = lane_anew(), across = 1 << args_.lanes;
    const int piece = lane & (across - 1), down = 32 >> args_.lanes;
    int line = lane >> args_.lanes;
    uint32_t to = stage + line * PITCH + piece * 16;
    from += line * pitch();
    const int64_t further = down * pitch();
    const T *const begin = begin_, *const end = this->end();
#pragma unroll 2
    for (; line < lines; line += down, to += down * PITCH, from += further) {
      const int before = static_cast<int>(reinterpret_cast<uintptr_t>(from) % 16 / sizeof(T));
      if (piece * PER_PIECE >= before + length) continue;
      const T* const x = from - before + piece * PER_PIECE;
      if (x >= begin && x + PER_PIECE <= end) {
        ptx::cp_async_16(to, x);
        continue;
      }
#pragma unroll 1
      for (int i = 0; i < PER_PIECE; ++i)
        if (x + i >= begin && x + i < end)
          store_shared_bits(to + i * sizeof(T), reinterpret_cast<const Bits<T>&>(x[i]));
    }
  }

  __device__ __forceinline__ void copy_elements(uint32_t stage, const T* from, int rows,
                                                int ks) const {
    const Operand& a = args_.problem.a;
#pragma unroll 4
    for (int i = lane_anew(); i < LINES * LENGTH; i += 32) {
      const int line = i / LENGTH, place = i % LENGTH;
      const int row = ALONG_M ? place : line, k = ALONG_M ? line : place;
      Bits<T> bits = 0;
      if (row < rows && k < ks)
        bits = reinterpret_cast<const Bits<T>&>(from[row * a.row_stride + k * a.col_stride]);
      store_shared_bits(stage + line * PITCH + place * sizeof(T), bits);
    }
  }

  const TallArguments& args_;
  const T* begin_;
  uint32_t ring_, read_ = 0, write_ = 0;
  int step_, strip_, strips_;
  int64_t k_ = 0;
};

}  // namespace tiled
