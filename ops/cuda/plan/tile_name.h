// The named tiles as values, for printing.
#pragma once

#include <string_view>

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

// A rung's tiles by number.
template <typename... Tiles>
struct TileList {
  static constexpr int COUNT = sizeof...(Tiles);
  static constexpr std::string_view NAMES[] = {tile_type_name<Tiles>()...};
  // As values of a rung's own type.
  template <typename Info>
  static constexpr Info AS[] = {Info::template of<Tiles>()...};
};

template <typename List>
constexpr std::string_view tile_name_of(List, int index) {
  return List::NAMES[index];
}

// One list after the other.
template <typename... Tiles, typename... More>
constexpr TileList<Tiles..., More...> joined(TileList<Tiles...>, TileList<More...>) {
  return {};
}

// The last of them.
template <typename First, typename... Rest>
constexpr auto last_of(TileList<First, Rest...>) {
  if constexpr (sizeof...(Rest) > 0)
    return last_of(TileList<Rest...>());
  else
    return First();
}

// function(tile) of the one that has this number.
template <typename First, typename... Rest, typename Function>
auto with_tile(TileList<First, Rest...>, int index, Function function) {
  if constexpr (sizeof...(Rest) > 0)
    if (index != 0) return with_tile(TileList<Rest...>(), index - 1, function);
  return function(First());
}

}  // namespace tiled
