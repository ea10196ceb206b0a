#include "cuda/plan/estimate.h"

#include <algorithm>
#include <cmath>

#include "cuda/plan/tma.h"

namespace tiled {
namespace {

// The longer of two things that go on at once, and a little more where the other comes close.
double overlap(double x, double y) {
  const double longer = std::max(x, y), shorter = std::min(x, y);
  if (longer <= 0) return 0;
  return longer * std::pow(1 + std::pow(shorter / longer, 4), 0.25);
}

double bytes_of(const Problem& p) {
  const auto elements = [&](int64_t rows, int64_t columns, int64_t batch_stride) {
    return static_cast<double>(rows) * static_cast<double>(columns) *
           static_cast<double>(batch_stride == 0 ? 1 : p.batch);
  };
  return (elements(p.m, p.k, p.a.batch_stride) + elements(p.k, p.n, p.b.batch_stride)) *
             static_cast<double>(size_of(p.dtype)) +
         elements(p.m, p.n, 1) * static_cast<double>(size_of(p.epilogue.out_dtype));
}

}  // namespace

DemandTerms terms_of(const Problem& problem, const Plan& plan) {
  DemandTerms terms{};
  terms.steps = std::ceil(plan.demand.depth / plan.block_k);
  const Demand& d = plan.demand;
  const double segments = static_cast<double>(std::max<int64_t>(chain_count(problem), 1));
  terms.elements = static_cast<double>(problem.batch) * static_cast<double>(problem.m) *
                   static_cast<double>(problem.n) * (d.splits ? segments : 1) * d.cluster_k /
                   std::max(1.0, d.units);
  terms.bytes = bytes_of(problem);
  for (const Step& step : plan) {
    const bool leaves_sums = step.work == Work::Product && d.splits;
    if (step.work == Work::Copy || step.work == Work::Split || leaves_sums)
      terms.copies += static_cast<double>(step.workspace_bytes);
  }
  return terms;
}

double estimated_seconds(const Problem& problem, const DeviceInfo& device, const Rules& rules,
                         const Plan& plan) {
  const ChipRates& chip = rules.chip();
  const Demand& d = plan.demand;
  const TileRates& tile = rules.tile(plan.algo, d.variant, kind_of(problem));
  const int cluster = d.cluster_p * d.cluster_q;

  const DemandTerms terms = terms_of(problem, plan);

  // A step of one of so many blocks on each multiprocessor, while a share of these has any: the
  // more of them load, the longer each waits. Four blocks of a cluster wait less for what they load
  // together; they multiply no faster.
  const double layout = (d.p_mn_major ? tile.p_mn : 1) * (d.q_mn_major ? tile.q_mn : 1);
  const double shared = cluster > 2 ? chip.four : 1;
  const double slowdown = on_tensor_cores(problem.arithmetic) ? chip.slowdown : 0;
  const double loaded = d.loaded_bytes + chip.off_sector * d.off_sector_bytes;
  const auto step = [&](double blocks, double share) {
    const double wait = shared * (1 + slowdown * std::min(share, 1.0)) / (1 + slowdown);
    return layout * overlap(tile.busy * d.filled * blocks, tile.latency * wait);
  };
  const Activation activation = problem.epilogue.activation;
  const double finishing =
      activation == Activation::None || activation == Activation::Relu ? 0 : chip.activation;
  const double end = d.ends * (tile.end + terms.elements * finishing);

  // Waves of tiles, over the places where blocks run at once. The last wave may have fewer blocks
  // on a multiprocessor.
  const int together = cluster * d.cluster_k;
  const auto places =
      static_cast<double>(clusters_at_once(device, together) * d.resident * together);
  const double waves = std::floor(d.units / places), rest = d.units - waves * places;
  double product = waves * (terms.steps * step(d.resident, 1) + end);
  if (d.stream_k) {
    product = d.units / places * (terms.steps * step(d.resident, 1) + end) + chip.hand_over;
  } else if (rest > 0) {
    const double share = rest / device.multiprocessors;
    const double blocks = std::clamp(std::ceil(share), 1.0, static_cast<double>(d.resident));
    product += terms.steps * step(blocks, share) + end;
  }
  // Multiprocessors share ports in pairs: the busiest pair has so large a part of all units.
  const double pairs = device.multiprocessors / 2.0, rounds = d.units / pairs;
  const double part = (d.stream_k ? rounds : std::ceil(rounds)) / std::max(1.0, d.units);
  const double port =
      overlap(part * loaded / chip.pair_load, part * terms.bytes / chip.pair_memory);

  const double memory = (terms.bytes + chip.again * d.again_bytes) / chip.memory;
  const double cache = loaded / chip.cache + d.line_loads * chip.line + d.store_lines * chip.store;

  const double start = tile.start + chip.spread * std::min(1.0, d.units / device.multiprocessors) +
                       (together > 1 ? chip.cluster : 0);
  return start + overlap(overlap(product, port), memory + cache) +
         (plan.step_count - 1) * chip.kernel + 2 * terms.copies / chip.copy;
}

}  // namespace tiled
