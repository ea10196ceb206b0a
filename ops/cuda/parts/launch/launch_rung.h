// The functions by which cuda/launch/launch.cpp knows a rung, and its steps of a call.
#pragma once

#include "cuda/parts/launch/launch.h"
#include "cuda/plan/copies.h"
#include "cuda/plan/hand_over.h"
#include "cuda/plan/sums.h"
#include "cuda/plan/swap_ab.h"

namespace tiled {

struct Call {
  const Problem& problem;
  const Plan& plan;
  Problem read;  // as the product reads it
  char* workspace;
  cudaStream_t stream;

  template <typename T>
  T* at(Area area) const {
    return reinterpret_cast<T*>(workspace + plan.at(area));
  }
  HandOver hand_over() const {
    return hand_over_at(workspace, plan.at(Area::Totals), plan.at(Area::Words));
  }
};
inline Call call_of(const Problem& problem, const Plan& plan, void* workspace = nullptr,
                    cudaStream_t stream = nullptr) {
  auto* const bytes = static_cast<char*>(workspace);
  return {problem, plan, problem_as_read(problem, plan, bytes), bytes, stream};
}

// The problem as the product's kernel has it whose sums a pass adds.
inline Problem problem_of_pass(const Call& call, const Step& pass) {
  return pass.key == TRANSPOSED ? with_ab_swapped(call.problem) : call.problem;
}

struct RungLaunch {
  // Enqueues one step: a product, or one of Work::Split and Work::Guard. All others are the same
  // for every rung (launch/launch.cpp).
  cudaError_t (*launch)(const Call& call, const Step& step);
  // The kernel of the plan's main step.
  const void* (*kernel)(const Call& call);
};

// Steps that are the same for every rung (repack.cu of copy/, clear_words.cu and sum_segments.cu).
cudaError_t launch_copies(const Call& call, const Step& step);
cudaError_t launch_clear_words(const Call& call, const Step& step);
// C = round(((0 + sums[0]) + sums[1]) + ...), sums as sums_layout() has them.
cudaError_t launch_sums(const Call& call, const Step& step);

template <typename Arguments>
const void* address_of(Kernel<Arguments> kernel) {
  return reinterpret_cast<const void*>(kernel);
}

}  // namespace tiled
