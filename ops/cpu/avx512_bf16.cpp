// AVX-512 with BF16: vdpbf16ps multiplies 32 pairs of bf16 and adds them to 16 floats.
//
// The instruction rounds to nearest even after each of its two additions and takes subnormals, in
// and out, for zero; so a sum differs from the chains of the other levels in the last places, and
// in the range below 2^-126. 14 x 2 accumulators as in avx512.cpp, whose flags, and -mavx512bf16,
// this file is compiled with.
#define VECTOR_BYTES 64
#include "cpu/dot_kernel.h"
#include "cpu/level.h"
#include "cpu/naive_pairs.h"
#include "cpu/raw_kernel.h"
#include "cpu/words.h"

namespace tiled::cpu {
namespace {

struct DotPairs {
  using Operand = uint32_t;
  using Sum = float;
  using Rounded = uint16_t;
  static constexpr bool ROUNDS = true, EXCEEDS = false;

  // To nearest even, as BFloat16::narrow: the instruction takes subnormals for zero, but step
  // leaves none.
  static inline __attribute__((always_inline)) void round(uint16_t* p, Vector<float> sum,
                                                          int64_t count) {
    const __m256i rounded = (__m256i)_mm512_cvtneps_pbh((__m512)sum);
    if (count == WORDS)
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
  __m128 sum = {};
  for (int64_t p = 0; 2 * p < k; ++p)
    sum = _mm_dpbf16_ps(sum, (__m128bh)_mm_cvtsi32_si128(word_at(a, p, a_stride, k)),
                        (__m128bh)_mm_cvtsi32_si128(word_at(b, p, b_stride, k)));
  return sum[0];
}

// Two rows of b as they stand, paired in registers.
struct Paired {
  using Halves = Vector<uint16_t>;
  static constexpr int64_t HALVES = LANES<uint16_t>;

  template <int VECTORS>
  class Reader {
   public:
    explicit Reader(const Tile& tile)
        : tile_(tile),
          b_(static_cast<const uint16_t*>(tile.b)),
          last_((VECTORS % 2 == 0 ? WORDS : 0) + tile.last) {}

    inline __attribute__((always_inline)) void read(Vector<uint32_t>* row) {
      constexpr int LAST = (VECTORS - 1) / 2;
      fetch_rows<2, VECTORS * VECTOR / 2, false>(b_ + tile_.ahead / 2, 2 * tile_.b_k);
#pragma GCC unroll 8
      for (int j = 0; j <= LAST; ++j) {
        const uint16_t* even = b_ + j * HALVES;
        const Halves first = j < LAST ? load<uint16_t>(even) : last_.load(even);
        const Halves second =
            j < LAST ? load<uint16_t>(even + tile_.b_k) : last_.load(even + tile_.b_k);
        row[2 * j] = (Vector<uint32_t>)interleave<uint16_t, false>(first, second);
        if (2 * j + 1 < VECTORS)
          row[2 * j + 1] = (Vector<uint32_t>)interleave<uint16_t, true>(first, second);
      }
      b_ += 2 * tile_.b_k;
    }

   private:
    const Tile& tile_;
    const uint16_t* b_;
    Part<uint16_t> last_;
  };
  using Math = DotPairs;
};

// Accumulators, one row of b, and four registers to make it from. An even number: half a vector
// read is half a line read.
constexpr int raw_width(int rows) {
  const int vectors = 28 / (rows + 1) / 2 * 2;
  return vectors < MAX_VECTORS ? vectors : MAX_VECTORS;
}

constexpr Kernels RAW_PAIRS = raw_kernels<Paired, raw_width, 12>();

constexpr Kernels DOT_PAIRS = dot_kernels<Same<uint32_t>, DotPairs, 16>();

constexpr Codec pairs_codec() {
  Codec codec = words_codec<uint16_t>(1);
  codec.raw = &RAW_PAIRS;
  codec.dot = &DOT_PAIRS;
  return codec;
}

}  // namespace

constexpr DotTable AVX512_BF16 = {make_kernels<DotPairs, 14, 2>(), pairs_codec(),
                                  &naive_dots<chain>};

}  // namespace tiled::cpu
