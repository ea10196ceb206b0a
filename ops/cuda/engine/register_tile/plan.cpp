// Rung register_tile as the planner sees it: tiles for each size of accumulator, and others for
// fp32 where cp.async exists.
#include <algorithm>
#include <utility>

#include "core/text.h"
#include "cuda/engine/register_tile/tiles.h"
#include "cuda/engine/register_tile/way.h"
#include "cuda/lessons/3_register_tile/tiles.h"
#include "cuda/plan/copies.h"
#include "cuda/plan/describe.h"
#include "cuda/plan/kernel_name.h"
#include "cuda/plan/rung.h"
#include "cuda/plan/stream_k_plan.h"
#include "cuda/plan/sums.h"
#include "cuda/plan/tile_name.h"

namespace tiled {
namespace {

// Bytes of shared memory in addition to the tiles: a block's number in stream-K (run_turns in
// parts/schedule/stream_k.cuh), rounded up to what cp.async's tiles are aligned to.
constexpr int64_t NUMBER_BYTES = 128;

// A list, by number.
struct Tiles {
  const Candidate* first;
  int count;
  const Candidate* begin() const { return first; }
  const Candidate* end() const { return first + count; }
};
template <typename List>
constexpr Tiles TILES = {List::template AS<Candidate>, List::COUNT};

// The tiles of cp.async, and the tiles for each size of accumulator.
constexpr const Tiles& ASYNC = TILES<AsyncTiles>;
constexpr Tiles LISTS[] = {TILES<RegisterTilesFor<4>::List>, TILES<RegisterTilesFor<8>::List>,
                           TILES<RegisterTilesFor<8, 16>::List>,
                           TILES<RegisterTilesFor<16, 32>::List>};

int list_of(DType dtype) {
  const int64_t bytes = accumulator_bytes(dtype);
  return bytes == 4 ? 0 : bytes == 16 ? 3 : is_complex(dtype) ? 2 : 1;
}

bool is_async(const Problem& problem, const DeviceInfo& device) {
  return problem.dtype == DType::Float32 && device.capability >= 80;
}

const Tiles& tiles_of(DType dtype, bool async) { return async ? ASYNC : LISTS[list_of(dtype)]; }
const Tiles& tiles_of(const Problem& problem, const DeviceInfo& device) {
  return tiles_of(problem.dtype, is_async(problem, device));
}
const Candidate& tile_of(DType dtype, const RegisterTileWay& way) {
  return tiles_of(dtype, way.async).first[way.tile];
}

bool supports(const Problem& problem, const DeviceInfo& device) {
  const Tiles& tiles = tiles_of(problem, device);
  return is_of_chains(problem, device) && may_share_leaves(problem) &&
         std::any_of(tiles.begin(), tiles.end(),
                     [&](const Candidate& tile) { return can_launch(tile, problem, device); });
}

// Visits the way with each choice of operands to transpose first: a kernel of Hopper's does that
// for those that cp.async would copy one element at a time.
void visit_accesses(const Problem& problem, const DeviceInfo& device, RegisterTileWay way,
                    Visit visit) {
  if (!way.async) {
    way.access = is_grouped(problem) ? Accesses{Access::Elements, Access::Elements}
                                     : vector_accesses_of(problem);
    return visit(Way(way));
  }
  const Side a = side_a(problem), b = side_b(problem);
  const bool singly_a = async_access_of(a) == Access::Elements;
  const bool singly_b = async_access_of(b) == Access::Elements;
  const auto may_transpose = [&](bool singly, const Side& side) {
    // Along rows that groups share out, a group would begin off the vectors' places.
    return singly && device.hopper_kernels && !side.is_shared &&
           !overlaps_itself(side, problem.batch);
  };
  const auto access = [](bool singly) { return singly ? Access::Elements : Access::AlongMN; };
  for (int ta = 0; ta <= may_transpose(singly_a, a); ++ta)
    for (int tb = 0; tb <= may_transpose(singly_b, b); ++tb) {
      way.transpose_a = ta, way.transpose_b = tb;
      way.access = {access(singly_a && !ta), access(singly_b && !tb)};
      visit(Way(way));
    }
}

void ways(const Problem& problem, const DeviceInfo& device, Visit visit) {
  const bool async = is_async(problem, device);
  const Tiles& tiles = tiles_of(problem, device);
  // Without cp.async one tile has kernels for groups, the last.
  const int first = is_grouped(problem) && !async ? tiles.count - 1 : 0;
  for (int i = first; i < tiles.count; ++i) {
    if (!can_launch(tiles.first[i], problem, device)) continue;
    RegisterTileWay way{};
    way.async = async;
    way.tile = static_cast<int8_t>(i);
    for (int share = problem.leaf > 0; share <= may_split_k(problem); ++share) {
      way.split_k = share;
      visit_accesses(problem, device, way, visit);
    }
    if (!async) continue;
    way.split_k = false;
    way.blocks = stream_k_blocks(tiles.first[i], problem, device);
    if (way.blocks > 0) visit_accesses(problem, device, way, visit);
  }
}

// A tile of cp.async has a name for each number of operands that are copied one element at a time.
constexpr int MANNERS = 3;
std::vector<std::string> variants() {
  auto names = variants_of(AsyncTiles(), {"", " one by elements", " both by elements"});
  for (const Tiles& tiles : LISTS)
    for (const Candidate& tile : tiles) names.emplace_back(tile.info.name);
  return names;
}
int variant_of(DType dtype, const RegisterTileWay& way) {
  const int singly = (way.access.a == Access::Elements) + (way.access.b == Access::Elements);
  if (way.async) return way.tile * MANNERS + singly;
  int first = ASYNC.count * MANNERS;
  for (int list = 0; list < list_of(dtype); ++list) first += LISTS[list].count;
  return first + way.tile;
}

// The bytes of C that stores of single elements touch, where it does not take a lane's vectors. A
// warp is 4 x 8 lanes, a vector apart along a row.
double lines_of_single_stores(const Problem& problem, const RegisterTileWay& way) {
  const bool by_vectors = problem.c.col_stride == 1 && problem.c.alignment == 16;
  if (by_vectors || way.split_k) return 0;
  const int64_t vector = 16 / accumulator_bytes(problem.dtype);
  return store_lines_of(problem, 4, 7 * vector * size_of(problem.epilogue.out_dtype));
}

Plan plan(const Problem& problem, const DeviceInfo& device, const Way& chosen) {
  const RegisterTileWay way = chosen.as<RegisterTileWay>();
  const Candidate& candidate = tile_of(problem.dtype, way);
  Plan plan = plan_of(Algo::RegisterTile, candidate, problem, chosen);
  const auto to = [](bool is_copied) { return is_copied ? CopyTo::AlongRows : CopyTo::Nothing; };
  plan.copy_p = to(way.transpose_a), plan.copy_q = to(way.transpose_b);
  add_copies(plan, problem);
  plan.demand =
      demand_of(average_of(problem_as_read(problem, plan)), candidate.block_m, candidate.block_n,
                variant_of(problem.dtype, way), candidate.resident, way.split_k);
  plan.demand.stream_k = way.blocks > 0;
  plan.demand.store_lines = lines_of_single_stores(average_of(problem), way);
  Step product = product_of(candidate, plan, problem, device);
  if (way.blocks > 0) {
    product.shared_bytes += NUMBER_BYTES;
    add_stream_k(plan, product, problem.dtype, way.blocks);
  } else {
    add_product(plan, product, problem, way.split_k);
  }
  return plan;
}

// In JSON:
//
//   access      {a, b}: "along_k", "along_mn" or "elements"
//   transposes  {a, b}: whether the operand is copied first, to be contiguous along m or n
//   stream_k  stream-K: whether blocks have equally much to do
//   split_k  split-K: whether blocks have segments of K, whose sums another kernel adds
Description describe(const Problem& problem, const DeviceInfo&, const Plan& plan) {
  const RegisterTileWay way = plan.way.as<RegisterTileWay>();
  const TileInfo tile = tile_of(problem.dtype, way).info;
  Description d;
  d.tile = tile.name;
  d.thread_m = tile.thread_m, d.thread_n = tile.thread_n;
  d.kernel = (way.blocks > 0 ? "register_tile_stream_k<"
              : way.async    ? "register_tile_async<"
                             : std::string("register_tile<") + element_type(problem) + ", ") +
             d.tile + ", " + std::to_string(static_cast<int>(way.access.a)) + ", " +
             std::to_string(static_cast<int>(way.access.b));
  if (way.async && way.blocks == 0) d.kernel += way.split_k ? ", 1" : ", 0";
  d.kernel += ">";
  if (way.transpose_a) d.lines.emplace_back("transposes", "A first, to be contiguous along m");
  if (way.transpose_b) d.lines.emplace_back("transposes", "B first, to be contiguous along n");
  describe_stream_k(d, way.blocks);
  d.lines.emplace_back("reads", text_of(way.access));
  d.json.emplace_back("access", json_of(way.access));
  d.json.emplace_back("transposes",
                      Object().truth("a", way.transpose_a).truth("b", way.transpose_b).str());
  describe_sharing(d, problem, way.split_k);
  return d;
}

// Such as "AsyncTile64x64", or "AsyncTile64x64 cut of copied A".
NamedWay name(const Problem& problem, const Way& way) {
  const RegisterTileWay chosen = way.as<RegisterTileWay>();
  std::string tile(tile_of(problem.dtype, chosen).info.name);
  if (chosen.blocks > 0) tile += " cut";
  if (const char* const copied = names_of_operands(chosen.transpose_a, chosen.transpose_b))
    tile += std::string(" of copied ") + copied;
  return named_way(std::move(tile), /*swap_ab=*/false, chosen.split_k);
}

}  // namespace

extern const Rung RegisterTileRung = {
    Algo::RegisterTile,        Use::Chosen, &supports, &ways, &plan, &describe, &name, &variants,
    TAKES_GROUPS | TAKES_TREES};

}  // namespace tiled
