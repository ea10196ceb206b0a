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
    {"Coop128x256", 542, {{0.8733, 0.8794}, {0.8727, 0.8489}}},
    {"Coop192x176", 1016, {{0.8671, 0.8900}, {0.8739, 0.8632}}},
    {"Coop128x160", 555, {{0.8666, 0.8793}, {0.8606, 0.8733}}},
    {"Coop192x128", 218, {{0.8720, 0.8786}, {0.8746, 0.8729}}},
    {"Coop128x224", 884, {{0.8743, 0.8813}, {0.8714, 0.8685}}},
    {"Ping128x128", -18, {{0.9424, 0.9513}, {0.9509, 0.9499}}},
    {"Ping128x160", 131, {{0.9534, 0.9734}, {0.9413, 0.9843}}},
    {"Ping128x192", 390, {{0.9511, 0.9650}, {0.9446, 0.9572}}},
    {"Ping64x128", -1225, {{1.0201, 1.0108}, {1.0016, 1.0067}}},
    {"Coop128x208", 528, {{0.8675, 0.8940}, {0.8648, 0.9039}}},
    {"Coop128x176", 638, {{0.8617, 0.8732}, {0.8541, 0.8802}}},
    {"Coop128x128", 253, {{0.8578, 0.8649}, {0.8571, 0.8600}}},
    {"Coop128x96", 144, {{0.8953, 0.8871}, {0.8989, 0.8890}}},
    {"Coop192x96", 315, {{0.8789, 0.8653}, {0.8576, 0.8641}}},
    {"Deep64x192", -83, {{0.8684, 0.8460}, {0.8733, 0.8651}}},
    {"Deep64x160", -296, {{0.9225, 0.9204}, {0.9160, 0.9268}}},
    {"Deep64x128", -249, {{0.8588, 0.8337}, {0.8389, 0.8580}}},
    {"Deep64x96", -711, {{0.8832, 0.9152}, {0.9547, 0.9157}}},
    {"Deep64x64", -939, {{0.9564, 0.9490}, {0.9217, 0.9522}}},
    {"Solo64x32", -908, {{0.8457, 0.8493}, {0.8612, 0.8548}}},
    {"Solo64x16", -1113, {{0.9507, 0.9641}, {0.9585, 0.9221}}},
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
