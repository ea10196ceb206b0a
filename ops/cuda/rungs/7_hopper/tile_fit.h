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
    {"Coop128x256", 986, {{0.8887, 0.8957}, {0.8864, 0.8720}}},
    {"Coop192x176", 1500, {{0.8824, 0.9018}, {0.8871, 0.8751}}},
    {"Coop128x160", 273, {{0.8589, 0.8683}, {0.8554, 0.8638}}},
    {"Coop192x128", 260, {{0.9090, 0.9091}, {0.9093, 0.9070}}},
    {"Coop128x224", 1069, {{0.8755, 0.8834}, {0.8767, 0.8734}}},
    {"Ping128x128", -1144, {{0.9458, 0.9544}, {0.9544, 0.9588}}},
    {"Ping128x160", -1500, {{0.9573, 0.9727}, {0.9480, 0.9855}}},
    {"Ping128x192", 323, {{0.9525, 0.9663}, {0.9489, 0.9629}}},
    {"Ping64x128", -741, {{0.9409, 0.9344}, {0.9260, 0.9216}}},
    {"Coop128x176", 490, {{0.8746, 0.8822}, {0.8613, 0.8856}}},
    {"Coop128x128", 191, {{0.8700, 0.8810}, {0.8728, 0.8627}}},
    {"Coop128x112", 497, {{0.8652, 0.8649}, {0.8694, 0.8628}}},
    {"Coop128x96", 6, {{0.8598, 0.8595}, {0.8640, 0.8575}}},
    {"Coop192x96", 21, {{0.8628, 0.8557}, {0.8486, 0.8580}}},
    {"Deep64x192", 712, {{0.8364, 0.8209}, {0.8402, 0.8336}}},
    {"Deep64x160", -723, {{0.8631, 0.8657}, {0.8645, 0.8767}}},
    {"Deep64x128", -66, {{0.8354, 0.8252}, {0.8208, 0.8278}}},
    {"Deep64x96", -438, {{0.7899, 0.8242}, {0.8546, 0.8232}}},
    {"Deep64x80", -229, {{0.7750, 0.8085}, {0.8384, 0.8076}}},
    {"Deep64x64", -725, {{0.8099, 0.7901}, {0.7745, 0.7877}}},
    {"Solo64x16", -1051, {{0.9389, 0.9366}, {0.9438, 0.9195}}},
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
