// Operands for instructions that multiply neighbours in k and add their products: words of 32 bits
// made of 2 elements of 16 bits or 4 of 8, copied, transposed and, where K ends within one, padded
// with zero.
//
//     b in memory        k = 0:  b00 b01 b02 ...       packed, p = 0:  b00 b10 | b01 b11 | ...
//     (rows of           k = 1:  b10 b11 b12 ...               p = 1:  b20 b30 | b21 b31 | ...
//     neighbours)        k = 2:  b20 b21 b22 ...
//
// A row of neighbours in k is made of words as it stands. For vectors of 64 bytes.
#pragma once

#include "cpu/convert.h"
#include "cpu/kernels.h"
#include "cpu/pack.h"

namespace tiled::cpu {
namespace {

constexpr int64_t WORDS = LANES<uint32_t>;  // of a vector
using Words = Vector<uint32_t>;

template <typename T>
constexpr int64_t FOLD = sizeof(uint32_t) / sizeof(T);  // elements of a word

// The first `count` elements at p, then zeros; none where there is no such row.
template <typename T>
inline Vector<T> load_some(const T* p, int64_t count) {
  return count <= 0 ? Vector<T>{} : Part<T>(count < LANES<T> ? count : LANES<T>).load(p);
}

// Word `word` of a row of `count` elements.
template <typename T>
inline uint32_t word_at(const T* p, int64_t word, int64_t stride, int64_t count) {
  uint32_t result = 0;
  for (int64_t e = 0; e < FOLD<T>; ++e) {
    const int64_t index = word * FOLD<T> + e;
    if (index < count) result |= static_cast<uint32_t>(p[index * stride]) << 8 * sizeof(T) * e;
  }
  return result;
}

// FOLD rows of neighbours, of which the first `rows` exist and have `cols` elements, to words:
// COLS columns, or as many vectors of them as there are.
template <typename T>
struct Folded;

template <>
struct Folded<uint16_t> {
  static constexpr int64_t COLS = LANES<uint16_t>;

  static inline __attribute__((always_inline)) void words(const uint16_t* p, int64_t row,
                                                          Words* to) {
    fold(load<uint16_t>(p), load<uint16_t>(p + row), to);
  }
  static void some(const uint16_t* p, int64_t row, int64_t rows, int64_t cols, Words* to) {
    fold(load_some(p, rows > 0 ? cols : 0), load_some(p + row, rows > 1 ? cols : 0), to);
  }

 private:
  static inline __attribute__((always_inline)) void fold(Vector<uint16_t> even,
                                                         Vector<uint16_t> odd, Words* to) {
    to[0] = (Words)interleave<uint16_t, false>(even, odd);
    to[1] = (Words)interleave<uint16_t, true>(even, odd);
  }
};

// Four rows of 16 bytes, one in each quarter of a vector. Their words of four columns change
// places, and then the bytes of each quarter.
template <>
struct Folded<uint8_t> {
  static constexpr int64_t COLS = WORDS;

  static inline __attribute__((always_inline)) void words(const uint8_t* p, int64_t row,
                                                          Words* to) {
    *to = fold([&](int64_t i) { return (__m128i)load<uint8_t, 16>(p + i * row); });
  }
  static void some(const uint8_t* p, int64_t row, int64_t rows, int64_t cols, Words* to) {
    const uint32_t mask = cols < COLS ? (1u << cols) - 1 : 0xffff;
    *to = fold([&](int64_t i) { return _mm_maskz_loadu_epi8(i < rows ? mask : 0, p + i * row); });
  }

