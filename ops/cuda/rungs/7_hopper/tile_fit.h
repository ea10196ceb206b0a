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
    {"Coop128x256", 515, {{0.9365, 0.9337}, {0.9320, 0.9361}}},
    {"Coop192x176", 560, {{0.9348, 0.9522}, {0.9339, 0.9450}}},
    {"Coop128x160", 389, {{0.9185, 0.9433}, {0.9017, 0.9385}}},
    {"Coop192x128", 481, {{0.9270, 0.9347}, {0.9293, 0.9102}}},
    {"Coop128x224", 508, {{0.9389, 0.9448}, {0.9139, 0.9116}}},
    {"Ping128x128", 205, {{1.0380, 1.0314}, {1.0458, 1.0169}}},
    {"Ping128x160", 349, {{1.0471, 1.0737}, {1.0173, 1.0700}}},
    {"Ping128x192", 473, {{1.0387, 1.0350}, {1.0117, 0.9975}}},
    {"Ping64x128", -661, {{0.9600, 0.9600}, {0.9600, 0.9599}}},
    {"Coop128x208", 295, {{0.9183, 0.9602}, {0.8938, 0.9775}}},
    {"Coop128x176", 491, {{0.9147, 0.9347}, {0.9075, 0.9415}}},
    {"Coop128x128", 279, {{0.9168, 0.9087}, {0.9110, 0.9138}}},
    {"Coop128x96", 54, {{0.9621, 0.9793}, {0.9554, 1.0252}}},
    {"Coop192x96", 359, {{0.9425, 0.9436}, {0.9014, 0.9382}}},
    {"Deep64x192", -460, {{0.9594, 0.9594}, {0.9594, 0.9594}}},
    {"Deep64x160", -460, {{0.9594, 0.9594}, {0.9594, 0.9594}}},
    {"Deep64x128", -460, {{0.9596, 0.9596}, {0.9597, 0.9597}}},
    {"Deep64x96", -587, {{0.9520, 0.9074}, {1.0436, 0.9610}}},
    {"Deep64x64", -723, {{1.0419, 1.0299}, {0.9884, 0.9583}}},
    {"Solo64x32", -645, {{0.9558, 0.9461}, {0.9531, 0.9469}}},
    {"Solo64x16", -442, {{0.9602, 0.9600}, {0.9601, 0.9601}}},
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
