// Problems, devices and reports for the planner's tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "core/problem.h"
#include "cuda/engine/fp16x3/layout.h"
#include "cuda/engine/hopper/plan.h"
#include "cuda/engine/mma_tile/tiles.h"
#include "cuda/engine/mma_tile/way.h"
#include "cuda/engine/register_tile/way.h"
#include "cuda/plan/device.h"
#include "cuda/plan/rung.h"
#include "explain/report.h"

namespace tiled::test {

constexpr int64_t KIB = 1024;  // bytes
constexpr double GIGA = 1e9;
// The rungs of every GPU, which take every dtype in Arithmetic::Fma.
constexpr Algo CUDA_ALGOS[] = {
#define CPU_RUNG(algo, name, is_lesson)
#define GPU_RUNG(algo, name, is_lesson) Algo::algo,
#define ASYNC_RUNG(algo, name, is_lesson)
#define HOPPER_RUNG(algo, name, is_lesson)
#include "core/ladder.inc"
};
constexpr DType TENSOR_DTYPES[] = {DType::Float16, DType::BFloat16, DType::Float32};

inline DeviceInfo device(const char* name) { return named_device(name).value(); }

using Algos = std::vector<Algo>;

// The rungs that compute the problem, in the order of the ladder.
inline Algos supported_algos(const Problem& problem, const DeviceInfo& device) {
  Algos algos;
  for (const Rung* rung : ladder())
    if (rung->supports(problem, device)) algos.push_back(rung->algo);
  return algos;
}

inline bool is_in(const Algos& rungs, Algo algo) {
  return std::find(rungs.begin(), rungs.end(), algo) != rungs.end();
}

// The rungs that take inputs of a type on tensor cores; with `any_layout` only those that read
// operands of any layout.
inline Algos tensor_algos(bool any_layout = false, DType dtype = DType::BFloat16) {
  Algos algos;
  for (Algo algo : ALL_ALGOS)
    if (on_tensor_cores(algo) && algo != Algo::Fp16x3 &&
        !(algo == Algo::Tall && dtype == DType::Float32) &&
        !(any_layout && (algo == Algo::TmaWgmma || algo == Algo::WarpSpecialized)))
      algos.push_back(algo);
  return algos;
}

// Row-major and contiguous.
inline Problem problem_of(int64_t m, int64_t n, int64_t k, DType dtype = DType::Float32,
                          int64_t batch = 1) {
  Problem p{};
  p.batch = batch;
  p.m = m, p.n = n, p.k = k;
  p.dtype = dtype;
  p.arithmetic = Arithmetic::Fma;
  p.a = {nullptr, k, 1, m * k, alignment_of(nullptr, dtype, k, 1, m * k)};
  p.b = {nullptr, n, 1, k * n, alignment_of(nullptr, dtype, n, 1, k * n)};
  p.c = {nullptr, n, 1, m * n, alignment_of(nullptr, dtype, n, 1, m * n)};
  p.epilogue.out_dtype = dtype;
  return p;
}

// The same with A, B or both seen through a transpose, as BLAS letters say.
inline Problem problem_of(const std::string& layout, int64_t m, int64_t n, int64_t k, DType dtype) {
  Problem p = problem_of(m, n, k, dtype);
  if (layout[0] == 't') p.a = {nullptr, 1, m, m * k, alignment_of(nullptr, dtype, m, 1, m * k)};
  if (layout[1] == 't') p.b = {nullptr, 1, k, k * n, alignment_of(nullptr, dtype, k, 1, k * n)};
  return p;
}

// The same on tensor cores; fp32 as tf32.
inline Problem tensor_problem(const std::string& layout, int64_t m, int64_t n, int64_t k,
                              DType dtype = DType::BFloat16) {
  Problem p = problem_of(layout, m, n, k, dtype);
  p.arithmetic = dtype == DType::Float32 ? Arithmetic::Tf32 : Arithmetic::Tensor;
  return p;
}

// A problem of aligned operands with one of them changed.
template <typename Change>
Problem changed(const char* layout, Change change) {
  Problem p = tensor_problem(layout, 64, 128, 256);
  change(p);
  return p;
}

// fp32 in two fp16 parts.
inline Problem parts_problem(const std::string& layout, int64_t m, int64_t n, int64_t k) {
  Problem p = problem_of(layout, m, n, k, DType::Float32);
  p.arithmetic = Arithmetic::Fp16x3;
  return p;
}

inline HopperPlan hopper_of(const Plan& plan) { return plan.way.as<HopperPlan>(); }
inline bool copies_p(const HopperPlan& plan) { return plan.copy_p != CopyTo::Nothing; }
inline bool copies_q(const HopperPlan& plan) { return plan.copy_q != CopyTo::Nothing; }
inline Fp16x3Plan fp16x3_of(const Plan& plan) { return plan.way.as<Fp16x3Plan>(); }

// Whether a plan has split-K: then its last kernel adds the sums of segments.
inline bool is_split_k(const Plan& plan) {
  return plan.step_count > 1 && plan.end()[-1].work == Work::Sums;
}

// Others than register_tile, and mma_tile in fp64, have no choice.
inline Accesses access_of(const Plan& plan) {
  if (plan.way.is<RegisterTileWay>()) return plan.way.as<RegisterTileWay>().access;
  if (plan.way.is<Fp64Way>()) return plan.way.as<Fp64Way>().access;
  return {Access::Elements, Access::Elements};
}
// fp64's tile of mma_tile.
inline std::string fp64_tile_of(const Plan& plan) {
  return std::string(tile_name_of(Fp64Tiles(), plan.way.as<Fp64Way>().tile));
}
inline RegisterTileWay register_of(const Plan& plan) { return plan.way.as<RegisterTileWay>(); }

// The plan with this way to run the rung.
template <typename T>
Plan plan_with(Algo algo, const Problem& p, const DeviceInfo& d, const T& way) {
  return rung_of(algo)->plan(p, d, Way(way));
}

// Every way of a rung that supports the problem, as a plan; else none.
inline std::vector<Plan> plans_of(Algo algo, const Problem& p, const DeviceInfo& d) {
  std::vector<Plan> plans;
  const Rung& rung = *rung_of(algo);
  if (rung.supports(p, d))
    rung.ways(p, d, [&](const Way& way) { plans.push_back(rung.plan(p, d, way)); });
  return plans;
}

// The way of this tile, as its name has it, that is without swap_ab, split-K and a cluster.
inline Plan plan_of_tile(Algo algo, const std::string& tile, const Problem& p,
                         const DeviceInfo& d) {
  const NamedWay wanted = named_way(tile, /*swap_ab=*/false, /*split_k=*/false);
  for (const Plan& plan : plans_of(algo, p, d))
    if (rung_of(algo)->name(p, plan.way) == wanted) return plan;
  ADD_FAILURE() << name_of(algo) << " has no way of the name " << tile;
  return {};
}

inline std::vector<HopperPlan> hopper_plans(const Problem& p, const DeviceInfo& d) {
  std::vector<HopperPlan> plans;
  for (const Plan& plan : plans_of(Algo::Hopper, p, d)) plans.push_back(hopper_of(plan));
  return plans;
}

// Every way of fp16x3 but those of few rows.
inline std::vector<Fp16x3Plan> fp16x3_plans(const Problem& p, const DeviceInfo& d) {
  std::vector<Fp16x3Plan> plans;
  for (const Plan& plan : plans_of(Algo::Fp16x3, p, d))
    if (fp16x3_of(plan).kernel != Fp16x3Kernel::FewRows) plans.push_back(fp16x3_of(plan));
  return plans;
}

// Sizes spread over their logarithms, a third of them multiples of 8; any layout, dtype and
// arithmetic, some of them batches.
inline Problem drawn_problem(std::mt19937_64& random) {
  const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
  const auto size = [&](int bits) {
    const int64_t power = int64_t{1} << below(bits), size = power + below(power);
    return below(3) == 0 ? (size + 7) / 8 * 8 : size;
  };
  constexpr const char* LAYOUTS[] = {"nn", "nt", "tn", "tt"};
  constexpr DType MORE[] = {DType::Float32, DType::Float16, DType::BFloat16, DType::Float64};
  const DType dtype = below(4) == 0 ? ALL_DTYPES[below(11)] : MORE[below(4)];
  const char* layout = LAYOUTS[below(4)];
  const int64_t m = size(15), n = size(15), k = size(17);
  Problem p = problem_of(layout, m, n, k, dtype);
  if (below(4) == 0) p.batch = 2 + below(4);
  if (dtype == DType::Float16 || dtype == DType::BFloat16) p.arithmetic = Arithmetic::Tensor;
  constexpr Arithmetic OF_FP32[] = {Arithmetic::Fma, Arithmetic::Tf32, Arithmetic::Fp16x3};
  if (dtype == DType::Float32) p.arithmetic = OF_FP32[below(3)];
  return p;
}

inline PlanReport report_of(const char* name, Algo algo, const Problem& p) {
  const DeviceInfo d = device(name);
  return report(p, d, make_plan(p, d, algo));
}

}  // namespace tiled::test