 private:
  struct Quarters {
    static constexpr int64_t of(int64_t i) { return i % 4 * 4 + i / 4; }
  };
  struct Bytes {
    static constexpr int64_t of(int64_t i) { return i / 16 * 16 + i % 4 * 4 + i % 16 / 4; }
  };
  template <typename Row>
  static inline __attribute__((always_inline)) Words fold(Row row) {
    __m512i rows = _mm512_castsi128_si512(row(0));
    rows = _mm512_inserti32x4(rows, row(1), 1);
    rows = _mm512_inserti32x4(rows, row(2), 2);
    rows = _mm512_inserti32x4(rows, row(3), 3);
    const auto turned = (Vector<uint8_t>)shuffle<uint32_t, Quarters>((Words)rows, (Words)rows);
    return (Words)shuffle<uint8_t, Bytes>(turned, turned);
  }
};

// [k][cols] in rows of neighbours to [steps][cols]. Whole vectors are written.
template <typename T>
inline void fold_rows(const Pack& pack) {
  constexpr int64_t AHEAD = 4;  // rows
  using F = Folded<T>;
  for (int64_t p = 0; p < pack.steps; ++p) {
    const auto* src = static_cast<const T*>(pack.src) + FOLD<T> * p * pack.row;
    auto* dst = static_cast<uint32_t*>(pack.dst) + p * pack.dst_row;
    const int64_t rows = pack.rows - FOLD<T> * p;
    for (int64_t j = 0; j < pack.cols; j += F::COLS) {
      const int64_t cols = pack.cols - j;
      Words words[F::COLS / WORDS];
      if (rows >= FOLD<T> && cols >= F::COLS) {
#pragma GCC unroll 4
        for (int64_t i = 0; i < FOLD<T>; ++i) __builtin_prefetch(src + j + (i + AHEAD) * pack.row);
        F::words(src + j, pack.row, words);
      } else {
        F::some(src + j, pack.row, rows, cols, words);
      }
#pragma GCC unroll 2
      for (int64_t v = 0; v < F::COLS / WORDS; ++v)
        if (v == 0 || cols > v * WORDS) store<uint32_t>(dst + j + v * WORDS, words[v]);
    }
  }
}

// [k][cols] in columns of neighbours to [steps][cols]: blocks of 16 x 16 words, transposed in
// registers. Whole vectors are written.
template <typename T>
inline void fold_columns(const Pack& pack) {
  constexpr int64_t AHEAD = 512;  // bytes
  for (int64_t j = 0; j < pack.cols; j += WORDS)
    for (int64_t p = 0; p < pack.steps; p += WORDS) {
      const auto* src = static_cast<const T*>(pack.src) + FOLD<T> * p + j * pack.col;
      auto* dst = static_cast<uint32_t*>(pack.dst) + p * pack.dst_row + j;
      const int64_t left = pack.rows - FOLD<T> * p, cols = pack.cols - j, steps = pack.steps - p;
      Words block[WORDS];
      if (left >= LANES<T> && cols >= WORDS) {
#pragma GCC unroll 16
        for (int64_t c = 0; c < WORDS; ++c) {
          __builtin_prefetch(reinterpret_cast<const char*>(src + c * pack.col) + AHEAD);
          block[c] = load<uint32_t>(src + c * pack.col);
        }
      } else {
        for (int64_t c = 0; c < WORDS; ++c)
          block[c] = (Words)load_some(src + c * pack.col, c < cols ? left : 0);
      }
      transpose<uint32_t>(block);
      if (steps >= WORDS) {
#pragma GCC unroll 16
        for (int64_t s = 0; s < WORDS; ++s) store<uint32_t>(dst + s * pack.dst_row, block[s]);
      } else {
        for (int64_t s = 0; s < steps; ++s) store<uint32_t>(dst + s * pack.dst_row, block[s]);
      }
    }
}

// To [steps][cols]; also A where its columns are of neighbours.
template <typename T>
void pack_words_b(const Pack& pack) {
  if (pack.col == 1) return fold_rows<T>(pack);
  if (pack.row == 1) return fold_columns<T>(pack);
  const auto* src = static_cast<const T*>(pack.src);
  for (int64_t p = 0; p < pack.steps; ++p) {
    auto* dst = static_cast<uint32_t*>(pack.dst) + p * pack.dst_row;
    for (int64_t j = 0; j < pack.padded; ++j)
      dst[j] = j < pack.cols ? word_at(src + j * pack.col, p, pack.row, pack.rows) : 0;
  }
}

// Columns of neighbours to [rows][steps]: FOLD of them make words, 16 vectors of those a block.
template <typename T>
inline void fold_and_transpose(const Pack& pack) {
  for (int64_t i = 0; i < pack.rows; i += WORDS)
    for (int64_t p = 0; p < pack.steps; p += WORDS) {
      const auto* src = static_cast<const T*>(pack.src) + i + FOLD<T> * p * pack.col;
      auto* dst = static_cast<uint32_t*>(pack.dst) + i * pack.dst_row + p;
      const int64_t left = pack.cols - FOLD<T> * p;
      const int64_t rows = pack.rows - i < WORDS ? pack.rows - i : WORDS;
      const Part<uint32_t> part(pack.steps - p < WORDS ? pack.steps - p : WORDS);
      Words block[WORDS];
      for (int64_t s = 0; s < WORDS; ++s) {
        Words words[Folded<T>::COLS / WORDS];
        Folded<T>::some(src + FOLD<T> * s * pack.col, pack.col, left - FOLD<T> * s, rows, words);
        block[s] = words[0];
      }
      transpose<uint32_t>(block);
      for (int64_t r = 0; r < rows; ++r) part.store(dst + r * pack.dst_row, block[r]);
    }
}

// To [rows][steps]. Of rows of neighbours whole vectors are written.
template <typename T>
void pack_words_a(const Pack& pack) {
  if (pack.row == 1 && pack.col != 1) return fold_and_transpose<T>(pack);
  for (int64_t i = 0; i < pack.rows; ++i) {
    const auto* src = static_cast<const T*>(pack.src) + i * pack.row;
    auto* dst = static_cast<uint32_t*>(pack.dst) + i * pack.dst_row;
    int64_t p = 0;
    if (pack.col == 1) {
      for (; FOLD<T> * (p + WORDS) <= pack.cols; p += WORDS)
        store<T>(dst + p, load<T>(src + FOLD<T> * p));
      for (; p < pack.steps; p += WORDS)
        store<T>(dst + p, load_some(src + FOLD<T> * p, pack.cols - FOLD<T> * p));
    }
    for (; p < pack.steps; ++p) dst[p] = word_at(src, p, pack.col, pack.cols);
  }
}
// Sums of 32 bits to the low 8 of them.
struct LowByte {
  using Element = uint8_t;
  using Sum = uint32_t;
  static uint8_t narrow(uint32_t x) { return static_cast<uint8_t>(x); }
  static void narrow_vector(void* p, Words v) {
    store<uint8_t, 16>(p, __builtin_convertvector(v, Vector<uint8_t, 16>));
  }
};

// `unit` words are not parted. Sums of pairs are stored as those of chains, and so are sums of
// bytes that C keeps whole.
template <typename T>
constexpr Codec words_codec(int32_t unit, bool whole = false) {
  constexpr bool PAIRS = sizeof(T) == 2;
  Codec codec = {};
  codec.accumulator = PAIRS ? Accumulator::Float32 : Accumulator::UInt32;
  codec.parts = 1;
  codec.fold = FOLD<T>;
  codec.unit = unit;
  codec.direct = true;
  codec.pack_a = &pack_words_a<T>;
  codec.pack_b = &pack_words_b<T>;
  codec.store = PAIRS || whole ? nullptr : &store_real<LowByte>;
  return codec;
}

}  // namespace
}  // namespace tiled::cpu
