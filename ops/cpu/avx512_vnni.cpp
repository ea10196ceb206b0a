// AVX-512 with VNNI: vpdpbusd multiplies 64 pairs of 8-bit integers and adds four products each to
// 16 sums of 32 bits, at level avx512_bf16. It takes one operand as signed and the other as
// unsigned, which changes sums by multiples of 256 only, and C keeps their low 8 bits: one text for
// int8 and uint8. 14 x 2 accumulators as in avx512.cpp, whose flags, and -mavx512vnni, this file is
// compiled with.
#define VECTOR_BYTES 64
#include "cpu/dot_kernel.h"
#include "cpu/level.h"
#include "cpu/raw_kernel.h"
#include "cpu/words.h"

namespace tiled::cpu {
namespace {

struct DotQuads {
  using Operand = uint32_t;
  using Sum = uint32_t;
  using Rounded = uint8_t;
  static constexpr bool ROUNDS = true;

  static inline __attribute__((always_inline)) void round(uint8_t* p, Words sum, int64_t count) {
    const auto bytes = (__m128i) __builtin_convertvector(sum, Vector<uint8_t, 16>);
    if (count == WORDS)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
    else
      _mm_mask_storeu_epi8(p, (1u << count) - 1, bytes);
  }

  static inline __attribute__((always_inline)) Words step(uint32_t a, Words b, Words sum) {
    return (Words)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)b, _mm512_set1_epi32(a));
  }
};

// Four rows of b as they stand, made into words in registers.
struct Quartered {
  template <int VECTORS>
  class Reader {
   public:
    explicit Reader(const Tile& tile)
        : b_(static_cast<const uint8_t*>(tile.b)), row_(tile.b_k), last_(tile.last) {}

    inline __attribute__((always_inline)) void read(Words* row) {
#pragma GCC unroll 8
      for (int j = 0; j < VECTORS; ++j) {
        const uint8_t* p = b_ + j * WORDS;
        if (j < VECTORS - 1 || last_ == WORDS)
          Folded<uint8_t>::words(p, row_, row + j);
        else
          Folded<uint8_t>::some(p, row_, 4, last_, row + j);
      }
      b_ += 4 * row_;
    }

   private:
    const uint8_t* b_;
    int64_t row_, last_;
  };
  using Math = DotQuads;
};

// Accumulators, one row of b, and what it takes to make it.
constexpr int raw_width(int rows) {
  const int vectors = 27 / (rows + 1);
  return vectors < MAX_VECTORS ? vectors : MAX_VECTORS;
}

constexpr Kernels RAW_QUADS = raw_kernels<Quartered, raw_width, 12>();

constexpr Kernels DOT_QUADS = dot_kernels<Same<uint32_t>, DotQuads, 8>();

constexpr Codec quads_codec() {
  Codec codec = words_codec<uint8_t>(1);
  codec.raw = &RAW_QUADS;
  codec.dot = &DOT_QUADS;
  return codec;
}

}  // namespace

constexpr DotTable AVX512_VNNI = {make_kernels<DotQuads, 14, 2>(), quads_codec(), nullptr};

}  // namespace tiled::cpu
