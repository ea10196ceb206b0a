// One call of rung fp16x3, for its launches: those of async.cu, and of the kernels that only
// compute capability 9.0 has, which a build may leave out.
#pragma once

#include "cuda/rungs/9_fp16x3/fp16x3.h"

namespace tiled {

// A call as its kernels see it.
struct Call {
  const Problem& problem;
  Fp16x3Plan way;
  Fp16x3Layout layout;
  char* memory;      // the workspace
  const Step& step;  // the product
  GuardArguments guard;
  cudaStream_t stream;

  // Rows of P or Q from one batch entry to the next, of their scales.
  int64_t p_scales_batch() const { return layout.p_entries > 1 ? layout.sides.p.rows : 0; }
  int64_t q_scales_batch() const { return layout.q_entries > 1 ? layout.sides.q.rows : 0; }
  float tolerance() const { return static_cast<float>(fp16x3_tolerance(problem.k, way.coarse)); }
  RowScale* p_scales() const { return reinterpret_cast<RowScale*>(memory + layout.p_scales_at); }
  RowScale* q_scales() const { return reinterpret_cast<RowScale*>(memory + layout.q_scales_at); }
};

// The arguments of a product from tiles, but for its maps.
Fp16x3Arguments product_arguments(const Call& call);

// The product by a kernel of 9.0 alone, and that kernel (launch_hopper.cpp, no_hopper.cpp).
cudaError_t launch_hopper_product(const Call& call);
const void* hopper_kernel(const Problem& problem, const Fp16x3Plan& way);

}  // namespace tiled
