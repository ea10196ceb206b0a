// tuning(): products measure their best ways as they are met; and the rules files in which what was
// measured is kept. The choice itself: cuda/plan/estimate.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>

#include "core/problem.h"
#include "cuda/plan/device.h"
#include "tiled_mm.h"

namespace tiled {

// Whether a block is open within which products are tuned, of any thread (tiled_mm.h).
bool is_tuning();

// Measures the best ways by estimate of a problem on the current stream of its GPU, and keeps the
// fastest, unless its class has been measured before or the stream is being captured. Operands are
// read, results go to scratch; it waits for the GPU.
void tune(const Problem& problem, const DeviceInfo& device, c10::DeviceIndex index);

// load_rules() at the begin of a program, by the environment's TILED_MM_RULES; warns where it
// cannot.
void load_rules_of_environment(const DeviceInfo& device);
// The text that save_rules() would write to a new file.
std::string rules_text(std::optional<std::string_view> device);

}  // namespace tiled
