// A call of one of torch's operators for products, in one form for all of them:
//
//     C = activation(alpha A B + beta input)
//
// whether tiled computes it, and its computation.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "torch/products.h"

namespace tiled {

// The library that computes a call: tiled, or torch's own kernel and why.
enum class Verdict : int8_t {
  Tiled,
  Off,     // nothing overrides this device now
  Dtype,   // torch refuses it on this device, tiled has no kernel, or dtypes do not fit
  Shape,   // shapes do not fit: torch's kernel raises
  Device,  // tensors of several devices, or of one that the build has no kernels for
  Scalar,  // alpha or beta does not fit the dtype
  Layout,  // out= is a lazy view or overlaps itself
  Names,   // named tensors
  Memory,  // zeros without memory (torch._efficientzerotensor)
};
constexpr int VERDICTS = 9;

// The word for it in the counts.
const char* name_of(Verdict verdict);

// The shapes of A and B, and with them C's: [M, K] [K, N], [B, M, K] [B, K, N], [M, K] [K], [K]
// [K]; or what groups share out (check_grouped.h).
enum class Form : int8_t { Matrices, Batches, MatrixVector, Dot, Groups };

// The arguments are the caller's, which outlive it.
struct Request {
  Form form;
  const at::Tensor* a;
  const at::Tensor* b;
  const at::Tensor* input = nullptr;  // expands to C
  const at::Scalar* beta = nullptr;   // set with the input
  const at::Scalar* alpha = nullptr;
  std::optional<at::ScalarType> out_dtype = std::nullopt;
  std::optional<std::string_view> activation = std::nullopt;
  at::Tensor* out = nullptr;  // C, resized where it does not fit; may be the input
  // The two that only groups have.
  const at::Tensor* offs = nullptr;
  bool has_bias = false;
  bool of_int8 = false;  // C is the sums of int8, whole, and out_dtype int32
};

// Says what would compute it. Changes nothing.
Verdict judge(const Request& asked, at::DeviceType device, const Products& products);

// The product, of a request that judge() gives to tiled. The second writes into asked.out.
at::Tensor compute(const Request& asked, const Products& products);
void compute_out(const Request& asked, const Products& products);

}  // namespace tiled
