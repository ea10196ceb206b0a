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
    {"Coop128x256", 679, {{0.9509, 0.9588}, {0.9658, 0.9899}}},
    {"Coop192x192", 359, {{0.9698, 0.9882}, {0.9828, 0.9913}}},
    {"Coop192x176", 283, {{0.9872, 1.0552}, {0.9950, 1.0380}}},
    {"Coop128x160", 4, {{0.9634, 0.9235}, {0.9383, 0.9658}}},
    {"Coop192x128", 1045, {{1.0019, 0.9769}, {1.0245, 0.9956}}},
    {"Coop128x224", 285, {{0.9787, 0.9181}, {0.8749, 0.9160}}},
    {"Ping128x128", 350, {{0.9808, 1.0403}, {0.9871, 1.0296}}},
    {"Ping128x192", 489, {{1.0015, 1.0090}, {0.9767, 1.0219}}},
    {"Ping64x128", -462, {{1.2430, 1.2707}, {1.2676, 1.2127}}},
    {"Coop128x128", 272, {{0.9831, 1.0087}, {0.9798, 1.0028}}},
    {"Coop128x112", 187, {{1.0108, 1.1199}, {1.0005, 1.1647}}},
    {"Coop128x96", -298, {{1.0549, 1.1132}, {1.0392, 1.0729}}},
    {"Coop192x96", 383, {{0.9973, 1.0948}, {0.9837, 1.0300}}},
    {"Deep64x128", -638, {{0.9840, 0.9877}, {1.0601, 1.0059}}},
    {"Deep64x96", -753, {{1.0487, 1.1149}, {1.0232, 1.1080}}},
    {"Deep64x64", -310, {{0.9763, 1.0471}, {0.9789, 0.9697}}},
    {"Solo64x96", -579, {{1.1500, 1.1030}, {1.1244, 1.0595}}},
    {"Solo64x32", -775, {{1.0581, 1.0301}, {1.0031, 0.9687}}},
    {"Solo64x16", -452, {{1.2302, 1.0794}, {1.1794, 1.0277}}},
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
