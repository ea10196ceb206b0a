// Questions that are asked of precision 'fp16x3' from outside of its rung. Pure, as plan.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>

#include "cuda/plan/device.h"
#include "cuda/plan/plan.h"

namespace tiled {

// Whether three products of fp16 parts on tensor cores could be faster than fp32 by itself. They
// are not where sums in fp32 run at half the tensor cores' rate: there precision 'fp16x3' is for
// calls that ask for it, not for a setting.
inline bool fp16x3_pays(const DeviceInfo& device) {
  return device.tensor_flops / 3 > device.fp32_flops;
}

constexpr int64_t RECOMPUTED_AT = 4;  // bytes from Area::Guard

// The byte of the workspace from which on the guard counts the elements that it computes again, in
// 32 bits without a sign. Nothing where the plan has no product: all are computed so.
inline std::optional<int64_t> place_of_recomputed(const Plan& plan) {
  const auto multiplies = [](const Step& step) { return step.work == Work::Product; };
  if (std::none_of(std::begin(plan), std::end(plan), multiplies)) return std::nullopt;
  return plan.at(Area::Guard) + RECOMPUTED_AT;
}

}  // namespace tiled
