// The names by which tests and benchmarks ask for a rung's ways: of a problem's, no two have one. A
// tile's name is one rung's (torch/plan_by_name.h).
#include <gtest/gtest.h>

#include "planned.h"

namespace tiled {
namespace {

using namespace test;

std::vector<NamedWay> names_of(const Rung& rung, const Problem& p, const DeviceInfo& d) {
  std::vector<NamedWay> names;
  rung.ways(p, d, [&](const Way& way) { names.push_back(rung.name(p, way)); });
  return names;
}

std::string text_of(const NamedWay& name) {
  return name.tile + (name.swap_ab ? ", swap_ab, " : ", ") + std::to_string(name.cluster_p) +
         " x " + std::to_string(name.cluster_q) + (name.split_k ? ", shared" : "");
}

void expect_one_each(const Problem& p, const char* device_name) {
  const DeviceInfo d = device(device_name);
  std::vector<NamedWay> known;  // of rungs before
  for (const Rung* rung : ladder()) {
    if (!rung->supports(p, d)) continue;
    const std::vector<NamedWay> names = names_of(*rung, p, d);
    for (const NamedWay& name : names)
      EXPECT_TRUE(std::count(names.begin(), names.end(), name) == 1 &&
                  (name.tile.empty() || std::count(known.begin(), known.end(), name) == 0))
          << name_of(rung->algo) << ' ' << text_of(name) << " for " << p.m << " x " << p.n << " x "
          << p.k << ' ' << name_of(p.dtype) << " on " << device_name;
    known.insert(known.end(), names.begin(), names.end());
  }
}

TEST(NamedWays, EachNamesOne) {
  constexpr int64_t SIZES[][3] = {{1, 4096, 4096}, {64, 64, 40000},   {100, 1000, 33000},
                                  {512, 512, 512}, {2000, 3000, 100}, {100003, 16, 64},
                                  {5000, 8, 7},    {2, 3, 1}};
  for (const auto& [m, n, k] : SIZES)
    for (const std::string layout : {"nn", "nt", "tn", "tt"})
      for (const char* on : {"h200", "a100", "t4", "k40"}) {
        for (const DType dtype : {DType::Float32, DType::Float64, DType::Complex64,
                                  DType::Complex128, DType::Int8, DType::Int64, DType::BFloat16})
          expect_one_each(problem_of(layout, m, n, k, dtype), on);
        for (const DType dtype : TENSOR_DTYPES)
          expect_one_each(tensor_problem(layout, m, n, k, dtype), on);
        expect_one_each(parts_problem(layout, m, n, k), on);
      }
}

// register_tile has other tiles for each size of accumulator, some of the same size.
TEST(NamedWays, TheTileIsTheAccumulators) {
  const auto tiles = [](DType dtype) {
    std::vector<std::string> found;
    const Problem p = problem_of(500, 500, 500, dtype);
    for (const NamedWay& name : names_of(*rung_of(Algo::RegisterTile), p, device("t4")))
      found.push_back(name.tile);
    return found;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(tiles(DType::Float32), (Names{"Tile128x128", "Tile64x64"}));
  EXPECT_EQ(tiles(DType::Float64), (Names{"Tile128x64", "Tile64x64Wide"}));
  EXPECT_EQ(tiles(DType::Complex64), (Names{"Tile64x64WideComplex"}));
  EXPECT_EQ(tiles(DType::Complex128), (Names{"Tile64x64Complex", "Tile32x32Complex"}));
}

}  // namespace
}  // namespace tiled
