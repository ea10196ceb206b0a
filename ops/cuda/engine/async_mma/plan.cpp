// Rung async_mma as the planner sees it: named tiles, either operand on A's side, operands that are
// read in small pieces or copied first.
#include "cuda/engine/async_mma/plan.h"

#include <algorithm>
#include <utility>

#include "cuda/plan/candidate.h"
#include "cuda/plan/describe.h"
#include "cuda/plan/kernel_name.h"
#include "cuda/plan/kernels_of.h"
#include "cuda/plan/sums.h"
#include "cuda/plan/tma.h"

namespace tiled {
namespace {

// Rows side by side, of one k each, are contiguous along m or n: at no multiple of 16 bytes but the
// first.
bool along_k(const Side& side) {
  return side.k_stride == 1 || (side.k <= 1 && side.row_stride != 1);
}

// Whether the kernels are those of 7.5, which hold all that they read in registers first.
bool holds_all(const DeviceInfo& device) { return kernels_of(device).mma == Mma::Fp16By8; }

// How the kernel may read an operand: by the widest copies that its alignment allows.
ReadBy read_by(const Side& side, DType dtype, const DeviceInfo& device) {
  const int64_t size = size_of(dtype);
  if (size != 2 && !(along_k(side) && side.alignment >= (size == 1 ? 4 : 16))) {
    if (size == 4) return ReadBy::Four;  // words, from anywhere
    return is_mn_major(side) && side.row_stride == 1 && side.alignment >= 4 ? ReadBy::Turned
                                                                            : ReadBy::Elements;
  }
  if (size == 1) return side.alignment == 16 ? ReadBy::Sixteen : ReadBy::Four;
  if (!is_side_by_side(side)) return ReadBy::Elements;
  if (holds_all(device) && side.alignment < 16) return ReadBy::Shifted;
  switch (side.alignment) {
    case 16: return ReadBy::Sixteen;
    case 8: return ReadBy::Eight;
    case 4: return ReadBy::Four;
    default: return ReadBy::Shifted;
  }
}

bool supports(const Problem& problem, const DeviceInfo& device) {
  const Mma mma = kernels_of(device).mma;
  const bool on_tensor_cores = is_of_wgmma(problem.arithmetic) &&
                               computes({/*hopper=*/false, mma}, problem.arithmetic, problem.dtype);
  const bool bytes =
      problem.arithmetic == Arithmetic::Fma && size_of(problem.dtype) == 1 && mma == Mma::All;
  return (on_tensor_cores || bytes) && sizes_fit_tma(problem) && may_share_leaves(problem) &&
         most_tiles(problem, 32, 32) <= MAX_GRID_X;
}

// A plan asks this of a tile; times are estimated otherwise.
Candidate candidate_of_tile(const Problem& problem, int index) {
  const AsyncMmaTileInfo& tile = async_mma_tile(index);
  const int32_t block_k = tile.step_bytes / static_cast<int32_t>(size_of(problem.dtype));
  return {tile.block_m,      tile.block_n,      block_k, tile.threads, 1,
          tile.shared_bytes, tile.blocks_per_sm};
}

void ways(const Problem& problem, const DeviceInfo& device, Visit visit) {
  AsyncMmaWay way{};
  const bool held = holds_all(device);
  const auto is_wide = [&](const Side& side) {
    return read_by(side, problem.dtype, device) == ReadBy::Sixteen;
  };
  const auto visit_tiles = [&](const Side& a, const Side& b) {
    const bool turns = size_of(problem.dtype) == 2 && is_mn_major(a);
    if (turns && !is_mn_major(b)) return;  // only by swap_ab
    way.a = read_by(a, problem.dtype, device), way.b = read_by(b, problem.dtype, device);
    for (int tile = 0; tile < ASYNC_MMA_TILE_COUNT; ++tile) {
      const AsyncMmaTileInfo& info = async_mma_tile(tile);
      if (info.of_7_5 != held || (!info.any && !(is_wide(a) && is_wide(b)))) continue;
      if (is_grouped(problem) && !info.any) continue;
      if (info.shared_bytes > device.shared_bytes_per_block) continue;
      const Problem computed = async_mma_problem(problem, way);
      if (most_tiles(computed, info.block_m, info.block_n) > MAX_GRID_X) continue;
      way.tile = static_cast<int8_t>(tile);
      for (int share = problem.leaf > 0; share <= may_split_k(computed); ++share) {
        way.split_k = share;
        visit(Way(way));
      }
    }
  };
  for (const bool swap_ab : {false, true}) {
    way.swap_ab = swap_ab;
    const Side a = swap_ab ? side_b(problem) : side_a(problem);
    const Side b = swap_ab ? side_a(problem) : side_b(problem);
    const bool may_copy = !held && problem.k > 0 && !is_grouped(problem);
    const bool may_copy_a = may_copy && !is_wide(a), may_copy_b = may_copy && !is_wide(b);
    for (int copy_a = 0; copy_a <= may_copy_a; ++copy_a)
      for (int copy_b = 0; copy_b <= may_copy_b; ++copy_b) {
        way.copy_a = copy_a, way.copy_b = copy_b;
        const auto read = [&](const Side& side, bool is_copied) {
          return is_copied ? copied(side, problem.dtype, laid_out(side, problem.dtype)) : side;
        };
        visit_tiles(read(a, copy_a), read(b, copy_b));
      }
  }
}

// Each tile, by how the operand comes that comes the slowest.
constexpr int MANNERS = 4;
std::vector<std::string> variants() {
  return variants_of(AllAsyncMmaTiles(), {"", " in pieces", " through registers", " by elements"});
}
int variant_of(const AsyncMmaWay& way) {
  const auto reads = [&](ReadBy by) { return way.a == by || way.b == by; };
  const int manner = reads(ReadBy::Elements)                           ? 3
                     : reads(ReadBy::Turned) || reads(ReadBy::Shifted) ? 2
                     : reads(ReadBy::Eight) || reads(ReadBy::Four)     ? 1
                                                                       : 0;
  return MANNERS * way.tile + manner;
}

Plan plan(const Problem& problem, const DeviceInfo& device, const Way& way) {
  const AsyncMmaWay chosen = way.as<AsyncMmaWay>();
  const Candidate candidate = candidate_of_tile(problem, chosen.tile);
  Plan plan = plan_of(Algo::AsyncMma, candidate, problem, way, chosen.swap_ab);
  const Sides sides = sides_of(problem, chosen.swap_ab);
  if (chosen.copy_a) plan.copy_p = laid_out(sides.p, problem.dtype);
  if (chosen.copy_b) plan.copy_q = laid_out(sides.q, problem.dtype);
  add_copies(plan, problem);
  const Problem computed = async_mma_problem(problem_as_read(problem, plan), chosen);
  plan.demand =
      demand_of(average_of(computed), candidate.block_m, candidate.block_n, variant_of(chosen),
                std::min<int64_t>(candidate.resident,
                                  device.shared_bytes_per_sm /
                                      (candidate.shared_bytes + device.shared_bytes_reserved)),
                chosen.split_k);
  add_product(plan, product_of(candidate, plan, computed, device, /*dynamic=*/true), computed,
              chosen.split_k);
  return plan;
}

const char* name_of(ReadBy by) {
  switch (by) {
    case ReadBy::Sixteen: return "by 16 bytes";
    case ReadBy::Eight: return "by 8 bytes";
    case ReadBy::Four: return "by 4 bytes";
    case ReadBy::Turned: return "through registers, turned";
    case ReadBy::Shifted: return "through registers, shifted";
    case ReadBy::Elements: return "through registers, by elements";
  }
  return "?";
}

// In JSON:
//
//   async_mma  {swap_ab, split_k, copies_a, copies_b, reads_a, reads_b: "by 16 bytes" and
//              the like}
Description describe(const Problem& problem, const DeviceInfo&, const Plan& plan) {
  const AsyncMmaWay way = plan.way.as<AsyncMmaWay>();
  const AsyncMmaTileInfo& tile = async_mma_tile(way.tile);
  const Problem computed = async_mma_problem(problem_as_read(problem, plan), way);
  const char* const a = name_of(way.swap_ab ? way.b : way.a);
  const char* const b = name_of(way.swap_ab ? way.a : way.b);
  Description d;
  d.tile = async_mma_tile_name(way.tile);
  d.kernel =
      "async_mma<" + d.tile + ", " + element_type(problem) + ", " +
      (size_of(problem.dtype) == 2 ? major_names(side_a(computed), side_b(computed)) : "0, 0") +
      ">";
  // A lane of mma.sync has a pair of columns in two rows of every 16 x 8.
  d.thread_m = tile.warp_m / 8, d.thread_n = tile.warp_n / 4;
  const auto [copies_a, copies_b] = copied_operands(plan);
  if (const char* const copied = names_of_operands(copies_a, copies_b))
    d.lines.emplace_back("copies", copied);
  d.lines.emplace_back("reads", std::string("A ") + a + ", B " + b);
  d.json.emplace_back("async_mma", Object()
                                       .truth("swap_ab", way.swap_ab)
                                       .truth("split_k", way.split_k)
                                       .truth("copies_a", copies_a)
                                       .truth("copies_b", copies_b)
                                       .text("reads_a", a)
                                       .text("reads_b", b)
                                       .str());
  return d;
}

// Such as "Async64x64", or "Async64x64 of copied A".
NamedWay name(const Problem&, const Way& way) {
  const AsyncMmaWay chosen = way.as<AsyncMmaWay>();
  std::string tile(async_mma_tile_name(chosen.tile));
  const bool a = chosen.swap_ab ? chosen.copy_b : chosen.copy_a;
  const bool b = chosen.swap_ab ? chosen.copy_a : chosen.copy_b;
  if (const char* const copied = names_of_operands(a, b))
    tile += std::string(" of copied ") + copied;
  return named_way(std::move(tile), chosen.swap_ab, chosen.split_k);
}

}  // namespace

extern const Rung AsyncMmaRung = {Algo::AsyncMma, Use::Chosen, &supports,
                                  &ways,          &plan,       &describe,
                                  &name,          &variants,   TAKES_GROUPS | TAKES_TREES};

}  // namespace tiled
