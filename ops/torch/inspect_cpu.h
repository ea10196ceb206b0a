// What explain() and plan() say of a product on the CPU.
#pragma once

#include <string>

#include "core/algo.h"
#include "core/problem.h"

namespace tiled {

std::string cpu_explain_text(const Problem& problem, Algo algo);

// One JSON object: device ("cpu"), algo, dtype, out_dtype, batch, m, n, k, segments, arithmetic
// ("fma" or "cpu16"); level, the one that runs these dtypes, and cpu_level, the CPU's own; threads;
// blocking, null where three loops run: {tile {m, n}, block_k, panel, exchanged, pack_a, pack_b,
// regions {m, n}}, sizes in elements of C and K, of C' = B' A' if exchanged; flops, and traffic
// {compulsory: {bytes, intensity}}.
std::string cpu_plan_json(const Problem& problem, Algo algo);

}  // namespace tiled
