// Calls of torch's operators for scaled products: whether tiled computes one, and its computation.
// They have up to a dozen arguments, lists among them, whose types in C++ differ between versions
// of torch, so that they are read from the dispatcher's stack.
#pragma once

#include <ATen/core/ivalue.h>

#include "torch/override_request.h"

namespace tiled {

struct ScaledCall {
  at::Tensor a, b, scale_a, scale_b;
  ScaledOptions options;             // its names live forever
  std::optional<at::Tensor> out;     // C, resized where it does not fit
  Verdict verdict = Verdict::Tiled;  // as far as the other arguments decide it
};

// Who computes it, without having touched anything. What tiled refuses goes on to torch's kernel,
// which has its own words.
Verdict judge(const ScaledCall& asked, at::DeviceType device, const Products& products);

// Computes a call that judge() gives to tiled: C, or out.
at::Tensor compute(const ScaledCall& asked, const Products& products);

// A call of each operator asks for this. Fast accumulation is a permission, of which no use is
// made.
namespace asked {

using Arguments = c10::ArrayRef<c10::IValue>;

ScaledCall scaled(Arguments arguments);  // _scaled_mm
ScaledCall scaled_out(Arguments arguments);
ScaledCall scaled_by_recipes(Arguments arguments);  // _scaled_mm_v2
ScaledCall scaled_by_recipes_out(Arguments arguments);
ScaledCall scaled_groups(Arguments arguments);             // _scaled_grouped_mm
ScaledCall scaled_groups_by_recipes(Arguments arguments);  // _scaled_grouped_mm_v2

}  // namespace asked
}  // namespace tiled
