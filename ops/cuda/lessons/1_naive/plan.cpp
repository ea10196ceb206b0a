// Rung naive as the planner sees it.
#include "cuda/plan/candidate.h"
#include "cuda/plan/kernel_name.h"
#include "cuda/plan/rung.h"

namespace tiled {
namespace {

constexpr Candidate CANDIDATE = {16, 16, 1, 16, 16, 0, 8};

bool supports(const Problem& problem, const DeviceInfo& device) {
  return is_of_chains(problem, device) && can_launch(CANDIDATE, problem, device);
}

void ways(const Problem&, const DeviceInfo&, Visit visit) { visit(Way()); }

Plan plan(const Problem& problem, const DeviceInfo& device, const Way& way) {
  Plan plan = plan_of(Algo::Naive, CANDIDATE, problem, way);
  plan.add(product_of(CANDIDATE, plan, problem, device));
  return plan;
}

Description describe(const Problem& problem, const DeviceInfo&, const Plan&) {
  Description d;
  d.kernel = std::string("naive<") + element_type(problem) + ">";
  d.shares = false;
  return d;
}

}  // namespace

extern const Rung NaiveRung = {Algo::Naive, Use::ByName, &supports, &ways, &plan, &describe};

}  // namespace tiled
