// Rung async_mma as the planner sees it: named tiles, either operand on A's side, operands that are
// read in small pieces or copied first, and a model of their time.
#include "cuda/rungs/10_async_mma/plan.h"

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "cuda/plan/candidate.h"
#include "cuda/plan/kernel_name.h"
#include "cuda/plan/kernels_of.h"
#include "cuda/plan/rung.h"
#include "cuda/plan/sums.h"

namespace tiled {
namespace {

// Rows side by side, of one k each, lie along m or n: at no multiple of 16 bytes but the first.
bool along_k(const Side& side) {
  return side.k_stride == 1 || (side.k <= 1 && side.row_stride != 1);
}

// Whether the kernels are those of 7.5, which hold all that they read in registers first.
bool holds_all(const DeviceInfo& device) { return kernels_of(device).mma == Mma::Fp16By8; }

// How the kernel may read an operand: by the widest copies that its alignment allows.
ReadBy read_by(const Side& side, DType dtype, const DeviceInfo& device) {
  const bool along_mn = is_mn_major(side);
  const int64_t size = size_of(dtype);
  if (size != 2 && !(along_k(side) && side.alignment >= (size == 1 ? 4 : 16))) {
    if (size == 4) return ReadBy::Four;  // words, from anywhere
    return along_mn && side.row_stride == 1 && side.alignment >= 4 ? ReadBy::Turned
                                                                   : ReadBy::Elements;
  }
  if (size == 1) return side.alignment == 16 ? ReadBy::Sixteen : ReadBy::Four;
  const bool side_by_side =
      along_mn ? side.rows <= 1 || side.row_stride == 1 : side.k <= 1 || side.k_stride == 1;
  if (!side_by_side) return ReadBy::Elements;
  if (holds_all(device) && side.alignment < 16) return ReadBy::Shifted;
  switch (side.alignment) {
    case 16: return ReadBy::Sixteen;
    case 8: return ReadBy::Eight;
    case 4: return ReadBy::Four;
    default: return ReadBy::Shifted;
  }
}

bool is_byte(const Problem& problem) { return size_of(problem.dtype) == 1; }

// The kernel's counters have 31 bits; a tile may reach beyond the end.
constexpr int64_t MOST = (int64_t{1} << 31) - 512;

bool takes(const Problem& problem, const DeviceInfo& device) {
  const Mma mma = kernels_of(device).mma;
  switch (problem.arithmetic) {
    case Arithmetic::Tensor:
    case Arithmetic::Tf32:
      return computes({/*hopper=*/false, mma}, problem.arithmetic, problem.dtype);
    case Arithmetic::Fma: return is_byte(problem) && mma == Mma::All;
    default: return false;
  }
}

bool supports(const Problem& problem, const DeviceInfo& device) {
  return takes(problem, device) && problem.m <= MOST && problem.n <= MOST && problem.k <= MOST &&
         problem.batch <= MOST &&
         saturating_product(blocks_over(problem.m, 32), blocks_over(problem.n, 32)) <= MAX_GRID_X;
}

// The model's constants, in cycles of the chip's highest clock. A step of a block wants three units
// of its multiprocessor at once: tensor cores, shared memory, which gives a warp its fragments of
// both operands and takes the copies, and what the L2 cache sends. None waits for another for long,
// but they do not overlap without loss: the cube root of the sum of cubes has the times that
// bench/results/h200_async_mma_prototype.txt lists within 5 % (root mean square) from rates alone.
// On other chips the rates are those that are published, and the rest is the H200's.
struct Model {
  // Launch and end. The rungs that take bytes besides leave it out (plan/candidate.h).
  static constexpr double START = 3400;
  // Of a block: the first bytes' way, and the store of its tile's elements.
  static constexpr double FILL = 2500, STORE = 0.09;
  static constexpr double OF_WGMMA = 0.625;  // of 9.0's rate mma.sync can have so much
  // Bytes a cycle of a multiprocessor. Shared memory: 32 banks of four bytes from 8.0 on
  // (Programming Guide, "Shared Memory"), which doubles 7.5's (GA102 white paper). From L2 the
  // H200's: of others none is published but GA100's, 5120 for 108 multiprocessors; and T4's as Jia,
  // Maggioni, Smith and Scarpazza have measured it (arXiv 1903.07486), 1.27 TB/s.
  static constexpr double SHARED = 128, SHARED_OF_7_5 = 64, L2 = 48, L2_OF_7_5 = 20;
  // Of a step, if its block is alone: loads and barrier; and through registers, or in many copies.
  static constexpr double LATENCY = 80, LATENCY_OF_ANY = 760;
  // And at least, for each part of 32 bytes of k: its fragments' way and the chain of products; and
  // of what a warp issues meanwhile, shared among the warps.
  static constexpr double PART = 68, PART_OF_A_WARP = 8;
  static constexpr double DRAM = 0.85;  // of the bandwidth that the device names
  static constexpr double COPY_KERNEL = 10000, COPY_DRAM = 0.8;  // of the bandwidth
  // Of a multiprocessor, for 16 bytes that do not come by one cp.async: its instructions.
  static constexpr double sixteen_bytes(ReadBy by, double element_bytes,
                                        const AsyncMmaTileInfo& tile) {
    switch (by) {
      // Held in registers: a warp's 25 instructions for 32 of them, by four schedulers (counted).
      case ReadBy::Sixteen: return tile.of_7_5 ? 0.2 : tile.any ? 0.5 : 0;
      case ReadBy::Eight: return 1.5;
      case ReadBy::Four: return element_bytes == 2 ? 2.9 : 1.8;
      case ReadBy::Turned: return 1.9;
      case ReadBy::Shifted: return 1.8;
      case ReadBy::Elements: return 11.8 / element_bytes;
    }
    return 0;
  }
};

// Of one step of one block, cycles.
struct StepTimes {
  double tensor, shared, l2, instructions;
  double all() const {
    return std::cbrt(tensor * tensor * tensor + shared * shared * shared + l2 * l2 * l2) +
           instructions;
  }
  const char* bound() const {
    const double most = std::max({tensor, shared, l2, instructions});
    return most == tensor   ? "tensor cores"
           : most == shared ? "shared memory"
           : most == l2     ? "L2"
                            : "instructions of copies";
  }
};

StepTimes step_times(const Problem& problem, const DeviceInfo& device, const AsyncMmaWay& way) {
  const AsyncMmaTileInfo& tile = async_mma_tile(way.tile);
  const double m = tile.block_m, n = tile.block_n;
  const double size = static_cast<double>(size_of(problem.dtype));
  const double rate = peak_flops(device, problem.dtype, problem.arithmetic) /
                      (2 * device.clock_hz * device.multiprocessors) *
                      (device.capability == 90 ? Model::OF_WGMMA : 1);  // multiply-adds a cycle
  StepTimes t;
  t.tensor = m * n * tile.step_bytes / size / rate;
  // Every warp reads its rows and its columns; all of both are written once.
  const double read = m * n / tile.warp_n + m * n / tile.warp_m, written = m + n;
  t.shared =
      (read + written) * tile.step_bytes / (tile.of_7_5 ? Model::SHARED_OF_7_5 : Model::SHARED);
  t.l2 = (m + n) * tile.step_bytes / (tile.of_7_5 ? Model::L2_OF_7_5 : Model::L2);
  t.instructions =
      tile.step_bytes / 16. *
      (m * Model::sixteen_bytes(way.a, size, tile) + n * Model::sixteen_bytes(way.b, size, tile));
  return t;
}

struct Estimate {
  double product, memory, cycles;  // of the call
  const char* bound;               // what takes longest of it
};

Estimate estimate(const Problem& problem, const DeviceInfo& device, const AsyncMmaWay& way) {
  const AsyncMmaTileInfo& tile = async_mma_tile(way.tile);
  const double m = static_cast<double>(way.exchanged ? problem.n : problem.m);
  const double n = static_cast<double>(way.exchanged ? problem.m : problem.n);
  const double k = static_cast<double>(problem.k), batch = static_cast<double>(problem.batch);
  const double size = static_cast<double>(size_of(problem.dtype));
  const double turns =
      batch * (way.shares_segments ? static_cast<double>(segment_count(problem.k)) : 1);
  const double blocks = std::ceil(m / tile.block_m) * std::ceil(n / tile.block_n) * turns;
  const double share = std::ceil(blocks / device.multiprocessors);
  const double fit = static_cast<double>(device.shared_bytes_per_sm /
                                         (tile.shared_bytes + device.shared_bytes_reserved));
  const double waves = std::ceil(share / std::clamp(fit, 1., double(tile.blocks_per_sm)));
  const double depth = way.shares_segments ? static_cast<double>(segment_size(problem.k)) : k;
  const double steps = std::ceil(depth * size / tile.step_bytes);
  const StepTimes times = step_times(problem, device, way);
  const double step = times.all();
  const double chain =
      tile.step_bytes / 32. * (Model::PART + Model::PART_OF_A_WARP * 32 / tile.threads);
  const double alone = std::max(step + (tile.any ? Model::LATENCY_OF_ANY : Model::LATENCY), chain);
  Estimate e;
  e.product = steps * std::max(share * step, waves * alone) +
              waves * (Model::FILL + Model::STORE * tile.block_m * tile.block_n);
  const double c_size = static_cast<double>(size_of(problem.epilogue.out_dtype));
  const double bytes = batch * (size * (m * k + k * n) + c_size * m * n);
  e.memory = bytes / (Model::DRAM * device.memory_bandwidth) * device.clock_hz;
  e.bound = e.memory > e.product ? "memory" : times.bound();
  e.cycles = (is_byte(problem) ? 0 : Model::START) + std::max(e.product, e.memory);
  if (way.shares_segments) e.cycles += sums_seconds(problem, device) * device.clock_hz;
  if (way.copy_a || way.copy_b) {
    const double copied =
        static_cast<double>(async_mma_layout(problem, way, nullptr).copies.bytes());
    e.cycles += Model::COPY_KERNEL +
                2 * copied / (Model::COPY_DRAM * device.memory_bandwidth) * device.clock_hz;
  }
  return e;
}

// What a plan asks of a tile; times are estimated otherwise.
Candidate candidate_of_tile(const Problem& problem, int index) {
  const AsyncMmaTileInfo& tile = async_mma_tile(index);
  const int32_t block_k = tile.step_bytes / static_cast<int32_t>(size_of(problem.dtype));
  return {tile.block_m,
          tile.block_n,
          block_k,
          tile.threads,
          1,
          tile.shared_bytes,
          tile.blocks_per_sm,
          0,
          0};
}

template <typename Visit>
void for_each_way(const Problem& problem, const DeviceInfo& device, Visit visit) {
  AsyncMmaWay way{};
  const bool held = holds_all(device);
  const auto is_wide = [&](const Side& side) {
    return read_by(side, problem.dtype, device) == ReadBy::Sixteen;
  };
  const auto visit_tiles = [&](const Side& a, const Side& b) {
    const bool turns = size_of(problem.dtype) == 2 && is_mn_major(a);
    if (turns && !is_mn_major(b)) return;  // only exchanged
    way.a = read_by(a, problem.dtype, device), way.b = read_by(b, problem.dtype, device);
    for (int tile = 0; tile < ASYNC_MMA_TILE_COUNT; ++tile) {
      const AsyncMmaTileInfo& info = async_mma_tile(tile);
      if (info.of_7_5 != held || (!info.any && !(is_wide(a) && is_wide(b)))) continue;
      if (info.shared_bytes > device.shared_bytes_per_block) continue;
      if (saturating_product(blocks_over(a.rows, int64_t{info.block_m}),
                             blocks_over(b.rows, int64_t{info.block_n})) > MAX_GRID_X)
        continue;
      way.tile = static_cast<int8_t>(tile);
      const Candidate candidate = candidate_of_tile(problem, tile);
      const Problem computed = as_turned(problem, way);
      for (int share = 0; share <= gains_by_sharing(candidate, computed, device); ++share) {
        way.shares_segments = share;
        visit(way);
      }
      way.shares_segments = false;
    }
  };
  for (const bool exchanged : {false, true}) {
    way.exchanged = exchanged;
    const Side a = exchanged ? side_b(problem) : side_a(problem);
    const Side b = exchanged ? side_a(problem) : side_b(problem);
    const bool may_copy_a = !held && !is_wide(a) && problem.k > 0;
    const bool may_copy_b = !held && !is_wide(b) && problem.k > 0;
    for (int copy_a = 0; copy_a <= may_copy_a; ++copy_a)
      for (int copy_b = 0; copy_b <= may_copy_b; ++copy_b) {
        way.copy_a = copy_a, way.copy_b = copy_b;
        visit_tiles(copy_a ? laid_out(a, problem) : a, copy_b ? laid_out(b, problem) : b);
      }
  }
}

// On 9.0 its estimates have not been judged beside those of hopper and few_rows: there it is taken
// by name.
// (Bytes those do not take.)
constexpr double NOT_JUDGED = 1e15;

void ways(const Problem& problem, const DeviceInfo& device, Consider consider) {
  const double more = device.hopper_kernels && !is_byte(problem) ? NOT_JUDGED : 0;
  for_each_way(problem, device, [&](const AsyncMmaWay& way) {
    consider(Way(way), more + estimate(problem, device, way).cycles);
  });
}

Plan plan(const Problem& problem, const DeviceInfo&, const Way& way) {
  const AsyncMmaWay chosen = way.as<AsyncMmaWay>();
  const Candidate candidate = candidate_of_tile(problem, chosen.tile);
  const AsyncMmaLayout layout = async_mma_layout(problem, chosen, nullptr);
  Plan plan = plan_of(Algo::AsyncMma, candidate, layout.computed, way, /*dynamic=*/true);
  const Step product = plan.main_step();
  plan.step_count = 0;
  add_copies(plan, layout.copies, problem);
  plan.add(product);
  if (chosen.exchanged) {
    std::swap(plan.block_m, plan.block_n);
    std::swap(plan.tiles_m, plan.tiles_n);
  }
  chosen.shares_segments ? add_sums(plan, layout.computed) : add_totals(plan, problem);
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

bool copies_a(const AsyncMmaWay& way) { return way.exchanged ? way.copy_b : way.copy_a; }
bool copies_b(const AsyncMmaWay& way) { return way.exchanged ? way.copy_a : way.copy_b; }

// The operands that are copied, or null.
const char* copies_of(const AsyncMmaWay& way) {
  const bool a = copies_a(way), b = copies_b(way);
  return a && b ? "A and B" : a ? "A" : b ? "B" : nullptr;
}

// Such as "Async64x64", or "Async64x64 of copied A".
std::string name_of(const AsyncMmaWay& way) {
  const std::string tile(async_mma_tile_name(way.tile));
  const char* const copied = copies_of(way);
  return copied ? tile + " of copied " + copied : tile;
}

// In JSON:
//
//   async_mma  {exchanged, share_segments, copies_a, copies_b, reads_a, reads_b: "by 16 bytes" and
//              the like, estimates: [{tile, way, exchanged, share_segments, bound, product, memory,
//              cycles (of the call)}]}
Description describe(const Problem& problem, const DeviceInfo& device, const Plan& plan) {
  const AsyncMmaWay way = plan.way.as<AsyncMmaWay>();
  const AsyncMmaTileInfo& tile = async_mma_tile(way.tile);
  const Problem computed = async_mma_layout(problem, way, nullptr).computed;
  const char* const a = name_of(way.exchanged ? way.b : way.a);
  const char* const b = name_of(way.exchanged ? way.a : way.b);
  Description d;
  d.tile = async_mma_tile_name(way.tile);
  d.kernel =
      "async_mma<" + d.tile + ", " + element_type(problem) + ", " +
      (size_of(problem.dtype) == 2 ? major_names(side_a(computed), side_b(computed)) : "0, 0") +
      ">";
  // A lane of mma.sync has a pair of columns in two rows of every 16 x 8.
  d.thread_m = tile.warp_m / 8, d.thread_n = tile.warp_n / 4;
  if (way.exchanged) std::swap(d.thread_m, d.thread_n);
  if (const char* const copied = copies_of(way)) d.lines.emplace_back("copies", copied);
  d.lines.emplace_back("reads", std::string("A ") + a + ", B " + b);
  std::vector<std::string> list;
  for_each_way(problem, device, [&](const AsyncMmaWay& other) {
    const Estimate e = estimate(problem, device, other);
    const std::string name = name_of(other);
    const bool chosen = name == name_of(way) && other.exchanged == way.exchanged &&
                        other.shares_segments == way.shares_segments;
    d.lines.emplace_back(chosen ? "estimate" : "rejected",
                         name + (other.exchanged ? ", exchanged" : "") +
                             (other.shares_segments ? ", segments shared out: " : ": ") +
                             grouped(e.cycles) + " cycles; bound by " + e.bound + ", " +
                             grouped(e.product) + " of the product, " + grouped(e.memory) +
                             " of memory");
    list.push_back(Object()
                       .text("tile", async_mma_tile_name(other.tile))
                       .text("way", name)
                       .truth("exchanged", other.exchanged)
                       .truth("share_segments", other.shares_segments)
                       .text("bound", e.bound)
                       .real("product", e.product)
                       .real("memory", e.memory)
                       .real("cycles", e.cycles)
                       .str());
  });
  d.json.emplace_back("async_mma", Object()
                                       .truth("exchanged", way.exchanged)
                                       .truth("share_segments", way.shares_segments)
                                       .truth("copies_a", copies_a(way))
                                       .truth("copies_b", copies_b(way))
                                       .text("reads_a", a)
                                       .text("reads_b", b)
                                       .json("estimates", array_of(list))
                                       .str());
  return d;
}

bool is(const Way& way, const NamedWay& name) {
  const AsyncMmaWay chosen = way.as<AsyncMmaWay>();
  return name_of(chosen) == name.tile && chosen.exchanged == name.exchanged &&
         chosen.shares_segments == name.share_segments;
}

}  // namespace

extern const Rung AsyncMmaRung = {Algo::AsyncMma, &supports, &ways, &plan, &describe, &is};

}  // namespace tiled
