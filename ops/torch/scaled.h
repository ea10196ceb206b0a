// Scaled products of a backend, which is one of grouped.h's: the sizes, groups and results of
// grouped products, and one problem more, with scales. A Backend has also
//   static bool runs_scaled(const Problem&, const at::Tensor& a);
// which says whether some kernel takes the scales.
#pragma once

#include "torch/check_scaled.h"
#include "torch/grouped.h"
#include "torch/schema.h"

namespace tiled {

// The problem of checked operands, without C.
inline Problem scaled_problem(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                              const at::Tensor& scale_b, const ScaledShape& shape) {
  const DType a_dtype = scaled_dtype_of(a), b_dtype = scaled_dtype_of(b);
  const int64_t m = shape.product.m.expect_int(), n = shape.product.n.expect_int();
  Problem problem =
      problem_of(operand_of(a, a_dtype), operand_of(b, b_dtype), shape.product.groups.expect_int(),
                 m, n, shape.product.k.expect_int(), a_dtype, shape.type,
                 is_fp8(a_dtype) ? Arithmetic::Fp8 : Arithmetic::Fma);
  problem.scales = {scales_of(scale_a, shape.a, m), scales_of(scale_b, shape.b, n), b_dtype,
                    shape.a.spaced || shape.b.spaced};
  return problem;
}

template <typename Backend>
class Scaled {
 public:
  static at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                            const at::Tensor& scale_b, const ScaledOptions& asked) {
    return run(a, b, scale_a, scale_b, asked, check_scaled(a, b, scale_a, scale_b, asked), {}, {});
  }

  // Whether a kernel computes it.
  static bool runs(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                   const at::Tensor& scale_b, const ScaledOptions& asked) {
    const ScaledShape shape = check_scaled(a, b, scale_a, scale_b, asked);
    return Backend::runs_scaled(scaled_problem(a, b, scale_a, scale_b, shape), a);
  }

  static void product_out(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                          const at::Tensor& scale_b, const ScaledOptions& asked, at::Tensor& out) {
    const ScaledShape shape = check_scaled(a, b, scale_a, scale_b, asked);
    if (check_out(a, out, shape.type, shape.sizes) == OutShape::Fits) {
      run(a, b, scale_a, scale_b, asked, shape, {}, out);
      return;
    }
    check_no_self_overlap(out);
    write_out(out, run(a, b, scale_a, scale_b, asked, shape, {}, {}));
  }

  // sum += the product, rounded once, to the dtype of the sum: a weight's gradient.
  static void add_product(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b,
                          const at::Tensor& scale_a, const at::Tensor& scale_b,
                          const ScaledOptions& asked) {
    ScaledOptions options = asked;
    options.out_dtype = sum.scalar_type();
    const ScaledShape shape = check_scaled(a, b, scale_a, scale_b, options);
    run(a, b, scale_a, scale_b, options, shape, sum, sum);
  }

 private:
  static at::Tensor run(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                        const at::Tensor& scale_b, const ScaledOptions& asked,
                        const ScaledShape& shape, const std::optional<at::Tensor>& input,
                        const std::optional<at::Tensor>& out) {
    EpilogueOptions e;
    e.bias = asked.bias, e.bias_along = "n", e.activation = asked.activation;
    e.input = input, e.out = out;
    const at::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(c10::SymIntArrayRef(shape.sizes));
    if (out) check_finished_out(a, *out, shape.type, sizes);
    MmOptions options;
    options.sum_order = asked.sum_order;
    return std::get<0>(run_groups<Backend>({scaled_problem(a, b, scale_a, scale_b, shape),
                                            shape.product,
                                            sizes,
                                            shape.type,
                                            a,
                                            asked.offs,
                                            {&a, &b, &scale_a, &scale_b}},
                                           e, options));
  }
};

template <typename Backend>
void register_scaled(torch::Library& m) {
  m.impl("scaled_mm", kernel<&Scaled<Backend>::product>);
  m.impl("scaled_mm.out", kernel<&Scaled<Backend>::product_out>);
  m.impl("_add_scaled_mm", kernel<&Scaled<Backend>::add_product>);
}

}  // namespace tiled
