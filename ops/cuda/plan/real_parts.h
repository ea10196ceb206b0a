// A complex product as a real one of twice the rows and columns, where that is faster. With the
// parts of A's elements as neighbours along M, and of B's along N, all four real chains of an
// element of C are neighbours in the product's result R, and a pass combines them:
//
//     R[2i, 2j]     = sum of ar * br     R[2i, 2j + 1]     = sum of ar * bi
//     R[2i + 1, 2j] = sum of ai * br     R[2i + 1, 2j + 1] = sum of ai * bi
//
//     C[i, j] = (R[2i, 2j] - R[2i + 1, 2j + 1]) + i (R[2i, 2j + 1] + R[2i + 1, 2j])
//
// An operand that is contiguous along M or N is read where it is; another one is copied, each row's
// real parts before its imaginary ones. The bits are those of the kernels for complex numbers: K is
// one segment, in which each of these sums is the contract's chain.
#pragma once

#include "cuda/plan/plan.h"
#include "cuda/plan/rules.h"

namespace tiled {

struct RealParts {
  Problem whole;    // the complex product, turned where C is contiguous along m
  Problem product;  // the real one; null where an operand or R is in the workspace
  bool copies_a, copies_b;
  // What the copies and R take of the workspace, behind what the product's own plan needs.
  int64_t a_bytes, b_bytes, r_bytes;

  int64_t bytes() const { return a_bytes + b_bytes + r_bytes; }
};

// Whether the product's bits are those of such a real one, and the workspace is not too large.
bool has_real_parts(const Problem& problem);

// The parts of a problem that has them.
RealParts real_parts(const Problem& problem);

// What the copies and the pass take, beside the product.
double seconds_of_passes(const RealParts& parts, const Rules& rules);

// Whether the real product is to compute the complex one: it exists, and takes less time than the
// best plan of complex numbers, by what was measured if both were, else by the rules' estimates.
// Remembered, as plans are (plan.cpp).
bool takes_real_parts(const Problem& problem, const DeviceInfo& device);

}  // namespace tiled
