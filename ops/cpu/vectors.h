// Vectors of VECTOR_BYTES bytes, which each level's file defines before it includes this: the
// compiler's vector extensions, and what they lack: reading and writing a part of a vector.
//
// Everything here is compiled once per instruction set, hence the anonymous namespace and C
// headers only.
#pragma once

#include <stdint.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace tiled::cpu {
namespace {

constexpr int64_t VECTOR = VECTOR_BYTES;

template <typename T, int64_t BYTES = VECTOR>
struct VectorOf {
  typedef T Type __attribute__((vector_size(BYTES)));
  typedef T Memory __attribute__((vector_size(BYTES), aligned(1), may_alias));  // any address
  static constexpr int64_t LANES = BYTES / sizeof(T);
};

template <typename T, int64_t BYTES = VECTOR>
using Vector = typename VectorOf<T, BYTES>::Type;

template <typename T, int64_t BYTES = VECTOR>
constexpr int64_t LANES = VectorOf<T, BYTES>::LANES;

template <typename T, int64_t BYTES = VECTOR>
inline __attribute__((always_inline)) Vector<T, BYTES> load(const void* p) {
  return *static_cast<const typename VectorOf<T, BYTES>::Memory*>(p);
}

template <typename T, int64_t BYTES = VECTOR>
inline __attribute__((always_inline)) void store(void* p, Vector<T, BYTES> v) {
  *static_cast<typename VectorOf<T, BYTES>::Memory*>(p) = v;
}

// sum + scalar * v, rounded once where the instruction set can. On x86 that is said outright, so
// that it does not hang on the optimiser; elsewhere -ffp-contract=fast makes one instruction of it.
template <typename T>
inline __attribute__((always_inline)) Vector<T> accumulate(T scalar, Vector<T> v, Vector<T> sum) {
  return sum + scalar * v;
}
#if VECTOR_BYTES == 64
template <>
inline __attribute__((always_inline)) Vector<float> accumulate(float scalar, Vector<float> v,
                                                               Vector<float> sum) {
  return (Vector<float>)_mm512_fmadd_ps(_mm512_set1_ps(scalar), (__m512)v, (__m512)sum);
}
template <>
inline __attribute__((always_inline)) Vector<double> accumulate(double scalar, Vector<double> v,
                                                                Vector<double> sum) {
  return (Vector<double>)_mm512_fmadd_pd(_mm512_set1_pd(scalar), (__m512d)v, (__m512d)sum);
}
#elif VECTOR_BYTES == 32
template <>
inline __attribute__((always_inline)) Vector<float> accumulate(float scalar, Vector<float> v,
                                                               Vector<float> sum) {
  return (Vector<float>)_mm256_fmadd_ps(_mm256_set1_ps(scalar), (__m256)v, (__m256)sum);
}
template <>
inline __attribute__((always_inline)) Vector<double> accumulate(double scalar, Vector<double> v,
                                                                Vector<double> sum) {
  return (Vector<double>)_mm256_fmadd_pd(_mm256_set1_pd(scalar), (__m256d)v, (__m256d)sum);
}
#endif

// All lanes of a vector, with the interface of a part of them.
template <typename T>
struct Whole {
  Vector<T> load(const void* p) const { return cpu::load<T>(p); }
  void store(void* p, Vector<T> v) const { cpu::store<T>(p, v); }
};

// The first `count` lanes of a vector, 1 <= count <= LANES. Lanes beyond them are read as zero;
// their memory is not touched.
template <typename T>
class Part {
 public:
  explicit Part(int64_t count);
  Vector<T> load(const void* p) const;
  void store(void* p, Vector<T> v) const;

 private:
#if VECTOR_BYTES == 64
  uint64_t mask_;
#elif VECTOR_BYTES == 32
  __m256i mask_;
#endif
  int64_t count_;
};

#if VECTOR_BYTES == 64  // AVX-512: one bit a lane, free of charge

template <typename T>
Part<T>::Part(int64_t count) : mask_(~uint64_t{0} >> (64 - count)), count_(count) {}

template <typename T>
inline __attribute__((always_inline)) Vector<T> Part<T>::load(const void* p) const {
  if constexpr (sizeof(T) == 1) return (Vector<T>)_mm512_maskz_loadu_epi8(mask_, p);
  if constexpr (sizeof(T) == 2) return (Vector<T>)_mm512_maskz_loadu_epi16(mask_, p);
  if constexpr (sizeof(T) == 4) return (Vector<T>)_mm512_maskz_loadu_epi32(mask_, p);
  if constexpr (sizeof(T) == 8) return (Vector<T>)_mm512_maskz_loadu_epi64(mask_, p);
}

template <typename T>
inline __attribute__((always_inline)) void Part<T>::store(void* p, Vector<T> v) const {
  if constexpr (sizeof(T) == 2) _mm512_mask_storeu_epi16(p, mask_, (__m512i)v);
  if constexpr (sizeof(T) == 4) _mm512_mask_storeu_epi32(p, mask_, (__m512i)v);
  if constexpr (sizeof(T) == 8) _mm512_mask_storeu_epi64(p, mask_, (__m512i)v);
}

#else

// Lane by lane, through a vector on the stack.
template <typename T>
inline Vector<T> load_lanes(const void* p, int64_t count) {
  Vector<T> v = {};
  memcpy(&v, p, count * sizeof(T));
  return v;
}

#if VECTOR_BYTES == 32  // AVX2: the sign bit of each 4- or 8-byte lane; none for 2 bytes

template <typename T>
Part<T>::Part(int64_t count) : count_(count) {
  Vector<T> mask = {};
  memset(&mask, 0xff, count * sizeof(T));
  mask_ = (__m256i)mask;
}

template <typename T>
inline __attribute__((always_inline)) Vector<T> Part<T>::load(const void* p) const {
  if constexpr (sizeof(T) == 2) return load_lanes<T>(p, count_);
  if constexpr (sizeof(T) == 4)
    return (Vector<T>)_mm256_maskload_epi32(static_cast<const int*>(p), mask_);
  if constexpr (sizeof(T) == 8)
    return (Vector<T>)_mm256_maskload_epi64(static_cast<const long long*>(p), mask_);
}

template <typename T>
inline __attribute__((always_inline)) void Part<T>::store(void* p, Vector<T> v) const {
  if constexpr (sizeof(T) == 2) memcpy(p, &v, count_ * sizeof(T));
  if constexpr (sizeof(T) == 4) _mm256_maskstore_epi32(static_cast<int*>(p), mask_, (__m256i)v);
  if constexpr (sizeof(T) == 8)
    _mm256_maskstore_epi64(static_cast<long long*>(p), mask_, (__m256i)v);
}

#else

template <typename T>
Part<T>::Part(int64_t count) : count_(count) {}

template <typename T>
inline Vector<T> Part<T>::load(const void* p) const {
  return load_lanes<T>(p, count_);
}

template <typename T>
inline void Part<T>::store(void* p, Vector<T> v) const {
  memcpy(p, &v, count_ * sizeof(T));
}

#endif
#endif

}  // namespace
}  // namespace tiled::cpu
