#include "cpu/blocking.h"

#include "segments.h"

namespace tiled::cpu {
namespace {

// Cache budgets. Half or more of a first level of 32 KiB and of a second of 1 MiB; the best sizes
// are flat around these.
constexpr int64_t STRIP_BYTES = 32 << 10;    // of B, [block_k][strip]
constexpr int64_t BLOCK_BYTES = 384 << 10;   // of A, [block_m][block_k]
constexpr int64_t PANEL_BYTES = 512 << 10;   // of B, [block_k][panel]

// Multiply-adds of a vector that take about as long as waking a thread.
constexpr int64_t THREAD_STEPS = 1 << 15;

// Rows that are a multiple of this apart fall into the same few sets of the first-level cache.
constexpr int64_t SET_BYTES = 4096;

// One of these reads a B that was copied for it; fewer tiles read it as it stands.
constexpr int64_t TILES_TO_PACK_B = 8;
constexpr int64_t STRIPS_TO_PACK_A = 4;

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
  x.pack_b = !b_readable || (tiles >= TILES_TO_PACK_B && strips > 1);
  x.a_by_k = real && x.a_strides.col != 1 && x.a_strides.row == 1;

  x.block_k = STRIP_BYTES / (x.strip * x.bytes);
  if (tiles == 1 && !x.pack_b) x.block_k = x.segment();  // nothing of B is used twice
  x.block_k = std::min(round_up(std::max<int64_t>(x.k, 1), x.codec->parts), x.block_k);
  x.block_m = std::max(x.tile_rows, BLOCK_BYTES / (x.block_k * x.bytes));
  x.panel = std::max(x.strip, PANEL_BYTES / (x.block_k * x.bytes) / x.strip * x.strip);
  x.panel = std::min(x.panel, cols);
  return x;
}

}  // namespace tiled::cpu
