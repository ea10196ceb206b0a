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
    {"Coop128x256", 503, {{0.9776, 0.9854}, {0.9751, 0.9593}}},
    {"Coop192x176", 1364, {{0.9120, 0.9320}, {0.9168, 0.9044}}},
    {"Coop128x160", -1467, {{0.9045, 0.9145}, {0.9008, 0.9097}}},
    {"Coop192x128", 161, {{0.9300, 0.9301}, {0.9302, 0.9279}}},
    {"Coop128x224", 1051, {{0.9110, 0.9192}, {0.9123, 0.9088}}},
    {"Ping128x128", -945, {{0.9392, 0.9478}, {0.9478, 0.9522}}},
    {"Ping128x160", -1009, {{0.9466, 0.9618}, {0.9373, 0.9744}}},
    {"Ping128x192", 18, {{0.9432, 0.9568}, {0.9396, 0.9535}}},
    {"Ping64x128", -350, {{0.9756, 0.9688}, {0.9602, 0.9556}}},
    {"Coop128x176", 333, {{0.8926, 0.9004}, {0.8790, 0.9038}}},
    {"Coop128x128", -167, {{0.9047, 0.9161}, {0.9076, 0.8971}}},
    {"Coop128x112", 1472, {{0.8941, 0.8938}, {0.8984, 0.8915}}},
    {"Coop128x96", 310, {{0.8763, 0.8760}, {0.8805, 0.8739}}},
    {"Coop192x96", 260, {{0.9040, 0.8966}, {0.8891, 0.8990}}},
    {"Deep64x192", -1153, {{0.8998, 0.8831}, {0.9039, 0.8968}}},
    {"Deep64x160", -1360, {{0.8914, 0.8942}, {0.8929, 0.9055}}},
    {"Deep64x128", -146, {{0.8227, 0.8127}, {0.8084, 0.8153}}},
    {"Deep64x96", -460, {{0.7907, 0.8250}, {0.8553, 0.8240}}},
    {"Deep64x80", -273, {{0.8525, 0.8893}, {0.9223, 0.8884}}},
    {"Deep64x64", -391, {{0.8288, 0.8087}, {0.7926, 0.8062}}},
    {"Solo64x16", -411, {{0.8174, 0.8155}, {0.8217, 0.8005}}},
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
