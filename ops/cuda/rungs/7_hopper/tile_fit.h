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
    {"Coop128x256", 1481, {{0.8981, 0.9052}, {0.8958, 0.8812}}},
    {"Coop192x176", 1500, {{0.8806, 0.8999}, {0.8853, 0.8733}}},
    {"Coop128x160", 529, {{0.8620, 0.8715}, {0.8585, 0.8670}}},
    {"Coop192x128", 302, {{0.8997, 0.8998}, {0.9000, 0.8977}}},
    {"Coop128x224", 1500, {{0.8876, 0.8956}, {0.8888, 0.8854}}},
    {"Ping128x128", -702, {{0.9402, 0.9488}, {0.9488, 0.9532}}},
    {"Ping128x160", 1481, {{0.9427, 0.9578}, {0.9335, 0.9705}}},
    {"Ping128x192", 1080, {{0.9428, 0.9565}, {0.9392, 0.9531}}},
    {"Ping64x128", -1109, {{0.9733, 0.9666}, {0.9579, 0.9534}}},
    {"Coop128x176", 1091, {{0.8725, 0.8801}, {0.8592, 0.8835}}},
    {"Coop128x128", 404, {{0.8761, 0.8872}, {0.8790, 0.8688}}},
    {"Coop128x112", 595, {{0.8842, 0.8839}, {0.8885, 0.8818}}},
    {"Coop128x96", 108, {{0.8915, 0.8912}, {0.8958, 0.8891}}},
    {"Coop192x96", 272, {{0.8751, 0.8679}, {0.8607, 0.8702}}},
    {"Deep64x192", 900, {{0.8420, 0.8264}, {0.8458, 0.8392}}},
    {"Deep64x160", -80, {{0.8588, 0.8614}, {0.8602, 0.8723}}},
    {"Deep64x128", 174, {{0.8417, 0.8314}, {0.8270, 0.8340}}},
    {"Deep64x96", -206, {{0.8040, 0.8389}, {0.8698, 0.8379}}},
    {"Deep64x80", -245, {{0.7602, 0.7931}, {0.8224, 0.7922}}},
    {"Deep64x64", -781, {{0.8279, 0.8077}, {0.7917, 0.8052}}},
    {"Solo64x16", -1042, {{0.9127, 0.9105}, {0.9175, 0.8939}}},
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
