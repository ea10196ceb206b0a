// What sets each tile of rung hopper apart on an H200, beside what its sizes say: factors fitted
// with the constants of model.h, from the same times.
#pragma once

#include <string_view>

#include "cuda/rungs/7_hopper/tiles.h"

namespace tiled {

struct TileFit {
  std::string_view tile;
  double begin = 0;  // cycles more than the model's start
  double step[2][2] = {
      {1, 1}, {1, 1}};  // of a step's time: [P lies along p][Q lies along q], else they lie along k
};

constexpr TileFit TILE_FITS[] = {
    {"Coop128x256", 608, {{0.9361, 0.9353}, {0.9327, 0.9363}}},
    {"Coop192x176", 839, {{0.9273, 0.9395}, {0.9271, 0.9297}}},
    {"Coop128x160", 495, {{0.9186, 0.9451}, {0.9032, 0.9396}}},
    {"Coop192x128", 344, {{0.9281, 0.9385}, {0.9327, 0.9229}}},
    {"Coop128x224", 763, {{0.9359, 0.9443}, {0.9164, 0.9188}}},
    {"Ping128x128", 175, {{1.0518, 1.0466}, {1.0526, 1.0365}}},
    {"Ping128x160", 194, {{1.0638, 1.0909}, {1.0376, 1.0934}}},
    {"Ping128x192", 425, {{1.0560, 1.0443}, {1.0390, 1.0266}}},
    {"Ping64x128", -661, {{0.9617, 0.9617}, {0.9617, 0.9617}}},
    {"Coop128x208", 409, {{0.9245, 0.9683}, {0.9016, 0.9843}}},
    {"Coop128x176", 631, {{0.9128, 0.9323}, {0.9033, 0.9369}}},
    {"Coop128x128", 406, {{0.9101, 0.9070}, {0.9066, 0.9111}}},
    {"Coop128x96", 189, {{0.9628, 0.9711}, {0.9580, 1.0024}}},
    {"Coop192x96", 301, {{0.9484, 0.9427}, {0.9139, 0.9340}}},
    {"Deep64x192", -460, {{0.9617, 0.9617}, {0.9617, 0.9617}}},
    {"Deep64x160", -460, {{0.9617, 0.9617}, {0.9617, 0.9617}}},
    {"Deep64x128", -460, {{0.9617, 0.9617}, {0.9617, 0.9617}}},
    {"Deep64x96", -745, {{0.9203, 0.8881}, {0.9990, 0.9397}}},
    {"Deep64x64", -1156, {{0.9977, 0.9816}, {0.9578, 0.9087}}},
    {"Solo64x32", -1120, {{1.0296, 1.0007}, {1.0520, 0.9867}}},
    {"Solo64x16", -442, {{0.9617, 0.9617}, {0.9617, 0.9617}}},
};

constexpr bool fits_are_the_tiles() {
  int tile = 0;
  for (const TileFit& fit : TILE_FITS)
    if (tile == HOPPER_TILE_COUNT || fit.tile != hopper_tile_name(tile++)) return false;
  return tile == HOPPER_TILE_COUNT;
}
static_assert(fits_are_the_tiles(), "a line for each tile, in their order");

constexpr const TileFit& tile_fit(int tile) { return TILE_FITS[tile]; }

}  // namespace tiled
