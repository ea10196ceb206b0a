#include "cpu/scaled.h"

#include <algorithm>
#include <vector>

#include "cpu/finish.h"
#include "cpu/float_mode.h"
#include "cpu/fp8.h"
#include "cpu/scratch.h"

namespace tiled::cpu {
namespace {

constexpr int64_t REGION_ROWS = 128, REGION_COLS = 512;
constexpr int64_t MAX_STRIP = MAX_VECTORS * 64 / sizeof(float);  // columns of the widest tile

// Its memory is a thread's own, from call to call.
struct Places {
  float* a;        // [REGION_ROWS][SCALE_BLOCK]
  float* b;        // [SCALE_BLOCK][strip]
  float* sums;     // [MAX_ROWS][strip]: of one tile and block
  float* totals;   // [REGION_ROWS][REGION_COLS]
  float* scale_a;  // [REGION_ROWS]
  float* scale_b;  // [REGION_COLS]
};

Places places() {
  static thread_local Scratch scratch;
  constexpr int64_t SIZES[] = {REGION_ROWS * SCALE_BLOCK,
                               SCALE_BLOCK * MAX_STRIP,
                               MAX_ROWS * MAX_STRIP,
                               REGION_ROWS * REGION_COLS,
                               REGION_ROWS,
                               REGION_COLS};
  int64_t all = 0;
  for (const int64_t size : SIZES) all += size;
  float* at = reinterpret_cast<float*>(scratch.reserve(all * static_cast<int64_t>(sizeof(float))));
  float* begin[6];
  for (int i = 0; i < 6; at += SIZES[i++]) begin[i] = at;
  return {begin[0], begin[1], begin[2], begin[3], begin[4], begin[5]};
}

// The scales of rows [begin, end) of A, or columns of B, for a block of K.
void read_scales(const OperandScales& scales, int64_t entry, Range rows, int64_t block, float* to) {
  const float* data = scales.data + entry * scales.batch_stride;
  for (int64_t r = rows.begin; r < rows.end; ++r) *to++ = data[scale_offset(scales, r, block)];
}

// totals[i][j] *= scale_a[i] * scale_b[j].
void scale_totals(float* totals, int64_t row, int64_t rows, int64_t cols, const float* a,
                  const float* b) {
  for (int64_t i = 0; i < rows; ++i, totals += row)
    for (int64_t j = 0; j < cols; ++j) {
      const float scale = a[i] * b[j];
      totals[j] = scale * totals[j];
    }
}

// Scaled totals on their way to C, which finish() makes +0 of where they are -0.
void finish_totals(const Problem& p, const Level& level, int64_t entry, Range rows, Range cols,
                   float* totals, int64_t row) {
  const Strides c = {p.c.batch_stride, p.c.row_stride, p.c.col_stride};
  for (int64_t i = rows.begin; i < rows.end; i += MAX_ROWS)
    for (int64_t j = cols.begin; j < cols.end; j += MAX_STRIP) {
      const Range tile_rows = {i, std::min(rows.end, i + MAX_ROWS)};
      const Range tile_cols = {j, std::min(cols.end, j + MAX_STRIP)};
      float* sums = totals + (i - rows.begin) * row + (j - cols.begin);
      char* to = static_cast<char*>(p.c.data) +
                 (entry * c.batch + i * c.row + j * c.col) * size_of(p.epilogue.out_dtype);
      finish(p.epilogue, *level.chains, reinterpret_cast<char*>(sums), row, entry, tile_rows,
             tile_cols, to, c);
    }
}

// to[i][j] = from[i * row + j * col], cols <= j < padded zero.
void widen(const Fp8Table& table, const uint8_t* from, int64_t row, int64_t col, int64_t rows,
           int64_t cols, int64_t padded, float* to, int64_t to_row) {
  if (row == 1 && col != 1) {  // neighbours in memory one after the other
    for (int64_t j = 0; j < cols; ++j)
      for (int64_t i = 0; i < rows; ++i) to[i * to_row + j] = table[from[j * col + i]];
  } else {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) to[i * to_row + j] = table[from[i * row + j * col]];
  }
  for (int64_t i = 0; i < rows; ++i) std::fill(to + i * to_row + cols, to + i * to_row + padded, 0);
}

class Fp8Region {
 public:
  Fp8Region(const Problem& problem, const Level& level, int64_t entry, Range rows, Range cols)
      : p_(problem),
        level_(level),
        kernels_(level.chains->kernels[static_cast<int>(Accumulator::Float32)]),
        entry_(entry),
        rows_(rows),
        cols_(cols),
        a_(static_cast<const uint8_t*>(p_.a.data) + entry * p_.a.batch_stride +
           rows.begin * p_.a.row_stride),
        b_(static_cast<const uint8_t*>(p_.b.data) + entry * p_.b.batch_stride +
           cols.begin * p_.b.col_stride),
        strip_(kernels_.wide[kernels_.rows] * kernels_.lanes),
        x_(places()) {}

