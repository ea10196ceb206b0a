// Functions of one number as epilogues need them, written out so that host and device compute the
// same bits.
#pragma once

#ifdef __CUDACC__
#define TILED_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TILED_HOST_DEVICE inline
#endif

#include "core/epilogue.h"

namespace tiled {

template <typename Real>
TILED_HOST_DEVICE Real activated(Activation activation, Real x) {
  switch (activation) {
    case Activation::Relu: return x < 0 ? Real(0) : x;
    default: return x;
  }
}

}  // namespace tiled
