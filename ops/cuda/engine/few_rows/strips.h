// How rung few_rows shares out the rows of P: in strips of a few rows each, evenly, whatever their
// number is. Pure, host and device.
//
// A tile of a fixed height must divide P and the tiles the multiprocessors, or some of these have
// nothing to do at the end: 134 tiles on 132 of them take as long as 264. Here every block has as
// many strips as any other, or one more, and so has every tile. Such as 17 strips for 3 blocks in 2
// rounds, which are tiles of 2 and 3:
//
//     strips   0         5         10        15
//     round 0  | b0 | b1 | b2|                       a block's tiles are as far apart as rounds,
//     round 1                | b0 | b1  | b2 |       so that all blocks read in one place
#pragma once

#include <cstdint>

#include "cuda/plan/divisor.h"

namespace tiled {

// Strips of P from the first to before the end.
struct StripRange {
  int32_t first, end;
};

struct FewRowsStrips {
  int32_t count;         // that cover P's rows; at least blocks * rounds
  int32_t blocks;        // that share them out
  int32_t share, odd;    // of a block; the first `odd` blocks have one more
  int32_t height, tall;  // of a round; the last `tall` rounds have one more
  Divisor by_rounds;     // by the tiles of a block

  static constexpr FewRowsStrips of(int32_t count, int32_t blocks, int32_t rounds) {
    return {count,
            blocks,
            count / blocks,
            count % blocks,
            count / rounds,
            count % rounds,
            Divisor::of(static_cast<uint32_t>(rounds))};
  }

  constexpr int32_t rounds() const { return static_cast<int32_t>(by_rounds.value); }
  // Strips of a tile: one of two numbers, or the same.
  constexpr int32_t least() const { return quotient(share); }
  constexpr int32_t most() const { return quotient(share + (odd > 0) + rounds() - 1); }

  // A block's share of s strips is cut into tiles of (s + round) / rounds, rounded down: these add
  // up to s (Hermite's identity). A round is as high as its blocks' tiles are together.
  constexpr StripRange tile(int32_t round, int32_t block) const {
    const int32_t before = round * height + at_least_0(round - (rounds() - tall));
    return {before + quotient(shares_before(block) + round),
            before + quotient(shares_before(block + 1) + round)};
  }

 private:
  constexpr int32_t quotient(int32_t n) const {
    return static_cast<int32_t>(by_rounds.quotient(static_cast<uint32_t>(n)));
  }
  static constexpr int32_t at_least_0(int32_t n) { return n > 0 ? n : 0; }
  // The odd strips go to the first blocks: neighbours in the grid begin on different pairs of
  // multiprocessors, and a pair shares its way to memory.
  constexpr int32_t shares_before(int32_t block) const {
    return block * share + (block < odd ? block : odd);
  }
};

}  // namespace tiled
