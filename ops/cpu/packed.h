// Where packed operands stand.
#pragma once

#include "cpu/blocking.h"

namespace tiled::cpu {

// Packed rows of A are an odd number of lines apart, which reaches all of the cache's sets before
// it comes back to one, and strips of B begin a line off a multiple of the sets, so that they do
// not push each other out.
inline int64_t packed_a_row(const Blocking& x, int64_t k) {
  return (ceil_div(round_up(k, x.codec->unit) * x.bytes, LINE) | 1) * (LINE / x.bytes);
}
inline int64_t packed_a_column(const Blocking& x) {
  return round_up(x.tile_rows, x.kernels->lanes);
}
inline int64_t packed_b_strip(const Blocking& x, int64_t k) {
  return round_up(k, x.codec->unit) * x.strip + LINE / x.bytes;
}

}  // namespace tiled::cpu
