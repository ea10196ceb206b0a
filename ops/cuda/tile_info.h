// The named tiles (tiles.h) as values, for those who print them.
#pragma once

#include <string_view>

#include "cuda/plan.h"
#include "cuda/tiles.h"

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

template <int ACC_BYTES>
constexpr TileInfo tile_info_of(TileSize size) {
  using Large = typename RegisterTilesFor<ACC_BYTES>::Large;
  using Small = typename RegisterTilesFor<ACC_BYTES>::Small;
  return size == TileSize::Large
             ? TileInfo{tile_type_name<Large>(), Large::THREAD_M, Large::THREAD_N}
             : TileInfo{tile_type_name<Small>(), Small::THREAD_M, Small::THREAD_N};
}

// The tile that register_tile uses for this dtype.
constexpr TileInfo tile_info(DType dtype, TileSize size) {
  switch (accumulator_bytes(dtype)) {
    case 4: return tile_info_of<4>(size);
    case 8: return tile_info_of<8>(size);
    default: return tile_info_of<16>(size);
  }
}

}  // namespace tiled