  void run() {
    std::fill(x_.totals, x_.totals + REGION_ROWS * REGION_COLS, 0.f);
    const int64_t blocks = ceil_div(p_.k, SCALE_BLOCK);
    const bool blockwise = is_blockwise(p_.scales);
    for (int64_t block = 0; block < blocks; ++block) {
      if (blockwise) read_scales(block);
      run_block(block, blockwise);
    }
    if (!blockwise) {
      read_scales(0);
      scale_totals(x_.totals, REGION_COLS, rows_.size(), cols_.size(), x_.scale_a, x_.scale_b);
    }
    finish_totals(p_, level_, entry_, rows_, cols_, x_.totals, REGION_COLS);
  }

 private:
  void read_scales(int64_t block) {
    cpu::read_scales(p_.scales.a, entry_, rows_, block, x_.scale_a);
    cpu::read_scales(p_.scales.b, entry_, cols_, block, x_.scale_b);
  }

  void run_block(int64_t block, bool blockwise) {
    const int64_t begin = block * SCALE_BLOCK, k = std::min(p_.k - begin, SCALE_BLOCK);
    widen(floats_of(p_.dtype), a_ + begin * p_.a.col_stride, p_.a.row_stride, p_.a.col_stride,
          rows_.size(), k, k, x_.a, SCALE_BLOCK);
    for (int64_t j = 0; j < cols_.size(); j += strip_) {
      const int64_t cols = std::min(strip_, cols_.size() - j);
      widen(floats_of(p_.scales.b_dtype), b_ + begin * p_.b.row_stride + j * p_.b.col_stride,
            p_.b.row_stride, p_.b.col_stride, k, cols, strip_, x_.b, strip_);
      for (int64_t i = 0; i < rows_.size(); i += kernels_.rows)
        run_tile(i, std::min<int64_t>(kernels_.rows, rows_.size() - i), j, cols, k, blockwise);
    }
  }

  void run_tile(int64_t i, int64_t rows, int64_t j, int64_t cols, int64_t k, bool blockwise) {
    const int64_t vectors = ceil_div(cols, kernels_.lanes);
    float* totals = x_.totals + i * REGION_COLS + j;
    Tile tile = {};
    tile.a = x_.a + i * SCALE_BLOCK;
    tile.a_row = SCALE_BLOCK, tile.a_k = 1;
    tile.b = x_.b;
    tile.b_k = strip_;
    tile.out = blockwise ? x_.sums : totals;
    tile.next = tile.out;
    tile.out_row = blockwise ? strip_ : REGION_COLS;
    tile.k = k;
    tile.rows = static_cast<int32_t>(rows);
    tile.last = static_cast<int32_t>(cols - (vectors - 1) * kernels_.lanes);
    tile.padded = true;
    tile.add = !blockwise;
    kernels_.tile[rows][vectors](tile);
    if (blockwise)
      level_.chains->promote(
          {x_.sums, strip_, totals, REGION_COLS, rows, cols, x_.scale_a + i, x_.scale_b + j});
  }

