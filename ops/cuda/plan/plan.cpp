// The choice of a rung and of its way to run a problem: one loop over the ladder.
#include "cuda/plan/plan.h"

#include <array>
#include <cstring>

#include "cuda/plan/estimate.h"
#include "cuda/plan/rung.h"

namespace tiled {
namespace {

static_assert(std::is_trivially_copyable_v<Plan>, "plain data, cheap to make and to remember");

// A rung, and its way to run the problem.
struct Choice {
  const Rung* rung = nullptr;  // null: none can
  Way way{};
  double cycles = BY_NAME_ONLY;
};

Choice fastest(const Problem& problem, const DeviceInfo& device, const Algo* asked) {
  Choice best;
  for (const Rung* rung : ladder()) {
    if (asked != nullptr ? rung->algo != *asked : !rung->supports(problem, device)) continue;
    rung->ways(problem, device, [&](const Way& way, double cycles) {
      // A tie goes to the higher rung, and to the first of its ways.
      const bool higher = best.rung != rung && cycles == best.cycles && cycles != BY_NAME_ONLY;
      if (cycles >= best.cycles && !higher && !(asked != nullptr && best.rung == nullptr)) return;
      best = {rung, way, cycles};
    });
  }
  return best;
}

Plan planned(const Problem& problem, const DeviceInfo& device, const Choice& best) {
  if (best.rung != nullptr) return best.rung->plan(problem, device, best.way);
  Plan none{};
  none.algo = Algo::Blocked;  // the CPU's: no rung of a GPU
  return none;
}

// Everything that the choice depends on.
using Key = std::array<int64_t, 35>;

int64_t bits_of(double value) {
  int64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// What the models ask of an epilogue: whether there is one, which activation it has, and whether it
// keeps the values before.
int64_t finishing_of(const Epilogue& e) {
  if (e.is_identity()) return 0;
  return 1 + 2 * static_cast<int64_t>(e.activation) + (e.before.data != nullptr);
}

Key key_of(const Problem& p, const DeviceInfo& device, const Algo* asked) {
  return {p.batch, p.m, p.n, p.k, static_cast<int64_t>(p.dtype), static_cast<int64_t>(p.arithmetic),
          static_cast<int64_t>(p.epilogue.out_dtype), finishing_of(p.epilogue), p.a.row_stride,
          p.a.col_stride, p.a.batch_stride, p.a.alignment, p.b.row_stride, p.b.col_stride,
          p.b.batch_stride, p.b.alignment, p.c.row_stride, p.c.col_stride, p.c.batch_stride,
          p.c.alignment, asked == nullptr ? -1 : static_cast<int64_t>(*asked), device.capability,
          device.multiprocessors, device.threads_per_block, device.shared_bytes_per_block,
          device.hopper_kernels, device.l2_bytes, bits_of(device.fp32_flops),
          bits_of(device.fp64_flops), bits_of(device.fp64_tensor_flops),
          bits_of(device.tensor_flops), bits_of(device.memory_bandwidth),
          bits_of(device.power_limit),
          // so that no key is all zeros, as those of entries are that were never filled
          1};
}

// The models look at up to hundreds of ways, some microseconds' work; a program asks for the same
// few shapes again and again.
Plan remembered(const Problem& problem, const DeviceInfo& device, const Algo* asked) {
  struct Entry {
    Key key{};
    Plan plan{};
  };
  constexpr size_t ENTRIES = 64;  // of each thread
  static thread_local std::array<Entry, ENTRIES> entries;
  const Key key = key_of(problem, device, asked);
  uint64_t hash = 0;
  for (const int64_t value : key)
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15u;
  Entry& entry = entries[hash >> 58];
  if (entry.key != key) entry = {key, planned(problem, device, fastest(problem, device, asked))};
  return entry.plan;
}

}  // namespace

const Rung* rung_of(Algo algo) {
  for (const Rung* rung : ladder())
    if (rung->algo == algo) return rung;
  return nullptr;
}

bool supports(Algo algo, const Problem& problem, const DeviceInfo& device) {
  const Rung* rung = rung_of(algo);
  return rung != nullptr && rung->supports(problem, device);
}

Plan make_plan(const Problem& problem, const DeviceInfo& device) {
  return remembered(problem, device, nullptr);
}

Plan make_plan(const Problem& problem, const DeviceInfo& device, Algo algo) {
  return remembered(problem, device, &algo);
}

EstimatedPlan estimated_plan(const Problem& problem, const DeviceInfo& device) {
  const Choice best = fastest(problem, device, nullptr);
  return {planned(problem, device, best), best.cycles < LAST_RESORT ? best.cycles : 0};
}

}  // namespace tiled
