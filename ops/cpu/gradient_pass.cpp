// Tiles of 32 rows, one group of every column's sum, are widened, passed back and rounded; their
// sums wait in rows of their own. Then threads take columns and add these rows, level by level.
#include "cpu/gradient_pass.h"

#include <algorithm>
#include <memory>

#include "cpu/float_mode.h"

namespace tiled::cpu {
namespace {

constexpr int64_t TILE = 128;             // columns
constexpr int64_t STRIPE = 512;           // columns of the second step
constexpr int64_t WORTH_THREADS = 32768;  // elements

struct Work {
  const GradientPass& pass;
  const ChainTable& chains;
  char* sums;  // [groups][columns], in the type of sums

  const Codec& codec(DType dtype) const { return chains.codecs[static_cast<int>(dtype)]; }
};

// Rows [row, row + rows) of a tile's columns, widened.
void widen(const Work& work, const GradientOperand& x, int64_t row, int64_t rows, int64_t column,
           int64_t cols, void* to) {
  const char* from = static_cast<const char*>(x.data) +
                     (row * x.row_stride + column * x.col_stride) * size_of(work.pass.dtype);
  work.codec(work.pass.dtype)
      .widen({from, x.row_stride, x.col_stride, rows, cols, cols, to, TILE, cols});
}

void run_tiles(void* state, int64_t begin, int64_t end) {
  const IeeeMode mode;
  const Work& work = *static_cast<const Work*>(state);
  const GradientPass& pass = work.pass;
  const Codec& codec = work.codec(pass.dtype);
  const int64_t across = (pass.columns + TILE - 1) / TILE, sum_bytes = size_of(pass.sum_dtype());
  alignas(64) double gradient[SUMMED_AT_ONCE * TILE], pre_activation[SUMMED_AT_ONCE * TILE];
  for (int64_t at = begin; at < end; ++at) {
    const int64_t group = at / across, row = group * SUMMED_AT_ONCE, column = at % across * TILE;
    const int64_t rows = std::min(SUMMED_AT_ONCE, pass.rows - row);
    const int64_t cols = std::min(TILE, pass.columns - column);
    alignas(64) double sums[TILE] = {};
    widen(work, pass.gradient, row, rows, column, cols, gradient);
    if (pass.activation != Activation::None)
      widen(work, pass.pre_activation, row, rows, column, cols, pre_activation);
    codec.pass_back({pass.activation, gradient, pre_activation, TILE, rows, cols, sums});
    if (pass.result != nullptr) {
      char* to =
          static_cast<char*>(pass.result) + (row * pass.columns + column) * size_of(pass.dtype);
      codec.store({gradient, TILE, rows, cols, to, pass.columns, 1});
    }
    if (pass.bias != nullptr)
      std::copy_n(reinterpret_cast<const char*>(sums), cols * sum_bytes,
                  work.sums + (group * pass.columns + column) * sum_bytes);
  }
}

// Adds up `count` rows of sums, of columns [begin, end), into the first.
template <typename Real>
void add_groups(Real* sums, int64_t pitch, int64_t count, int64_t begin, int64_t end) {
  Real total[STRIPE];
  while (count > 1) {
    for (int64_t i = 0; i < sum_groups(count); ++i) {
      std::fill_n(total, end - begin, Real(0));
      const int64_t last = std::min(count, (i + 1) * SUMMED_AT_ONCE);
      for (int64_t k = i * SUMMED_AT_ONCE; k < last; ++k)
        for (int64_t j = begin; j < end; ++j) total[j - begin] += sums[k * pitch + j];
      std::copy_n(total, end - begin, sums + i * pitch + begin);
    }
    count = sum_groups(count);
  }
}

void run_stripes(void* state, int64_t begin, int64_t end) {
  const IeeeMode mode;
  const Work& work = *static_cast<const Work*>(state);
  const GradientPass& pass = work.pass;
  const int64_t groups = sum_groups(pass.rows), n = pass.columns;
  for (int64_t at = begin; at < end; ++at) {
    const int64_t from = at * STRIPE, to = std::min(n, from + STRIPE);
    if (pass.sum_dtype() == DType::Float64)
      add_groups(reinterpret_cast<double*>(work.sums), n, groups, from, to);
    else
      add_groups(reinterpret_cast<float*>(work.sums), n, groups, from, to);
    work.codec(pass.bias_dtype)
        .store({work.sums + from * size_of(pass.sum_dtype()), 0, 1, to - from,
                static_cast<char*>(pass.bias) + from * size_of(pass.bias_dtype), 0, 1});
  }
}

}  // namespace

void pass_back(const GradientPass& pass, const ParallelFor& parallel, const Level& level) {
  const int64_t groups = sum_groups(pass.rows);
  std::unique_ptr<char[]> sums;
  if (pass.bias != nullptr) sums.reset(new char[groups * pass.columns * size_of(pass.sum_dtype())]);
  Work work = {pass, *level.chains, sums.get()};
  const auto run = [&](int64_t count, Body body) {
    if (pass.rows * pass.columns < WORTH_THREADS)
      body(&work, 0, count);
    else
      parallel.run(count, body, &work);
  };
  run(groups * ((pass.columns + TILE - 1) / TILE), &run_tiles);
  if (pass.bias != nullptr) run((pass.columns + STRIPE - 1) / STRIPE, &run_stripes);
}

}  // namespace tiled::cpu
