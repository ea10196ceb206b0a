// The split of rows that lie beside each other in software: scales, parts and what is lost, beside
// their definition in plain C++.

// clang-format off: before all else, what CUDA C++ has by itself
#include "software_gpu/block.h"
// clang-format on

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

// Blocks run one after the other, so that one place is all that they need.
#undef __shared__
#define __shared__ static

#include "cuda/engine/fp16x3/split.cu"
#include "cuda/engine/fp16x3/split_beside.cu"
#include "guarded.h"

namespace tiled {
namespace detail {
// The kernels are called here, not launched.
cudaError_t launch(const void*, const Step&, cudaStream_t, void*, bool) { return cudaSuccess; }
}  // namespace detail

namespace test {
namespace {

struct Matrix {
  int64_t batch, rows, k, pitch;  // element (row, k) of an entry lies at k * pitch + row
  std::vector<float> values;
  Matrix(int64_t batch, int64_t rows, int64_t k, int64_t pitch)
      : batch(batch), rows(rows), k(k), pitch(pitch), values(batch * k * pitch + 4, NAN) {}
  float& at(int64_t entry, int64_t row, int64_t i) { return values[(entry * k + i) * pitch + row]; }
};

// Normal numbers, and rows that are not plain: with tiny elements, zeros, subnormal, not finite.
Matrix drawn(int64_t batch, int64_t rows, int64_t k, int64_t pitch, std::mt19937& random) {
  Matrix x(batch, rows, k, pitch);
  std::normal_distribution<float> normal;
  for (int64_t entry = 0; entry < batch; ++entry)
    for (int64_t row = 0; row < rows; ++row) {
      // A panel of all kinds, one whose rows have tiny elements at the most, and plain ones.
      const int drawn_kind = static_cast<int>(row % 16);
      const int kind = row < 128 ? drawn_kind : row < 256 && drawn_kind == 2 ? 2 : 15;
      for (int64_t i = 0; i < k; ++i) {
        float value = normal(random);
        if (kind == 0) value = 0;
        if (kind == 1) value *= 1e-40f;
        if (kind == 2 && i % 3 == 0) value *= std::ldexp(1.f, -static_cast<int>(random() % 40));
        if (kind == 3) value *= 1e37f;
        if (kind == 4 && i == k / 2) value = random() % 2 == 0 ? INFINITY : NAN;
        x.at(entry, row, i) = value;
      }
    }
  return x;
}

// A row by the definition: split.cu's head.
struct Row {
  RowScale scale;
  std::vector<float> hi, lo;
  Row(Matrix& x, int64_t entry, int64_t row) {
    float most = 0;
    bool finite = true;
    for (int64_t i = 0; i < x.k; ++i) {
      const float value = x.at(entry, row, i);
      finite &= std::isfinite(value);
      most = std::max(most, std::fabs(value));
    }
    scale.exponent = 14 - (most == 0 || !finite ? 14 : std::ilogb(most));
    double units = 0;
    for (int64_t i = 0; i < x.k; ++i) {
      const double scaled = finite ? std::ldexp(double{x.at(entry, row, i)}, scale.exponent) : 0;
      const float rounded = static_cast<float>(scaled);
      hi.push_back(__half2float(__float2half_rn(rounded)));
      lo.push_back(__half2float(__float2half_rn((rounded - hi.back()) * 0x1p11f)));
      if (scaled == 0 || std::fabs(scaled) >= 0x1p-14) continue;
      // Parts below 2^-35 are left out, to nearest; they count in whole units, upwards.
      const double left =
          std::fabs(scaled - std::ldexp(std::nearbyint(std::ldexp(scaled, 35)), -35));
      units += SUBNORMAL_UNITS + std::ceil(left * 0x1p44);
    }
    scale.lost = finite ? static_cast<float>(units * 0x1p-44) : INFINITY;
  }
};

// Empty if all of an operand's copy is right.
std::string wrong_of(SplitForm form, int64_t batch, int64_t rows, int64_t k, int64_t pitch,
                     uint32_t seed) {
  std::mt19937 random(seed);
  Matrix x = drawn(batch, rows, k, pitch, random);
  SplitJob job{};
  job.from.rows = rows, job.from.k = k;
  job.from.row_stride = 1, job.from.k_stride = pitch, job.from.batch_stride = k * pitch;
  job.from.alignment = pitch % 4 == 0 ? 16 : 4;
  job.to = split_planes(job.from, goes_along_k(form));
  job.batch = batch, job.form = form;
  if (!job.is_beside()) return "the job is another kernel's";
  std::vector<__half> planes(batch * 2 * job.to.batch_stride, __float2half_rn(NAN));
  std::vector<RowScale> scales(batch * rows, {-12345, NAN});
  std::vector<MagnitudeRange> ranges(range_bytes(job) / 8);
  std::vector<SplitPanel> panels(panels_of(rows, batch));
  std::vector<uint32_t> zeros(37, 1);

  SplitArguments args{};
  args.from = x.values.data(), args.to = planes.data(), args.scales = scales.data();
  args.ranges = ranges.data(), args.panels = panels.data();
  args.rows = rows, args.k = k, args.batch = batch;
  args.from_row = 1, args.from_k = pitch, args.from_batch = k * pitch;
  args.to_pitch = job.to.k_stride == 1 ? job.to.row_stride : job.to.k_stride;
  args.plane = job.to.batch_stride;
  args.vectors = job.from.alignment == 16;
  args.to_k = job.to.k_stride;
  args.shares = split_shares(job);
  // Measured after another one of its size, which is not split.
  SplitArguments other = args;
  Matrix unlike = drawn(batch, rows, k, pitch, random);
  std::vector<MagnitudeRange> others_ranges(ranges.size());
  other.from = unlike.values.data(), other.ranges = others_ranges.data();
  other.zeros = zeros.data(), other.zero_count = static_cast<int64_t>(zeros.size());
  const int64_t of_panels = panels_of(rows, batch);
  const int64_t measuring = of_panels * args.shares.measurers;
  const MeasureArguments both = {other, args, measuring};
  software_gpu::run_grid(2 * measuring, 1, SPLIT_BESIDE_THREADS, random,
                         [&] { measure<false>(both); });
  for (const uint32_t zero : zeros)
    if (zero != 0) return "something is not cleared";
  software_gpu::run_grid(of_panels * args.shares.writers, 1, SPLIT_BESIDE_THREADS, random, [&] {
    switch (form) {
      case SplitForm::AlongK: return split_beside<SplitForm::AlongK>(args);
      case SplitForm::Permuted: return split_beside<SplitForm::Permuted>(args);
      case SplitForm::Nothing: return split_beside<SplitForm::Nothing>(args);
      default: return split_beside<SplitForm::AsTheyLie>(args);
    }
  });

  constexpr int PERMUTED[16] = {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15};
  for (int64_t entry = 0; entry < batch; ++entry)
    for (int64_t row = 0; row < rows; ++row) {
      const Row wanted(x, entry, row);
      const std::string at = "row " + std::to_string(row) + " of " + std::to_string(entry);
      const RowScale scale = scales[entry * rows + row];
      if (scale.exponent != wanted.scale.exponent) return at + " has another scale";
      if (!(scale.lost == wanted.scale.lost))
        return at + " has lost " + std::to_string(scale.lost * 0x1p44) + " units, not " +
               std::to_string(wanted.scale.lost * 0x1p44);
      for (int64_t i = 0; i < k && form != SplitForm::Nothing; ++i) {
        int64_t place = i;
        if (form == SplitForm::Permuted)
          for (int j = 0; j < 16; ++j)
            if (PERMUTED[j] == i % 16) place = i / 16 * 16 + j;
        const int64_t from =
            2 * entry * args.plane + row * job.to.row_stride + place * job.to.k_stride;
        if (!(__half2float(planes[from]) == wanted.hi[i])) return at + " has another upper part";
        if (!(__half2float(planes[from + args.plane]) == wanted.lo[i]))
          return at + " has another lower part";
      }
    }
  return "";
}

TEST(Fp16x3Split, EveryFormAndRest) {
  for (const SplitForm form :
       {SplitForm::AsTheyLie, SplitForm::AlongK, SplitForm::Permuted, SplitForm::Nothing})
    for (const auto& [batch, rows, k, pitch] : {std::tuple{1, 128, 64, 128},
                                                {1, 300, 200, 300},
                                                {2, 133, 65, 133},
                                                {1, 5, 1100, 8},
                                                {3, 2, 70, 4},
                                                {1, 129, 515, 140}})
      EXPECT_EQ(wrong_of(form, batch, rows, k, pitch, 1), "")
          << static_cast<int>(form) << ": " << batch << " x " << rows << " x " << k;
}

// Groups that share out K: each has scales of its own, and its planes are zero up to whole tiles.
std::string wrong_of_groups(bool along_k, bool beside, const std::vector<int>& sizes, int64_t rows,
                            uint32_t seed) {
  std::mt19937 random(seed);
  int64_t k = 3;  // behind the last group
  std::vector<int> ends;
  for (const int size : sizes) ends.push_back(static_cast<int>(k += size) - 3);
  const auto count = static_cast<int64_t>(sizes.size());
  Matrix x = drawn(1, rows, k, rows, random);
  std::vector<float> turned(rows * k);  // the same where it is contiguous along K
  for (int64_t i = 0; i < k; ++i)
    for (int64_t row = 0; row < rows; ++row) turned[row * k + i] = x.at(0, row, i);
  SplitJob job{};
  job.from.rows = rows, job.from.k = k;
  job.from.row_stride = beside ? 1 : k, job.from.k_stride = beside ? rows : 1;
  job.from.alignment = (beside ? rows : k) % 4 == 0 ? 16 : 4;
  Side places = job.from;
  places.k = places_of_groups(k, count);
  job.to = split_planes(places, along_k);
  job.batch = count, job.of_groups = true;
  job.form = job.to.k_stride == 1 ? SplitForm::AlongK : SplitForm::AsTheyLie;
  std::vector<__half> planes(2 * job.to.batch_stride, __float2half_rn(NAN));
  std::vector<RowScale> scales(count * rows, {-12345, NAN});
  std::vector<MagnitudeRange> ranges(range_bytes(job) / 8);
  std::vector<SplitPanel> panels(panels_of(rows, count));
  SplitArguments args{};
  args.from = beside ? x.values.data() : turned.data();
  args.to = planes.data(), args.scales = scales.data();
  args.ranges = ranges.data(), args.panels = panels.data();
  args.rows = rows, args.k = k, args.batch = count;
  args.from_row = job.from.row_stride, args.from_k = job.from.k_stride;
  args.to_pitch = job.to.k_stride == 1 ? job.to.row_stride : job.to.k_stride;
  args.plane = job.to.batch_stride, args.to_k = job.to.k_stride;
  args.groups.ends = ends.data();
  args.vectors = job.from.alignment == 16;
  args.shares = split_shares(job);
  const Step step = split_step(job);
  const int64_t measuring = panels_of(rows, count) * args.shares.measurers;
  if (beside)
    software_gpu::run_grid(measuring, 1, SPLIT_BESIDE_THREADS, random,
                           [&] { measure<true>(MeasureArguments{args, args, measuring}); });
  software_gpu::run_grid(step.grid_x, step.grid_y, step.threads_x, random, [&] {
    if (!beside) return split_along_k<SplitForm::AlongK, true>(args);
    return along_k ? split_beside<SplitForm::AlongK, true>(args)
                   : split_beside<SplitForm::AsTheyLie, true>(args);
  });

  for (int64_t group = 0, begin = 0; group < count; begin = ends[group++]) {
    Matrix part(1, rows, sizes[group], rows);
    for (int64_t i = 0; i < part.k; ++i)
      for (int64_t row = 0; row < rows; ++row) part.at(0, row, i) = x.at(0, row, begin + i);
    for (int64_t row = 0; row < rows; ++row) {
      const Row wanted(part, 0, row);
      const std::string at = "row " + std::to_string(row) + " of group " + std::to_string(group);
      const RowScale scale = scales[group * rows + row];
      if (scale.exponent != wanted.scale.exponent) return at + " has another scale";
      if (!(scale.lost == wanted.scale.lost)) return at + " has lost something else";
      for (int64_t i = 0; i < (part.k + 63) / 64 * 64; ++i) {
        const int64_t from =
            row * job.to.row_stride + (place_of_group(begin, group) + i) * job.to.k_stride;
        const float hi = i < part.k ? wanted.hi[i] : 0, lo = i < part.k ? wanted.lo[i] : 0;
        if (!(__half2float(planes[from]) == hi)) return at + " has another upper part";
        if (!(__half2float(planes[from + args.plane]) == lo)) return at + " has another lower part";
      }
    }
  }
  return "";
}

TEST(Fp16x3Split, GroupsThatShareOutK) {
  for (const auto& [along_k, beside] : {std::pair{false, true}, {true, true}, {true, false}}) {
    const auto expect_right = [&](const std::vector<int>& sizes, int64_t rows) {
      EXPECT_EQ(wrong_of_groups(along_k, beside, sizes, rows, 1), "")
          << along_k << beside << ' ' << rows << ' ' << sizes.size();
    };
    expect_right({70, 0, 128, 1, 333}, 132);
    expect_right(std::vector<int>(33, 65), 3);  // more than a warp has lanes
  }
}

// Blocks share a panel's K, one or several tiles each.
TEST(Fp16x3Split, EveryBlockHasAShare) {
  for (const SplitForm form : {SplitForm::AsTheyLie, SplitForm::AlongK, SplitForm::Nothing})
    for (const int64_t rows : {2, 128, 1536, 4096, 8192, 100000, 1 << 30})
      for (const int64_t k : {64, 100, 1536, 4096, 32768, 1 << 24}) {
        SplitJob job{};
        job.from.rows = rows, job.from.k = k, job.from.row_stride = 1, job.from.k_stride = rows;
        job.batch = 1, job.form = form;
        const SplitShares shares = split_shares(job);
        const int64_t tiles = blocks_over(k, SPLIT_TILE_K);
        for (const int64_t blocks : {shares.measurers, shares.writers}) {
          EXPECT_GE(blocks, 1) << rows << ' ' << k;
          EXPECT_LT((blocks - 1) * blocks_over(tiles, blocks), tiles) << "one has nothing to do";
        }
        EXPECT_LE(panels_of(rows, 1) * shares.writers, MAX_GRID_X);
      }
}

}  // namespace
}  // namespace test
}  // namespace tiled
