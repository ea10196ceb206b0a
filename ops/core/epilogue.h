// An epilogue takes a finished sum to C, in one order for every kernel of both devices:
//
//     pre_activation = beta * input + (alpha * sum + bias)        two fused multiply-adds
//     C              = activation(pre_activation)
//
// All of it in the type that sums have (fp32 for 16-bit inputs, fp64, complex, wrapping integers),
// rounded once, to C's type, when it is stored; `pre_activation` may be stored as well, rounded
// likewise. The activation is off by 2 ulp of the sums' type at most; where C is fp16 or bf16 by
// 1/32 of an ulp of C's, for which it is computed in a shorter way (brief_activation.h). A complex
// factor f takes four: re += f.re*x.re, re += -f.im*x.im, im += f.re*x.im, im += f.im*x.re, in this
// order; if one of its parts is 0, the two of the other part. Where there is no bias it counts as
// +0, and where beta is 0 the input is neither read nor counted. A product of floating-point
// numbers is never added but by an explicit fused multiply-add: there is nothing that a compiler
// could contract, so that CPU and GPU agree.
//
// sum is the contract's (segments.h). The identity leaves it as it is.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace tiled {

// Only a floating-point C has an activation.
enum class Activation : int8_t {
  None,
#define ACTIVATION(activation, name) activation,
#include "core/activations.inc"
};

// Which index of C picks a bias's element.
enum class Along : int8_t { Nothing, M, N };

// alpha or beta, in each arithmetic: floating-point and complex numbers, and integers, which wrap.
struct Factor {
  double real = 1, imaginary = 0;
  int64_t integer = 1;

  constexpr bool is(int64_t value) const {
    return real == static_cast<double>(value) && imaginary == 0 && integer == value;
  }
};

// One more matrix of C's shape, element (i, j) of batch entry b at
// data + (b * batch_stride + i * row_stride + j * col_stride) * size_of(dtype); null if none.
template <typename Pointer>
struct Companion {
  Pointer data = nullptr;
  int64_t row_stride = 0, col_stride = 0, batch_stride = 0;  // elements
  DType dtype = DType::Float32;
};

struct Epilogue {
  DType out_dtype;
  Activation activation = Activation::None;
  Along bias_along = Along::Nothing;
  DType bias_dtype = DType::Float32;
  const void* bias = nullptr;
  int64_t bias_stride = 0, bias_batch_stride = 0;  // elements
  Factor alpha, beta{0, 0, 0};
  Companion<const void*> input;     // may be C itself
  Companion<void*> pre_activation;  // C before the activation, of C's dtype

  // Whether C is the sum, rounded.
  constexpr bool is_identity() const {
    return activation == Activation::None && bias_along == Along::Nothing && alpha.is(1) &&
           !reads_input() && pre_activation.data == nullptr;
  }
  constexpr bool reads_input() const { return !beta.is(0); }
  // Whether C's digits are so few that an activation's short form is enough.
  constexpr bool rounds_to_16_bits() const {
    return out_dtype == DType::Float16 || out_dtype == DType::BFloat16;
  }
};

// The same for C's transpose, for kernels that exchange A and B.
constexpr Epilogue transposed(Epilogue e) {
  const auto turn = [](auto& c) {
    const int64_t row = c.row_stride;
    c.row_stride = c.col_stride, c.col_stride = row;
  };
  turn(e.input);
  turn(e.pre_activation);
  if (e.bias_along != Along::Nothing) e.bias_along = e.bias_along == Along::M ? Along::N : Along::M;
  return e;
}

}  // namespace tiled
