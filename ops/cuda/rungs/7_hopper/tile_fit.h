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
    {"Coop128x256", 457, {{0.9762, 0.9839}, {0.9737, 0.9579}}},
    {"Coop192x176", 1271, {{0.9455, 0.9662}, {0.9504, 0.9376}}},
    {"Coop128x160", -517, {{0.9038, 0.9138}, {0.9001, 0.9090}}},
    {"Coop192x128", 547, {{0.9276, 0.9277}, {0.9278, 0.9255}}},
    {"Coop128x224", 1039, {{0.9118, 0.9200}, {0.9131, 0.9096}}},
    {"Ping128x128", -826, {{0.9367, 0.9453}, {0.9453, 0.9497}}},
    {"Ping128x160", -795, {{0.9412, 0.9563}, {0.9319, 0.9688}}},
    {"Ping128x192", -546, {{0.9414, 0.9550}, {0.9379, 0.9517}}},
    {"Ping64x128", -72, {{0.9773, 0.9705}, {0.9619, 0.9573}}},
    {"Coop128x176", 431, {{0.9035, 0.9114}, {0.8897, 0.9148}}},
    {"Coop128x128", -94, {{0.9059, 0.9173}, {0.9088, 0.8983}}},
    {"Coop128x112", 1370, {{0.9028, 0.9025}, {0.9072, 0.9002}}},
    {"Coop128x96", 439, {{0.8815, 0.8812}, {0.8857, 0.8791}}},
    {"Coop192x96", -5, {{0.9384, 0.9307}, {0.9229, 0.9332}}},
    {"Deep64x192", -1115, {{0.9115, 0.8946}, {0.9156, 0.9084}}},
    {"Deep64x160", -970, {{0.8815, 0.8842}, {0.8829, 0.8954}}},
    {"Deep64x128", 13, {{0.8349, 0.8248}, {0.8204, 0.8274}}},
    {"Deep64x96", -5, {{0.7949, 0.8294}, {0.8599, 0.8284}}},
    {"Deep64x80", 155, {{0.8480, 0.8846}, {0.9174, 0.8837}}},
    {"Deep64x64", -321, {{0.8339, 0.8137}, {0.7975, 0.8112}}},
    {"Solo64x16", -245, {{0.8127, 0.8108}, {0.8169, 0.7959}}},
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
