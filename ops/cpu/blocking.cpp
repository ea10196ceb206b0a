#include "cpu/blocking.h"

#include "cpu/budgets.h"
#include "cpu/tile_shape.h"

namespace tiled::cpu {

int64_t budgets[NUMBER_COUNT][COLUMN_COUNT] = {
#define NUMBER(name, ...) {__VA_ARGS__},
#include "cpu/budgets.inc"
};

namespace {

// Rows that are a multiple of this apart share sets of the first-level cache.
constexpr int64_t SET_BYTES = 4096;

// The column of the kernels that run a product.
Column column_of(const Blocking& x) {
  if (x.codec->fold > 1) return x.kernels->row_unit > 1 ? AMX_TILES : AVX512_WORDS;
  const int64_t vector = x.kernels->lanes * x.bytes;
  return vector > 32 ? AVX512_CHAINS : vector > 16 ? AVX2_CHAINS : BASE_CHAINS;
}

Blocking describe(const Problem& p, const Level& level) {
  constexpr int64_t BYTES[ACCUMULATOR_COUNT] = {4, 8, 2, 4, 8};  // [Accumulator]
  const ChainTable& chains = *level.chains;
  Blocking x = {};
  x.codec = &chains.codecs[kind_of(p)];
  x.out = &chains.codecs[static_cast<int>(p.epilogue.out_dtype)];
  x.kernels = &chains.kernels[static_cast<int>(x.codec->accumulator)];
  if (const DotTable* dots = dots_of(p, level); dots != nullptr) {
    x.codec = &dots->codec;
    x.kernels = &dots->kernels;
    if (dots->codec.store != nullptr) x.out = x.codec;
  }
  x.bytes = BYTES[static_cast<int>(x.codec->accumulator)];
  x.element = size_of(p.dtype);
  x.out_element = size_of(p.epilogue.out_dtype);
  x.batch = p.batch;
  x.m = p.m;
  x.n = p.n;
  x.k = ceil_div(p.k, x.codec->fold);
  x.depth = p.k;
  x.a = static_cast<const char*>(p.a.data);
  x.b = static_cast<const char*>(p.b.data);
  x.c = static_cast<char*>(p.c.data);
  x.a_strides = {p.a.batch_stride, p.a.row_stride, p.a.col_stride};
  x.b_strides = {p.b.batch_stride, p.b.row_stride, p.b.col_stride};
  x.c_strides = {p.c.batch_stride, p.c.row_stride, p.c.col_stride};
  x.chains = &chains;
  if (!p.epilogue.is_identity()) x.epilogue = &p.epilogue;

  // The stride of a dimension of size 1 does not matter: let it be the best one. Where k = 0 there
  // is nothing to read, and perhaps no memory.
  if (p.n == 1) x.b_strides.col = x.c_strides.col = 1;
  if (p.k == 1) x.a_strides.col = 1;
  if (p.k == 0) x.a_strides = x.b_strides = {0, 0, 0};

  // C' = B' A' where that makes rows of C of neighbours, or one row of a column.
  const bool column = x.n == 1 && x.m > 1 && x.kernels->row_unit == 1;
  const bool by_columns = x.c_strides.col != 1 && x.c_strides.row == 1;
  // AMX can read A as it stands, but not B: let the larger operand be A.
  const bool large_b = x.kernels->row_unit > 1 && x.m <= x.kernels->row_unit && x.n > x.m &&
                       x.b_strides.row == 1 && x.b_strides.col != 1;
  if (column || by_columns || large_b) {
    std::swap(x.a, x.b);
    std::swap(x.m, x.n);
    std::swap(x.a_strides, x.b_strides);
    for (Strides* s : {&x.a_strides, &x.b_strides, &x.c_strides}) std::swap(s->row, s->col);
    x.swap_ab = true;
  }
  x.n *= x.codec->parts;
  x.direct_c =
      x.epilogue == nullptr && x.out_element == x.bytes * x.out->parts && x.c_strides.col == 1;
  return x;
}

// Regions of C for `threads`: as even as possible, and then as square as possible, since a region
// reads its rows of A and its columns of B.
void split(Blocking& x, int64_t threads, int64_t thread_steps) {
  const int64_t lanes = x.kernels->lanes, unit = x.kernels->row_unit;
  x.parts_m = x.parts_n = 1;
  const double vectors = static_cast<double>(ceil_div(x.n, lanes));
  const double steps = static_cast<double>(x.batch) * x.m * vectors * (x.k * x.codec->parts + 1);
  threads = std::min<double>(threads, steps / thread_steps);
  if (threads <= 1) return;
  // Whole products, where there are enough of them for an even share.
  const int64_t parts = x.batch >= 4 * threads ? 1 : ceil_div(threads, x.batch);
  double best = 0;
  for (int64_t m = 1; m <= parts; ++m) {
    const int64_t n = parts / m;
    const double rows = round_up(ceil_div(x.m, m), unit), cols = round_up(ceil_div(x.n, n), lanes);
    const double cost = rows * cols + 8 * (rows + cols);
    if (best != 0 && cost >= best) continue;
    best = cost;
    x.parts_m = m;
    x.parts_n = n;
  }
}

}  // namespace

const DotTable* dots_of(const Problem& p, const Level& level) {
  const bool is_bare = p.epilogue.is_identity();
  switch (kind_of(p)) {
    case static_cast<int>(DType::BFloat16):
      return p.arithmetic == Arithmetic::Cpu16 ? level.pairs : nullptr;
    case static_cast<int>(DType::Int8):
    case static_cast<int>(DType::UInt8): return is_bare ? level.quads : nullptr;
    case WHOLE_INT8: return is_bare ? level.whole_int8 : nullptr;
    case WHOLE_UINT8: return is_bare ? level.whole_uint8 : nullptr;
    default: return nullptr;
  }
}

Blocking choose_blocking(const Problem& problem, const Level& level, int threads) {
  Blocking x = describe(problem, level);
  const auto budget = [column = column_of(x)](Number number) { return budgets[number][column]; };
  split(x, threads, budget(THREAD_STEPS));
  const int64_t unit = x.kernels->row_unit;
  const int64_t rows = round_up(ceil_div(x.m, x.parts_m), unit);
  const int64_t cols = round_up(ceil_div(x.n, x.parts_n), x.kernels->lanes);
  const bool real = x.codec->parts == 1;
  // No zeros to make up for at the end of K.
  const bool even = x.depth % (x.codec->fold * x.codec->unit) == 0;
  const bool streams = x.k * x.n * x.bytes > budget(STREAM_BYTES);
  if (const Kernels* dot = x.codec->dot; dot != nullptr && even && x.b_strides.row == 1 &&
                                         x.b_strides.col != 1 &&
                                         x.b_strides.col % x.codec->fold == 0) {
    const int64_t tiles = budget(streams ? DOT_STREAM_TILES : DOT_TILES);
    x.dot = rows <= std::min(tiles, MAX_GROUP) * dot->rows;
    if (x.dot) x.kernels = dot;
  }
  if (const Kernels* raw = x.codec->raw; raw != nullptr && even && x.b_strides.col == 1) {
    x.raw = rows <= budget(streams ? RAW_STREAM_TILES : RAW_TILES) * raw->rows;
    if (x.raw) x.kernels = raw;
  }
  const Kernels& kernels = *x.kernels;
  x.round_c = kernels.rounds && !x.direct_c && x.epilogue == nullptr && x.c_strides.col == 1 &&
              segment_count(x.depth) <= 1;

  // Words are found in memory only where their elements are neighbours, and i times a complex B
  // never is.
  const bool single = real && x.codec->fold == 1;
  const bool a_readable = x.codec->direct && (x.codec->fold == 1 || x.a_strides.col == 1) && even &&
                          x.a_strides.row % x.codec->fold == 0 && x.m % unit == 0;
  const bool b_readable = x.codec->direct && single && x.b_strides.col == 1;
  const bool a_in_rows = a_readable && x.a_strides.col == 1;
  const bool a_shares_sets = x.a_strides.row * x.element % SET_BYTES == 0;
  const bool few_rows = a_in_rows && a_shares_sets && single && !x.dot;
  const bool waits = !x.direct_c && cols >= budget(LONG_COLS);

  const int64_t most_rows =
      few_rows ? std::clamp<int64_t>(budget(SET_ROWS), 1, kernels.rows) : kernels.rows;
  const Shape tile = choose_tile(kernels, most_rows, rows, divide(cols, kernels.lanes),
                                 budget(waits ? LONG_B_LOADS : B_LOADS));
  x.tile_rows = round_up(tile.rows, unit);
  x.strip = tile.vectors * kernels.lanes;
  const int64_t tiles = ceil_div(rows, x.tile_rows);
  x.group = 1;
  x.unit_k = x.codec->unit;

  const bool a_scattered = !a_in_rows || (a_shares_sets && !few_rows);
  x.pack_a = !(x.dot ? a_in_rows : a_readable) ||
             (a_scattered && ceil_div(cols, x.strip) >= budget(STRIPS_TO_PACK_A) && rows > 1);
  const bool few = tiles <= std::min(budget(FEW_TILES), MAX_GROUP);
  const bool large = x.k * cols * x.bytes > budget(PANEL_BYTES);
  const bool b_scattered = x.b_strides.row * x.element % SET_BYTES == 0;
  x.pack_b =
      !x.dot && !x.raw &&
      (!b_readable || tiles >= budget(b_scattered ? TILES_TO_PACK_SHARING_B : TILES_TO_PACK_B) ||
       (!few && large));
  x.a_by_k = real && unit == 1 && !x.dot && !x.codec->turned && x.a_strides.col != 1 &&
             x.a_strides.row == 1;

  const int64_t long_k = std::max<int64_t>(1, x.steps_of(budget(LONG_K)));
  if (x.dot) {
    x.tile_rows = ceil_div(rows, ceil_div(rows, kernels.rows));
    x.group = ceil_div(rows, x.tile_rows);
    x.strip = kernels.lanes;
    x.panel = cols;
    x.block_k = std::min(long_k, std::max<int64_t>(x.k, x.codec->unit));
    x.unit_k = kernels.lanes * x.bytes / (x.element * x.codec->fold);  // it turns so many at once
    return x;
  }
  const bool in_turn = !x.pack_b || (x.b_strides.col == 1 && unit == 1);
  x.ahead = budget(STEPS_AHEAD) * (x.pack_b ? x.strip * x.bytes : x.b_strides.row * x.element);
  const int64_t ahead = x.pack_b ? x.ahead : std::max(budget(STREAM_AHEAD), x.strip * x.bytes);
  if (tiles > 1 && few && large && in_turn) {
    x.group = tiles;
    x.block_k =
        x.pack_b ? budget(FEW_CACHED_K) : x.steps_of(budget(streams ? FEW_STREAM_K : FEW_CACHED_K));
    x.panel = budget(FEW_PANEL_BYTES);
    x.ahead = ahead;
  } else if (few && x.b_strides.col != 1 && (tiles > 1 ? unit == 1 : x.pack_b)) {
    x.block_k = long_k;
    x.panel = tiles > 1 ? budget(FEW_PANEL_BYTES) : 0;
  } else if (tiles > 1) {
    // A tile of A that is read as it stands, for one strip, need not stay in a cache.
    const int64_t part =
        cols <= x.strip && !x.pack_a
            ? budget(PANEL_BYTES) / (x.strip * x.bytes)
            : std::min(budget(BLOCK_K), budget(TILE_BYTES) / (x.tile_rows * x.bytes));
    x.block_k = x.k <= budget(WHOLE_K) ? x.k : waits && !few ? budget(WAITING_K) : part / 16 * 16;
    x.panel = budget(PANEL_BYTES);
  } else if (x.pack_b || streams) {
    x.block_k = x.steps_of(budget(STREAM_K));
    x.panel = budget(PANEL_BYTES);
    x.ahead = ahead;
  } else {
    x.block_k = long_k;
    x.panel = cols * x.block_k * x.bytes;
  }
  const int64_t most_k = x.steps_of(segment_size(x.depth));
  x.block_k = round_up(std::max<int64_t>(1, std::min(x.block_k, most_k)), x.codec->unit);
  x.panel = x.panel / (x.block_k * x.bytes) / x.strip * x.strip;
  const int64_t panels = ceil_div(cols, std::max(x.panel, x.strip));
  x.panel = std::min(round_up(ceil_div(cols, panels), x.strip), cols);
  return x;
}

}  // namespace tiled::cpu
