// Which arithmetic a product runs. Asked per call, else by the library's setting, else by torch's;
// an explicit request that no kernel here can meet is an error, an ambient one falls back to ieee,
// so the arithmetic is never coarser than what the caller asked for.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "core/problem.h"
#include "cuda/plan/device.h"
#include "tiled_mm.h"

namespace tiled {

enum class Precision : int8_t { Ieee, Tf32, Fp16x3 };

// Where a product runs, as far as it decides the arithmetic.
struct Target {
  at::DeviceType type;
  const DeviceInfo* gpu = nullptr;  // null where there is none or it is not known
};

// The checked request of one call, as a name that lives forever: for float32 the precision that
// will run, for other dtypes what was asked. Autograd saves it for the backward.
// A rung that knows one arithmetic only decides where the precision is left open.
std::optional<std::string_view> resolve_precision(at::ScalarType dtype, Target target,
                                                  const MmOptions& options);

// The arithmetic of a call with these options.
Arithmetic resolve_arithmetic(at::ScalarType dtype, Target target, const MmOptions& options);

}  // namespace tiled
