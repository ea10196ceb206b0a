// A way that was measured to be the fastest for a class of problems (tune), as a row of a rules
// file keeps it. Ways go by their names, so that a row outlives a version whose tiles are others.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/problem.h"
#include "cuda/plan/rung.h"

namespace tiled {

// Problems of one class have one fastest way, or nearly so: M exactly up to 64 and in steps of an
// eighth to a quarter above, so that a prompt of another length finds its neighbour's row; N, K and
// the batch exactly; the layouts of the operands and C, and how they are aligned; dtypes,
// arithmetic, and the kind of epilogue. A word without spaces.
std::string class_of(const Problem& problem);

struct MeasuredWay {
  Algo algo;
  NamedWay name;
  double seconds;            // of this way
  double estimated_seconds;  // measured, too: of the way that estimates alone would have taken
  std::string date;          // as 2026-11-26
};

// The part of a row after its class: what read_way() reads.
std::string text_of(const MeasuredWay& way);
std::optional<MeasuredWay> read_way(std::string_view text);

// The plan of a way by its name; none if the rung has no such way for the problem.
std::optional<Plan> plan_of_way(const Problem& problem, const DeviceInfo& device, Algo algo,
                                const NamedWay& name);

}  // namespace tiled
