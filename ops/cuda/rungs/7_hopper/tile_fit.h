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
    {"Coop128x256", 639, {{0.932, 0.936}, {0.926, 0.948}}},
    {"Coop192x192", 444, {{0.970, 0.986}, {0.963, 0.958}}},
    {"Coop192x176", 249, {{0.971, 1.056}, {0.980, 1.040}}},
    {"Coop128x160", 258, {{0.964, 0.947}, {0.919, 1.007}}},
    {"Coop192x128", 876, {{0.981, 0.991}, {1.024, 1.001}}},
    {"Coop128x224", 318, {{0.923, 0.938}, {0.897, 0.905}}},
    {"Ping128x128", 298, {{0.991, 1.035}, {1.042, 1.043}}},
    {"Ping128x160", 480, {{0.958, 0.968}, {0.946, 0.992}}},
    {"Ping128x192", 480, {{0.958, 0.968}, {0.946, 0.992}}},
    {"Ping64x128", -661, {{1.249, 1.255}, {1.251, 1.174}}},
    {"Coop128x208", 318, {{0.932, 0.936}, {0.926, 0.948}}},
    {"Coop128x176", 258, {{0.932, 0.936}, {0.926, 0.948}}},
    {"Coop128x128", 256, {{0.995, 0.987}, {1.000, 1.031}}},
    {"Coop128x112", 86, {{1.011, 1.121}, {0.979, 1.165}}},
    {"Coop128x96", -251, {{1.071, 1.115}, {1.051, 1.066}}},
    {"Coop128x64", -251, {{1.071, 1.115}, {1.051, 1.066}}},
    {"Coop192x96", 468, {{1.043, 1.099}, {1.003, 1.048}}},
    {"Deep64x192", -460, {{1, 1}, {1, 1}}},
    {"Deep64x160", -460, {{1, 1}, {1, 1}}},
    {"Deep64x128", -460, {{1.012, 1.035}, {1.062, 0.990}}},
    {"Deep64x96", -744, {{1.027, 1.115}, {1.045, 1.116}}},
    {"Deep64x64", -389, {{1.012, 1.020}, {0.980, 0.977}}},
    {"Solo64x96", -413, {{1.166, 1.112}, {1.134, 1.071}}},
    {"Solo64x32", -908, {{1.058, 1.035}, {1.012, 0.967}}},
    {"Solo64x16", -442, {{1.232, 1.081}, {1.181, 1.028}}},
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
