// The description of a matrix that TMA is given; pure, so that a test without a GPU sees what would
// be encoded.
#pragma once

#include <cstdint>

#include "cuda/plan/sides.h"

namespace tiled {

// [batch][rows][columns], neighbours in a row next to each other.
struct MappedMatrix {
  const void* data;  // a multiple of 16 bytes
  int64_t columns, rows, batch;
  int64_t row_stride;    // elements; a multiple of 16 bytes
  int64_t batch_stride;  // elements; a multiple of 16 bytes
};

// An operand that is_mappable, of so many batch entries that differ.
inline MappedMatrix mapped(const Side& side, int64_t entries) {
  if (is_mn_major(side))
    return {side.data, side.rows, side.k, entries, side.k_stride, side.batch_stride};
  return {side.data, side.k, side.rows, entries, side.row_stride, side.batch_stride};
}

}  // namespace tiled
