// The wrap-around rule: every step of every tile is done once, a tile's steps in their order, by
// clusters that have as much to do, and none would wait for another.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cuda/plan/stream_k.h"

namespace tiled::test {
namespace {

void check_schedule(uint32_t tiles, uint32_t clusters, uint32_t steps, uint32_t least_steps) {
  SCOPED_TRACE(testing::Message() << tiles << " tiles, " << clusters << " clusters, " << steps
                                  << " steps, cut from " << least_steps << " on");
  const StreamK rule = StreamK::of(tiles, clusters, steps, least_steps);
  EXPECT_TRUE(rule.shared_tiles >= clusters && rule.shared_tiles < 2 * clusters)
      << "the shared tiles";
  struct Tile {
    uint32_t first_part = 0, rest = 0;  // steps
    uint32_t first_part_by = 0, rest_by = 0;
    uint32_t first_part_done = 0, rest_begun = 0;  // steps since the clusters began
    int whole = 0, first_parts = 0, rests = 0;
  };
  std::vector<Tile> found(tiles);
  uint32_t least = UINT32_MAX, most = 0;
  for (uint32_t cluster = 0; cluster < clusters; ++cluster) {
    const StreamK::Share share = rule.share(cluster);
    uint32_t now = 0;
    for (uint32_t i = 0; i < share.turns; ++i) {
      const StreamK::Turn turn = rule.turn(cluster, share, i);
      EXPECT_TRUE(turn.tile < tiles && turn.first < turn.last && turn.last <= steps)
          << "a turn's range";
      if (turn.tile >= tiles) return;
      Tile& tile = found[turn.tile];
      if (turn.first != 0) {
        EXPECT_TRUE(i + 1 == share.turns) << "a rest is a cluster's last turn";
        tile.rest = turn.first, tile.rest_by = cluster, tile.rest_begun = now, ++tile.rests;
        EXPECT_TRUE(turn.last == steps) << "a rest goes to the end";
      } else if (turn.last != steps) {
        EXPECT_TRUE(i == rule.whole_waves) << "a first part comes first, after the whole waves";
        tile.first_part = turn.last, tile.first_part_by = cluster, ++tile.first_parts;
        tile.first_part_done = now + turn.last;
      } else {
        ++tile.whole;
      }
      now += turn.last - turn.first;
    }
    least = std::min(least, now), most = std::max(most, now);
  }
  for (const Tile& tile : found) {
    EXPECT_TRUE(tile.whole + tile.first_parts == 1 && tile.first_parts == tile.rests)
        << "a tile is done once";
    if (tile.rests == 0) continue;
    EXPECT_TRUE(tile.first_part == tile.rest) << "the rest begins where the first part ends";
    EXPECT_TRUE(tile.rest_by == tile.first_part_by + 1) << "the next cluster has the rest";
    EXPECT_GE(std::min(tile.first_part, steps - tile.rest), least_steps);
    // Where cuts moved to a tile's edge, a share is so much shorter or longer.
    EXPECT_TRUE(tile.first_part_done <= tile.rest_begun + 2 * least_steps) << "nobody waits";
  }
  // Both ends of a share may move.
  EXPECT_LE(most - least, 4 * least_steps) << "shares are equal";
}

TEST(StreamK, DoesEachStepOfEachTileOnceInSharesAsLong) {
  for (const uint32_t clusters : {1u, 2u, 3u, 7u, 39u, 57u, 66u, 114u, 132u, 264u})
    for (const uint32_t steps : {1u, 2u, 7u, 8u, 9u, 31u, 36u, 64u, 511u, 4095u})
      for (uint32_t tiles = clusters + 1; tiles < 4 * clusters; tiles += 1 + clusters / 9)
        for (const uint32_t least_steps : {1u, 2u, StreamK::LEAST_STEPS})
          if (StreamK::fits(tiles, clusters, steps))
            check_schedule(tiles, clusters, steps, least_steps);
}

TEST(StreamK, FitsWhereThereIsSomethingToCutAndCountersDoNotOverflow) {
  EXPECT_TRUE(StreamK::fits(162, 132, 36));
  EXPECT_FALSE(StreamK::fits(264, 132, 36));
  EXPECT_FALSE(StreamK::fits(131, 132, 36));
  EXPECT_FALSE(StreamK::fits(40000, 20000, 512));
}

}  // namespace
}  // namespace tiled::test
