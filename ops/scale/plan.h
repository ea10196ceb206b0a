// A product larger than a device's memory: which pieces of A, B and C are there at which time.
// Pure: sizes and rates in, a plan out. No tensor, no device.
//
// C is cut into tiles. Tile (i, j) needs rows i of A and columns j of B, and these cross the link
// from the host, which is far slower than the device computes; so the plan says what stays on the
// device while the rest streams past it. S counts elements of memory:
//
//   A stays   the rows of A are taken in groups of R, with all of K, and B streams past each group:
//               from the host   M K + ceil(M / R) K N       R about S / K
//   B stays   the same, turned round: K N + ceil(N / R) M K
//   C stays   a tile of C, T_m x T_n sums, while K goes by in pieces of A's rows and B's columns:
//               from the host   ceil(N / T_n) M K + ceil(M / T_m) K N
//             T_m = T_n = sqrt(S) gives 2 M N K / sqrt(S), the order of the least that any way of
//             computing the product can do (Hong and Kung, STOC 1981; Irony, Toledo and Tiskin,
//             J. Parallel Distrib. Comput. 64, 2004).
//
// and each element of C goes back once. The first two are the better ones where K is below about
// 2 sqrt(S), so that a tile's own sums would need more room than the rows that it is made of. The
// third is only there where the contract cuts K (core/segments.h): it takes K in whole segments,
// whose sums it adds in their order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace tiled::scale {

// Elements from one row of a matrix on the device to the next, where elements are contiguous along
// rows: long rows begin at multiples of 128 bytes, which the fast kernels want; short ones are side
// by side, so that they cross the link as one piece.
constexpr int64_t pitch_of(int64_t elements, int64_t element_bytes) {
  constexpr int64_t LONG = 1024, ALIGNED = 128;
  if (elements * element_bytes < LONG) return elements;
  const int64_t step = ALIGNED / element_bytes;
  return (elements + step - 1) / step * step;
}

// Bytes of such a matrix: `along` elements of each of its rows, and so many rows.
constexpr int64_t bytes_of(int64_t along, int64_t lines, int64_t element_bytes) {
  return pitch_of(along, element_bytes) * lines * element_bytes;
}

// The request.
struct Task {
  int64_t m, n, k;                       // all above 0
  bool a_along_k, b_along_k, c_along_n;  // where elements are neighbours, else along the other
  int64_t element_bytes;                 // of A and B
  int64_t result_bytes;                  // of an element of C
  int64_t sum_bytes;                     // of a sum before it is rounded to C's type
  bool cuts_k;                           // whether a tile may be made of K's segments
  bool maps;            // kernels read A and B where they are: nothing is copied to the device
  double flops;         // of the whole product
  int64_t devices = 1;  // that share out C's tiles
};

// The rates of one device and its link.
struct Rates {
  double to_device, to_host;  // bytes/s
  double flops;               // flop/s, at most
  double memory;              // bytes/s of its own memory
};

// The memory that the product of one tile [m, k] x [k, n] takes on the device.
struct Product {
  int64_t workspace_bytes;  // in addition to its operands
  double seconds;           // about
};
using ProductOf = std::function<Product(int64_t m, int64_t n, int64_t k)>;

enum class Stays : int8_t { A, B, C };

constexpr std::string_view name_of(Stays stays) {
  return stays == Stays::A ? "a" : stays == Stays::B ? "b" : "c";
}

struct Plan {
  Stays stays;
  int64_t block_m, block_n;  // a tile of C; the last ones of a row or column may be smaller
  int64_t block_k;           // K, or a multiple of SEGMENT_K where C stays
  int64_t tiles_m, tiles_n;
  int64_t steps_k;           // pieces of K a tile
  int64_t group;             // blocks of the operand that stays, done together; 1 where C stays
  int64_t slots_a, slots_b;  // blocks [block_m, block_k] and [block_k, block_n] on the device
  int64_t slots_c;           // tiles of C there, of the result's type
  bool keeps_totals;         // in addition: a tile of totals, where these have a type of their own
  bool keeps_parts;          // and one of a segment's sums, which are added to the totals
  int64_t matrix_bytes;      // of all of these, one after the other (scale/memory.h)
  int64_t workspace_bytes;   // at most, of one product
  int64_t device_bytes;      // what an allocator may take for both: what the plan needs
  int64_t bytes_in, bytes_out;  // over the link, if one device does it all

  double product_seconds;  // of a full block's product, its sums added

  double seconds_in, seconds_out, seconds_flops;  // each alone at its rate
  double seconds;  // of all, with what nothing hides: the first blocks, the last tile

  int64_t tiles() const { return tiles_m * tiles_n; }
};

// The plan of least time, and of little traffic where that costs next to no time, that needs at
// most `memory` bytes of the device. Each is gone through with a clock for the link each way and
// one for the arithmetic. Empty if there is none: not even the smallest tile fits.
std::optional<Plan> make_plan(const Task& task, const Rates& rates, int64_t memory,
                              const ProductOf& product);

// One tile of C.
struct Tile {
  int64_t i, j;   // its row and column of tiles
  int64_t group;  // that it is done in
};

// The tiles in the order in which one device does them, 0 <= index < plan.tiles(): group after
// group; the blocks that stream go past a group one after the other, and past the next one
// backwards, so that the last of them need not come again.
Tile tile_at(const Plan& plan, int64_t index);

// Tiles of one streaming block in the group of this tile.
int64_t tiles_of_a_column(const Plan& plan, int64_t index);

}  // namespace tiled::scale
