// AVX-512 with BF16: vdpbf16ps multiplies 32 pairs of bf16 and adds them to 16 floats. Everything
// but bf16 runs as at level avx512.
//
// The instruction rounds to nearest even after each of its two additions and takes subnormals, in
// and out, for zero; so a sum differs from the chains of the other levels in the last places, and
// in the range below 2^-126. 14 x 2 accumulators as in avx512.cpp, whose flags, and -mavx512bf16,
// this file is compiled with.
#define VECTOR_BYTES 64
#include "cpu/dot_kernel.h"
#include "cpu/level.h"
#include "cpu/pairs.h"

namespace tiled::cpu {
namespace {

struct DotPairs {
  using Operand = uint32_t;
  using Sum = float;
  using Rounded = uint16_t;
  static constexpr bool ROUNDS = true;

  // To nearest even, as BFloat16::narrow: the instruction takes subnormals for zero, but step
  // leaves none.
  static inline __attribute__((always_inline)) void round(uint16_t* p, Vector<float> sum,
                                                          int64_t count) {
    const __m256i rounded = (__m256i)_mm512_cvtneps_pbh((__m512)sum);
    if (count == PAIRS)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded);
    else
      _mm256_mask_storeu_epi16(p, (1u << count) - 1, rounded);
  }

  static inline __attribute__((always_inline)) Vector<float> step(uint32_t a, Vector<uint32_t> b,
                                                                  Vector<float> sum) {
    return (Vector<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(a),
                                           (__m512bh)b);
  }
};

float chain(const uint16_t* a, int64_t a_stride, const uint16_t* b, int64_t b_stride, int64_t k) {
  Vector<float> sum = {};
  for (int64_t p = 0; 2 * p < k; ++p)
    sum = DotPairs::step(pair_at(a, p, a_stride, k),
                         Vector<uint32_t>{} + pair_at(b, p, b_stride, k), sum);
  return sum[0];
}

// Few rows: two rows of b as they stand, paired in registers. Packing would cost as much as the
// product.
template <int VECTORS>
class RawReader {
 public:
  explicit RawReader(const Tile& tile)
      : b_(static_cast<const uint16_t*>(tile.b)),
        row_(tile.b_k),
        last_((VECTORS % 2 == 0 ? PAIRS : 0) + tile.last) {}

  inline __attribute__((always_inline)) void read(Vector<uint32_t>* row) {
    constexpr int LAST = (VECTORS - 1) / 2;
#pragma GCC unroll 8
    for (int j = 0; j <= LAST; ++j) {
      const uint16_t* even = b_ + j * HALVES;
      const Halves first = j < LAST ? load<uint16_t>(even) : last_.load(even);
      const Halves second = j < LAST ? load<uint16_t>(even + row_) : last_.load(even + row_);
      row[2 * j] = (Vector<uint32_t>)interleave<uint16_t, false>(first, second);
      if (2 * j + 1 < VECTORS)
        row[2 * j + 1] = (Vector<uint32_t>)interleave<uint16_t, true>(first, second);
    }
    b_ += 2 * row_;
  }

 private:
  const uint16_t* b_;
  int64_t row_;
  Part<uint16_t> last_;
};

template <int ROWS, int VECTORS>
void multiply_raw(const Tile& tile) {
  multiply<DotPairs, ROWS, VECTORS>(tile, RawReader<VECTORS>(tile), Part<float>(tile.last));
}

// Accumulators, one row of b, and four registers to make it from. An even number: half a vector
// read is half a line read.
constexpr int raw_width(int rows) {
  const int vectors = 28 / (rows + 1) / 2 * 2;
  return vectors < MAX_VECTORS ? vectors : MAX_VECTORS;
}

constexpr int RAW_ROWS = 12;

template <int ROWS, int VECTORS>
constexpr void add_raw_tiles(Kernels& kernels) {
  kernels.wide[ROWS] = raw_width(ROWS);
  kernels.tile[ROWS][VECTORS] = &multiply_raw<ROWS, VECTORS>;
  if constexpr (VECTORS < raw_width(ROWS)) {
    add_raw_tiles<ROWS, VECTORS + 1>(kernels);
  } else if constexpr (ROWS < RAW_ROWS) {
    add_raw_tiles<ROWS + 1, 1>(kernels);
  }
}

constexpr Kernels raw_kernels() {
  Kernels kernels = {};
  kernels.lanes = LANES<float>;
  kernels.rows = RAW_ROWS;
  kernels.rounds = true;
  kernels.row_unit = 1;
  add_raw_tiles<1, 1>(kernels);
  return kernels;
}

constexpr Codec pairs_codec() {
  Codec codec = {Accumulator::Float32, 1, 2, 1, true, &pack_pairs_a, &pack_pairs_b, nullptr, 8, {}};
  add_dot_tiles<Same<uint32_t>, DotPairs, 8>(codec);
  return codec;
}

}  // namespace

constexpr DotTable AVX512_BF16 = {make_kernels<DotPairs, 14, 2>(), raw_kernels(), pairs_codec(),
                                  &naive_dots<chain>};

}  // namespace tiled::cpu
