// The arithmetic of one element, for every dtype: how a value is widened to its accumulator, one
// step of a chain, and the single rounding at the end. All kernels of Arithmetic::Fma share it,
// so they agree bit for bit.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "core/problem.h"

namespace tiled {

template <typename Real>
struct alignas(2 * sizeof(Real)) Complex {
  Real re, im;
};

// Accumulator: fp32 for 16-bit floats; unsigned for integers, whose products wrap modulo 2^bits
// (the low bits do not depend on the sign: int8 is uint8 here, but see
// parts/arithmetic/signed_bytes.cuh).
template <typename T>
struct AccumulatorOf {
  using Type = T;
};
template <>
struct AccumulatorOf<__half> {
  using Type = float;
};
template <>
struct AccumulatorOf<__nv_bfloat16> {
  using Type = float;
};
template <>
struct AccumulatorOf<uint8_t> {
  using Type = uint32_t;
};
template <>
struct AccumulatorOf<uint16_t> {
  using Type = uint32_t;
};
template <typename T>
using Accumulator = typename AccumulatorOf<T>::Type;

template <typename T>
__device__ __forceinline__ Accumulator<T> widen(T value) {
  return value;
}
__device__ __forceinline__ float widen(__half value) { return __half2float(value); }
__device__ __forceinline__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }

// One rounding, to the output's type.
template <typename Out, typename Acc>
struct Round {
  static __device__ __forceinline__ Out from(Acc value) { return static_cast<Out>(value); }
};
template <>
struct Round<__half, float> {
  static __device__ __forceinline__ __half from(float value) { return __float2half_rn(value); }
};
template <>
struct Round<__nv_bfloat16, float> {
  static __device__ __forceinline__ __nv_bfloat16 from(float value) {
    return __float2bfloat16_rn(value);
  }
};

// The type that a chain of a segment is added up in: an accumulator, or of complex numbers four,
// one for each product of two parts: `ri` is the sum of a's real parts times b's imaginary ones. No
// chain has terms of two kinds, so that a and b may change places and the bits stay.
template <typename Real>
struct FourChains {
  Real rr, ii, ri, ir;
};
template <typename Acc>
struct ChainOf {
  using Type = Acc;
};
template <typename Real>
struct ChainOf<Complex<Real>> {
  using Type = FourChains<Real>;
};
template <typename Acc>
using Chain = typename ChainOf<Acc>::Type;

// a * b + c, one step of a chain.
__device__ __forceinline__ float mul_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double mul_add(double a, double b, double c) { return fma(a, b, c); }
__device__ __forceinline__ uint32_t mul_add(uint32_t a, uint32_t b, uint32_t c) {
  return a * b + c;
}
__device__ __forceinline__ uint64_t mul_add(uint64_t a, uint64_t b, uint64_t c) {
  return a * b + c;
}
template <typename Real>
__device__ __forceinline__ FourChains<Real> mul_add(Complex<Real> a, Complex<Real> b,
                                                    FourChains<Real> c) {
  c.rr = mul_add(a.re, b.re, c.rr);
  c.ri = mul_add(a.re, b.im, c.ri);
  c.ii = mul_add(a.im, b.im, c.ii);
  c.ir = mul_add(a.im, b.re, c.ir);
  return c;
}

// A segment's sum, of its chain.
template <typename Acc>
__device__ __forceinline__ Acc segment_sum(Acc chain) {
  return chain;
}
template <typename Real>
__device__ __forceinline__ Complex<Real> segment_sum(FourChains<Real> chains) {
  return {chains.rr - chains.ii, chains.ri + chains.ir};
}

template <typename Acc>
__device__ __forceinline__ Acc add(Acc a, Acc b) {
  return a + b;
}
template <typename Real>
__device__ __forceinline__ Complex<Real> add(Complex<Real> a, Complex<Real> b) {
  return {a.re + b.re, a.im + b.im};
}

// Store one finished sum, or where out_dtype asks for that the accumulator as it is: a choice that
// is the same for the whole launch, so a branch costs less than a second set of kernels.
template <typename T>
__device__ __forceinline__ void store(void* data, int64_t index, Accumulator<T> value,
                                      bool as_accumulator) {
  if (!std::is_same_v<T, Accumulator<T>> && as_accumulator)
    static_cast<Accumulator<T>*>(data)[index] = value;
  else
    static_cast<T*>(data)[index] = Round<T, Accumulator<T>>::from(value);
}

// Whether C holds accumulators rather than elements of the inputs' type.
__device__ __forceinline__ bool stores_accumulator(const Problem& problem) {
  return problem.epilogue.out_dtype != problem.dtype;
}

template <typename T>
struct TypeTag {
  using Type = T;
};

// function(TypeTag<T>) with the kernels' element type for a dtype.
template <typename Function>
auto with_element_type(DType dtype, Function function) {
  switch (dtype) {
#define DTYPE(dtype, name, torch, bytes, sum_bytes, kind, element) \
  case DType::dtype: return function(TypeTag<element>{});
#include "core/dtypes.inc"
    default: break;  // those of scaled products have kernels of their own
  }
  return decltype(function(TypeTag<float>{})){};
}

}  // namespace tiled
