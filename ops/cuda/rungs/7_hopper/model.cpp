// The model of rung hopper's time: cycles of the tensor cores, shared memory and L2 for a step of a
// tile, and rounds of tiles. It only has to put the ways to run a problem in the right order.
#include <algorithm>
#include <cmath>

#include "cuda/rungs/7_hopper/layout.h"

namespace tiled {
namespace {

// The share of rows so far apart that lie in two of L2's lines of 128 bytes, of rows as long.
double across_lines(int64_t stride, int64_t element_bytes) {
  const uint64_t offset =
      static_cast<uint64_t>(stride) * static_cast<uint64_t>(element_bytes) % 128;
  const uint64_t alignment = offset & (~offset + 1);  // the largest power of two that divides it
  return offset == 0 ? 0 : 1 - static_cast<double>(alignment) / 128;
}

// How rows of an operand's boxes lie in L2: along m or n or along k, the share of them in two
// lines, and whether every other one begins in half a sector of 32 bytes. Copies lie in lines of
// their own.
struct Lie {
  bool mn_major;
  double across;
  bool off_sectors;

  Lie(const Side& read, bool repacked, int64_t element_bytes) : mn_major(is_mn_major(read)) {
    constexpr double HALF_SECTORS = 1 - 16. / 128;
    across = repacked ? 0 : across_lines(mn_major ? read.k_stride : read.row_stride, element_bytes);
    off_sectors = across >= HALF_SECTORS;
  }
};

// What such a row costs on its way out of L2.
double row_cost(const HopperModel& model, const Lie& lie) {
  return model.line * (lie.mn_major ? model.mn_line : 1) + model.two_lines * lie.across +
         (lie.off_sectors ? model.off_sectors : 0);
}

// How long L2 is busy with it, beside one that is a line of its own.
double lines_of(const Lie& lie) {
  const double off_sectors = lie.off_sectors ? HopperModel::OFF_SECTORS_BUSY : 0;
  return (lie.mn_major ? HopperModel::MN_LINE_BUSY : 1) *
         (1 + lie.across * (HopperModel::TWO_LINES_BUSY + off_sectors));
}

// Whether the constants are of such products: 16-bit inputs, tensor cores as fast as an H200's.
bool is_fitted(const DeviceInfo& device, Arithmetic arithmetic) {
  return arithmetic != Arithmetic::Tf32 && scale_of(device).tensor == 1;
}

}  // namespace

HopperModel::HopperModel(const DeviceInfo& device, Arithmetic arithmetic)
    : HopperConstants(is_fitted(device, arithmetic) ? HopperConstants{} : constants_elsewhere()),
      of_tiles(is_fitted(device, arithmetic)),
      slowdown((1 + power * H200_SLOWDOWN) * slower_than_h200(device) - 1) {
  const ChipScale scale = scale_of(device);
  for (double* launch : {&start, &clear_kernel, &repack_kernel}) *launch *= scale.clock;
  clock_hz *= scale.clock;
  tensor /= scale.tensor, chip /= scale.tensor, alone /= scale.tensor;
  for (double* of_l2 :
       {&line, &two_lines, &off_sectors, &flush, &hidden_flush, &hand_over, &hidden_hand_over})
    *of_l2 /= scale.l2_share();
  repack_cycles_a_byte /= scale.dram;
  dram_bytes *= scale.dram, drifts_from *= std::pow(scale.dram, 2. / 3);
  l2_bytes *= scale.l2;
}

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

HopperEstimate estimate(const Problem& problem, const DeviceInfo& device, const HopperModel& model,
                        const HopperPlan& plan) {
  const HopperTileInfo& tile = hopper_tile(plan.tile);
  const Sides sides = sides_of(problem, plan.exchanged), read = sides_read(problem, plan);
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
  const int64_t clusters_at_once = tiled::clusters_at_once(device, blocks);
  const int64_t places = clusters_at_once * tile.blocks_per_sm;
  const int64_t whole_rounds = units.count / places, rest = units.count % places;
  const double rounds = plan.wraps_around
                            ? static_cast<double>(units.count) / static_cast<double>(places)
                            : static_cast<double>(whole_rounds + (rest != 0));

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
  const double beyond =
      rows_in_atoms(tile.block_q, tile.group_q) / static_cast<double>(tile.block_q);
  const double narrow = !is_mn_major(sides.q) ? 1
                        : atom == 64          ? beyond
                        : atom == 32          ? model.narrow
                                              : model.narrowest;
  const auto reads = [&](double rows, int sharers, double of_readers) {
    return rows / sharers * ((sharers == 1 ? 1 : 0) + model.first_read / of_readers);
  };
  const double rounding = problem.arithmetic == Arithmetic::Tf32 ? HopperModel::ROUNDING : 1;
  const Lie p_lie(read.p, plan.repack_p, element_bytes),
      q_lie(read.q, plan.repack_q, element_bytes);
  const double arriving = model.arrive * rounding * (p_rows + q_rows * narrow);
  // Where all tiles of many rounds read the same rows, a few lines of L2 answer everybody.
  const auto again = [&](double rows, int sharers, int64_t clusters) {
    return clusters == 1 && rounds > 1 ? model.again * rows / sharers : 0;
  };
  const double reading =
      rounding * (again(p_rows, plan.cluster_q, units.clusters_p) +
                  again(q_rows, plan.cluster_p, units.clusters_q) +
                  reads(p_rows, plan.cluster_q, p_readers) * row_cost(model, p_lie) +
                  reads(q_rows, plan.cluster_p, q_readers) * narrow * row_cost(model, q_lie));

  HopperEstimate e;
  const TileFit fit = model.of(plan.tile);
  const double own = fit.step[is_mn_major(read.p)][is_mn_major(read.q)];
  const double strips = area / 64 / tile.group_q;  // wgmmas of 64 rows for one k
  e.tensor = model.tensor * area / 32 * (1 + model.slowdown);
  e.shared = model.shared * strips * (64 + tile.group_q) * (1 + model.slowdown);
  e.feed = arriving + reading;
  e.waves = std::ceil(static_cast<double>(units.count) / static_cast<double>(clusters_at_once));

  // A step of a round of so many clusters: the longest of what goes on at once, and a little more
  // where others come close. Where two blocks fit a multiprocessor, two of a small grid meet on
  // one while others idle: those still held the kernel before when the grid began.
  const auto step = [&](int64_t clusters) {
    const double load = static_cast<double>(clusters * blocks) / device.multiprocessors;
    const int meeting = load > 0.25 ? tile.blocks_per_sm : 1;
    const double pace = (1 + model.slowdown * std::min(load, 1.0)) / (1 + model.slowdown);
    const double least = plan.share_segments ? model.alone * area / 32 : 0;
    const double products = std::max(least, std::max(e.tensor, e.shared) * pace) * meeting;
    const double feed = arriving * meeting + reading * load;
    const double lone = tile.consumers == 1 ? model.lone : 0;
    const auto fourth = [](double x) { return x * x * (x * x); };
    return own * std::sqrt(std::sqrt(fourth(products) + fourth(feed) + fourth(lone)));
  };
  double all_steps = 0;
  if (plan.wraps_around) {
    const double cut_rounds = rounds - static_cast<double>(whole_rounds - 1);
    all_steps = (rounds + model.out_of_step * cut_rounds) * step(places);
  } else {
    if (whole_rounds != 0) all_steps += static_cast<double>(whole_rounds) * step(places);
    if (rest != 0) all_steps += step(rest);
  }
  // However tiles divide among them, all multiprocessors together do no more than so much.
  const double evenly =
      model.chip * area / 32 * static_cast<double>(units.count * blocks) / device.multiprocessors;
  constexpr double POWER = HopperConstants::CHIP_POWER;
  all_steps = std::pow(std::pow(all_steps, POWER) + std::pow(evenly, POWER), 1 / POWER);
  // What readers of the same rows lose where L2 keeps them waiting: they drift apart, until what
  // one has read has left L2 before the next asks for it.
  const double k_bytes = static_cast<double>(problem.k * element_bytes);
  const bool is_small = tile.block_p == 64;
  if (!is_small) {
    const double lines = p_rows / plan.cluster_q * lines_of(p_lie) +
                         q_rows / plan.cluster_p * narrow * lines_of(q_lie);
    const double busy = lines / (HopperModel::LINES_A_CYCLE * area / 32);
    const double apart = busy - model.drifts_from;
    const double beyond =
        2 * std::min(p, q) * static_cast<double>(depth * element_bytes) / model.l2_bytes - 2;
    if (apart > 0 && beyond > 0)
      all_steps *= 1 + HopperModel::DRIFT * std::pow(apart, HopperModel::DRIFT_POWER) *
                           std::pow(beyond, HopperModel::DRIFT_BYTES);
    if (apart > 0 && plan.cluster_p > 1 && tile.ping_pong)
      all_steps *= 1 + HopperModel::DRIFT_TOGETHER * apart;
  }
  const double gaps = tile.ping_pong ? 0 : model.gaps * (1 - 1 / std::max(rounds, 1.0));
  const bool from_copies = (plan.repack_p || plan.repack_q) && (p + q) * k_bytes > model.l2_bytes;
  const CoupledFit& coupled = blocks > 2 ? (is_small ? model.four_small : model.four)
                              : is_small ? model.small
                                         : model.large;
  // Blocks that share Q wait for each other's rows of P besides, longest where nobody else reads
  // these.
  const double together = plan.cluster_p > 1   ? 1 + coupled.share_q + model.cold / p_readers
                          : plan.cluster_q > 1 ? 1 + coupled.share_p + model.cold / q_readers
                          : from_copies        ? 1 + HopperModel::ALONE_AFTER_REPACK
                                               : 1;
  const double on_chip = all_steps * steps * together * (1 + gaps);

  // What DRAM takes for the operands and C, hidden in part; it decides where rows are few. Clusters
  // that read the same lie on either side of L2, and the more they are the less likely all on one.
  // (The constants of tf32 and of other chips were fitted with all or nothing.)
  const auto crossing = [&](int sharers, int64_t clusters) {
    if (!model.of_tiles) return sharers == 1 && clusters > 1 ? 1 + model.crossing : 1;
    const double alike = std::exp2(static_cast<double>(1 - std::min<int64_t>(clusters, 64)));
    return 1 + model.crossing * (1 - alike) / sharers;
  };
  const double bytes = static_cast<double>(problem.batch) *
                       (p * k_bytes * crossing(plan.cluster_q, units.clusters_q) +
                        q * k_bytes * crossing(plan.cluster_p, units.clusters_p) +
                        p * q * static_cast<double>(size_of(problem.epilogue.out_dtype)));
  const double from_dram = bytes / model.dram_bytes;
  const double across =
      across_lines(sides.c_q == 1 ? sides.c_p : sides.c_q, size_of(problem.epilogue.out_dtype));
  const double narrower = plan.store == StorePath::Scatter ? 0 : 64. / tile.slice_q - 1;
  const double slices =
      1 + narrower * (plan.store == StorePath::Rows ? HopperModel::ROWS_SLICE : model.slice);
  const bool has_edge = sides.p.rows % 64 != 0 || sides.q.rows % tile.group_q != 0;
  const double of_sums = plan.share_segments && has_edge ? model.share_edge_store : 1;
  const double stores = of_sums * model.store * (1 + model.store_two_lines * across) * slices *
                        area / 128 / (tile.ping_pong ? 1 : tile.consumers);
  // All but the last round's are beside what DRAM takes; of consumers in turn, beside the other's
  // products, as far as these go.
  const double products = on_chip / std::max(rounds, 1.0);
  const double each_store =
      tile.ping_pong ? std::max(model.hidden_store * stores, (stores - products) / 2) : stores;
  const double beside_dram = on_chip + (rounds - 1) * (each_store + model.turn);
  e.cycles = model.start + fit.begin + (blocks > 1 ? coupled.begin : 0) + stores +
             std::sqrt(beside_dram * beside_dram + from_dram * from_dram);
  const auto rows_once = [&](const Side& side) {
    return static_cast<double>(side.rows * entries_of(side, problem.batch));
  };
  const double few = std::min(p, q);
  const bool is_short = k_bytes <= HopperModel::SHORT;
  const double share = HopperModel::dram_share(few, rounds, is_short);
  const double of_c = p * q * static_cast<double>(size_of(problem.epilogue.out_dtype)) *
                      static_cast<double>(problem.batch);
  const double once = (rows_once(sides.p) + rows_once(sides.q)) * k_bytes;
  const double floor = model.start + HopperModel::dram_start(few, once) +
                       (once + of_c) / (share * device.memory_bandwidth / model.clock_hz);
  if (plan.share_segments) {
    const double load = static_cast<double>(units.count * blocks) / device.multiprocessors;
    e.cycles *= 1 + model.share_free * std::max(0.0, 1 - load);
  }
  if (e.cycles < floor) e.cycles = floor - HopperModel::BELOW_DRAM * (floor - e.cycles);
  if (few <= HopperModel::FEW && !is_short && !plan.share_segments)
    e.cycles *= HopperModel::BESIDE_FEW_ROWS;

  if (finishes(problem, plan)) {
    const Epilogue& epilogue = problem.epilogue;
    // Warpgroups of a multiprocessor that finish at once.
    const int64_t meeting = std::min<int64_t>(
        tile.blocks_per_sm, blocks_over(units.count * blocks, int64_t{device.multiprocessors}));
    const double at_work =
        tile.ping_pong ? 1 : static_cast<double>(tile.consumers * std::max<int64_t>(1, meeting));
    const double activation =
        epilogue.activation == Activation::None ? 0
        : epilogue.activation == Activation::Relu
            ? HopperModel::RELU
            : HopperModel::ACTIVATE + HopperModel::ACTIVATE_TOGETHER * at_work;
    const double values = static_cast<double>(tile.group_p) * tile.group_q / 128;  // of a thread
    // Another output leaves two consumers as fast as three.
    const double kept =
        HopperModel::KEEP * stores * (tile.ping_pong ? 1 : std::max(1., tile.consumers / 2.));
    const double own = HopperModel::FINISH + values * (HopperModel::COMBINE + activation) +
                       (epilogue.before.data != nullptr ? kept : 0);
    // A consumer that takes turns finishes while the other multiplies, but the two slow each other
    // down, the more the less one is beside the other.
    constexpr double BESIDE = HopperModel::FINISH_BESIDE;
    const double multiplying = on_chip / std::max(rounds, 1.0);
    const double each =
        std::pow(std::pow(multiplying, BESIDE) + std::pow(own, BESIDE), 1 / BESIDE) - multiplying;
    e.cycles += tile.ping_pong ? own + each * (rounds - 1) : own * rounds;
  }
  for (const bool of_p : {true, false})
    if (of_p ? plan.repack_p : plan.repack_q)
      e.cycles +=
          model.repack_kernel +
          model.repack_cycles_a_byte *
              static_cast<double>(copy_bytes(repacked(of_p ? sides.p : sides.q, problem), problem));
  if (plan.wraps_around)
    e.cycles +=
        model.clear_kernel + (tile.ping_pong ? model.hidden_hand_over : model.hand_over) * area;
  if (plan.share_segments)
    e.cycles += sums_seconds(problem, device) * model.clock_hz;
  else
    e.cycles += e.waves * static_cast<double>(segments - 1) *
                (!totals_in_workspace(problem, plan)   ? HopperModel::BETWEEN_SEGMENTS
                 : tile.ping_pong && area <= 128 * 128 ? area * 8 / 64 * model.hidden_flush
                                                       : area * 8 / 64 * model.flush);
  return e;
}

}  // namespace tiled
