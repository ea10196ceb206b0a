// Every backend does the same around its kernels: check, plan, allocate, run, in this order, so
// that a call that cannot succeed has touched nothing. A Backend has
//   using Plan = ...;
//   static Plan plan(const Problem&, const MmOptions&, const at::Tensor& a);
//   static Target target(const at::Tensor& a);
//   static at::Tensor empty(at::IntArrayRef sizes, at::ScalarType, const at::Tensor& a);
//   static void run(const Problem&, const Plan&, const at::Tensor& a);
// where plan() refuses an algo that does not fit, and run() is called only for results with
// elements. The arithmetic is decided once, at the begin: settings of the library and of torch may
// be changed by another thread at any time.
#pragma once

#include <ATen/native/Resize.h>

#include "torch/check.h"
#include "torch/from_tensors.h"
#include "torch/precision.h"

namespace tiled {

// Writes a result to an out that is of its sizes or is resized to them. Its storage may be an
// input's, so it grows only here, after everything has been read.
inline void write_out(const at::Tensor& out, const at::Tensor& c) {
  at::native::resize_output(out, c.sizes());
  out.copy_(c);
}

template <typename Backend>
class Product {
 public:
  static at::Tensor mm(const at::Tensor& a, const at::Tensor& b, const MmOptions& options) {
    check_mm(a, b);
    return product(a, b, options, {a.size(0), b.size(1)});
  }

  static at::Tensor bmm(const at::Tensor& a, const at::Tensor& b, const MmOptions& options) {
    check_bmm(a, b);
    return product(a, b, options, {a.size(0), a.size(1), b.size(2)});
  }

  // For matrices or for batches, as CHECK_ALL checks them.
  template <auto CHECK_ALL>
  static void mm_out(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                     at::Tensor& out) {
    CHECK_ALL(a, b);
    // Taken now: out may be an operand, whose sizes change with it.
    at::DimVector sizes(a.sizes());
    sizes.back() = b.size(-1);
    const at::ScalarType type = check_out_dtype(a.scalar_type(), options);
    const Arithmetic arithmetic = resolve_arithmetic(a.scalar_type(), Backend::target(a), options);
    const bool fits = check_out(a, out, type, c10::fromIntArrayRefSlow(sizes)) == OutShape::Fits;
    check_no_self_overlap(out);
    // An operand whose sizes would change with out's is multiplied before that.
    const bool resizes_operand = !fits && (out.is_same(a) || out.is_same(b));
    if (!fits && !resizes_operand) {
      Backend::plan(problem_of(a, b, type, arithmetic), options,
                    a);  // refuses before it is resized
      at::native::resize_output(out, sizes);
    }
    // An operand that shares memory with out would be overwritten before it is read; what memory
    // out has is known once it is resized.
    if (resizes_operand || may_overlap(out, a) || may_overlap(out, b)) {
      write_out(out, compute(a, b, options, type, arithmetic, sizes));
      return;
    }
    const Problem problem = problem_of(a, b, type, arithmetic, out);
    const auto plan = Backend::plan(problem, options, a);
    if (out.numel() > 0) Backend::run(problem, plan, a);
  }

 private:
  static at::Tensor product(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                            at::IntArrayRef sizes) {
    const at::ScalarType type = check_out_dtype(a.scalar_type(), options);
    const Arithmetic arithmetic = resolve_arithmetic(a.scalar_type(), Backend::target(a), options);
    return compute(a, b, options, type, arithmetic, sizes);
  }

  static at::Tensor compute(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                            at::ScalarType type, Arithmetic arithmetic, at::IntArrayRef sizes) {
    Problem problem = problem_of(a, b, type, arithmetic);
    const auto plan = Backend::plan(problem, options, a);
    at::Tensor c = Backend::empty(sizes, type, a);
    if (c.numel() == 0) return c;
    problem.c.data = c.mutable_data_ptr();
    Backend::run(problem, plan, a);
    return c;
  }
};

}  // namespace tiled
