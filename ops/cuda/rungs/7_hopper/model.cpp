// The model of rung hopper's time: cycles of the tensor cores, shared memory and L2 for a step of a
// tile, and rounds of tiles. It only has to put the ways to run a problem in the right order.
#include <algorithm>
#include <cmath>

#include "cuda/rungs/7_hopper/layout.h"

namespace tiled {
namespace {

// The model's constants: cycles of 1755 MHz, and factors on what the units do at best (2048
// multiply-adds of 16 bits and 128 bytes of shared memory a cycle). Fitted to the measured times of
// every way to run 150 bf16 problems on an H200, so as to lose least by the choice; bench.planner
// measures what is lost. The segments' terms are from an earlier fit.
struct Model {
  static constexpr double START = 3620;     // launch, the first bytes' way, the end
  static constexpr double CLUSTER = 391;    // its blocks begin and end together
  static constexpr double COUPLED = 0.033;  // of a step: they wait for each other at each
  static constexpr double TENSOR = 0.891, SHARED = 1.13;
  static constexpr double POWER = 0.305;  // more, when all multiprocessors work at once
  static constexpr double LONE = 223;     // the shortest step of a tile with one consumer
  static constexpr double ARRIVE = 1.43;  // 128 bytes reach their multiprocessor
  static constexpr double ROUNDING = 2;   // of a row, where it is rounded to tf32 on its way
  // A row of 128 bytes leaves L2 while the whole chip reads: in one line; more if in two; more if
  // it begins off L2's sectors of 32 bytes. Reads by multicast cost nothing here. The first read of
  // a round costs FIRST_READ more of these; the row's readers share that.
  static constexpr double LINE = 0.0642, TWO_LINES = 1.57, OFF_SECTORS = 0.862, FIRST_READ = 2.47;
  static constexpr double NARROW = 1.48, NARROWEST = 2.19;  // boxes of TMA 64 and 32 bytes wide
  // A cycle, of the chip. What several clusters read without multicast crosses between L2's halves.
  static constexpr double DRAM_BYTES = 3800, CROSSING = 0.723;
  // Nothing is faster than memory: of its bandwidth this rung gets so much, by C's rows or columns.
  // Below that the order of the tiles is kept, so little apart.
  static constexpr double CLOCK = 1755e6, BELOW_DRAM = 0.05;
  static constexpr double dram_share(double few) { return few <= 32 ? 0.63 : 0.8; }
  static constexpr double STORE = 13;              // for each element of a thread
  static constexpr double STORE_TWO_LINES = 1.45;  // more, for rows of C that lie in two lines
  static constexpr double SLICE = 0.25, ROWS_SLICE = 0.5;  // more, for slices of half the width
  static constexpr double HIDDEN_STORE = 0.383;            // of a store behind another's products
  static constexpr double GAPS = 0.0571;  // of all but the first round, with no other tile to fill
  static constexpr double FLUSH = 4.38, HIDDEN_FLUSH = 4.14;  // totals to and from L2
  static constexpr double SUM_KERNEL = 3410, SUM_CYCLES_A_BYTE = 0.31e-3;
  static constexpr double REPACK_KERNEL = 2000, REPACK_CYCLES_A_BYTE = 0.9e-3;  // of the copy
  // More, for blocks without a cluster where operands beyond the size of L2 were copied just
  // before: the copies are on their way to DRAM still, and are read from there again.
  static constexpr double ALONE_AFTER_REPACK = 0.08, L2_BYTES = 4e7;
};

// The share of rows so far apart that lie in two of L2's lines of 128 bytes, of rows as long.
double across_lines(int64_t stride, int64_t element_bytes) {
  const uint64_t offset =
      static_cast<uint64_t>(stride) * static_cast<uint64_t>(element_bytes) % 128;
  const uint64_t alignment = offset & (~offset + 1);  // the largest power of two that divides it
  return offset == 0 ? 0 : 1 - static_cast<double>(alignment) / 128;
}

// What a row of an operand's boxes costs on its way out of L2.
double row_cost(const Side& side, bool repacked, int64_t element_bytes) {
  if (repacked) return Model::LINE;
  const double across =
      across_lines(is_mn_major(side) ? side.k_stride : side.row_stride, element_bytes);
  constexpr double HALF_SECTORS = 1 - 16. / 128;  // across, where every other row begins in one
  return Model::LINE + Model::TWO_LINES * across +
         (across >= HALF_SECTORS ? Model::OFF_SECTORS : 0);
}

}  // namespace

Units units_of(const Problem& problem, const HopperPlan& plan) {
  const HopperTileInfo& tile = hopper_tile(plan.tile);
  const int64_t p = plan.exchanged ? problem.n : problem.m;
  const int64_t q = plan.exchanged ? problem.m : problem.n;
  Units units;
  units.clusters_p = blocks_over(p, int64_t{tile.block_p} * plan.cluster_p);
  units.clusters_q = blocks_over(q, int64_t{tile.block_q} * plan.cluster_q);
  const int64_t segments = plan.share_segments ? segment_count(problem.k) : 1;
  units.count = saturating_product(saturating_product(units.clusters_p, units.clusters_q),
                                   problem.batch * segments);
  return units;
}

HopperEstimate estimate(const Problem& problem, const DeviceInfo& device, const HopperPlan& plan) {
  const HopperTileInfo& tile = hopper_tile(plan.tile);
  const Sides sides = sides_of(problem, plan.exchanged);
  const double p = static_cast<double>(sides.p.rows), q = static_cast<double>(sides.q.rows);
  const int64_t segments = segment_count(problem.k);
  const int64_t element_bytes = size_of(problem.dtype);
  const double area = tile.block_p * tile.block_q;  // elements of C
  constexpr double STAGE_BYTES = 128;               // of K, a stage's depth
  const int64_t depth = plan.share_segments ? segment_size(problem.k) : problem.k;
  const double steps = std::ceil(static_cast<double>(depth * element_bytes) / STAGE_BYTES);

  // Rounds of tiles, one for every block that fits the chip.
  const int blocks = plan.cluster_p * plan.cluster_q;
  const Units units = units_of(problem, plan);
  const int64_t clusters_at_once = std::max(1, device.multiprocessors / blocks);
  const int64_t places = clusters_at_once * tile.blocks_per_sm;
  const int64_t whole_rounds = units.count / places, rest = units.count % places;
  const double rounds = static_cast<double>(whole_rounds + (rest != 0));

  // The clusters of a round that read the same rows of P, and those of Q.
  const auto readers = [&](double each_reads, int64_t clusters) {
    return std::max(1.0, std::min(static_cast<double>(clusters_at_once) / each_reads,
                                  static_cast<double>(clusters)));
  };
  const double p_readers = readers(plan.panel, units.clusters_q);
  const double q_readers = readers(p_readers, units.clusters_p);
  // Rows of a stage: those that exist of the largest tile.
  const double p_rows = std::min<double>(tile.block_p, p);
  const double q_rows = std::min<double>(tile.block_q, q);
  const int atom = operand_atom(tile.group_q);
  const double narrow = !is_mn_major(sides.q) || atom == 64 ? 1
                        : atom == 32                        ? Model::NARROW
                                                            : Model::NARROWEST;
  const auto reads = [](double rows, int sharers, double of_readers) {
    return rows / sharers * ((sharers == 1 ? 1 : 0) + Model::FIRST_READ / of_readers);
  };
  const double rounding = problem.arithmetic == Arithmetic::Tf32 ? Model::ROUNDING : 1;
  const double arriving = Model::ARRIVE * rounding * (p_rows + q_rows * narrow);
  const double reading = rounding * (reads(p_rows, plan.cluster_q, p_readers) *
                                         row_cost(sides.p, plan.repack_p, element_bytes) +
                                     reads(q_rows, plan.cluster_p, q_readers) * narrow *
                                         row_cost(sides.q, plan.repack_q, element_bytes));

  HopperEstimate e;
  const double strips = area / 64 / tile.group_q;  // wgmmas of 64 rows for one k
  e.tensor = Model::TENSOR * area / 32 * (1 + Model::POWER);
  e.shared = Model::SHARED * strips * (64 + tile.group_q) * (1 + Model::POWER);
  e.feed = arriving + reading;
  e.waves = std::ceil(static_cast<double>(units.count) / static_cast<double>(clusters_at_once));

  // A step of a round of so many clusters: the longest of what goes on at once, and a little more
  // where others come close. Where two blocks fit a multiprocessor, two of a small grid meet on
  // one while others idle: those still held the kernel before when the grid began.
  const auto step = [&](int64_t clusters) {
    const double load = static_cast<double>(clusters * blocks) / device.multiprocessors;
    const int meeting = load > 0.25 ? tile.blocks_per_sm : 1;
    const double pace = (1 + Model::POWER * std::min(load, 1.0)) / (1 + Model::POWER);
    const double products = std::max(e.tensor, e.shared) * pace * meeting;
    const double feed = arriving * meeting + reading * load;
    const double lone = tile.consumers == 1 ? Model::LONE : 0;
    const auto fourth = [](double x) { return x * x * (x * x); };
    return std::sqrt(std::sqrt(fourth(products) + fourth(feed) + fourth(lone)));
  };
  double all_steps = 0;
  if (whole_rounds != 0) all_steps += static_cast<double>(whole_rounds) * step(places);
  if (rest != 0) all_steps += step(rest);
  const double gaps = tile.ping_pong ? 0 : Model::GAPS * (1 - 1 / std::max(rounds, 1.0));
  const double k_bytes = static_cast<double>(problem.k * element_bytes);
  const bool from_copies = (plan.repack_p || plan.repack_q) && (p + q) * k_bytes > Model::L2_BYTES;
  const double together = blocks > 1    ? 1 + Model::COUPLED
                          : from_copies ? 1 + Model::ALONE_AFTER_REPACK
                                        : 1;
  const double on_chip = all_steps * steps * together * (1 + gaps);

  // What DRAM takes for the operands and C, hidden in part; it decides where rows are few.
  const auto crossing = [](int sharers, int64_t clusters) {
    return sharers == 1 && clusters > 1 ? 1 + Model::CROSSING : 1;
  };
  const double bytes = static_cast<double>(problem.batch) *
                       (p * k_bytes * crossing(plan.cluster_q, units.clusters_q) +
                        q * k_bytes * crossing(plan.cluster_p, units.clusters_p) +
                        p * q * static_cast<double>(size_of(problem.epilogue.out_dtype)));
  const double from_dram = bytes / Model::DRAM_BYTES;
  e.cycles = Model::START + (blocks > 1 ? Model::CLUSTER : 0) +
             std::sqrt(on_chip * on_chip + from_dram * from_dram);
  const auto rows_once = [&](const Side& side) {
    return static_cast<double>(side.rows * entries_of(side, problem.batch));
  };
  const double share = Model::dram_share(std::min(p, q));
  const double floor = Model::START + (rows_once(sides.p) + rows_once(sides.q)) * k_bytes /
                                          (share * device.memory_bandwidth / Model::CLOCK);
  if (e.cycles < floor) e.cycles = floor - Model::BELOW_DRAM * (floor - e.cycles);

  for (const bool of_p : {true, false})
    if (of_p ? plan.repack_p : plan.repack_q)
      e.cycles +=
          Model::REPACK_KERNEL +
          Model::REPACK_CYCLES_A_BYTE *
              static_cast<double>(copy_bytes(repacked(of_p ? sides.p : sides.q, problem), problem));
  const double across =
      across_lines(sides.c_q == 1 ? sides.c_p : sides.c_q, size_of(problem.epilogue.out_dtype));
  const double narrower = plan.store == StorePath::Scatter ? 0 : 64. / tile.slice_q - 1;
  const double slices =
      1 + narrower * (plan.store == StorePath::Rows ? Model::ROWS_SLICE : Model::SLICE);
  const double stores = Model::STORE * (1 + Model::STORE_TWO_LINES * across) * slices * area / 128 /
                        (tile.ping_pong ? 1 : tile.consumers);
  e.cycles += stores * (tile.ping_pong ? 1 + Model::HIDDEN_STORE * (rounds - 1) : rounds);
  if (plan.share_segments)
    e.cycles +=
        Model::SUM_KERNEL + Model::SUM_CYCLES_A_BYTE * p * q * 4 * static_cast<double>(segments);
  else
    e.cycles += e.waves * static_cast<double>(segments - 1) * area * 8 / 64 *
                (tile.ping_pong && area <= 128 * 128 ? Model::HIDDEN_FLUSH : Model::FLUSH);
  return e;
}

}  // namespace tiled
