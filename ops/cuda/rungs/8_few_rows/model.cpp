// The model of rung few_rows: what a weight's way through the chip takes, and the chains beside it.
#include "cuda/rungs/8_few_rows/model.h"

#include <algorithm>
#include <cmath>

#include "cuda/plan/sums.h"

namespace tiled {
namespace {

// The model's constants: cycles of 1755 MHz, as those of rung hopper, that its estimates are
// compared with. From the times of every tile on an H200, 1 to 64 rows by the layers of models of
// 8 and 70 billion parameters and some small ones.
struct Model {
  static constexpr double CLOCK = FEW_ROWS_CLOCK;
  static constexpr double START = FEW_ROWS_START;
  static constexpr double TILE = 530;  // the end of one, where others follow
  // More, of tiles of more than 64 columns, which a block's few warps store.
  static constexpr double wide_end(int columns) { return 30. * (columns - 40); }
  // Of an epilogue, one sum of a thread. By wgmma: side by side, with an activation of more than
  // one instruction, and one by one where the value before it is kept, which every thread then
  // stores for itself. By others: one by one.
  static constexpr double finish(FewRowsBy by, const Epilogue& epilogue) {
    if (by != FewRowsBy::Wgmma) return 340;
    if (epilogue.before.data != nullptr) return 600;
    const Activation activation = epilogue.activation;
    return activation == Activation::None || activation == Activation::Relu ? 30 : 80;
  }
  // By wgmma: 64 rows of the weight take no less, their sums' way out included, however short K is;
  // seen with 48 columns and 64.
  static constexpr double SHORTEST = 3300;
  static constexpr int SHORTEST_FROM = 48;
  // A weight along m or n with so many turns is one whose rows along k lie far apart: more for each
  // further turn (two long and thin products by hand, bench/results/h200_long_and_thin.txt).
  static constexpr double NEAR_TURNS = 4, FAR_TURN = 2800;
  static constexpr double DRAM = 0.93;  // of the bandwidth that the device names
  static constexpr double AGAIN = 0.5;  // of a weight's bytes, that each further tile beside the
                                        // first does not find in L2
  static constexpr double AGAIN_OF_SEGMENTS = 0.1;  // the same of tiles that all run at once
  // From L2: for each multiprocessor, all of them at once; for one of them alone; and for two that
  // share a way. Where all read the same bytes, as they do Q's, these come at half the price.
  static constexpr double L2_BYTES_A_CYCLE = 104, ALONE_BYTES_A_CYCLE = 147;
  static constexpr double PAIR_BYTES_A_CYCLE = 61;
  static constexpr double SAME_BYTES = 0.5;
  // A step of 32 bytes of K, of one chain and what goes on around it, by its columns: with P along
  // K; along m or n, as one strip and as two; and from registers.
  static constexpr double wgmma(int columns) {
    return columns <= 16   ? 28.6
           : columns <= 32 ? 32.7
           : columns <= 48 ? 35.3
                           : std::max(40.4, 8 + columns / 2.);
  }
  static constexpr double wgmma_mn_major(int columns) {
    return columns <= 16   ? 28
           : columns <= 32 ? 31.4
           : columns <= 48 ? 43.1
                           : std::max(46., 14 + columns / 2.);
  }
  static constexpr double wgmma_two_strips(int columns) { return 44.9 + columns / 8. * 1.2; }
  static constexpr double wgmma_registers(int columns) { return 55 + columns / 4.; }
  static constexpr double WARPS = 25.3;  // by mma.sync of 16 bits, of eight columns
  // mma.sync of fp64: after one of its chain, after another; shared memory's time for a warp's rows
  // and columns.
  static constexpr double mma_chain(int columns) {
    return columns == 8 ? 30.6 : columns == 16 ? 32.6 : 38.3;
  }
  static constexpr double MMA_FP64 = 21.4;
  static constexpr double mma_shared(int columns) { return 1.03 * (4 + columns / 4); }
  // By lanes: a warp's instructions, and shared memory's time for them.
  static constexpr double lanes(int columns) {
    return 8 * (columns == 1   ? 4.25
                : columns == 2 ? 5.2
                : columns <= 4 ? 5.4
                               : 3.87 + 1.61 * columns);
  }
  static constexpr double lanes_shared(int columns) { return 8 * (1.14 + 0.53 * columns); }
  // By patches: multiply-adds, and loads of 16 bytes, which the few warps do not hide behind them.
  static constexpr double patches(int p, int q) { return 8 * (1.05 * p * q + 1.17 * (p + q)); }
  // Boxes of 64 bytes along m or n, half a line of memory: the other half is the same tile's, or
  // another block's.
  static constexpr double HALF_LINES = 1.116, HALF_LINES_APART = 1.26;
  // Of memory's time and the chains': how sharply the longer decides, for a block's only tile and
  // for tiles in turn; and how much more than it both together can take.
  static constexpr double ONE_TILE = 2.13, IN_TURN = 2.7, MOST_BESIDE = 3600;
  // Of copies before it; and of an operand that one of them transposes.
  static constexpr double REPACK_KERNEL = 6000, REPACK_CYCLES_A_BYTE = 1.5e-3;
  static constexpr double TRANSPOSE_CYCLES_AN_ELEMENT = 6e-3;
};

// Of 32 bytes of K: a chain's latency, or what its warps' instructions and loads take.
double step_cycles(const FewRowsPlan& plan, bool mn_major) {
  const FewRowsTileInfo& tile = few_rows_tile(plan.tile);
  switch (tile.by) {
    case FewRowsBy::Wgmma:
      return !mn_major                            ? Model::wgmma(tile.columns)
             : plan.strip < 64 && plan.height > 1 ? Model::wgmma_two_strips(tile.columns)
                                                  : Model::wgmma_mn_major(tile.columns);
    case FewRowsBy::Registers: return Model::wgmma_registers(tile.columns);
    case FewRowsBy::Warps: return Model::WARPS;
    case FewRowsBy::Mma: {
      const double in_turn = std::ceil(tile.warps / 4.);  // four tensor cores
      return std::max({Model::mma_chain(tile.columns), in_turn * tile.columns / 8 * Model::MMA_FP64,
                       tile.warps * Model::mma_shared(tile.columns)});
    }
    case FewRowsBy::Patches: return Model::patches(tile.patch_p, tile.patch_q);
    case FewRowsBy::Lanes: break;
  }
  return std::max(Model::lanes(tile.columns), tile.warps * Model::lanes_shared(tile.columns));
}

// What reading P takes more than its bytes do.
double half_lines(const FewRowsPlan& plan, bool mn_major, int64_t bytes) {
  if (!mn_major || plan.strip * bytes >= 128) return 1;
  return plan.height == 2 ? Model::HALF_LINES : Model::HALF_LINES_APART;
}

// Cycles of what goes on at once.
double beside(double memory, double chain, double power) {
  const double both = std::pow(std::pow(memory, power) + std::pow(chain, power), 1 / power);
  return std::min(both, std::max(memory, chain) + Model::MOST_BESIDE);
}

}  // namespace

FewRowsEstimate few_rows_estimate(const Problem& problem, const DeviceInfo& device,
                                  const FewRowsPlan& plan) {
  const FewRowsTileInfo& tile = few_rows_tile(plan.tile);
  const FewRowsLayout l = few_rows_layout(problem, plan, nullptr);
  const int64_t bytes = size_of(problem.dtype);
  const double row = static_cast<double>(depth_of(problem, plan) * bytes);  // of a tile
  const double segments = static_cast<double>(segments_of(problem, plan));
  const double row_of_p = row * half_lines(plan, is_mn_major(l.sides.p), bytes);
  const double rows = static_cast<double>(l.sides.p.rows);
  const double tiles = static_cast<double>(std::max<int64_t>(1, few_rows_units(problem, plan)));
  const double turns = std::ceil(tiles / plan.blocks);
  const double columns = static_cast<double>(columns_of(problem, plan));
  double weight =
      row_of_p * rows * segments * static_cast<double>(entries_of(l.sides.p, problem.batch));
  // Where C is small in both directions, Q is no little thing beside it.
  if (plan.share_segments)
    weight += row * static_cast<double>(l.sides.q.rows) * segments *
              static_cast<double>(entries_of(l.sides.q, problem.batch));
  const double dram = Model::DRAM * device.memory_bandwidth / Model::CLOCK;  // bytes a cycle
  // What all blocks read, and one of them, in so many turns.
  const double of_q = Model::SAME_BYTES * row * tile.block_q;  // for a tile
  const double all_rows = rows * segments * static_cast<double>(problem.batch);
  const double all_p = row_of_p * all_rows * columns;
  const double tile_p = std::min(plan.height * plan.strip * row_of_p, all_p);
  // Tiles of the same rows of P, neighbours, read these together. A block with a strip more has its
  // way beside one without, as long as there are no more of them than ways.
  const FewRowsStrips strips = few_rows_strips(plan, l.sides.p.rows);
  const double ways = device.multiprocessors / 2;
  const bool beside_less = turns == 1 && strips.odd > 0 && strips.odd <= ways;
  const double pair_p = columns > 1   ? tile_p
                        : beside_less ? 2 * tile_p - plan.strip * row_of_p
                                      : 2 * tile_p;
  const double again = plan.share_segments ? Model::AGAIN_OF_SEGMENTS : Model::AGAIN;
  // So many of the tiles at once, turn after turn.
  const auto memory = [&](double count, double blocks, double in_turn) {
    const double share = count / tiles;
    return std::max(
        {weight * (1 + again * (columns - 1)) * share / dram,
         (all_p + tiles * of_q) * share / (Model::L2_BYTES_A_CYCLE * device.multiprocessors),
         in_turn * (tile_p + of_q) / Model::ALONE_BYTES_A_CYCLE,
         blocks > ways ? in_turn * pair_p / Model::PAIR_BYTES_A_CYCLE : 0});
  };

  FewRowsEstimate e;
  e.start = Model::START;
  if (l.copies.count() > 0)
    e.start +=
        Model::REPACK_KERNEL + Model::REPACK_CYCLES_A_BYTE * static_cast<double>(l.copies.bytes());
  if (const Side q = sides_of(problem, plan.exchanged).q; plan.repack_q && is_mn_major(q))
    e.start += Model::TRANSPOSE_CYCLES_AN_ELEMENT * static_cast<double>(q.rows) *
               static_cast<double>(q.k) * static_cast<double>(entries_of(q, problem.batch));
  // Rounds in which every block has a tile, and one in which some have.
  const double chain = row / 32 * step_cycles(plan, is_mn_major(l.sides.p));
  const double rounds = std::floor(tiles / plan.blocks), rest = tiles - rounds * plan.blocks;
  const double of_rounds = memory(tiles - rest, plan.blocks, rounds);
  const double of_rest = rest > 0 ? memory(rest, rest, 1) : 0;
  e.memory = of_rounds + of_rest;
  e.chain = turns * chain;
  double at_once = beside(of_rounds, rounds * chain, rounds > 1 ? Model::IN_TURN : Model::ONE_TILE);
  if (rest > 0) at_once += beside(of_rest, chain, Model::ONE_TILE);
  if (tile.by == FewRowsBy::Wgmma && tile.block_q >= Model::SHORTEST_FROM)
    at_once = std::max(at_once, all_rows * columns / plan.blocks / 64 * Model::SHORTEST);
  e.cycles = e.start + (turns - 1 + (columns > 1)) * Model::TILE + at_once;
  if (is_mn_major(l.sides.p)) e.cycles += std::max(0., turns - Model::NEAR_TURNS) * Model::FAR_TURN;
  if (tile.block_q > FEW_ROWS_USUAL) e.cycles += Model::wide_end(tile.block_q);
  if (plan.share_segments)
    e.cycles += sums_seconds(problem, device) * Model::CLOCK;
  else if (!problem.epilogue.is_identity())
    e.cycles += turns * Model::finish(tile.by, problem.epilogue) * tile.block_p * tile.block_q /
                (32. * tile.warps);
  return e;
}

}  // namespace tiled
