// The loops around the micro-kernel, over one region of C.
//
//     for cols of the region, a span of panels, and rows, a chunk of tiles, at a time: all, mostly
//       for k, a block at a time, never across a segment's end
//         for cols of the span, a panel at a time
//           pack b[k block][panel]                    stays in L2
//           for rows of the chunk, a tile (a few of them, where there are no more) at a time
//             pack a[tile][k block]                   stays in L1, is kept for the next panel
//             for cols of the panel, a tile (a strip of the panel) at a time
//               micro-kernel                          C stays in registers
//
// Packing copies an operand to where neighbours in use are neighbours in memory. It is left out
// where the operand can be read as it stands and would not be read often enough to pay for it.
#pragma once

#include "cpu/blocking.h"

namespace tiled::cpu {

class Region {
 public:
  // Rows and columns of C in entry `entry` of the batch.
  Region(const Blocking& blocking, int64_t entry, Range rows, Range cols);

  void run();

 private:
  struct Step {
    Range rows, cols, k;
    int64_t part;                  // of A's elements: 0, or of complex numbers also 1
    bool first_block, last_block;  // of its segment
    bool first_segment;
    bool last;  // of all: it leaves totals
  };
  // Where a tile's sums stand, and how far its rows are apart.
  struct Place {
    char* data;
    int64_t row;  // accumulators
  };

  void run_chunk(Range rows, Range cols);
  void run_step(const Step& step);
  void run_group(const Step& step, Range panel, const Range* group, int64_t count, char* packed_a);
  void run_tile(const Step& step, Tile& tile, Range rows, Range cols, int64_t vectors, Place total);
  void pack_a(const Step& step, Range rows, int64_t steps, char* packed);
  void pack_b(const Step& step, Range panel);
  Place waiting(const Step& step, int64_t i, int64_t j) const;
  Place total(const Step& step, int64_t i, int64_t j) const;
  Place chain(const Step& step, int64_t area, int64_t i, int64_t j) const;

  const Blocking& x_;
  int64_t entry_;
  Range rows_, cols_;
  const char *a_, *b_;  // of this entry
  char* c_;
  bool one_block_;  // all of K in one step
  int64_t chunk_;   // rows
  int64_t span_;    // columns
  bool keep_a_;     // a chunk's packed tiles, for several panels
  int64_t tile_a_;  // bytes of a packed tile of A
  char* packed_a_ = nullptr;
  char* packed_b_ = nullptr;
  // [chunk][span], one or two: chains that do not grow where their totals will be
  char* chains_ = nullptr;
  char* sums_ = nullptr;  // [chunk][span]: totals on their way to C, or of one tile
};

}  // namespace tiled::cpu
