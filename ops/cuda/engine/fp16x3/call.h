// The launches of rung fp16x3 share this: those of launch.cpp and split.cu, and of the kernels that
// only compute capability 9.0 has, which a build may leave out.
#pragma once

#include "cuda/engine/fp16x3/fp16x3.h"
#include "cuda/parts/launch/launch_rung.h"

namespace tiled {

inline float tolerance_of(const Call& call, const Fp16x3Plan& way) {
  return static_cast<float>(fp16x3_tolerance(call.problem.k, way.coarse));
}

// Scales from one batch entry, or group that shares out K, to the next.
inline int64_t scales_batch(const Side& side, int64_t batch) {
  return side.groups_of_k > 0 || entries_of(side, batch) > 1 ? side.rows : 0;
}

// The squares to be computed again; no list where all of them are.
GuardList guard_list(const Call& call, const Fp16x3Plan& way);

// The arguments of a product from tiles, but for its maps.
Fp16x3Arguments product_arguments(const Call& call, const Fp16x3Plan& way);

cudaError_t launch_split(const Call& call, const Step& step);  // split.cu

// The product by a kernel of 9.0 alone, and that kernel (launch_hopper.cpp, no_hopper.cpp).
cudaError_t launch_hopper_product(const Call& call, const Step& step);
const void* hopper_kernel(const Problem& problem, const Fp16x3Plan& way);

}  // namespace tiled
