// The one place for the rules of shape, dtype and device, and their texts, which are torch.mm's
// where torch.mm has one. Sizes are read as SymInts, so that the Meta kernel asks the same
// questions of symbolic shapes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/op_registration/adaption.h>

#include <string>
#include <vector>

#include "core/algo.h"
#include "core/problem.h"
#include "core/text.h"
#include "tiled_mm.h"
#include "torch/memory.h"

namespace tiled {

// In the words of torch's messages.
inline std::string supported_dtypes() {
  return joined(std::vector<std::string>{
#define DTYPE(dtype, name, torch, bytes, sum_bytes, kind, element) #torch,
#include "core/dtypes.inc"
  });
}

inline DType dtype_of(at::ScalarType type) {
  switch (type) {
#define DTYPE(dtype, name, torch, bytes, sum_bytes, kind, element) \
  case at::ScalarType::torch: return DType::dtype;
#include "core/dtypes.inc"
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "\"tiled_mm\" not implemented for '", type,
                                  "'; supported: ", supported_dtypes());
  }
}

inline void check_same_device(const at::Tensor& a, const at::Tensor& b, const char* name,
                              const char* b_name) {
  if (a.device() != b.device()) c10::impl::common_device_check_failure(a.device(), b, name, b_name);
}

inline void check_same_dtype(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(),
              "expected m1 and m2 to have the same dtype, but got: ", a.dtype().name(),
              " != ", b.dtype().name());
}

// a [M, K] and b [K, N] of one dtype on one device.
inline void check_mm(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 2, "self must be a matrix");
  TORCH_CHECK(b.dim() == 2, "mat2 must be a matrix");
  TORCH_SYM_CHECK(a.sym_size(1).sym_eq(b.sym_size(0)),
                  "mat1 and mat2 shapes cannot be multiplied (", a.sym_size(0), "x", a.sym_size(1),
                  " and ", b.sym_size(0), "x", b.sym_size(1), ")");
  check_same_device(a, b, "tiled::mm", "mat2");
  check_same_dtype(a, b);
}

// a [B, M, K] and b [B, K, N] of one dtype on one device.
inline void check_bmm(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 3, "batch1 must be a 3D tensor");
  TORCH_CHECK(b.dim() == 3, "batch2 must be a 3D tensor");
  TORCH_SYM_CHECK(a.sym_size(0).sym_eq(b.sym_size(0)).sym_and(a.sym_size(2).sym_eq(b.sym_size(1))),
                  "Expected size for first two dimensions of batch2 tensor to be: [", a.sym_size(0),
                  ", ", a.sym_size(2), "] but got: [", b.sym_size(0), ", ", b.sym_size(1), "].");
  check_same_device(a, b, "tiled::bmm", "batch2");
  check_same_dtype(a, b);
}

inline bool is_byte(at::ScalarType dtype) { return dtype == at::kChar || dtype == at::kByte; }
inline bool is_16_bit(at::ScalarType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

// The dtype of the result: the inputs' or, if asked, the one that holds their sum as it is, float32
// for 16-bit inputs and int32 for bytes.
inline at::ScalarType check_out_dtype(at::ScalarType dtype, const MmOptions& options) {
  const at::ScalarType result = options.out_dtype.value_or(dtype);
  TORCH_CHECK(result == dtype || (result == at::kInt && is_byte(dtype)) ||
                  (result == at::kFloat && is_16_bit(dtype)),
              "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs or int32 for "
              "int8/uint8 inputs");
  return result;
}

// The same of operators that go on from the sum. What they add to integers has the inputs' dtype,
// and a byte is hardly what is meant to be added to an int32 sum: refused, not given a meaning.
inline at::ScalarType check_finished_out_dtype(at::ScalarType dtype, const MmOptions& options) {
  TORCH_CHECK(!is_byte(dtype) || options.out_dtype != at::kInt,
              "tiled_mm: out_dtype int32 for int8/uint8 inputs is for mm and bmm alone");
  return check_out_dtype(dtype, options);
}

enum class OutShape { Fits, ToBeResized };

// out= of the right dtype and device, and of the right shape or with no elements.
inline OutShape check_out(const at::Tensor& a, const at::Tensor& out, at::ScalarType result_type,
                          c10::SymIntArrayRef sizes) {
  check_same_device(a, out, "tiled::mm", "out");
  TORCH_CHECK(out.scalar_type() == result_type, "Expected out tensor to have dtype ",
              c10::scalarTypeToTypeMeta(result_type).name(), ", but got ", out.dtype().name(),
              " instead");
  if (out.sym_sizes() == sizes) return OutShape::Fits;
  TORCH_CHECK(out.sym_numel() == 0, "tiled_mm: out has shape ", out.sym_sizes(),
              ", which does not match the required output shape ", sizes,
              "; pass a tensor of this shape, or one with zero elements to be resized");
  return OutShape::ToBeResized;
}

// `why` says why a known rung does not fit.
[[noreturn]] inline void throw_unfit_algo(std::string_view asked, const std::vector<Algo>& fitting,
                                          const std::string& why = "") {
  std::vector<std::string_view> names;
  for (Algo algo : fitting) names.push_back(name_of(algo));
  TORCH_CHECK(false, "tiled_mm: algo '", std::string(asked), "' is ",
              parse_algo(asked) ? "not for these inputs" : "unknown", why.empty() ? "" : ": ", why,
              "; expected one of: ", joined(names));
}

}  // namespace tiled
