// Rung mma_tile as the planner sees it: two tiles for 16 bits and tf32, and in fp64, where it
// computes the chains of Arithmetic::Fma, several, by whole tiles or stream-K.
#include <algorithm>
#include <utility>

#include "cuda/engine/mma_tile/tiles.h"
#include "cuda/engine/mma_tile/way.h"
#include "cuda/lessons/4_mma_tile/tiles.h"
#include "cuda/plan/describe.h"
#include "cuda/plan/kernel_name.h"
#include "cuda/plan/rung.h"
#include "cuda/plan/stream_k_plan.h"
#include "cuda/plan/sums.h"
#include "cuda/plan/tile_name.h"
#include "cuda/plan/tma.h"

namespace tiled {
namespace {

constexpr const auto& FP64_TABLE = Fp64Tiles::AS<Candidate>;
constexpr const auto& MMA_TABLE = MmaTiles::AS<Candidate>;  // the largest tile first

bool is_fp64(const Problem& problem) { return problem.dtype == DType::Float64; }

bool supports(const Problem& problem, const DeviceInfo& device) {
  if (!device.hopper_kernels) return false;
  if (is_fp64(problem))
    return is_of_chains(problem, device) && may_share_leaves(problem) &&
           std::any_of(std::begin(FP64_TABLE), std::end(FP64_TABLE),
                       [&](const Candidate& c) { return can_launch(c, problem, device); });
  return is_of_wgmma(problem.arithmetic) && can_launch(MMA_TABLE[0], problem, device) &&
         !is_grouped(problem) && problem.leaf == 0;
}

void ways(const Problem& problem, const DeviceInfo& device, Visit visit) {
  if (!is_fp64(problem)) {
    for (int8_t tile = 0; tile < MmaTiles::COUNT; ++tile)
      if (can_launch(MMA_TABLE[tile], problem, device)) visit(Way(MmaWay{tile}));
    return;
  }
  Fp64Way way{};
  way.access = {copied_access_of(side_a(problem)), copied_access_of(side_b(problem))};
  for (int tile = 0; tile < Fp64Tiles::COUNT; ++tile) {
    const Candidate& candidate = FP64_TABLE[tile];
    if (!can_launch(candidate, problem, device)) continue;
    if (is_grouped(problem) && tile != FP64_TILE_OF_GROUPS) continue;
    way.tile = static_cast<int8_t>(tile);
    way.blocks = 0;
    for (int share = problem.leaf > 0; share <= may_split_k(problem); ++share) {
      way.split_k = share;
      visit(Way(way));
    }
    way.split_k = false;
    if (tile >= Fp64StreamKTiles::COUNT) continue;
    way.blocks = stream_k_blocks(candidate, problem, device);
    if (way.blocks > 0) visit(Way(way));
  }
}

// The tiles of 16 bits and tf32, and those of fp64, each also with operands copied by elements.
std::vector<std::string> variants() {
  return variants_of(Fp64Tiles(), {"", " by elements"}, variants_of(MmaTiles()));
}

Plan plan(const Problem& problem, const DeviceInfo& device, const Way& way) {
  if (is_fp64(problem)) {
    const Fp64Way chosen = way.as<Fp64Way>();
    const Candidate& tile = FP64_TABLE[chosen.tile];
    Plan plan = plan_of(Algo::MmaTile, tile, problem, way);
    const bool singly = chosen.access.a == Access::Elements || chosen.access.b == Access::Elements;
    plan.demand =
        demand_of(average_of(problem), tile.block_m, tile.block_n,
                  MmaTiles::COUNT + 2 * chosen.tile + singly, tile.resident, chosen.split_k);
    plan.demand.stream_k = chosen.blocks > 0;
    const Step product = product_of(tile, plan, problem, device, /*dynamic=*/true);
    if (chosen.blocks > 0)
      add_stream_k(plan, product, problem.dtype, chosen.blocks);
    else
      add_product(plan, product, problem, chosen.split_k);
    return plan;
  }
  const int8_t number = way.as<MmaWay>().tile;
  Candidate tile = MMA_TABLE[number];
  tile.block_k = static_cast<int32_t>(tile.block_k * 2 / size_of(problem.dtype));
  Plan plan = plan_of(Algo::MmaTile, tile, problem, way);
  plan.add(product_of(tile, plan, problem, device));
  plan.demand = demand_of(problem, tile.block_m, tile.block_n, number, tile.resident);
  return plan;
}

// In JSON, of fp64: access, stream_k and split_k, as register_tile's.
Description describe(const Problem& problem, const DeviceInfo&, const Plan& plan) {
  Description d;
  if (!is_fp64(problem)) {
    // The instruction decides which thread owns which elements: pairs of columns in two rows of
    // every 8.
    const TileInfo tile = MMA_TABLE[plan.way.as<MmaWay>().tile].info;
    d.tile = tile.name;
    d.kernel = "mma_tile<" + d.tile + ", " + element_type(problem.dtype) + ">";
    d.thread_m = tile.thread_m, d.thread_n = tile.thread_n;
    return d;
  }
  const Fp64Way way = plan.way.as<Fp64Way>();
  const TileInfo tile = FP64_TABLE[way.tile].info;
  d.tile = tile.name;
  d.thread_m = tile.thread_m, d.thread_n = tile.thread_n;
  d.kernel = (way.blocks > 0 ? "mma_tile_fp64_stream_k<" : "mma_tile_fp64<") + d.tile + ", " +
             major_names(side_a(problem), side_b(problem)) + ">";
  describe_stream_k(d, way.blocks);
  d.lines.emplace_back("reads", text_of(way.access));
  d.json.emplace_back("access", json_of(way.access));
  describe_sharing(d, problem, way.split_k);
  return d;
}

NamedWay name(const Problem&, const Way& way) {
  if (way.is<MmaWay>())
    return named_way(std::string(tile_name_of(MmaTiles(), way.as<MmaWay>().tile)),
                     /*swap_ab=*/false,
                     /*split_k=*/false);
  const Fp64Way chosen = way.as<Fp64Way>();
  std::string tile(tile_name_of(Fp64Tiles(), chosen.tile));
  if (chosen.blocks > 0) tile += " cut";
  return named_way(std::move(tile), /*swap_ab=*/false, chosen.split_k);
}

}  // namespace

extern const Rung MmaTileRung = {Algo::MmaTile, Use::Chosen, &supports,
                                 &ways,         &plan,       &describe,
                                 &name,         &variants,   TAKES_GROUPS | TAKES_TREES};

}  // namespace tiled
