// The instantiations of rung 3 that are not the real floating types' (see 3_register_tile.cuh).
#include "cuda/kernels/3_register_tile.cuh"
#include "cuda/kernels/kernels.h"

namespace tiled {

const void* register_tile_kernel(const Problem& problem, const Plan& plan) {
  return with_element_type(problem.dtype, [&](auto tag) {
    return register_tile_function<typename decltype(tag)::Type>(plan);
  });
}

}  // namespace tiled
