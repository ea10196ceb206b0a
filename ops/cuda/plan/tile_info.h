// The named tiles (tiles.h) as values, for those who print them.
#pragma once

#include <string_view>

#include "cuda/plan/fp16x3_tiles.h"
#include "cuda/plan/plan.h"
#include "cuda/plan/tiles.h"

namespace tiled {

struct TileInfo {
  std::string_view name;   // "Tile128x128"
  int thread_m, thread_n;  // elements of C that one thread owns
};

// The tile's name as the compiler writes it, so that it cannot differ from the kernels' names.
template <typename Tile>
constexpr std::string_view tile_type_name() {
  // "... [with Tile = tiled::Tile128x128; ...]", the namespace left out by some compilers
  std::string_view name = __PRETTY_FUNCTION__;
  constexpr std::string_view BEFORE = "Tile = ";
  name.remove_prefix(name.find(BEFORE) + BEFORE.size());
  name = name.substr(0, name.find_first_of(";]"));
  const size_t scope = name.rfind("::");
  return scope == std::string_view::npos ? name : name.substr(scope + 2);
}

template <typename Tile>
constexpr TileInfo tile_info_of() {
  return {tile_type_name<Tile>(), Tile::THREAD_M, Tile::THREAD_N};
}

template <typename Tiles>
constexpr TileInfo tile_info_of(TileSize size) {
  switch (size) {
    case TileSize::Large: return tile_info_of<typename Tiles::Large>();
    case TileSize::Medium: return tile_info_of<typename Tiles::Medium>();
    case TileSize::Small: return tile_info_of<typename Tiles::Small>();
  }
  return {};
}

// The tile of a plan with register_tile, or with mma_tile in fp64.
constexpr TileInfo tile_info(DType dtype, const Plan& plan) {
  if (plan.algo == Algo::MmaTile) return tile_info_of<Fp64Tiles>(plan.tile);
  if (plan.async) return tile_info_of<AsyncTiles>(plan.tile);
  switch (accumulator_bytes(dtype)) {
    case 4: return tile_info_of<RegisterTilesFor<4>>(plan.tile);
    case 8: return tile_info_of<RegisterTilesFor<8>>(plan.tile);
    default: return tile_info_of<RegisterTilesFor<16>>(plan.tile);
  }
}

template <typename... Tiles>
constexpr std::string_view tile_name_of(TileList<Tiles...>, int index) {
  constexpr std::string_view NAMES[] = {tile_type_name<Tiles>()...};
  return NAMES[index];
}

// The name of one of hopper's tiles.
constexpr std::string_view hopper_tile_name(int index) {
  return tile_name_of(HopperTiles(), index);
}
// And of fp16x3's.
constexpr std::string_view fp16x3_tile_name(int index) {
  if (index == FEW_ROWS_INDEX) return "FewRows";
  return tile_name_of(Fp16x3Tiles(), index);
}

}  // namespace tiled
