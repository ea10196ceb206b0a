// Stream-K by the wrap-around rule: how tiles are shared out evenly among clusters of blocks, fewer
// than there are tiles, without another bit in C. Host and device, so that reports show what runs.
//
// McNaughton's rule ("Scheduling with Deadlines and Loss Functions", Management Science 6, 1959):
// lay the tiles end to end and cut the line into as many equal shares as there are clusters. A cut
// falls inside a tile, whose chain of K so has a first part, the end of one cluster's share, and a
// rest, the beginning of the next one's. Each cluster does the first part that ends its share
// *first* and the rest that begins it *last*: a share is at least a tile, so that a first part is
// done before its rest is begun, and no cluster waits.
//
//     line     |  tile 0  |  tile 1  |  tile 2  |  tile 3  |      4 tiles, 3 clusters
//     shares   |    cluster 0 |    cluster 1 |    cluster 2 |
//
//     time     cluster 0  1a  0       a: the first part of a tile, whose accumulators are
//              cluster 1  2a  1b         handed over through memory
//              cluster 2  3   2b      b: the rest of it, which goes on from them
//
// So only accumulators move, which are exact, and K is cut nowhere: the chain goes on where it
// stopped. With more than two tiles a cluster the first ones are computed whole, in whole waves,
// and before the others: clusters that begin together read rows of an operand together, once for
// all of them.
#pragma once

#include "cuda/plan/divisor.h"

namespace tiled {

struct StreamK {
  // Each side of a cut must have at least `least` steps, to be worth handing over; else the cut
  // moves to the tile's edge.
  static constexpr uint32_t LEAST_STEPS = 4;

  uint32_t clusters;      // 0: no tile is cut
  uint32_t whole_waves;   // of `clusters` tiles each; the tiles after them are shared
  uint32_t shared_tiles;  // clusters <= shared_tiles < 2 * clusters
  uint32_t steps;         // of K, of a tile
  uint32_t least;
  Divisor by_clusters, by_steps;

  // Where a cluster's share begins: so many steps into that of the shared tiles.
  struct Cut {
    uint32_t tile, step;
  };

  // Whether tiles can be shared at all; the kernel's counters have 31 bits.
  static constexpr bool fits(int64_t tiles, int64_t clusters, int64_t steps) {
    return tiles > clusters && tiles % clusters != 0 &&
           2 * clusters * clusters * steps < int64_t{1} << 31;
  }
  static constexpr StreamK of(uint32_t tiles, uint32_t clusters, uint32_t steps,
                              uint32_t least = LEAST_STEPS) {
    const uint32_t whole_waves = tiles / clusters - 1;
    return {clusters,
            whole_waves,
            tiles - whole_waves * clusters,
            steps,
            least,
            Divisor::of(clusters),
            Divisor::of(steps)};
  }

  // For cluster = clusters, where the last share ends.
  constexpr Cut cut(uint32_t cluster) const {
    const uint32_t place = by_clusters.quotient(cluster * shared_tiles * steps);
    const uint32_t tile = by_steps.quotient(place), step = place - tile * steps;
    if (step < least) return {tile, 0};
    if (steps - step < least) return {tile + 1, 0};
    return {tile, step};
  }

  // A cluster does this, in so many turns.
  struct Share {
    Cut begin, end;
    uint32_t turns;
  };
  constexpr Share share(uint32_t cluster) const {
    const Cut begin = cut(cluster), end = cut(cluster + 1);
    return {begin, end, (end.step != 0) + whole_waves + end.tile - begin.tile};
  }

  // Steps [first, last) of a tile; tiles are numbered with those of the whole waves.
  struct Turn {
    uint32_t tile, first, last;
  };
  // The whole waves; of the share, the first part that ends it, whole tiles, the rest that begins
  // it.
  constexpr Turn turn(uint32_t cluster, const Share& share, uint32_t i) const {
    const uint32_t whole_tiles = whole_waves * clusters;
    const bool has_first_part = share.end.step != 0, has_rest = share.begin.step != 0;
    if (i < whole_waves) return {cluster + i * clusters, 0, steps};
    i -= whole_waves;
    if (has_first_part && i == 0) return {whole_tiles + share.end.tile, 0, share.end.step};
    i -= has_first_part;
    if (has_rest && i + 1 == share.end.tile - share.begin.tile)
      return {whole_tiles + share.begin.tile, share.begin.step, steps};
    return {whole_tiles + share.begin.tile + has_rest + i, 0, steps};
  }
};

}  // namespace tiled
