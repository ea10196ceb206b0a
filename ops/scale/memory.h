// How much memory an allocation takes.
//
// PyTorch's allocator counts in 512 bytes, and hands out a large block whole where the rest would
// be a MiB or less, instead of splitting it. What it counts may be that much more than what was
// asked for, with each allocation. So all matrices of a plan are one allocation, of which the plan
// leaves the rest free. (With PyTorch's defaults: its settings that round sizes up, or leave large
// blocks whole, may take more.)
#pragma once

#include <cstdint>

namespace tiled::scale {

constexpr int64_t MEMORY_STEP = 512;  // sizes are multiples of it, and so are addresses

// Bytes from the begin of one matrix to that of the next, in one allocation.
constexpr int64_t in_a_row(int64_t bytes) {
  return (bytes + MEMORY_STEP - 1) / MEMORY_STEP * MEMORY_STEP;
}

// The bytes that the allocator counts for a request of so many bytes, at most.
constexpr int64_t allocated_at_most(int64_t bytes) {
  constexpr int64_t LARGE = 1 << 20, UNSPLIT = 1 << 20;
  return in_a_row(bytes) + (bytes > LARGE ? UNSPLIT : 0);
}

}  // namespace tiled::scale
