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
    {"Coop128x256", 525, {{0.9063, 0.9095}, {0.9059, 0.9114}}},
    {"Coop192x176", 967, {{0.9064, 0.9434}, {0.9168, 0.9357}}},
    {"Coop128x160", 532, {{0.8995, 0.9212}, {0.8893, 0.9390}}},
    {"Coop192x128", 222, {{0.8971, 0.8988}, {0.8945, 0.8900}}},
    {"Coop128x224", 868, {{0.9094, 0.9138}, {0.8895, 0.8820}}},
    {"Ping128x128", 87, {{0.9677, 0.9647}, {0.9796, 0.9575}}},
    {"Ping128x160", 140, {{0.9746, 0.9955}, {0.9539, 0.9730}}},
    {"Ping128x192", 471, {{0.9647, 0.9689}, {0.9463, 0.9368}}},
    {"Ping64x128", -1238, {{1.0863, 1.0779}, {1.0876, 1.0705}}},
    {"Coop128x208", 564, {{0.9062, 0.9297}, {0.8832, 0.9491}}},
    {"Coop128x176", 661, {{0.8853, 0.9027}, {0.8763, 0.9039}}},
    {"Coop128x128", 257, {{0.8943, 0.8926}, {0.8863, 0.8712}}},
    {"Coop128x96", -85, {{0.9235, 0.9220}, {0.9411, 0.9194}}},
    {"Coop192x96", 292, {{0.9157, 0.9017}, {0.8835, 0.9023}}},
    {"Deep64x192", -258, {{0.8948, 0.8811}, {0.9085, 0.8953}}},
    {"Deep64x160", -377, {{0.9508, 0.9556}, {0.9427, 0.9695}}},
    {"Deep64x128", -201, {{0.9240, 0.9179}, {0.9330, 0.9146}}},
    {"Deep64x96", -811, {{0.8988, 0.9193}, {0.9345, 0.9203}}},
    {"Deep64x64", -942, {{0.9764, 0.9954}, {0.9635, 0.9931}}},
    {"Solo64x32", -755, {{1.0056, 0.9839}, {1.0060, 0.9844}}},
    {"Solo64x16", -826, {{0.9340, 0.9403}, {0.9399, 0.9304}}},
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
