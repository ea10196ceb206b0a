// What a way asks of a chip, in numbers that its time is estimated from (estimate.h). A rung's
// plan() fills it in: no rung has a model of its own.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/segments.h"
#include "cuda/plan/sides.h"

namespace tiled {

struct Demand {
  int16_t variant = 0;   // the tile's place in the rung's variants()
  int16_t resident = 1;  // blocks of the product that one multiprocessor holds at once
  int16_t cluster_p = 1, cluster_q = 1;  // blocks that share loads of Q's rows, and of P's
  int16_t cluster_k = 1;  // blocks of a cluster that share K of a tile out, each of them a unit
  bool p_mn_major = false, q_mn_major = false;  // how the product reads P and Q
  bool splits = false;                          // segments of K are units of their own
  bool stream_k = false;    // tiles are cut in time, so that all blocks have as much to do
  double units = 0;         // tiles of C, of all segments of K that are split and of the batch
  double depth = 0;         // k of one unit
  double loaded_bytes = 0;  // by all units together, from L2
};

// A problem with groups as a batch of products of their average size: where groups end is known on
// the device alone.
inline Problem average_of(Problem problem) {
  if (problem.groups.shared == Shared::Nothing) return problem;
  int64_t& shared = problem.groups.shared == Shared::M   ? problem.m
                    : problem.groups.shared == Shared::N ? problem.n
                                                         : problem.k;
  shared = std::max<int64_t>(1, blocks_over(shared, std::max<int64_t>(problem.batch, 1)));
  problem.a.batch_stride = std::max<int64_t>(problem.a.batch_stride, 1);
  problem.b.batch_stride = std::max<int64_t>(problem.b.batch_stride, 1);
  return problem;
}

// Tiles of block_p x block_q elements that cover P x Q, each with all of K or, where segments are
// split, one of them. `read`: the operands as the product reads them.
inline Demand demand_of(const Problem& problem, const Sides& read, int64_t block_p, int64_t block_q,
                        int variant, int resident, bool splits = false, int cluster_p = 1,
                        int cluster_q = 1) {
  Demand d;
  d.variant = static_cast<int16_t>(variant);
  d.resident = static_cast<int16_t>(resident);
  d.cluster_p = static_cast<int16_t>(cluster_p), d.cluster_q = static_cast<int16_t>(cluster_q);
  d.p_mn_major = is_mn_major(read.p), d.q_mn_major = is_mn_major(read.q);
  const int64_t segments = splits ? segment_count(problem.k) : 1;
  d.splits = segments > 1;
  // Whole clusters: what lies beyond the matrix takes its time too. A group of any size has half a
  // cluster beyond its rows, as a rule.
  const auto covered = [](const Side& side, int64_t block, int64_t cluster) {
    if (!side.is_shared)
      return static_cast<double>(blocks_over(side.rows, block * cluster) * cluster);
    const double rows = static_cast<double>(side.rows) + 0.5 * static_cast<double>(block * cluster);
    return std::max(rows / static_cast<double>(block), static_cast<double>(cluster));
  };
  d.units = covered(read.p, block_p, cluster_p) * covered(read.q, block_q, cluster_q) *
            static_cast<double>(problem.batch) * static_cast<double>(segments);
  d.depth = static_cast<double>(splits ? segment_size(problem.k) : problem.k);
  const auto loaded = [](const Side& side, int64_t block) {
    return static_cast<double>(side.is_shared ? block : std::min(block, side.rows));
  };
  const double rows = loaded(read.p, block_p) / cluster_q + loaded(read.q, block_q) / cluster_p;
  d.loaded_bytes = d.units * d.depth * rows * static_cast<double>(size_of(problem.dtype));
  return d;
}

// Of A's rows by B's columns.
inline Demand demand_of(const Problem& problem, int64_t block_m, int64_t block_n, int variant,
                        int resident, bool splits = false) {
  return demand_of(problem, sides_of(problem, /*exchanged=*/false), block_m, block_n, variant,
                   resident, splits);
}

}  // namespace tiled
