// The model of rung tall: how fast strips stream past the short operand.
#include "cuda/rungs/11_tall/model.h"

#include <algorithm>
#include <cmath>

namespace tiled {
namespace {

// What a strip takes of a multiprocessor that is full of warps: cycles, fitted to measured times.
// They are a warp's own instructions, most of them, which wait for one another: neither tensor
// cores nor shared memory are busy all the time.
struct StripCost {
  double strip;  // for itself
  double stage;  // for each of its stages
  double step;   // for each 16 of K
  double work;   // of chains: for 1024 multiply-adds; else for a step of 16 columns
  double loads;  // of chains: for a load of 16 bytes a lane
  double out;    // for 512 elements of C
};
constexpr StripCost FRAGMENTS_PLAIN = {70, 10, 25, 5, 0, 15};
constexpr StripCost FRAGMENTS = {111, 14, 47, 5, 0, 29};
constexpr StripCost FRAGMENTS_SHIFTED = {67, 0, 147, 37, 0, 0};
constexpr StripCost CHAINS = {9, 61, 0, 14, 0, 108};
constexpr StripCost CHAINS_SHIFTED = {0, 0, 0, 0, 4.7, 100};

// The model's other constants: cycles of 1755 MHz, as those of rungs hopper and few_rows.
struct Model {
  static constexpr double CLOCK = TALL_CLOCK;
  // More, on tensor cores, for each 16 of K beyond the first of a strip: of deep ones fewer are on
  // their way at once.
  static constexpr double NEAR_STEPS = 4, FAR_STEP = 75;
  static constexpr double START = 4500;  // launch, the first bytes' way, the end
  static constexpr double DRAM = 0.85;   // of the bandwidth that the device names
  static constexpr double L2 = 40;       // bytes a cycle of a multiprocessor, of what is read again
  // Of the panel: the way of its first bytes, and cycles a byte.
  static constexpr double PANEL = 800, PANEL_BYTE = 0.15;
  // A lone warp's cycles around a strip and a stage.
  static constexpr double STRIP_LATENCY = 1000, STAGE_LATENCY = 1000;
  // For an element that is copied singly, and one that goes through an epilogue, of 32.
  static constexpr double SINGLY = 3, EPILOGUE = 8;
  static constexpr double POWER = 4;  // how sharply the longer of what overlaps decides
};

double beside(double a, double b) {
  return std::pow(std::pow(a, Model::POWER) + std::pow(b, Model::POWER), 1 / Model::POWER);
}

const StripCost& cost_of(const Problem& p, const TallWay& way) {
  const bool shifted = way.read == TallRead::Shifted;
  if (tall_tile(way.tile).chains) return shifted ? CHAINS_SHIFTED : CHAINS;
  return shifted ? FRAGMENTS_SHIFTED : is_plain(p, way) ? FRAGMENTS_PLAIN : FRAGMENTS;
}

double strip_cycles(const Problem& p, const TallWay& way) {
  const TallTileInfo& tile = tall_tile(way.tile);
  const StripCost& cost = cost_of(p, way);
  const double rows = tile.rows, columns = tile.block_n, k = static_cast<double>(p.k);
  const double steps = std::ceil(k / 16);
  const double vectors = way.read == TallRead::Shifted ? rows / 8 : rows / 32;  // of A, a k
  double cycles = cost.strip + std::ceil(k / tile.step_k) * cost.stage + steps * cost.step +
                  (tile.chains ? rows * columns * k / 1024 : steps * columns / 16) * cost.work +
                  k * (vectors + columns / 16) * cost.loads + rows * columns / 512 * cost.out;
  if (!tile.chains && way.read != TallRead::Shifted)
    cycles += std::max(0., steps - Model::NEAR_STEPS) * Model::FAR_STEP;
  if (way.read == TallRead::Elements) cycles += rows * k / 32 * Model::SINGLY;
  if (!p.epilogue.is_identity()) cycles += rows * columns / 32 * Model::EPILOGUE;
  return cycles;
}

// Those that the planner takes: others are right, but not what the rung is for.
constexpr int64_t MOST_COLUMNS = 4;  // tiles side by side
// Strips of a multiprocessor: with fewer there is no stream.
constexpr int64_t fewest_strips(const TallTileInfo& tile) { return tile.chains ? 24 : 8; }
constexpr double NOT_JUDGED = 1e15;

}  // namespace

TallEstimate tall_estimate(const Problem& problem, const DeviceInfo& device, const TallWay& way) {
  const Problem p = long_first(problem, way);
  const TallTileInfo& tile = tall_tile(way.tile);
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n);
  const double k = static_cast<double>(p.k), batch = static_cast<double>(p.batch);
  const double in = static_cast<double>(size_of(p.dtype));
  const double out = static_cast<double>(size_of(p.epilogue.out_dtype));
  const double columns = tall_columns(p, way);
  const double strips = static_cast<double>(strips_of(p, way)) * columns * batch;
  const double dram = Model::DRAM * device.memory_bandwidth / Model::CLOCK;
  const double chip = device.multiprocessors;
  TallEstimate e;
  e.memory = batch * (in * k * (m + n) + out * m * n) / dram +
             (columns - 1) * batch * in * m * k / (Model::L2 * chip);
  e.work = std::ceil(strips / chip) * strip_cycles(p, way);
  const double blocks = static_cast<double>(way.sharers) * columns * batch;
  const double slots = chip * static_cast<double>(fitting_blocks(p, way, device));
  const double waves = std::ceil(blocks / slots);
  const double turns = std::ceil(static_cast<double>(strips_of(p, way)) /
                                 (static_cast<double>(way.sharers) * tile.warps));
  const double panel = Model::PANEL + static_cast<double>(shared_bytes_of(way) - tile.rings_bytes) *
                                          Model::PANEL_BYTE;
  e.latency =
      waves * (turns * (std::ceil(k / tile.step_k) * Model::STAGE_LATENCY + Model::STRIP_LATENCY));
  e.cycles = Model::START + waves * panel + beside(beside(e.memory, e.work), e.latency);
  if (!panel_stays(p, way) || columns > MOST_COLUMNS ||
      strips < static_cast<double>(fewest_strips(tile)) * chip)
    e.cycles += NOT_JUDGED;
  return e;
}

}  // namespace tiled
