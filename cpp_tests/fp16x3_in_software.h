// Rung fp16x3's product by mma.sync on the CPU (software_gpu/block.h), bit for bit beside the order
// of its arithmetic in plain C++, which that of the kernel by wgmma is as well.
#pragma once

// clang-format off: before all else, what CUDA C++ has by itself
#include "software_gpu/block.h"
// clang-format on

#include <string>
#include <vector>

#include "core/finish.h"
#include "cuda/engine/fp16x3/async.cu"
#include "guarded.h"

namespace tiled::test {

struct Parts {
  int64_t batch = 1, m, n, k;
  bool c_along_m = false;
  int c_gap = 0;          // elements between rows of C
  bool shared_b = false;  // by all entries
  Activation activation = Activation::None;
};

// Planes of an operand, [batch][hi, lo][rows][k] at a pitch of whole cache lines, and scales. As in
// the workspace the last row's line is there to its end, and holds anything behind K.
struct Planes {
  Planes(int64_t entries, int64_t rows, int64_t k, std::mt19937& random)
      : rows(rows),
        k(k),
        pitch((k + 63) / 64 * 64),
        memory(entries * 2 * rows * pitch * 2, 0),
        scales(entries * rows) {
    std::memset(memory.data(), 0xff, memory.bytes());
    std::uniform_real_distribution<float> number(-2, 2);
    for (int64_t e = 0; e < entries; ++e)
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t i = 0; i < k; ++i)
          at(e, 0, row, i) = number(random), at(e, 1, row, i) = number(random);
    for (RowScale& scale : scales) {
      scale.exponent = static_cast<int>(random() % 9) - 4;
      // Some rows lose something, some of them too much for small sums; or are not finite.
      if (random() % 8 == 0) scale.lost = std::ldexp(1.f, -static_cast<int>(random() % 30) - 15);
      if (random() % 64 == 0) scale.lost = INFINITY;
      if (random() % 32 == 0) scale.exponent = random() % 2 != 0 ? 100 : -60;  // not plain
    }
  }
  __half& at(int64_t entry, int plane, int64_t row, int64_t i) const {
    return reinterpret_cast<__half*>(memory.data())[((2 * entry + plane) * rows + row) * pitch + i];
  }
  int64_t rows, k, pitch;
  Guarded memory;
  std::vector<RowScale> scales;
};

// The scaled sum of an element.
inline float sum_in_order(const Planes& a, const Planes& b, int64_t of_a, int64_t of_b, int64_t m,
                          int64_t n) {
  float total = 0;
  const auto product = [&](int p, int q, int64_t i) {
    return static_cast<float>(a.at(of_a, p, m, i)) * static_cast<float>(b.at(of_b, q, n, i));
  };
  const int64_t segments = segment_count(a.k);
  for (int64_t segment = 0; segment < segments; ++segment) {
    float sum = 0;
    const int64_t end = segment_end(segment, a.k);
    for (int64_t first = segment_begin(segment); first < end; first += 64) {
      float main = 0, cross = 0;
      for (int64_t step = first; step < std::min(first + 64, end); step += 16) {
        const int64_t until = std::min(step + 16, end);
        for (int64_t i = step; i < until; ++i) main += product(0, 0, i);
        for (int64_t i = step; i < until; ++i) cross += product(0, 1, i);
        for (int64_t i = step; i < until; ++i) cross += product(1, 0, i);
      }
      sum += std::fma(cross, 0x1p-11f, main);
    }
    total += sum;
  }
  return total;
}

