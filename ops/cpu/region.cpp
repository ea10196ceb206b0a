#include "cpu/region.h"

#include "cpu/finish.h"
#include "cpu/packed.h"
#include "cpu/scratch.h"

namespace tiled::cpu {
namespace {

constexpr int64_t SUMS_BYTES = 4 << 20;       // of sums that wait outside C,
constexpr int64_t SUMS_ROWS = 256;            // and of so many rows at least
constexpr int64_t PACKED_A_BYTES = 16 << 20;  // of A, kept for several panels

thread_local Scratch scratch;

}  // namespace

Region::Region(const Blocking& x, int64_t entry, Range rows, Range cols)
    : x_(x),
      entry_(entry),
      rows_(rows),
      cols_(cols),
      a_(x.a + entry * x.a_strides.batch * x.element),
      b_(x.b + entry * x.b_strides.batch * x.element),
      c_(x.c + entry * x.c_strides.batch * x.out_element),
      one_block_(x.k <= x.block_k && x.codec->parts == 1),
      chunk_(rows.size()),
      span_(cols.size()) {
  const bool many_segments = segment_count(x.depth) > 1;
  const bool has_chains = many_segments || (x.codec->parts > 1 && x.k > x.block_k);
  if (has_chains || (!x.direct_c && !one_block_)) {
    const int64_t area = SUMS_BYTES / x.bytes;
    chunk_ = std::min(chunk_, round_up(std::max(SUMS_ROWS, area / span_), x.tile_rows));
    span_ = std::min(span_, std::max(x.panel, area / chunk_ / x.panel * x.panel));
  }
  const int64_t tile_a =
      x.a_by_k ? x.block_k * packed_a_column(x) : x.tile_rows * packed_a_row(x, x.block_k);
  tile_a_ = tile_a * x.bytes;
  keep_a_ = x.pack_a && span_ > x.panel;
  if (keep_a_)
    chunk_ = std::min(chunk_, std::max<int64_t>(x.group, PACKED_A_BYTES / tile_a_) * x.tile_rows);
  const int64_t tiles_a = keep_a_ ? round_up(ceil_div(chunk_, x.tile_rows), x.group) : x.group;

  const int64_t strips = ceil_div(x.panel, x.strip);
  const int64_t sums = one_block_ ? x.tile_rows * x.strip : chunk_ * span_;
  struct {
    char** place;
    int64_t bytes;
  } const wanted[] = {
      {&packed_a_, x.pack_a ? tiles_a * tile_a_ : 0},
      {&packed_b_, x.pack_b ? strips * packed_b_strip(x, x.block_k) * x.bytes : 0},
      {&chains_, has_chains ? (many_segments ? x.codec->parts : 1) * chunk_ * span_ * x.bytes : 0},
      {&sums_, x.direct_c || (x.round_c && one_block_) ? 0 : sums * x.bytes},
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
  const int64_t spans = ceil_div(cols_.size(), span_), chunks = ceil_div(rows_.size(), chunk_);
  for (int64_t j = 0; j < spans; ++j)
    for (int64_t i = 0; i < chunks; ++i) {
      const Range rows = piece(rows_.size(), chunks, i, x_.kernels->row_unit);
      const Range cols = {cols_.begin + j * span_,
                          std::min(cols_.end, cols_.begin + (j + 1) * span_)};
      run_chunk({rows_.begin + rows.begin, rows_.begin + rows.end}, cols);
    }
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
      const bool is_end = s == segments - 1 && block == blocks - 1;
      for (int64_t part = 0; part < x_.codec->parts; ++part)
        run_step({rows,
                  cols,
                  {begin + k.begin, begin + k.end},
                  part,
                  block == 0,
                  block == blocks - 1,
                  s == 0,
                  is_end && part == x_.codec->parts - 1});
    }
  }
}

void Region::run_step(const Step& step) {
  const int64_t tiles = ceil_div(step.rows.size(), x_.tile_rows);
  for (int64_t j = step.cols.begin; j < step.cols.end; j += x_.panel) {
    const Range panel = {j, std::min(step.cols.end, j + x_.panel)};
    if (x_.pack_b) pack_b(step, panel);
    for (int64_t first = 0; first < tiles; first += x_.group) {
      Range group[MAX_GROUP];
      const int64_t count = std::min(x_.group, tiles - first);
      for (int64_t t = 0; t < count; ++t) {
        const Range rows = piece(step.rows.size(), tiles, first + t, x_.kernels->row_unit);
        group[t] = {step.rows.begin + rows.begin, step.rows.begin + rows.end};
      }
      run_group(step, panel, group, count, packed_a_ + (keep_a_ ? first * tile_a_ : 0));
    }
  }
}

// Where sums end: in C, or
Region::Place Region::total(const Step& step, int64_t i, int64_t j) const {
  if (!x_.direct_c && !(x_.round_c && step.last_block)) return waiting(step, i, j);
  const int64_t parts = x_.out->parts, row = x_.c_strides.row * parts;
  return {c_ + (i * row + j) * (x_.out_element / parts), row};
}

