#include "cpu/blocking.h"

#include "segments.h"

namespace tiled::cpu {
namespace {

// Cache budgets, packed or not. The best sizes are flat around these.
constexpr int64_t TILE_BYTES = 24 << 10;    // of A, [tile_rows][block_k], in L1
constexpr int64_t PANEL_BYTES = 768 << 10;  // of B, [block_k][panel], in L2
constexpr int64_t BLOCK_K = 512;            // the longest block

// Multiply-adds of a vector that take about as long as waking a thread.
constexpr int64_t THREAD_STEPS = 1 << 15;

// Rows that are a multiple of this apart fall into the same few sets of the first-level cache.
constexpr int64_t SET_BYTES = 4096;

// Strips that must read a tile of A before a copy of it pays.
constexpr int64_t STRIPS_TO_PACK_A = 4;

// A B that is used once streams from memory: B of more bytes than this is read a few whole rows at
// a time, so that each page is visited once; packed columns go through in narrow strips.
constexpr int64_t STREAM_BYTES = 16 << 20;
constexpr int64_t STREAM_K = 16;       // rows
constexpr int64_t STREAM_VECTORS = 2;  // columns, in vectors

Blocking describe(const Problem& p, const Level& level) {
  constexpr int64_t BYTES[ACCUMULATOR_COUNT] = {4, 8, 2, 4, 8};  // [Accumulator]
  Blocking x = {};
  x.codec = &level.codecs[static_cast<int>(p.dtype)];
  x.out = &level.codecs[static_cast<int>(p.epilogue.out_dtype)];
  x.kernels = &level.kernels[static_cast<int>(x.codec->accumulator)];
  x.bytes = BYTES[static_cast<int>(x.codec->accumulator)];
  x.element = size_of(p.dtype);
  x.out_element = size_of(p.epilogue.out_dtype);
  x.batch = p.batch;
  x.m = p.m;
  x.n = p.n * x.codec->parts;
  x.k = p.k * x.codec->parts;
  x.a = static_cast<const char*>(p.a.data);
  x.b = static_cast<const char*>(p.b.data);
  x.c = static_cast<char*>(p.c.data);
  x.a_strides = {p.a.batch_stride, p.a.row_stride, p.a.col_stride};
  x.b_strides = {p.b.batch_stride, p.b.row_stride, p.b.col_stride};
  x.c_strides = {p.c.batch_stride, p.c.row_stride, p.c.col_stride};

  // The stride of a dimension of size 1 does not matter: let it be the best one. Where k = 0 there
  // is nothing to read, and perhaps no memory.
  if (p.n == 1) x.b_strides.col = x.c_strides.col = 1;
  if (p.k == 1) x.a_strides.col = 1;
  if (p.k == 0) x.a_strides = x.b_strides = {0, 0, 0};

  // C' = B' A' where that makes rows of C of neighbours, or one row of a column. The chains of a
  // complex product name their operands in order, so those stay.
  const bool column = x.n == 1 && x.m > 1;
  const bool by_columns = x.c_strides.col != 1 && x.c_strides.row == 1;
  if (x.codec->parts == 1 && (column || by_columns)) {
    std::swap(x.a, x.b);
    std::swap(x.m, x.n);
    std::swap(x.a_strides, x.b_strides);
    for (Strides* s : {&x.a_strides, &x.b_strides, &x.c_strides}) std::swap(s->row, s->col);
  }
  x.direct_c = x.out->direct && x.c_strides.col == 1;
  return x;
}

// Regions of C for `threads`: as even as possible, and then as square as possible, since a region
// reads its rows of A and its columns of B.
void split(Blocking& x, int64_t threads) {
  const int64_t lanes = x.kernels->lanes;
  x.parts_m = x.parts_n = 1;
  const double vectors = static_cast<double>(ceil_div(x.n, lanes));
  const double steps = static_cast<double>(x.batch) * x.m * vectors * (x.k + 1);
  threads = std::min<double>(threads, steps / THREAD_STEPS);
  if (threads <= 1) return;
  // Whole products, where there are enough of them for an even share.
  const int64_t parts = x.batch >= 4 * threads ? 1 : ceil_div(threads, x.batch);
  double best = 0;
  for (int64_t m = 1; m <= parts; ++m) {
    const int64_t n = parts / m;
    const double rows = ceil_div(x.m, m), cols = round_up(ceil_div(x.n, n), lanes);
    const double cost = rows * cols + 8 * (rows + cols);
    if (best != 0 && cost >= best) continue;
    best = cost;
    x.parts_m = m;
    x.parts_n = n;
  }
}

}  // namespace

int64_t Blocking::segment() const { return SEGMENT_K * codec->parts; }

Blocking choose_blocking(const Problem& problem, const Level& level, int threads) {
  Blocking x = describe(problem, level);
  split(x, threads);

  const Kernels& kernels = *x.kernels;
  const int64_t rows = ceil_div(x.m, x.parts_m);
  const int64_t cols = round_up(ceil_div(x.n, x.parts_n), kernels.lanes);
  const int64_t tiles = ceil_div(rows, kernels.rows);
  x.tile_rows = ceil_div(rows, tiles);
  x.strip = std::min<int64_t>(cols, kernels.wide[x.tile_rows] * kernels.lanes);
  const int64_t strips = ceil_div(cols, x.strip);

  const bool real = x.codec->parts == 1;
  const bool a_readable = x.codec->direct && (real || x.a_strides.col == 1);
  const bool b_readable = x.codec->direct && real && x.b_strides.col == 1;
  const bool a_scattered = x.a_strides.col != 1 || x.a_strides.row * x.element % SET_BYTES == 0;
  x.pack_a = !a_readable || (a_scattered && strips >= STRIPS_TO_PACK_A && rows > 1);
  x.dot = real && x.b_strides.row == 1 && x.b_strides.col != 1 && rows <= x.codec->dot_rows;
  x.pack_b = !x.dot && (!b_readable || (tiles > 1 && x.k * cols * x.bytes > PANEL_BYTES));
  x.a_by_k = real && x.a_strides.col != 1 && x.a_strides.row == 1;

  if (x.dot) {
    x.strip = kernels.lanes;
    x.block_k = x.segment();
    x.panel = cols;
    x.block_k = std::min(x.block_k, std::max<int64_t>(x.k, x.codec->parts));
    return x;
  }
  if (tiles > 1) {
    x.block_k = std::min(TILE_BYTES / (x.tile_rows * x.bytes) / 16 * 16, BLOCK_K);
    x.panel = PANEL_BYTES;
  } else if (x.pack_b && x.b_strides.col != 1) {
    x.strip = std::min<int64_t>(x.strip, STREAM_VECTORS * kernels.lanes);
    x.block_k = TILE_BYTES / (x.strip * x.bytes);
    x.panel = 0;
  } else if (x.pack_b || x.k * cols * x.bytes > STREAM_BYTES) {
    x.block_k = STREAM_K;
    x.panel = PANEL_BYTES;
  } else {
    x.block_k = x.segment();
    x.panel = cols * x.block_k * x.bytes;
  }
  x.block_k = std::min(x.block_k, std::max<int64_t>(x.k, x.codec->parts));
  x.panel = x.panel / (x.block_k * x.bytes) / x.strip * x.strip;
  x.panel = std::min(std::max(x.panel, x.strip), cols);
  return x;
}

}  // namespace tiled::cpu
