// Regions' operands copied to where the micro-kernel reads them.
#include "cpu/packed.h"
#include "cpu/region.h"

namespace tiled::cpu {
namespace {

constexpr int64_t PACK_ROWS = 8;    // rows of B read side by side
constexpr int64_t LONG_ROW = 1024;  // bytes of a row of B

}  // namespace

void Region::pack_a(const Step& step, Range rows, int64_t steps, char* packed) {
  const Strides& s = x_.a_strides;
  const Range k = step.k;
  const int64_t parts = x_.codec->parts;
  const int64_t first = x_.element_of(k.begin);
  const int64_t elements = std::min(x_.element_of(k.end), x_.depth) - first;
  const char* src = a_ + (rows.begin * s.row + first * s.col) * x_.element + step.part * x_.bytes;
  if (x_.a_by_k) {
    // Whole vectors where there are so many rows: the next tile's come along unused.
    const int64_t row = packed_a_column(x_);
    const int64_t cols = std::min(row, x_.m - rows.begin);
    x_.codec->pack_b({src, s.col, s.row, elements, cols, cols, packed, row, steps});
  } else {
    const int64_t row = packed_a_row(x_, k.size());
    x_.codec->pack_a(
        {src, s.row * parts, s.col * parts, rows.size(), elements, elements, packed, row, steps});
  }
}

void Region::pack_b(const Step& step, Range panel) {
  const Strides& s = x_.b_strides;
  const int64_t parts = x_.codec->parts;
  const int64_t first = x_.element_of(step.k.begin);
  const int64_t depth = round_up(step.k.size(), x_.codec->unit);  // steps
  const int64_t strip = packed_b_strip(x_, depth) * x_.bytes;
  const int64_t across = (x_.strip >> (parts - 1)) * s.col * x_.element;
  // Long rows of neighbours are read a few at a time from end to end; short ones, and columns, all
  // k of them.
  const PackFunction pack = step.part == 0 ? x_.codec->pack_b : x_.codec->pack_ib;
  const bool few = s.col == 1 && panel.size() * x_.bytes > LONG_ROW;
  const int64_t steps = few ? x_.steps_of(PACK_ROWS) : depth;
  for (int64_t p = 0; p < depth; p += steps) {
    const int64_t begin = first + x_.element_of(p);
    const int64_t end = first + x_.element_of(std::min(p + steps, depth));
    const int64_t rows = std::max<int64_t>(0, std::min(end, x_.depth) - begin);
    const char* src = b_ + (begin * s.row + (panel.begin >> (parts - 1)) * s.col) * x_.element;
    char* dst = packed_b_;
    for (int64_t j = panel.begin; j < panel.end; j += x_.strip, src += across, dst += strip) {
      const int64_t width = std::min(x_.strip, panel.end - j);
      const int64_t padded = width == x_.strip ? width : round_up(width, x_.kernels->lanes);
      pack({src, s.row, s.col, rows, width >> (parts - 1), padded, dst + p * padded * x_.bytes,
            padded, std::min(steps, depth - p)});
    }
  }
}

}  // namespace tiled::cpu