// where they wait for the next block of K, or for being stored.
Region::Place Region::waiting(const Step& step, int64_t i, int64_t j) const {
  if (one_block_) return {sums_, x_.strip};
  const int64_t at = (i - step.rows.begin) * span_ + j - step.cols.begin;
  return {sums_ + at * x_.bytes, span_};
}

// Where chains grow that do not where their total will be.
Region::Place Region::chain(const Step& step, int64_t area, int64_t i, int64_t j) const {
  const int64_t at = (area * chunk_ + i - step.rows.begin) * span_ + j - step.cols.begin;
  return {chains_ + at * x_.bytes, span_};
}

// One tile, whose sums end in `total`. A first segment's chains of the first part grow there too;
// the others in a place of their own, from which they are added to it: of later segments, one
// part's to the other's before that.
inline __attribute__((always_inline)) void Region::run_tile(const Step& step, Tile& tile,
                                                            Range rows, Range cols, int64_t vectors,
                                                            Place total) {
  Place place = total;
  if (x_.round_c && !step.first_block) place = waiting(step, rows.begin, cols.begin);
  const bool adds_parts = x_.codec->parts > 1 && !step.first_segment;
  if (step.part > 0 || !step.first_segment)
    place = chain(step, adds_parts ? step.part : 0, rows.begin, cols.begin);
  tile.rows = static_cast<int32_t>(rows.size());
  tile.start = step.first_block ? nullptr : place.data;
  tile.start_row = place.row;
  if (step.last_block) place = adds_parts ? chain(step, 0, rows.begin, cols.begin) : total;
  tile.out = place.data;
  tile.out_row = place.row;
  const TileKernel kernel = x_.kernels->tile[rows.size()][vectors];
  kernel(tile);
  if (adds_parts && step.part > 0 && step.last_block) {
    Tile sum = tile;  // of no k: what it starts from is added
    sum.k = 0;
    sum.start = place.data, sum.start_row = place.row;
    sum.out = total.data, sum.out_row = total.row;
    kernel(sum);
  }

  if (!x_.direct_c && !x_.round_c && step.last) {
    const Strides& s = x_.c_strides;
    const int64_t parts = x_.out->parts;
    char* c = c_ + (rows.begin * s.row + cols.begin / parts * s.col) * x_.out_element;
    if (x_.epilogue != nullptr)
      finish(x_.swap_ab ? transposed(*x_.epilogue) : *x_.epilogue, *x_.chains, total.data,
             total.row, entry_, rows, {cols.begin / parts, cols.end / parts}, c, s);
    else
      x_.out->store({total.data, total.row, rows.size(), cols.size() / parts, c, s.row, s.col});
  }
}

// Tiles below each other, strip after strip of the panel.
void Region::run_group(const Step& step, Range panel, const Range* group, int64_t count,
                       char* packed_a) {
  Tile tile = {};
  tile.k = round_up(step.k.size(), x_.codec->unit);
  tile.padded = x_.pack_b;
  tile.ahead = x_.ahead;
  tile.add = step.last_block && (step.part > 0 || (!step.first_segment && x_.codec->parts == 1));
  tile.round = x_.round_c && step.last_block;
  tile.more = !step.last_block;
  if (x_.pack_a) {
    tile.a_row = x_.a_by_k ? 1 : packed_a_row(x_, step.k.size());
    tile.a_k = x_.a_by_k ? packed_a_column(x_) : 1;
  } else {
    tile.a_row = x_.a_strides.row * x_.codec->parts / x_.codec->fold;
    tile.a_k = x_.a_strides.col * x_.codec->parts;
  }
  const char* a[MAX_GROUP];
  for (int64_t t = 0; t < count; ++t) {
    const Strides& s = x_.a_strides;
    char* packed = packed_a + t * tile_a_;
    a[t] = x_.pack_a
               ? packed
               : a_ + (group[t].begin * s.row + x_.element_of(step.k.begin) * s.col) * x_.element +
                     step.part * x_.bytes;
    // Kept from the first panel for the others.
    if (x_.pack_a && (!keep_a_ || panel.begin == step.cols.begin))
      pack_a(step, group[t], tile.k, packed);
  }

  const int64_t whole = ceil_div(x_.strip, x_.kernels->lanes);  // vectors of a strip
  const char* packed_b = packed_b_;
  for (int64_t j = panel.begin; j < panel.end; j += x_.strip) {
    const Range cols = {j, std::min(panel.end, j + x_.strip)};
    const int64_t vectors =
        cols.size() == x_.strip ? whole : ceil_div(cols.size(), x_.kernels->lanes);
    tile.last = static_cast<int32_t>(cols.size() - (vectors - 1) * x_.kernels->lanes);
    if (x_.pack_b) {
      tile.b = packed_b;
      packed_b += packed_b_strip(x_, tile.k) * x_.bytes;
      tile.b_k = vectors * x_.kernels->lanes;
    } else {
      const Strides& s = x_.b_strides;
      tile.b = b_ + (x_.element_of(step.k.begin) * s.row + j * s.col) * x_.element;
      tile.b_k = x_.dot ? s.col / x_.codec->fold : s.row;
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
