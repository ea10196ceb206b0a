#include "cuda/plan/demand.h"

#include <algorithm>
#include <cmath>

namespace tiled {
namespace {

constexpr double CACHE_LINE = 128;  // bytes, of four sectors

// Bytes from one row of the operand, in its own layout, to the next.
int64_t pitch_of(const Side& side, DType dtype) {
  return (is_mn_major(side) ? side.k_stride : side.row_stride) * size_of(dtype);
}

}  // namespace

Problem average_of(Problem problem) {
  if (problem.groups.shared == Shared::Nothing) return problem;
  int64_t& shared = problem.groups.shared == Shared::M   ? problem.m
                    : problem.groups.shared == Shared::N ? problem.n
                                                         : problem.k;
  shared = std::max<int64_t>(1, blocks_over(shared, std::max<int64_t>(problem.batch, 1)));
  problem.a.batch_stride = std::max<int64_t>(problem.a.batch_stride, 1);
  problem.b.batch_stride = std::max<int64_t>(problem.b.batch_stride, 1);
  return problem;
}

bool begins_off_sector(const Side& side, DType dtype) { return pitch_of(side, dtype) % 32 != 0; }

double store_lines_of(const Problem& problem, int rows, int64_t bytes) {
  const double instructions = static_cast<double>(problem.batch) * static_cast<double>(problem.m) *
                              static_cast<double>(problem.n) / 32;
  // A row's elements begin anywhere in a line, and may end in the next.
  return instructions * rows * (1 + static_cast<double>(bytes) / CACHE_LINE);
}

Demand demand_of(const Problem& problem, const Sides& read, int64_t block_p, int64_t block_q,
                 int variant, int resident, bool splits, int cluster_p, int cluster_q) {
  Demand d;
  d.variant = static_cast<int16_t>(variant);
  d.resident = static_cast<int16_t>(resident);
  d.cluster_p = static_cast<int16_t>(cluster_p), d.cluster_q = static_cast<int16_t>(cluster_q);
  d.p_mn_major = is_mn_major(read.p), d.q_mn_major = is_mn_major(read.q);
  const int64_t segments = splits ? chain_count(problem) : 1;
  d.splits = segments > 1;
  // Whole clusters: what is beyond the matrix takes its time too. A group of any size has half a
  // cluster beyond its rows, as a rule.
  const auto covered = [](const Side& side, int64_t block, int64_t cluster) {
    if (!side.is_shared)
      return static_cast<double>(blocks_over(side.rows, block * cluster) * cluster);
    const double rows = static_cast<double>(side.rows) + 0.5 * static_cast<double>(block * cluster);
    return std::max(rows / static_cast<double>(block), static_cast<double>(cluster));
  };
  d.units = covered(read.p, block_p, cluster_p) * covered(read.q, block_q, cluster_q) *
            static_cast<double>(problem.batch) * static_cast<double>(segments);
  const int64_t segment =
      problem.leaf > 0 ? blocks_over(problem.k, segments) : segment_size(problem.k);
  d.depth = static_cast<double>(splits ? segment : problem.k);
  const auto size = static_cast<double>(size_of(problem.dtype));
  const auto add = [&](const Side& side, int64_t block, int sharers, const Side& other,
                       int64_t other_block) {
    const int64_t rows = side.is_shared ? block : std::min(block, side.rows);
    const double loaded = d.units * d.depth * size * static_cast<double>(rows) / sharers;
    d.loaded_bytes += loaded;
    if (begins_off_sector(side, problem.dtype)) d.off_sector_bytes += loaded;
    const double loads = static_cast<double>(blocks_over(other.rows, other_block));
    // A line may hold several rows, which are loaded one by one.
    const double pitch = static_cast<double>(std::max<int64_t>(pitch_of(side, problem.dtype), 1));
    const double rows_a_line = std::clamp(CACHE_LINE / pitch, 1.0, 8.0);
    d.line_loads = std::max(d.line_loads, loads / sharers * rows_a_line);
    d.again_bytes += static_cast<double>(problem.batch) * static_cast<double>(side.rows) *
                     static_cast<double>(problem.k) * size *
                     (1 - 1 / std::max(1.0, std::ceil(loads / sharers)));
  };
  add(read.p, block_p, cluster_q, read.q, block_q);
  add(read.q, block_q, cluster_p, read.p, block_p);
  return d;
}

}  // namespace tiled
