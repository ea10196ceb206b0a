// The choice of rung, tile and access, by a small model of the time.
#include "cuda/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "cuda/plan/access.h"
#include "cuda/plan/candidates.h"
#include "cuda/plan/fp16x3_plan.h"
#include "cuda/plan/hopper_layout.h"
#include "cuda/plan/tensor_plan.h"

namespace tiled {
namespace {

static_assert(std::is_trivially_copyable_v<Plan> && std::is_standard_layout_v<Plan>,
              "a plan is plain data, cheap to make and to memoise");

// Tiles that cover `size` elements. Blocks are powers of two, so no division is needed on the way
// of every call; and no size overflows, unlike (size + block - 1) / block.
int64_t tiles_over(int64_t size, int32_t block) {
  return (size >> __builtin_ctz(block)) + ((size & (block - 1)) != 0);
}

int64_t tiles_of(const Candidate& candidate, const Problem& problem) {
  return saturating_product(tiles_over(problem.m, candidate.block_m),
                            tiles_over(problem.n, candidate.block_n));
}

// What every rung so far asks of a problem.
bool computes(const Problem& problem, const DeviceInfo& device) {
  const bool wants_fp64 = problem.dtype == DType::Float64 || problem.dtype == DType::Complex128;
  return problem.arithmetic == Arithmetic::Fma && !(wants_fp64 && device.fp64_flops == 0);
}

bool can_launch(const Candidate& candidate, const Problem& problem, const DeviceInfo& device) {
  return candidate.threads_x * candidate.threads_y <= device.threads_per_block &&
         candidate.shared_bytes <= device.shared_bytes_per_block &&
         tiles_of(candidate, problem) <= MAX_GRID_X;
}

// Which operands register_tile copies one element at a time where it has a choice (async).
struct Singly {
  bool a, b;
};

// Cycles until the busiest multiprocessor has done its share of the blocks.
double cycles(const Candidate& candidate, const Problem& problem, const DeviceInfo& device,
              Singly singly) {
  constexpr double SINGLE = 0.1;  // for each element that a step copies singly
  const double singles = candidate.async
                             ? SINGLE * candidate.block_k *
                                   (singly.a * candidate.block_m + singly.b * candidate.block_n)
                             : 0;
  const double blocks =
      static_cast<double>(tiles_of(candidate, problem)) * static_cast<double>(problem.batch);
  const double share = std::ceil(blocks / device.multiprocessors);
  const double waves = std::ceil(share / candidate.resident);
  const double steps = static_cast<double>(tiles_over(problem.k, candidate.block_k));
  return steps *
             std::max(share * (candidate.busy + singles), waves * (candidate.latency + singles)) +
         waves * candidate.start;
}

Singly singly_copied(const Problem& problem) {
  return {async_access_of(side_a(problem)) == Access::Elements,
          async_access_of(side_b(problem)) == Access::Elements};
}

// Cycles of copying an operand to where register_tile reads vectors: every element is read and
// written, at 0.72 of the memory's rate on an H200, and another kernel is launched.
double transposing_cycles(const Side& side, const Problem& problem, const DeviceInfo& device) {
  constexpr double START = 4000, RATE = 0.72;  // cycles; of memory_bandwidth
  const double clock = device.fp32_flops / (256.0 * device.multiprocessors);
  const double bytes = 2.0 * size_of(problem.dtype) * static_cast<double>(side.rows) *
                       static_cast<double>(side.k) *
                       static_cast<double>(entries_of(side, problem.batch));
  return START + bytes / (RATE * device.memory_bandwidth) * clock;
}

// Access of an async plan, and which operands are transposed first: those whose single copies would
// take longer than the pass. Its kernel is one of Hopper's.
void choose_async_access(const Candidate& candidate, const Problem& problem,
                         const DeviceInfo& device, Plan& plan) {
  const auto takes_longer = [&](const Side& side, Singly singly, Singly by_vectors) {
    const double gain =
        cycles(candidate, problem, device, singly) - cycles(candidate, problem, device, by_vectors);
    return gain > transposing_cycles(side, problem, device) &&
           !overlaps_itself(side, problem.batch);
  };
  const Side a = side_a(problem), b = side_b(problem);
  Singly singly = singly_copied(problem);
  if (device.hopper_kernels) {
    plan.transpose_a = singly.a && takes_longer(a, singly, {false, singly.b});
    singly.a &= !plan.transpose_a;
    plan.transpose_b = singly.b && takes_longer(b, singly, {singly.a, false});
    singly.b &= !plan.transpose_b;
  }
  plan.access_a = singly.a ? Access::Elements : Access::AlongMN;
  plan.access_b = singly.b ? Access::Elements : Access::AlongMN;
  if (plan.transpose_a) plan.workspace_bytes += workspace_aligned(transposed_bytes(a, problem));
  if (plan.transpose_b) plan.workspace_bytes += workspace_aligned(transposed_bytes(b, problem));
}

Plan plan_of(const Candidate& candidate, const Problem& problem, const DeviceInfo& device) {
  Plan plan{};
  plan.algo = candidate.algo;
  plan.tile = candidate.tile;
  plan.async = candidate.async;
  plan.access_a = plan.access_b = Access::Elements;
  if (candidate.async)
    choose_async_access(candidate, problem, device, plan);
  else if (candidate.algo == Algo::RegisterTile)
    choose_access(problem, plan);
  else if (candidate.algo == Algo::MmaTile) {
    plan.access_a = copied_access_of(side_a(problem));
    plan.access_b = copied_access_of(side_b(problem));
  }
  plan.block_m = candidate.block_m;
  plan.block_n = candidate.block_n;
  plan.block_k = candidate.block_k;
  plan.threads_x = candidate.threads_x;
  plan.threads_y = candidate.threads_y;
  plan.tiles_m = tiles_over(problem.m, candidate.block_m);
  plan.tiles_n = tiles_over(problem.n, candidate.block_n);
  plan.grid_x = saturating_product(plan.tiles_m, plan.tiles_n);
  plan.grid_y = static_cast<int32_t>(std::min(problem.batch, MAX_GRID_Y));
  plan.shared_bytes = candidate.shared_bytes;
  plan.workspace_bytes = saturating_sum(plan.workspace_bytes, totals_bytes(problem, plan));
  return plan;
}

// The fastest candidate that can be launched and that `wanted` lets through; the last of the table
// if there is none.
template <typename Wanted>
Plan fastest(const Problem& problem, const DeviceInfo& device, Wanted wanted) {
  const Candidates candidates = candidates_for(problem, device);
  const Singly singly = singly_copied(problem);
  const Candidate* best = candidates.end() - 1;
  double best_cycles = std::numeric_limits<double>::infinity();
  for (const Candidate& candidate : candidates) {
    if (!wanted(candidate.algo) || !can_launch(candidate, problem, device)) continue;
    const double candidate_cycles = cycles(candidate, problem, device, singly);
    if (candidate_cycles > best_cycles) continue;  // a tie goes to the higher rung
    best = &candidate;
    best_cycles = candidate_cycles;
  }
  return plan_of(*best, problem, device);
}

}  // namespace

bool supports(Algo algo, const Problem& problem, const DeviceInfo& device) {
  if (problem.arithmetic == Arithmetic::Fp16x3)
    return algo == Algo::Fp16x3 && fp16x3_supports(problem, device);
  if (on_tensor_cores(problem.arithmetic)) return tensor_supports(algo, problem, device);
  if (!computes(problem, device)) return false;
  const Candidates candidates = candidates_for(problem, device);
  return std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
    return candidate.algo == algo && can_launch(candidate, problem, device);
  });
}

std::vector<Algo> supported_algos(const Problem& problem, const DeviceInfo& device) {
  std::vector<Algo> algos;
  for (Algo algo : ALL_ALGOS)
    if (supports(algo, problem, device)) algos.push_back(algo);
  return algos;
}

Plan make_plan(const Problem& problem, const DeviceInfo& device) {
  if (problem.arithmetic == Arithmetic::Fp16x3) return make_fp16x3_plan(problem, device);
  if (on_tensor_cores(problem.arithmetic)) return make_tensor_plan(problem, device);
  return fastest(problem, device, [](Algo algo) { return algo != Algo::Naive; });
}

Plan make_plan(const Problem& problem, const DeviceInfo& device, Algo algo) {
  if (problem.arithmetic == Arithmetic::Fp16x3) return make_fp16x3_plan(problem, device);
  if (on_tensor_cores(problem.arithmetic)) return make_tensor_plan(problem, device, algo);
  return fastest(problem, device, [algo](Algo candidate) { return candidate == algo; });
}

}  // namespace tiled
