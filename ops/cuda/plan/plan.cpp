// The choice of a rung and of its way to run a problem: one loop over the ladder, and its memory.
#include "cuda/plan/plan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "cuda/plan/conversion.h"
#include "cuda/plan/current_rules.h"
#include "cuda/plan/estimate.h"
#include "cuda/plan/measured.h"
#include "cuda/plan/memory_of_plans.h"
#include "cuda/plan/rung.h"

namespace tiled {
namespace {

static_assert(std::is_trivially_copyable_v<Plan>, "plain data, cheap to make and to remember");

// Everything that the choice depends on.
using Key = std::array<int64_t, 40>;

int64_t number_of(const Scales& scales) {
  return static_cast<int64_t>(scales.a.scaling) + 8 * static_cast<int64_t>(scales.b.scaling) +
         64 * static_cast<int64_t>(scales.b_dtype);
}

int64_t bits_of(double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

Key key_of(const Problem& p, const DeviceInfo& device, const Algo* asked) {
  return {p.batch, p.m, p.n, p.k, static_cast<int64_t>(p.dtype), static_cast<int64_t>(p.arithmetic),
          static_cast<int64_t>(p.epilogue.out_dtype), finishing_of(p.epilogue), p.a.row_stride,
          p.a.col_stride, p.a.batch_stride, p.a.alignment, p.b.row_stride, p.b.col_stride,
          p.b.batch_stride, p.b.alignment, p.c.row_stride, p.c.col_stride, p.c.batch_stride,
          p.c.alignment, asked == nullptr ? -1 : static_cast<int64_t>(*asked), device.capability,
          device.multiprocessors + (int64_t{device.left_free} << 32), device.threads_per_block,
          device.shared_bytes_per_block, device.hopper_kernels, device.l2_bytes,
          bits_of(device.fp32_flops), bits_of(device.fp64_flops), bits_of(device.fp64_tensor_flops),
          bits_of(device.tensor_flops), bits_of(device.memory_bandwidth), bits_of(device.clock_hz),
          device.shared_bytes_per_sm, device.shared_bytes_reserved,
          static_cast<int64_t>(p.groups.shared), number_of(p.scales), p.leaf,
          // It begins with 1, so that no key is all zeros, as a place's is that was never filled.
          rules_version()};
}

// A choice looks at up to hundreds of ways, in 16 bits some 100 microseconds' work; a program asks
// for the same few shapes again and again.
Plan remembered(const Problem& problem, const DeviceInfo& device, const Algo* asked) {
  static thread_local MemoryByKey<Key, Plan> plans;
  return plans.find(key_of(problem, device, asked),
                    [&] { return choose(problem, device, *current_rules(device), asked).plan; });
}

bool is_faster(const Conversion& conversion, const Problem& problem, const DeviceInfo& device) {
  const std::shared_ptr<const Rules> rules = current_rules(device);
  const MeasuredWay* const other = rules->measured(conversion.product);
  const MeasuredWay* const own = rules->measured(problem);
  const double passes = seconds_of_passes(conversion, *rules);
  if (other != nullptr && own != nullptr) return other->seconds + passes < own->seconds;
  const auto seconds_of = [&](const Problem& p) {
    const Plan plan = make_plan(p, device);
    return plan.step_count > 0 ? estimated_seconds(p, device, *rules, plan)
                               : std::numeric_limits<double>::infinity();
  };
  return seconds_of(conversion.product) + passes < seconds_of(problem);
}

bool takes(const Rung& rung, const Problem& problem, const DeviceInfo& device) {
  const auto may = [&](bool is_asked, int8_t bit) { return !is_asked || (rung.takes & bit) != 0; };
  return may(is_grouped(problem), TAKES_GROUPS) && may(is_scaled(problem), TAKES_SCALES) &&
         may(problem.leaf > 0, TAKES_TREES) && rung.supports(problem, device);
}

// visit(plan, seconds) for every way that may be chosen.
template <typename Function>
void for_each_way(const Problem& problem, const DeviceInfo& device, const Rules& rules,
                  const Algo* asked, Function visit) {
  const Problem judged = average_of(problem);
  for (const Rung* rung : ladder()) {
    const bool looks = asked != nullptr ? rung->algo == *asked
                                        : rung->use == Use::Chosen && takes(*rung, problem, device);
    if (!looks) continue;
    rung->ways(problem, device, [&](const Way& way) {
      const Plan plan = rung->plan(problem, device, way);
      visit(plan, estimated_seconds(judged, device, rules, plan));
    });
  }
}

}  // namespace

const Rung* rung_of(Algo algo) {
  for (const Rung* rung : ladder())
    if (rung->algo == algo) return rung;
  return nullptr;
}

Plan plan_of(Algo algo, const Way& way, const Problem& problem, bool swap_ab, int32_t block_p,
             int32_t block_q, int32_t block_k) {
  Plan plan{};
  plan.algo = algo, plan.way = way, plan.swap_ab = swap_ab;
  plan.block_m = swap_ab ? block_q : block_p, plan.block_n = swap_ab ? block_p : block_q;
  plan.block_k = block_k;
  plan.tiles_m = blocks_over(problem.m, plan.block_m);
  plan.tiles_n = blocks_over(problem.n, plan.block_n);
  return plan;
}

bool supports(Algo algo, const Problem& problem, const DeviceInfo& device) {
  const Rung* rung = rung_of(algo);
  return rung != nullptr && takes(*rung, problem, device);
}

Plan make_plan(const Problem& problem, const DeviceInfo& device) {
  return remembered(problem, device, nullptr);
}

Plan make_plan(const Problem& problem, const DeviceInfo& device, Algo algo) {
  return remembered(problem, device, &algo);
}

bool is_converted(const Problem& problem, const DeviceInfo& device) {
  if (!may_be_converted(problem)) return false;
  static thread_local MemoryByKey<Key, bool> known;
  return known.find(key_of(problem, device, nullptr), [&] {
    return has_conversion(problem) && is_faster(conversion_of(problem), problem, device);
  });
}

Choice choose(const Problem& problem, const DeviceInfo& device, const Rules& rules,
              const Algo* asked) {
  if (const MeasuredWay* way = asked == nullptr ? rules.measured(problem) : nullptr)
    if (const auto plan = plan_of_way(problem, device, way->algo, way->name))
      return {*plan, way->seconds};
  Choice best{};
  best.plan.algo = Algo::Blocked;  // the CPU's: no rung of a GPU
  best.seconds = std::numeric_limits<double>::infinity();
  for_each_way(problem, device, rules, asked, [&](const Plan& plan, double seconds) {
    if (seconds < best.seconds) best = {plan, seconds};
  });
  return best;
}

std::vector<Choice> ranked_ways(const Problem& problem, const DeviceInfo& device,
                                const Rules& rules, const Algo* asked) {
  std::vector<Choice> ways;
  for_each_way(problem, device, rules, asked,
               [&](const Plan& plan, double seconds) { ways.push_back({plan, seconds}); });
  std::stable_sort(ways.begin(), ways.end(),
                   [](const Choice& x, const Choice& y) { return x.seconds < y.seconds; });
  return ways;
}

int64_t finishing_of(const Epilogue& e) {
  if (e.is_identity()) return 0;
  constexpr int64_t READS_INPUT = 64;  // above all activations
  return 1 + 2 * static_cast<int64_t>(e.activation) + (e.pre_activation.data != nullptr) +
         (e.reads_input() ? READS_INPUT : 0);
}

NamedWay name_of_way(const Problem& problem, const Plan& plan) {
  return rung_of(plan.algo)->name(problem, plan.way);
}

}  // namespace tiled
