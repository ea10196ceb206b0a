// The CPU's rung that a call asks for, for the operator and for inspection.
#pragma once

#include <optional>
#include <string_view>

#include "core/algo.h"

namespace tiled {

// The rung of this name, or the default; refuses a name that is not a CPU rung's.
Algo cpu_algo(std::optional<std::string_view> asked);

}  // namespace tiled
