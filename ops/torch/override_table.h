// The operators that override takes from torch, and what a call of each asks for. Only operators
// with kernels of their own for CPU or CUDA are here: matmul, linear, einsum, mv, addbmm and others
// are made of these.
#pragma once

#include "torch/override_request.h"

namespace tiled::asked {

using at::Scalar;
using at::ScalarType;
using at::Tensor;

// A B

template <Form form>
Request product(const Tensor& a, const Tensor& b) {
  return {form, &a, &b};
}

template <Form form>
Request product_as(const Tensor& a, const Tensor& b, ScalarType dtype) {
  Request asked = product<form>(a, b);
  asked.out_dtype = dtype;
  return asked;
}

// alpha A B + beta self

template <Form form>
Request sum(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
            const Scalar& alpha) {
  return {form, &a, &b, &self, &beta, &alpha};
}

template <Form form>
Request sum_in_place(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                     const Scalar& alpha) {
  Request asked = sum<form>(self, a, b, beta, alpha);
  asked.out = &self;
  return asked;
}

template <Form form>
Request sum_as(const Tensor& self, const Tensor& a, const Tensor& b, ScalarType dtype,
               const Scalar& beta, const Scalar& alpha) {
  Request asked = sum<form>(self, a, b, beta, alpha);
  asked.out_dtype = dtype;
  return asked;
}

// activation(alpha A B + beta self). Torch's gelu here is the exact one on the CPU and the one by
// tanh on a GPU.
inline Request activated(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                         const Scalar& alpha, bool use_gelu) {
  Request asked = sum<Form::Matrices>(self, a, b, beta, alpha);
  asked.activation = !use_gelu ? "relu" : a.is_cuda() ? "gelu_tanh" : "gelu";
  return asked;
}

// Sums of int8
inline Request int8(const Tensor& a, const Tensor& b) {
  Request asked = product_as<Form::Matrices>(a, b, at::kInt);
  asked.of_int8 = true;
  return asked;
}

// The out= form of an operator: its arguments, and then `out`.
template <auto REQUEST, typename Function = decltype(REQUEST)>
struct Into;

template <auto REQUEST, typename... Args>
struct Into<REQUEST, Request (*)(Args...)> {
  static Request out(Args... args, Tensor& out) {
    Request asked = REQUEST(args...);
    asked.out = &out;
    return asked;
  }
};

// Products of groups
inline Request groups(const Tensor& a, const Tensor& b, const std::optional<Tensor>& offs,
                      const std::optional<Tensor>& bias, std::optional<ScalarType> out_dtype) {
  Request asked = product<Form::Groups>(a, b);
  asked.offs = offs && offs->defined() ? &*offs : nullptr;
  asked.has_bias = bias && bias->defined();
  asked.out_dtype = out_dtype;
  return asked;
}

}  // namespace tiled::asked
