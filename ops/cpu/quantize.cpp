// A tile of 128 x 128 is widened, and each line of it, a row or, for the transpose, a column, has a
// scale, or all of them the tile's.
#include "cpu/quantize.h"

#include <algorithm>

#include "core/scales.h"
#include "cpu/blocking.h"
#include "cpu/float_mode.h"
#include "cpu/fp8.h"

namespace tiled::cpu {
namespace {

constexpr int64_t SIDE = SCALE_BLOCK;

// The lines of a tile: `count` of `length` elements.
struct Lines {
  const float* x;
  int64_t count, length, line_stride, element_stride;

  float at(int64_t line, int64_t i) const { return x[line * line_stride + i * element_stride]; }

  // Sizes are compared as integers, of which NaN is the largest.
  uint32_t largest_of(int64_t line) const {
    uint32_t largest = 0;
    for (int64_t i = 0; i < length; ++i)
      largest = std::max(largest, elementary::bits_as<uint32_t>(at(line, i)) & 0x7fffffff);
    return largest;
  }
};

// data [line][element], whose lines are `pitch` bytes apart; scale [line], null if `square`.
void round_lines(const Lines& tile, const Quantization& p, uint8_t* data, int64_t pitch,
                 float* scale, float scale_of_tile) {
  const float most = largest_of(p.to);
  for (int64_t line = 0; line < tile.count; ++line) {
    float of_line = scale_of_tile;
    if (!p.square)
      scale[line] = of_line = scale_of(elementary::bits_as<float>(tile.largest_of(line)), most);
    const float inverse = 1 / of_line;
    for (int64_t i = 0; i < tile.length; ++i) {
      const float x = tile.at(line, i) * inverse;
      data[line * pitch + i] = rounded_to_fp8(x > most ? most : x < -most ? -most : x, p.to);
    }
  }
}

struct Work {
  const Quantization& p;
  const Codec& codec;
  int64_t row_blocks, column_blocks;
};

void run_tiles(void* state, int64_t begin, int64_t end) {
  const IeeeMode mode;
  const Work& work = *static_cast<const Work*>(state);
  const Quantization& p = work.p;
  alignas(64) float tile[SIDE * SIDE];
  for (int64_t at = begin; at < end; ++at) {
    const int64_t column_block = at % work.column_blocks, strip = at / work.column_blocks;
    const int64_t row_block = strip % work.row_blocks, entry = strip / work.row_blocks;
    const int64_t row = row_block * SIDE, column = column_block * SIDE;
    const int64_t rows = std::min(SIDE, p.rows - row), columns = std::min(SIDE, p.columns - column);
    const char* from = static_cast<const char*>(p.x) +
                       (entry * p.entry_stride + row * p.row_stride + column) * size_of(p.from);
    work.codec.widen({from, p.row_stride, 1, rows, columns, columns, tile, SIDE, columns});
    const Lines by_rows = {tile, rows, columns, SIDE, 1};
    float scale_of_tile = 0;
    if (p.square) {
      uint32_t largest = 0;
      for (int64_t i = 0; i < rows; ++i) largest = std::max(largest, by_rows.largest_of(i));
      scale_of_tile = scale_of(elementary::bits_as<float>(largest), largest_of(p.to));
      p.scale[at] = scale_of_tile;
    }
    const int64_t first = entry * p.rows * p.columns;
    const auto scales = [&](float* all, int64_t line) { return p.square ? nullptr : all + line; };
    round_lines(
        by_rows, p, static_cast<uint8_t*>(p.data) + first + row * p.columns + column, p.columns,
        scales(p.scale, (entry * work.column_blocks + column_block) * p.rows + row), scale_of_tile);
    if (p.data_t != nullptr)
      round_lines({tile, columns, rows, 1, SIDE}, p,
                  static_cast<uint8_t*>(p.data_t) + first + column * p.rows + row, p.rows,
                  scales(p.scale_t, strip * p.columns + column), scale_of_tile);
  }
}

}  // namespace

void quantize(const Quantization& p, const ParallelFor& parallel) {
  Work work = {p, chosen_level().chains->codecs[static_cast<int>(p.from)], ceil_div(p.rows, SIDE),
               ceil_div(p.columns, SIDE)};
  parallel.run(p.entries * work.row_blocks * work.column_blocks, run_tiles, &work);
}

}  // namespace tiled::cpu
