// The cap belongs to the kernel, not to the launch: with a cap of just what a launch needs, a
// thread could lower it between another thread's call and its launch, which then fails. So it is
// one and the same for all, whoever sets it and however often.
//
// A high cap costs nothing. It is the most that a launch may ask for; a block takes what its launch
// has asked for, which is what occupancy follows, and the split of the L1 cache is a hint of its
// own (cudaFuncAttributePreferredSharedMemoryCarveout), left to the driver (CUDA Runtime API,
// cudaFuncSetAttribute).
#include "cuda/parts/dynamic_shared.h"

#include <array>
#include <atomic>
#include <cstdint>

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
  // Who was raised last, in each place: two that share one take turns, and are raised again.
  constexpr int BITS = 12;
  static std::array<std::atomic<uint64_t>, 1 << BITS> raised{};
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  // Addresses have 56 bits at most. No kernel is at 0.
  const uint64_t key = reinterpret_cast<uintptr_t>(kernel) << 8 | static_cast<uint8_t>(device);
  std::atomic<uint64_t>& place = raised[(key * 0x9e3779b97f4a7c15u) >> (64 - BITS)];
  if (place.load(std::memory_order_acquire) == key) return cudaSuccess;
  error = raise_cap(kernel, device);
  if (error == cudaSuccess) place.store(key, std::memory_order_release);
  return error;
}

}  // namespace tiled
