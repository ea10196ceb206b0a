// AVX-512 with VNNI: vpdpbusd multiplies 64 pairs of 8-bit integers and adds four products each to
// 16 sums of 32 bits, at level avx512_bf16. It takes one operand as signed and the other as
// unsigned, which changes sums by multiples of 256 only: one text for int8 and uint8 where C keeps
// their low 8 bits. Where it keeps sums whole, A is packed with its upper bits turned, which makes
// it the one that B is not:
//
//     int8    (a + 128) * b  of an unsigned and a signed number exceeds  a * b  by  128 * b
//     uint8   b * (a - 128)  of an unsigned and a signed number by  -128 * b
//
// What all of K exceeds by is one vector for all rows of a tile, and is taken off at its end. 14 x
// 2 accumulators as in avx512.cpp, whose flags, and -mavx512vnni, this file is compiled with; 12 x
// 2 beside two of the excess.
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
  static constexpr bool ROUNDS = true, EXCEEDS = false;

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

constexpr uint32_t UPPER_BITS = 0x80808080;  // of four bytes

template <bool SIGNED>
struct WholeQuads {
  using Operand = uint32_t;
  using Sum = uint32_t;
  using Rounded = uint32_t;
  static constexpr bool ROUNDS = false, EXCEEDS = true;

  static inline __attribute__((always_inline)) Words multiplied(__m512i a, Words b, Words sum) {
    return SIGNED ? (Words)_mm512_dpbusd_epi32((__m512i)sum, a, (__m512i)b)
                  : (Words)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)b, a);
  }
  static inline __attribute__((always_inline)) Words step(uint32_t a, Words b, Words sum) {
    return multiplied(_mm512_set1_epi32(a), b, sum);
  }
  static inline __attribute__((always_inline)) Words excess(Words b, Words so_far) {
    return multiplied(_mm512_set1_epi32(UPPER_BITS), b, so_far);
  }
};

// A for these. What fills up K meets zeros of B.
void pack_turned(const Pack& pack) {
  pack_words_a<uint8_t>(pack);
  for (int64_t i = 0; i < pack.rows; ++i) {
    auto* row = static_cast<uint32_t*>(pack.dst) + i * pack.dst_row;
    for (int64_t p = 0; p < pack.steps; ++p) row[p] ^= UPPER_BITS;
  }
}

// Four rows of b as they stand, made into words in registers.
template <typename Dot>
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
  using Math = Dot;
};

// Accumulators, one row of b, and what it takes to make it.
constexpr int raw_width(int rows) {
  const int vectors = 27 / (rows + 1);
  return vectors < MAX_VECTORS ? vectors : MAX_VECTORS;
}

constexpr Kernels RAW_QUADS = raw_kernels<Quartered<DotQuads>, raw_width, 12>();

constexpr Kernels DOT_QUADS = dot_kernels<Same<uint32_t>, DotQuads, 8>();

constexpr Codec quads_codec() {
  Codec codec = words_codec<uint8_t>(1);
  codec.raw = &RAW_QUADS;
  codec.dot = &DOT_QUADS;
  return codec;
}

// Beside the accumulators of a row of b, that of its excess.
constexpr int whole_raw_width(int rows) {
  const int vectors = 26 / (rows + 2);
  return vectors < MAX_VECTORS ? vectors : MAX_VECTORS;
}

template <bool SIGNED>
constexpr Kernels RAW_WHOLE = raw_kernels<Quartered<WholeQuads<SIGNED>>, whole_raw_width, 11>();

template <bool SIGNED>
constexpr Kernels DOT_WHOLE = dot_kernels<Same<uint32_t>, WholeQuads<SIGNED>, 8>();

template <bool SIGNED>
constexpr DotTable whole_quads() {
  Codec codec = words_codec<uint8_t>(1, /*whole=*/true);
  codec.pack_a = &pack_turned;
  codec.turned = true;
  codec.direct = false;
  codec.raw = &RAW_WHOLE<SIGNED>;
  codec.dot = &DOT_WHOLE<SIGNED>;
  return {make_kernels<WholeQuads<SIGNED>, 12, 2>(), codec, nullptr};
}

}  // namespace

constexpr DotTable AVX512_VNNI = {make_kernels<DotQuads, 14, 2>(), quads_codec(), nullptr};
constexpr DotTable AVX512_VNNI_WHOLE_INT8 = whole_quads<true>();
constexpr DotTable AVX512_VNNI_WHOLE_UINT8 = whole_quads<false>();

}  // namespace tiled::cpu
