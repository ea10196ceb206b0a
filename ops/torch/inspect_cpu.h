// explain() and plan() say this of a product on the CPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/algo.h"
#include "core/problem.h"

namespace tiled {

std::string cpu_explain_text(const Problem& problem, Algo algo);

// One JSON object: device ("cpu"), algo, dtype, out_dtype, batch, m, n, k, segments, arithmetic
// ("fma" or "cpu16"); level, the one that runs these dtypes, and cpu_level, the CPU's own; threads;
// blocking, null where three loops run: {tile {m, n}, block_k, panel, group, ahead, swap_ab,
// pack_a, pack_b, regions {m, n}}, sizes in elements of C and K, of C' = B' A' if swap_ab, group
// in tiles and ahead in bytes (cpu/blocking.h); flops, and traffic {compulsory: {bytes,
// intensity}}.
std::string cpu_plan_json(const Problem& problem, Algo algo);

// A number behind the choice of a blocking (cpu/budgets.inc), counted from 0, after which it is
// `value` if there is one. To measure with: no product may run meanwhile.
int64_t cpu_budget(int64_t number, int64_t column, std::optional<int64_t> value);

}  // namespace tiled
