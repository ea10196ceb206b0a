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
    {"Coop128x256", 599, {{0.9496, 0.9462}, {0.9415, 0.9500}}},
    {"Coop192x192", 462, {{0.9734, 0.9605}, {0.9665, 0.9649}}},
    {"Coop192x176", 277, {{0.9716, 0.9717}, {0.9530, 0.9789}}},
    {"Coop128x160", 260, {{0.9213, 0.8880}, {0.9009, 0.8820}}},
    {"Coop192x128", 837, {{0.9337, 0.9299}, {0.9392, 0.9210}}},
    {"Coop128x224", 373, {{0.9314, 0.8989}, {0.8777, 0.8841}}},
    {"Ping128x128", 147, {{1.0246, 1.0295}, {1.0074, 1.0367}}},
    {"Ping128x192", 427, {{1.0322, 1.0338}, {1.0017, 1.0190}}},
    {"Ping64x128", -351, {{1.1742, 1.1496}, {1.1589, 1.1565}}},
    {"Coop128x128", 367, {{0.9269, 0.9344}, {0.9251, 0.9317}}},
    {"Coop128x112", 252, {{0.9592, 0.9626}, {0.9576, 0.9677}}},
    {"Coop128x96", -180, {{0.9873, 0.9550}, {0.9840, 0.9934}}},
    {"Coop192x96", 331, {{0.9558, 0.9499}, {0.9220, 0.9425}}},
    {"Deep64x128", -314, {{0.9398, 0.8837}, {0.9213, 0.9225}}},
    {"Deep64x96", -768, {{0.9596, 0.9877}, {0.9910, 0.9972}}},
    {"Deep64x64", -625, {{0.9676, 0.9895}, {0.9451, 0.9643}}},
    {"Solo64x96", -309, {{0.9878, 0.9515}, {0.9665, 0.9644}}},
    {"Solo64x32", -825, {{1.0241, 0.9955}, {1.0150, 0.9697}}},
    {"Solo64x16", -902, {{1.0787, 1.0541}, {1.0969, 1.0229}}},
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
