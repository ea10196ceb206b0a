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
    {"Coop128x256", 524, {{0.8808, 0.8877}, {0.8785, 0.8642}}},
    {"Coop192x176", 1073, {{0.8794, 0.8986}, {0.8841, 0.8721}}},
    {"Coop128x160", 568, {{0.8704, 0.8800}, {0.8668, 0.8754}}},
    {"Coop192x128", 241, {{0.8839, 0.8840}, {0.8842, 0.8820}}},
    {"Coop128x224", 899, {{0.8832, 0.8911}, {0.8844, 0.8810}}},
    {"Ping128x128", -92, {{0.9313, 0.9398}, {0.9398, 0.9442}}},
    {"Ping128x160", 140, {{0.9438, 0.9589}, {0.9346, 0.9717}}},
    {"Ping128x192", 363, {{0.9433, 0.9570}, {0.9397, 0.9536}}},
    {"Ping64x128", -1122, {{1.0042, 0.9973}, {0.9883, 0.9837}}},
    {"Coop128x208", 502, {{0.8752, 0.8974}, {0.8768, 0.9067}}},
    {"Coop128x176", 622, {{0.8756, 0.8832}, {0.8622, 0.8866}}},
    {"Coop128x128", 176, {{0.8677, 0.8788}, {0.8706, 0.8604}}},
    {"Coop128x96", 186, {{0.8937, 0.8934}, {0.8980, 0.8913}}},
    {"Coop192x96", 304, {{0.8815, 0.8743}, {0.8670, 0.8766}}},
    {"Deep64x192", 25, {{0.8683, 0.8522}, {0.8722, 0.8654}}},
    {"Deep64x160", -275, {{0.9145, 0.9172}, {0.9159, 0.9289}}},
    {"Deep64x128", -251, {{0.8566, 0.8461}, {0.8417, 0.8488}}},
    {"Deep64x96", -671, {{0.8703, 0.9081}, {0.9416, 0.9070}}},
    {"Deep64x64", -915, {{0.9422, 0.9192}, {0.9010, 0.9164}}},
    {"Solo64x32", -1052, {{0.8916, 0.8997}, {0.9168, 0.9098}}},
    {"Solo64x16", -1142, {{0.9470, 0.9447}, {0.9519, 0.9274}}},
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
