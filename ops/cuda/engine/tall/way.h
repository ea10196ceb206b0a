// How rung tall runs a problem, and what its kernel is given.
#pragma once

#include "core/problem.h"

namespace tiled {

// How lines of the long operand come to shared memory. A line is contiguous along k, or along m.
enum class TallRead : int8_t {
  Sixteen,   // cp.async of 16 bytes: every line begins at a multiple of them
  Shifted,   // the same from the multiple before a line, which then begins behind it
  Elements,  // one by one: neighbours are not side by side
};

struct TallWay {
  int8_t tile;   // of TallTiles
  bool swap_ab;  // B is the long operand, and C's transpose is computed
  TallRead read;
  int8_t lanes;       // of a warp, side by side along a line: so many bits
  int32_t panel_k;    // of K, that the short operand's panel in shared memory holds
  int32_t sharers;    // blocks that share the strips of an entry
  int32_t in_flight;  // entries of the batch
};

struct TallArguments {
  Problem problem;  // whose A is the long operand
  void* totals;     // in the workspace (plan/candidate.h, add_product), where they wait
  TallRead read;
  int8_t lanes;
  int32_t panel_k;
  int32_t columns;  // tiles side by side
  int32_t sharers;
};

}  // namespace tiled
