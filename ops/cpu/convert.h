// Elements in memory to accumulators and back, one at a time and a vector at a time. Each struct
// describes one kind of element:
//     Element      as it stands in memory
//     Sum          the accumulator
//     widen        exact
//     narrow       to nearest, ties to even; integers wrap
#pragma once

#include "cpu/vectors.h"

namespace tiled::cpu {
namespace {

// The same bits in memory and in registers.
template <typename T>
struct Same {
  using Element = T;
  using Sum = T;
  static T widen(T x) { return x; }
  static T narrow(T x) { return x; }
  static Vector<T> widen_vector(const void* p) { return load<T>(p); }
  static void narrow_vector(void* p, Vector<T> v) { store<T>(p, v); }
};

// 8 bits are summed in 16: twice the lanes of 32, and the low 8 bits of the sum are the same.
struct Byte {
  using Element = uint8_t;
  using Sum = uint16_t;
  static constexpr int64_t BYTES = VECTOR / 2;  // of a vector's elements in memory
  static uint16_t widen(uint8_t x) { return x; }
  static uint8_t narrow(uint16_t x) { return static_cast<uint8_t>(x); }
  static Vector<uint16_t> widen_vector(const void* p) {
    return __builtin_convertvector((load<uint8_t, BYTES>(p)), Vector<uint16_t>);
  }
  static void narrow_vector(void* p, Vector<uint16_t> v) {
    store<uint8_t, BYTES>(p, __builtin_convertvector(v, Vector<uint8_t, BYTES>));
  }
};

// 8 bits whose sum C keeps whole, T saying whether they have a sign.
template <typename T>
struct WholeByte {
  using Element = T;
  using Sum = uint32_t;
  static constexpr int64_t BYTES = VECTOR / 4;
  static uint32_t widen(T x) { return static_cast<uint32_t>(int32_t{x}); }
  static T narrow(uint32_t x) { return static_cast<T>(x); }
  static Vector<uint32_t> widen_vector(const void* p) {
    return (Vector<uint32_t>)__builtin_convertvector((load<T, BYTES>(p)), Vector<int32_t>);
  }
  static void narrow_vector(void* p, Vector<uint32_t> v) {
    store<T, BYTES>(p, __builtin_convertvector(v, Vector<T, BYTES>));
  }
};

inline float as_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t as_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// The upper half of a float.
struct BFloat16 {
  using Element = uint16_t;
  using Sum = float;
  using Bits = Vector<uint32_t>;
  static constexpr int64_t BYTES = VECTOR / 2;

  static float widen(uint16_t x) { return as_float(static_cast<uint32_t>(x) << 16); }

  // Adding just under half of the last place kept, plus its lowest bit, carries into it exactly
  // when nearest-even rounds up; a carry out of the fraction moves to the next exponent, up to
  // infinity. A NaN must not be rounded into infinity.
  static uint16_t narrow(float x) {
    const uint32_t bits = as_bits(x);
    if (x != x) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }

  static Vector<float> widen_vector(const void* p) {
    return (Vector<float>)(__builtin_convertvector((load<uint16_t, BYTES>(p)), Bits) << 16);
  }

  static void narrow_vector(void* p, Vector<float> v) {
    const Bits bits = (Bits)v;
    const Bits is_nan = (Bits)(v != v);
    const Bits rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const Bits quiet = bits >> 16 | 0x40;
    const Bits result = (rounded & ~is_nan) | (quiet & is_nan);
    store<uint16_t, BYTES>(p, __builtin_convertvector(result, Vector<uint16_t, BYTES>));
  }
};

// IEEE half precision: 5 bits of exponent (bias 15 against a float's 127), 10 of fraction.
struct Half {
  using Element = uint16_t;
  using Sum = float;

#ifdef __F16C__
  static float widen(uint16_t x) { return _cvtsh_ss(x); }
  static uint16_t narrow(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
#else
  static float widen(uint16_t x) {
    const uint32_t sign = (x & 0x8000u) << 16;
    const uint32_t magnitude = x & 0x7fffu;
    if (magnitude >= 0x7c00) return as_float(sign | 0x7f800000 | magnitude << 13);
    if (magnitude < 0x400) {  // subnormal: an integer of units of 2^-24
      const float value = static_cast<float>(magnitude) * 0x1p-24f;
      return as_float(sign | as_bits(value));
    }
    return as_float(sign | ((magnitude << 13) + (112u << 23)));
  }

  static uint16_t narrow(float x) {
    const uint32_t sign = as_bits(x) >> 16 & 0x8000;
    const uint32_t magnitude = as_bits(x) & 0x7fffffff;
    if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00);
    if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // from 65520 on
    if (magnitude < 0x38800000) {
      // Below 2^-14 the result is a number of units of 2^-24, the last place of 0.5f, so that the
      // addition rounds as wanted.
      return static_cast<uint16_t>(sign | (as_bits(as_float(magnitude) + 0.5f) - as_bits(0.5f)));
    }
    const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return static_cast<uint16_t>(sign | (rounded - (112u << 23)) >> 13);
  }
#endif

#if VECTOR_BYTES == 64
  // A mask of all 16 lanes: the forms without a mask make GCC 12 warn of its own header.
  static constexpr __mmask16 ALL = 0xffff;

  static Vector<float> widen_vector(const void* p) {
    return (Vector<float>)_mm512_maskz_cvtph_ps(ALL,
                                                _mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
  static void narrow_vector(void* p, Vector<float> v) {
    _mm256_storeu_si256(static_cast<__m256i*>(p),
                        _mm512_maskz_cvtps_ph(ALL, (__m512)v, _MM_FROUND_TO_NEAREST_INT));
  }
#elif VECTOR_BYTES == 32
  static Vector<float> widen_vector(const void* p) {
    return (Vector<float>)_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
  static void narrow_vector(void* p, Vector<float> v) {
    _mm_storeu_si128(static_cast<__m128i*>(p),
                     _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
  }
#else
  static Vector<float> widen_vector(const void* p) {
    uint16_t elements[LANES<float>];
    memcpy(elements, p, sizeof elements);
    Vector<float> v;
    for (int64_t i = 0; i < LANES<float>; ++i) v[i] = widen(elements[i]);
    return v;
  }
  static void narrow_vector(void* p, Vector<float> v) {
    uint16_t elements[LANES<float>];
    for (int64_t i = 0; i < LANES<float>; ++i) elements[i] = narrow(v[i]);
    memcpy(p, elements, sizeof elements);
  }
#endif
};

template <typename T>
struct Complex {
  T re, im;
};

// Complex numbers as the three loops read them. The micro-kernels see their real parts (pack.h).
template <typename T>
struct ComplexElement {
  using Element = Complex<T>;
  using Sum = Complex<T>;
  static Sum widen(Element x) { return x; }
  static Element narrow(Sum x) { return x; }
};

}  // namespace
}  // namespace tiled::cpu
