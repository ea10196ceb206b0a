// A rung of the ladder as a value. The planner and the reports know rungs by this table alone, and
// the launch by its own (parts/launch/launch_rung.h); a further one is a folder below engine/ and
// a line in core/ladder.inc.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/algo.h"
#include "cuda/plan/cluster_plan.h"
#include "cuda/plan/plan.h"

namespace tiled {

// A reference to a function that is given ways one by one.
class Visit {
 public:
  template <typename Function>
  Visit(const Function& function)
      : state_(&function), call_([](const void* state, const Way& way) {
          (*static_cast<const Function*>(state))(way);
        }) {}
  void operator()(const Way& way) const { call_(state_, way); }

 private:
  const void* state_;
  void (*call_)(const void* state, const Way& way);
};

// Which calls get a rung: every one whose estimate is the least, or only one that asks for it by
// name.
enum class Use : int8_t { Chosen, ByName };

// A rung says this of a plan of its own, for reports.
struct Description {
  std::string kernel;  // as the compiler's report names it
  std::string tile;    // its name; "" for rungs of one tile
  // Elements of C that one thread owns, without swap_ab: report() exchanges these with it.
  int thread_m = 1, thread_n = 1;
  bool shares = true;  // a block's threads share what they load
  using Entries = std::vector<std::pair<std::string, std::string>>;
  Entries lines;  // of explain()'s table: a name, and what there is to say
  Entries json;  // of plan(): a key, and a value of JSON; no two rungs mean different things by one
};

// The name that tests, benchmarks and reports give a rung's way, as no other of its ways for a
// problem.
struct NamedWay {
  std::string tile;      // "" for rungs of one way
  bool swap_ab = false;  // B's transpose stands on the side that A has else
  int64_t cluster_p = 1, cluster_q = 1;
  bool split_k = false;  // split-K; for rungs that have stream-K, whether they use that
};
inline bool operator==(const NamedWay& x, const NamedWay& y) {
  return x.tile == y.tile && x.swap_ab == y.swap_ab && x.cluster_p == y.cluster_p &&
         x.cluster_q == y.cluster_q && x.split_k == y.split_k;
}

// Names a way of a rung that has no clusters.
inline NamedWay named_way(std::string tile, bool swap_ab, bool split_k) {
  return {std::move(tile), swap_ab, 1, 1, split_k};
}
inline NamedWay named_way(std::string_view tile, const ClusterPlan& plan, bool split_k) {
  return {std::string(tile), plan.swap_ab, plan.cluster_p, plan.cluster_q, split_k};
}

// Bits of Rung::takes: problems with groups, with scales, and whose K a tree sums.
constexpr int8_t TAKES_GROUPS = 1, TAKES_SCALES = 2, TAKES_TREES = 4;

struct Rung {
  Algo algo;
  Use use;
  bool (*supports)(const Problem& problem, const DeviceInfo& device);
  // Every way in which it can run a problem that it supports.
  void (*ways)(const Problem& problem, const DeviceInfo& device, Visit visit);
  Plan (*plan)(const Problem& problem, const DeviceInfo& device, const Way& way);
  Description (*describe)(const Problem& problem, const DeviceInfo& device, const Plan& plan);
  // Names one of its ways for the problem; a rung of one way need not.
  NamedWay (*name)(const Problem& problem, const Way& way) = [](const Problem&, const Way&) {
    return NamedWay{};
  };
  // Its tiles by Demand::variant, and in what manner they read where that matters: what the rules
  // have numbers for. Null for rungs of one tile.
  std::vector<std::string> (*variants)() = nullptr;
  int8_t takes = 0;  // besides plain products: supports() says which of them
};

// The ladder's rungs that have CUDA kernels, in core/ladder.inc's order.
struct Ladder {
  const Rung* const* first;
  int count;
  const Rung* const* begin() const { return first; }
  const Rung* const* end() const { return first + count; }
};
Ladder ladder();

// The names of a rung's variants; one name where it has one tile.
inline std::vector<std::string> variants_of(const Rung& rung) {
  return rung.variants != nullptr ? rung.variants() : std::vector<std::string>{"tile"};
}

// Null for the rungs of the CPU.
const Rung* rung_of(Algo algo);

}  // namespace tiled