// Runs a tile; empty if every element, mark and listed square is right, else what is wrong.
template <typename Tile>
std::string wrong_of(const Parts& p, uint32_t seed) {
  std::mt19937 random(seed);
  const Planes a(p.batch, p.m, p.k, random), b(p.shared_b ? 1 : p.batch, p.n, p.k, random);
  constexpr float UNTOUCHED = -12345;
  const int64_t pitch = (p.c_along_m ? p.m : p.n) + p.c_gap, lines = p.c_along_m ? p.n : p.m;
  std::vector<float> c(p.batch * lines * pitch, UNTOUCHED);
  const int64_t squares_m = (p.m + 63) / 64, squares_n = (p.n + 63) / 64;
  std::vector<uint32_t> listed(p.batch * squares_m * squares_n), squares(listed.size());
  std::vector<uint16_t> marks(listed.size() * GUARD_MARK_BYTES / 2, 0xaaaa);
  uint32_t count = 0, recomputed = 0;

  Fp16x3AsyncArguments args{};
  args.p = &a.at(0, 0, 0, 0), args.q = &b.at(0, 0, 0, 0);
  args.p_pitch = a.pitch, args.q_pitch = b.pitch;
  args.p_plane = p.m * a.pitch, args.q_plane = p.n * b.pitch;
  HopperArguments& grid = args.product.grid;
  grid.p = static_cast<int>(p.m), grid.q = static_cast<int>(p.n), grid.k = static_cast<int>(p.k);
  grid.batch = static_cast<int>(p.batch);
  grid.p_batch = 1, grid.q_batch = !p.shared_b;
  grid.clusters_p = static_cast<int>((p.m + Tile::BLOCK_P - 1) / Tile::BLOCK_P);
  grid.clusters_q = static_cast<int>((p.n + Tile::BLOCK_Q - 1) / Tile::BLOCK_Q);
  HopperOutput& out = grid.c();
  out.data = c.data(), out.batch = lines * pitch;
  out.p = p.c_along_m ? 1 : pitch, out.q = p.c_along_m ? pitch : 1;
  grid.epilogue.out_dtype = DType::Float32;
  grid.epilogue.activation = p.activation;
  grid.finishes = !grid.epilogue.is_identity();
  args.product.p_scales = a.scales.data(), args.product.q_scales = b.scales.data();
  args.product.p_scales_batch = p.m, args.product.q_scales_batch = p.shared_b ? 0 : p.n;
  args.product.tolerance = 1e-5f;
  args.product.guard = {&count,
                        &recomputed,
                        listed.data(),
                        squares.data(),
                        marks.data(),
                        static_cast<uint32_t>(squares_m),
                        static_cast<uint32_t>(squares_n),
                        false};
  const int64_t tiles = int64_t{grid.clusters_p} * grid.clusters_q;
  const int64_t entries = std::min<int64_t>(p.batch, 2);
  std::vector<float> totals(tiles * entries * Tile::BLOCK_P * Tile::BLOCK_Q);
  grid.totals = totals.data();
  software_gpu::run_grid(tiles, entries, Tile::THREADS, random, [&] { fp16x3_async<Tile>(args); });

  uint32_t with_marks = 0;
  std::vector<bool> has_mark(listed.size());
  for (int64_t entry = 0; entry < p.batch; ++entry)
    for (int64_t m = 0; m < p.m; ++m)
      for (int64_t n = 0; n < p.n; ++n) {
        const int64_t of_b = p.shared_b ? 0 : entry;
        const RowScale row = a.scales[entry * p.m + m], column = b.scales[of_b * p.n + n];
        const int scale = row.exponent + column.exponent;
        const float sum = std::ldexp(sum_in_order(a, b, entry, of_b, m, n), -scale) + 0.f;
        const bool again = is_unsure(row.lost + column.lost, scale, sum, 1e-5f);
        const auto square =
            static_cast<uint32_t>((entry * squares_m + m / 64) * squares_n + n / 64);
        if (again) has_mark[square] = true;
        const std::string at = "C[" + std::to_string(entry) + ", " + std::to_string(m) + ", " +
                               std::to_string(n) + "]";
        if (is_marked(args.product.guard, square, listed[square], m, n) != again)
          return at + (again ? " is not marked" : " is marked");
        const float found = c[entry * out.batch + m * out.p + n * out.q];
        float wanted = sum;
        if (grid.finishes) {
          const float pre_activation = pre_activation_of(grid.epilogue, sum, 0.f, 0.f);
          wanted = again ? UNTOUCHED : activated(grid.epilogue, pre_activation);
        } else if (again) {
          continue;  // the guard's
        }
        if (std::memcmp(&found, &wanted, 4) != 0)
          return at + " is " + std::to_string(found) + ", not " + std::to_string(wanted);
      }
  for (const bool has : has_mark) with_marks += has;
  if (count != with_marks) return "squares are listed wrongly";
  for (int64_t line = 0; line < p.batch * lines; ++line)
    for (int64_t i = pitch - p.c_gap; i < pitch; ++i)
      if (c[line * pitch + i] != UNTOUCHED) return "something is written around C";
  return "";
}

}  // namespace tiled::test
