#include "cpu/region.h"

#include "cpu/scratch.h"

namespace tiled::cpu {
namespace {

constexpr int64_t SUMS_BYTES = 4 << 20;  // of sums that wait outside C
constexpr int64_t LINE = 64;             // bytes of a cache line
constexpr int64_t PACK_ROWS = 8;         // rows of B read side by side
constexpr int64_t LONG_ROW = 1024;       // bytes of a row of B

thread_local Scratch scratch;

// Packed rows of A and strips of B begin a line off a multiple of the cache's sets, so that they do
// not push each other out.
int64_t packed_a_row(const Blocking& x, int64_t k) {
  return round_up(round_up(k, x.codec->unit) * x.bytes, LINE) / x.bytes + LINE / x.bytes;
}
int64_t packed_a_column(const Blocking& x) { return round_up(x.tile_rows, x.kernels->lanes); }
int64_t packed_b_strip(const Blocking& x, int64_t k) {
  return round_up(k, x.codec->unit) * x.strip + LINE / x.bytes;
}

}  // namespace

Region::Region(const Blocking& x, int64_t entry, Range rows, Range cols)
    : x_(x),
      rows_(rows),
      cols_(cols),
      a_(x.a + entry * x.a_strides.batch * x.element),
      b_(x.b + entry * x.b_strides.batch * x.element),
      c_(x.c + entry * x.c_strides.batch * x.out_element),
      one_block_(x.k <= x.block_k),
      chunk_(rows.size()) {
  const bool many_segments = segment_count(x.depth) > 1;
  if (many_segments || (!x.direct_c && !one_block_))
    chunk_ = std::min(chunk_, round_up(SUMS_BYTES / (x.panel * x.bytes), x.tile_rows));

  const int64_t tile_a =
      x.a_by_k ? x.block_k * packed_a_column(x) : x.tile_rows * packed_a_row(x, x.block_k);
  tile_a_ = tile_a * x.bytes;
  const int64_t strips = ceil_div(x.panel, x.strip);
  const int64_t sums = one_block_ ? x.tile_rows * x.strip : chunk_ * x.panel;
  struct {
    char** place;
    int64_t bytes;
  } const wanted[] = {
      {&packed_a_, x.pack_a ? x.group * tile_a_ : 0},
      {&packed_b_, x.pack_b ? strips * packed_b_strip(x, x.block_k) * x.bytes : 0},
      {&chains_, many_segments ? chunk_ * x.panel * x.bytes : 0},
      {&sums_, x.direct_c ? 0 : sums * x.bytes},
  };
  int64_t bytes = 0;
  for (const auto& part : wanted) bytes += round_up(part.bytes, LINE);
  if (bytes == 0) return;
  char* place = scratch.reserve(bytes);
  for (const auto& part : wanted) {
    *part.place = place;
    place += round_up(part.bytes, LINE);
  }
}

void Region::run() {
  for (int64_t j = cols_.begin; j < cols_.end; j += x_.panel)
    for (int64_t i = rows_.begin; i < rows_.end; i += chunk_)
      run_chunk({i, std::min(rows_.end, i + chunk_)}, {j, std::min(cols_.end, j + x_.panel)});
}

void Region::run_chunk(Range rows, Range cols) {
  // K = 0 has no segment, and one empty step to write its zeros.
  const int64_t segments = std::max<int64_t>(1, segment_count(x_.depth));
  for (int64_t s = 0; s < segments; ++s) {
    const int64_t begin = x_.steps_of(segment_begin(s));
    const int64_t size = x_.steps_of(segment_end(s, x_.depth)) - begin;
    const int64_t blocks = std::max<int64_t>(1, ceil_div(size, x_.block_k));
    for (int64_t block = 0; block < blocks; ++block) {
      const Range k = piece(size, blocks, block, x_.unit_k);
      run_step({rows,
                cols,
                {begin + k.begin, begin + k.end},
                block == 0,
                block == blocks - 1,
                s == 0,
                s == segments - 1});
    }
  }
}

void Region::run_step(const Step& step) {
  if (x_.pack_b) pack_b(step);
  const int64_t tiles = ceil_div(step.rows.size(), x_.tile_rows);
  for (int64_t first = 0; first < tiles; first += x_.group) {
    Range group[MAX_GROUP];
    const int64_t count = std::min(x_.group, tiles - first);
    for (int64_t t = 0; t < count; ++t) {
      const Range rows = piece(step.rows.size(), tiles, first + t, x_.kernels->row_unit);
      group[t] = {step.rows.begin + rows.begin, step.rows.begin + rows.end};
    }
    run_group(step, group, count);
  }
}

void Region::pack_a(Tile& tile, Range rows, Range k, char* packed) {
  const Strides& s = x_.a_strides;
  const int64_t first = x_.element_of(k.begin);
  const int64_t elements = std::min(x_.element_of(k.end), x_.depth) - first;
  const char* src = a_ + (rows.begin * s.row + first * s.col) * x_.element;
  if (x_.a_by_k) {
    // Whole vectors where there are so many rows: the next tile's come along unused.
    tile.a_row = 1;
    tile.a_k = packed_a_column(x_);
    const int64_t cols = std::min(tile.a_k, x_.m - rows.begin);
    x_.codec->pack_b({src, s.col, s.row, elements, cols, cols, packed, tile.a_k, tile.k});
  } else {
    tile.a_row = packed_a_row(x_, k.size());
    tile.a_k = 1;
    x_.codec->pack_a(
        {src, s.row, s.col, rows.size(), elements, elements, packed, tile.a_row, tile.k});
  }
}

void Region::pack_b(const Step& step) {
  const Strides& s = x_.b_strides;
  const int64_t parts = x_.codec->parts;
  const int64_t first = x_.element_of(step.k.begin);
  const int64_t depth = round_up(step.k.size(), x_.codec->unit);  // steps
  // Long rows of neighbours are read a few at a time from end to end; short ones, and columns, all
  // k of them.
  const bool few = s.col == 1 && step.cols.size() * x_.bytes > LONG_ROW;
  const int64_t steps = few ? PACK_ROWS * parts / x_.codec->pair : depth;
  for (int64_t p = 0; p < depth; p += steps)
    for (int64_t j = step.cols.begin; j < step.cols.end; j += x_.strip) {
      const int64_t width = std::min(x_.strip, step.cols.end - j);
      const int64_t padded = round_up(width, x_.kernels->lanes);
      const int64_t index = (j - step.cols.begin) / x_.strip;
      const int64_t begin = first + x_.element_of(p);
      const int64_t end = first + x_.element_of(std::min(p + steps, depth));
      const int64_t rows = std::max<int64_t>(0, std::min(end, x_.depth) - begin);
      const char* src = b_ + (begin * s.row + j / parts * s.col) * x_.element;
      char* dst = packed_b_ + (index * packed_b_strip(x_, depth) + p * padded) * x_.bytes;
      x_.codec->pack_b({src, s.row, s.col, rows, width / parts, padded, dst, padded,
                        std::min(steps, depth - p)});
    }
}

Region::Place Region::total(const Step& step, int64_t i, int64_t j) const {
  if (x_.direct_c) {
    const int64_t row = x_.c_strides.row * x_.out->parts;
    return {c_ + (i * row + j) * x_.bytes, row};
  }
  if (one_block_) return {sums_, x_.strip};
  const int64_t at = (i - step.rows.begin) * x_.panel + j - step.cols.begin;
  return {sums_ + at * x_.bytes, x_.panel};
}

// A strip's rows are far apart, and no hardware looks ahead along so many of them.
void Region::fetch_ahead(const Tile& tile) const {
  const char* row = static_cast<const char*>(tile.b) + x_.ahead;
  for (int64_t p = 0; p < tile.k; ++p, row += tile.b_k * x_.element)
    for (int64_t at = 0; at < x_.strip * x_.element; at += LINE) __builtin_prefetch(row + at);
}

// One tile, whose sums end in `total`. A first segment's chains grow there too; later ones' in
// their own place.
inline __attribute__((always_inline)) void Region::run_tile(const Step& step, Tile& tile,
                                                            Range rows, Range cols, int64_t vectors,
                                                            Place total) {
  Place place = total;
  if (!step.first_segment) {
    const int64_t at = (rows.begin - step.rows.begin) * x_.panel + cols.begin - step.cols.begin;
    place = {chains_ + at * x_.bytes, x_.panel};
  }
  tile.rows = static_cast<int32_t>(rows.size());
  tile.start = step.first_block ? nullptr : place.data;
  tile.start_row = place.row;
  if (step.last_block) place = total;
  tile.out = place.data;
  tile.out_row = place.row;
  const TileKernel kernel =
      x_.dot ? x_.codec->dot_tile[rows.size()] : x_.kernels->tile[rows.size()][vectors];
  kernel(tile);

  if (!x_.direct_c && step.last_block && step.last_segment) {
    const Strides& s = x_.c_strides;
    const int64_t parts = x_.out->parts;
    char* c = c_ + (rows.begin * s.row + cols.begin / parts * s.col) * x_.out_element;
    x_.out->store({total.data, total.row, rows.size(), cols.size() / parts, c, s.row, s.col});
  }
}

// Tiles below each other, strip after strip of the panel.
void Region::run_group(const Step& step, const Range* group, int64_t count) {
  Tile tile = {};
  tile.k = round_up(step.k.size(), x_.codec->unit);
  tile.padded = x_.pack_b;
  tile.add = step.last_block && !step.first_segment;
  const char* a[MAX_GROUP];
  for (int64_t t = 0; t < count; ++t) {
    const Strides& s = x_.a_strides;
    if (x_.pack_a) {
      a[t] = packed_a_ + t * tile_a_;
      pack_a(tile, group[t], step.k, packed_a_ + t * tile_a_);
    } else {
      tile.a_row = s.row * x_.codec->parts / x_.codec->pair;
      tile.a_k = s.col;
      a[t] = a_ + (group[t].begin * s.row + x_.element_of(step.k.begin) * s.col) * x_.element;
    }
  }

  for (int64_t j = step.cols.begin; j < step.cols.end; j += x_.strip) {
    const Range cols = {j, std::min(step.cols.end, j + x_.strip)};
    const int64_t vectors = ceil_div(cols.size(), x_.kernels->lanes);
    tile.last = static_cast<int32_t>(cols.size() - (vectors - 1) * x_.kernels->lanes);
    if (x_.pack_b) {
      const int64_t index = (j - step.cols.begin) / x_.strip;
      tile.b = packed_b_ + index * packed_b_strip(x_, tile.k) * x_.bytes;
      tile.b_k = vectors * x_.kernels->lanes;
    } else {
      const Strides& s = x_.b_strides;
      tile.b = b_ + (x_.element_of(step.k.begin) * s.row + j * s.col) * x_.element;
      tile.b_k = x_.dot ? s.col / x_.codec->pair : s.row;
      if (x_.ahead > 0) fetch_ahead(tile);
    }
    Place place = total(step, group[0].begin, j);
    for (int64_t t = 0; t < count; ++t) {
      const Place next =
          t + 1 < count ? total(step, group[t].end, j) : total(step, group[0].begin, cols.end);
      tile.a = a[t];
      tile.next = next.data;  // of no use past the last strip
      run_tile(step, tile, group[t], cols, vectors, place);
      place = next;
    }
  }
}

}  // namespace tiled::cpu
