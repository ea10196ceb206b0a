// The model of rung fp16x3: the tensor cores' products, the sums that they are added up to, and the
// splits before them.
#include "cuda/rungs/9_fp16x3/model.h"

#include <algorithm>
#include <cmath>

#include "cuda/plan/chip_scale.h"

namespace tiled {
namespace {

// The model: cycles of one multiprocessor. A tile takes 12 wgmma of 64 x BLOCK_Q x 16 for each 64
// of K and 64 rows, and its accumulators are added up after each. Factors fitted on an H200
// (bench/results/h200_fp16x3.json); the tensor cores, the memory and launches are scaled by another
// chip's own.
constexpr double tensor_cycles(const Fp16x3TileInfo& tile) {
  return 12.0 * tile.block_q / 2 * tile.block_p / 64;
}
constexpr double TURNS = 1.08;     // two consumers in turn keep the tensor cores busy
constexpr double PAIRS = 1.45;     // two blocks, each waiting for its own operands, less so
constexpr double PROMOTION = 350;  // of a consumer alone
constexpr double START = 4000, STORE = 3000;
constexpr double SHARED_OPERAND = 0.985;  // of a step, where a cluster halves an operand's bytes
// A step of rungs/9_fp16x3/direct.cu.
constexpr double DIRECT = 850, DIRECT_NARROW = 680;
constexpr double MEMORY = 1500;  // bytes that all multiprocessors together read or write
// Where tiles are cut in time: numbers, and sums on their way; a step, when no multiprocessor is
// idle and leaves the others its power; and one whose operands L2 has not kept, as clusters that
// are at different steps of K need them at different times.
constexpr double HAND_OVER = 4000, CUT_STEP = 1.07, OUT_OF_STEP = 1.145;
constexpr double KEPT = 0.8;  // of L2, the most that it keeps of them

// Whether L2 keeps all of K of the rows that clusters at work at once have to do with.
bool keeps_operands(const Problem& problem, const DeviceInfo& device, const Fp16x3Plan& plan) {
  const Fp16x3TileInfo tile = fp16x3_tile(plan.tile);
  const int64_t side_p = int64_t{tile.block_p} * plan.cluster_p;
  const int64_t side_q = int64_t{tile.block_q} * plan.cluster_q;
  const int64_t clusters = plan.blocks / (plan.cluster_p * plan.cluster_q);
  const int64_t rows = plan.panel * side_p + blocks_over(clusters, plan.panel) * side_q;
  return static_cast<double>(rows * problem.k * 4) < KEPT * static_cast<double>(device.l2_bytes);
}

}  // namespace

double fp16x3_cycles(const Problem& problem, const DeviceInfo& device, double slowdown,
                     const Fp16x3Plan& plan) {
  const Fp16x3TileInfo tile = fp16x3_tile(plan.tile);
  const int sharers = plan.cluster_p * plan.cluster_q;
  const double steps = static_cast<double>(blocks_over(problem.k, 64));
  const int64_t p = plan.exchanged ? problem.n : problem.m;
  const int64_t q = plan.exchanged ? problem.m : problem.n;
  const double units = static_cast<double>(blocks_over(p, int64_t{tile.block_p} * plan.cluster_p)) *
                       static_cast<double>(blocks_over(q, int64_t{tile.block_q} * plan.cluster_q)) *
                       static_cast<double>(problem.batch);
  const double each = units / (device.multiprocessors / sharers);
  const double rounds = std::ceil(each);
  const ChipScale scale = scale_of(device);
  const double tensor = tensor_cycles(tile) / scale.tensor * slowdown;
  const bool pairs = tile.blocks_per_sm == 2 && rounds > 1;
  double step = tensor + PROMOTION;
  if (tile.block_p > 64) step = TURNS * tensor;
  if (pairs) step = std::max(PAIRS * tensor, step / 2);
  if (is_direct(plan.tile))
    step = std::max(tile.block_q == 64 ? DIRECT : DIRECT_NARROW, TURNS * tensor);
  if (sharers == 2 && rounds > 1) step *= SHARED_OPERAND;
  // What is split is read and written, what is measured is read.
  const double of_p = static_cast<double>(p) * (is_direct(plan.tile) ? 4 : 8);
  const double of_q = static_cast<double>(q) * 8;
  const double split = (of_p + of_q) * static_cast<double>(problem.k) *
                       static_cast<double>(problem.batch) / (MEMORY * scale.dram);
  const double begins = START * scale.clock + split;
  const double store = STORE / (pairs ? 2 : 1);
  if (!plan.wraps_around) return begins + rounds * (steps * step + store);
  // Both ends of a share move by half of what moves a cut, if they do.
  const double cut_step = step * (keeps_operands(problem, device, plan) ? CUT_STEP : OUT_OF_STEP);
  return begins + HAND_OVER * scale.clock + (each * steps + FP16X3_LEAST_STEPS) * cut_step +
         rounds * store;
}

double fp16x3_few_rows_cycles(const Problem& problem, const DeviceInfo& device,
                              const Fp16x3Plan& plan) {
  // Fitted to 17 products on an H200 with every tile and cluster: 13 % off in the mean
  // (bench/results/h200_fp16x3_few_rows.txt). A warp's chunk, from its load to its terms; what a
  // block does before and after, and in a cluster; the instructions of a chunk, and of its products
  // with eight rows of X; bytes of W that all multiprocessors together read in a cycle; and where
  // slots are used more than once.
  constexpr double STEP = 5500, ENDS = 1600, IN_CLUSTER = 3260, EACH_BLOCK = 510;
  constexpr double SPLIT = 464, PRODUCTS = 58, W_BYTES = 1730, AGAIN = 1.23;
  // Of the places on all multiprocessors, what clusters can take: one needs a whole number in one
  // of the chip's parts.
  constexpr double PACKED = 0.85;
  constexpr double CHUNK_BYTES = FEW_ROWS_CHUNK * FEW_ROWS_BLOCK_P * 4;
  const Fp16x3TileInfo tile = tile_of(plan);
  const FewRowsBlock& block = plan.block;
  const ChipScale scale = scale_of(device);
  const double chunks = static_cast<double>(blocks_over(problem.k, FEW_ROWS_CHUNK));
  const double blocks = static_cast<double>(plan.blocks) * static_cast<double>(problem.batch);
  const double eights = static_cast<double>(blocks_over(std::min(problem.m, problem.n), 8));
  const double own = std::ceil(chunks / block.cluster);
  const double steps = std::ceil(own / (tile.threads / 32));
  const double resident = std::clamp<double>(
      device.shared_bytes_per_sm / (block.shared_bytes + device.shared_bytes_reserved), 1,
      FEW_ROWS_THREADS / tile.threads);
  const double places = device.multiprocessors * (block.cluster > 1 ? PACKED : 1);
  const double share = std::ceil(blocks / places);  // of the busiest
  const double together = std::min(resident, share), waves = std::ceil(share / resident);
  const double busy = own * (SPLIT + PRODUCTS * eights);
  const double ends = ENDS + (block.cluster > 1 ? IN_CLUSTER + EACH_BLOCK * block.cluster : 0);
  const double of_blocks = waves * std::max(steps * STEP + ends, together * busy);
  const double memory = blocks / block.cluster * chunks * CHUNK_BYTES / (W_BYTES * scale.dram);
  return START * scale.clock +
         std::max(of_blocks, memory + ends) * (block.has_all(problem.k) ? 1 : AGAIN);
}

double fp16x3_async_cycles(const Problem& problem, const DeviceInfo& device,
                           const Fp16x3Plan& plan) {
  const Fp16x3TileInfo tile = tile_of(plan);
  constexpr double OF_TENSOR = 0.8;  // of what the tensor cores can do
  constexpr double STEP = 1500;      // the shortest of a block alone: its loads, fragments and sums
  constexpr double L2_BYTES_A_CYCLE = 52, NOT_HIDDEN = 0.25;  // of a multiprocessor
  const double sms = device.multiprocessors;
  const double peak = device.tensor_flops / (2 * device.clock_hz * sms);  // multiply-adds a cycle
  const double loads = 2.0 * (tile.block_p + tile.block_q) * 128 / L2_BYTES_A_CYCLE;
  const double busy =
      3.0 * tile.block_p * tile.block_q * 64 / (OF_TENSOR * peak) + NOT_HIDDEN * loads;
  const double share = std::ceil(static_cast<double>(plan.blocks) / sms);
  const double fit = static_cast<double>(device.shared_bytes_per_sm /
                                         (tile.shared_bytes + device.shared_bytes_reserved));
  const double waves = std::ceil(share / std::clamp(fit, 1., double(tile.blocks_per_sm)));
  const double steps = static_cast<double>(blocks_over(problem.k, 64));
  const double elements = static_cast<double>(problem.m + problem.n) *
                          static_cast<double>(problem.k) * static_cast<double>(problem.batch);
  const double split = 12 * elements / device.memory_bandwidth * device.clock_hz;
  return START + split + steps * std::max(share * busy, waves * STEP) + waves * STORE;
}

}  // namespace tiled