  const Problem& p_;
  const Level& level_;
  const Kernels& kernels_;
  int64_t entry_;
  Range rows_, cols_;
  const uint8_t *a_, *b_;  // where the region's rows and columns begin
  int64_t strip_;          // columns
  Places x_;
};

struct State {
  const Problem& problem;
  const Level& level;
  int64_t row_parts, col_parts;
  const int32_t* sums;  // of int8, [batch][m][n]
};

void run_fp8(void* state, int64_t begin, int64_t end) {
  const State& s = *static_cast<const State*>(state);
  const IeeeMode mode;
  for (int64_t at = begin; at < end; ++at) {
    const int64_t part = at % (s.row_parts * s.col_parts);
    const Range rows = piece(s.problem.m, s.row_parts, part / s.col_parts);
    const Range cols = piece(s.problem.n, s.col_parts, part % s.col_parts);
    Fp8Region(s.problem, s.level, at / (s.row_parts * s.col_parts), rows, cols).run();
  }
}

// Whole rows of C, whose sums wait in memory.
void finish_int8(void* state, int64_t begin, int64_t end) {
  const State& s = *static_cast<const State*>(state);
  const Problem& p = s.problem;
  const IeeeMode mode;
  const Places x = places();
  for (int64_t at = begin; at < end; ++at)
    for (int64_t j = 0; j < p.n; j += REGION_COLS) {
      const int64_t entry = at / p.m, i = at % p.m;
      const Range rows = {i, i + 1}, cols = {j, std::min(p.n, j + REGION_COLS)};
      read_scales(p.scales.a, entry, rows, 0, x.scale_a);
      read_scales(p.scales.b, entry, cols, 0, x.scale_b);
      const int32_t* sums = s.sums + at * p.n + j;
      for (int64_t c = 0; c < cols.size(); ++c) x.totals[c] = static_cast<float>(sums[c]);
      scale_totals(x.totals, REGION_COLS, 1, cols.size(), x.scale_a, x.scale_b);
      finish_totals(p, s.level, entry, rows, cols, x.totals, REGION_COLS);
    }
}

void mm_int8(const Problem& p, const ParallelFor& parallel, const Level& level) {
  std::vector<int32_t> sums(p.batch * p.m * p.n);
  Problem whole = p;
  whole.scales = {};
  whole.epilogue = {};
  whole.epilogue.out_dtype = DType::Int32;
  const int64_t entry = p.m * p.n;
  whole.c = {sums.data(), p.n, 1, entry, alignment_of(sums.data(), DType::Int32, p.n, 1, entry)};
  mm_blocked(whole, parallel, level);
  State state = {p, level, 1, 1, sums.data()};
  parallel.run(p.batch * p.m, finish_int8, &state);
}

}  // namespace

void mm_scaled(const Problem& p, const ParallelFor& parallel, const Level& level) {
  if (p.batch == 0 || p.m == 0 || p.n == 0) return;
  if (!is_fp8(p.dtype)) return mm_int8(p, parallel, level);
  State state = {p, level, ceil_div(p.m, REGION_ROWS), ceil_div(p.n, REGION_COLS), nullptr};
  // Where rows are few, columns are shared out, as many as there are threads.
  const int64_t wanted = ceil_div(parallel.threads, p.batch * state.row_parts);
  state.col_parts = std::max(state.col_parts, std::min(wanted, ceil_div(p.n, 64)));
  parallel.run(p.batch * state.row_parts * state.col_parts, run_fp8, &state);
}

void mm_scaled(const Problem& problem, const ParallelFor& parallel) {
  mm_scaled(problem, parallel, chosen_level());
}

}  // namespace tiled::cpu
