// A product that another dtype's kernels compute, where that is faster. Its operands are converted,
// the other product leaves its sums R in the workspace, and a pass finishes C from these. No bit
// depends on which product it is: the contract's chains are the same.
//
// 16 bits in fused multiply-adds become fp32, which holds all their values. The element's chain is
// fp32's own.
//
// A complex product becomes a real one of twice the rows and columns. With the parts of A's
// elements as neighbours along M, and of B's along N, all four real chains of an element of C are
// neighbours in R:
//
//     R[2i, 2j]     = sum of ar * br     R[2i, 2j + 1]     = sum of ar * bi
//     R[2i + 1, 2j] = sum of ai * br     R[2i + 1, 2j + 1] = sum of ai * bi
//
//     C[i, j] = (R[2i, 2j] - R[2i + 1, 2j + 1]) + i (R[2i, 2j + 1] + R[2i + 1, 2j])
//
// An operand that is contiguous along M or N is read where it is; another one is copied, each row's
// real parts before its imaginary ones. K is one segment, in which each of these sums is a chain.
#pragma once

#include "cuda/plan/plan.h"

namespace tiled {

class Rules;  // rules.h, which knows the ladder: a further rung compiles no kernel of these again

struct Conversion {
  Problem whole;    // the product that is asked for, turned where C is contiguous along m
  Problem product;  // the other; null where an operand or R is in the workspace
  bool copies_a, copies_b;
  // The bytes that the copies and R take of the workspace, behind what the product's own plan
  // needs.
  int64_t a_bytes, b_bytes, r_bytes;

  int64_t bytes() const { return a_bytes + b_bytes + r_bytes; }
};

// Whether products of this dtype and arithmetic have conversions.
inline bool may_be_converted(const Problem& p) {
  const bool is_16_bit = p.dtype == DType::Float16 || p.dtype == DType::BFloat16;
  return is_complex(p.dtype) || (is_16_bit && p.arithmetic == Arithmetic::Fma);
}

// Whether there is such a product of the same bits, and its workspace is not too large.
bool has_conversion(const Problem& problem);

// The conversion of a problem that has one.
Conversion conversion_of(const Problem& problem);

// The time that the copies and the pass take, beside the product.
double seconds_of_passes(const Conversion& conversion, const Rules& rules);

// Whether the other product is to compute this one: it exists, and takes less time than the best
// plan without it, by what was measured if both were, else by the rules' estimates. Remembered, as
// plans are (plan.cpp).
bool is_converted(const Problem& problem, const DeviceInfo& device);

}  // namespace tiled
