// The plan of a way by its name, for the operators that run one whatever the planner would choose.
#pragma once

#include <c10/util/Exception.h>

#include <optional>
#include <string>
#include <string_view>

#include "cuda/plan/measured.h"
#include "cuda/plan/rung.h"

namespace tiled {

// The rung is the one that is asked for, else the only one that has a way of this name. Tiles have
// names of their own; rungs of one tile have none, and several may share that.
inline Plan plan_by_name(const Problem& problem, const DeviceInfo& device,
                         std::optional<std::string_view> algo, const NamedWay& name) {
  const std::string way = name.tile + (name.swap_ab ? ", swap_ab" : "") + ", cluster " +
                          std::to_string(name.cluster_p) + " x " + std::to_string(name.cluster_q) +
                          (name.split_k ? ", split_k" : "");
  std::optional<Plan> found;
  for (const Rung* rung : ladder()) {
    if (algo && *algo != name_of(rung->algo)) continue;
    const std::optional<Plan> plan = plan_of_way(problem, device, rung->algo, name);
    if (!plan) continue;
    TORCH_CHECK(!found, "tiled_mm: both ", name_of(found->algo), " and ", name_of(rung->algo),
                " have a way ", way, " for this problem; name one of them, as algo");
    found = plan;
  }
  TORCH_CHECK(found, "tiled_mm: ", algo.value_or("the ladder"), " has no way ", way,
              " for this problem");
  return *found;
}

}  // namespace tiled
