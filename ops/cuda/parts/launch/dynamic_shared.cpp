// The cap belongs to the kernel, not to the launch: with a cap of just what a launch needs, a
// thread could lower it between another thread's call and its launch, which then fails. So it is
// one and the same for all, whoever sets it and however often.
//
// A high cap costs nothing. It is the most that a launch may ask for; a block takes what its launch
// has asked for, which is what occupancy follows, and the split of the L1 cache is a hint of its
// own (cudaFuncAttributePreferredSharedMemoryCarveout), left to the driver (CUDA Runtime API,
// cudaFuncSetAttribute).
#include "cuda/parts/launch/dynamic_shared.h"

#include "cuda/parts/launch/kernel_notes.h"

namespace tiled {
namespace {

cudaError_t raise_cap(const void* kernel, int device) {
  int most = 0;  // bytes
  cudaError_t error =
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (error != cudaSuccess) return error;
  cudaFuncAttributes found;
  error = cudaFuncGetAttributes(&found, kernel);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              most - static_cast<int>(found.sharedSizeBytes));
}

}  // namespace

cudaError_t allow_most_shared(const void* kernel) {
  static KernelNotes raised;
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  if (raised.find(kernel, device)) return cudaSuccess;
  error = raise_cap(kernel, device);
  if (error == cudaSuccess) raised.note(kernel, device, true);
  return error;
}

}  // namespace tiled
