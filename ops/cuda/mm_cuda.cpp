// The CUDA key: Problem -> Plan -> launch on the current stream of the tensors' device. No
// synchronisation, and no memory but the result.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <deque>
#include <mutex>

#include "cuda/choose.h"
#include "cuda/hooks.h"
#include "cuda/launch.h"
#include "product.h"

namespace tiled {
namespace {

DeviceInfo read_device(c10::DeviceIndex index) {
  const cudaDeviceProp* properties = at::cuda::getDeviceProperties(index);
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, index));
    return value;
  };
  DeviceInfo device{};
  device.name = properties->name;
  device.capability = properties->major * 10 + properties->minor;
  device.multiprocessors = properties->multiProcessorCount;
  device.threads_per_sm = properties->maxThreadsPerMultiProcessor;
  device.threads_per_block = properties->maxThreadsPerBlock;
  device.blocks_per_sm = properties->maxBlocksPerMultiProcessor;
  device.registers_per_sm = properties->regsPerMultiprocessor;
  device.shared_bytes_per_sm = static_cast<int64_t>(properties->sharedMemPerMultiprocessor);
  device.shared_bytes_per_block = static_cast<int64_t>(properties->sharedMemPerBlockOptin);
  device.shared_bytes_reserved = static_cast<int64_t>(properties->reservedSharedMemPerBlock);
  device.l2_bytes = properties->l2CacheSize;
  // Two transfers a clock over a bus counted in bits.
  device.memory_bandwidth =
      2e3 * attribute(cudaDevAttrMemoryClockRate) * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
  set_architecture(device, 1e3 * attribute(cudaDevAttrClockRate));
  return device;
}

struct Cuda {
  using Plan = tiled::Plan;

  static Plan plan(const Problem& problem, std::optional<std::string_view> algo,
                   const at::Tensor& a) {
    return choose_plan(problem, cuda_device(a.device().index()), algo);
  }

  static at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type, const at::Tensor& a) {
    return at::detail::empty_cuda(sizes, type, a.device(), /*memory_format_opt=*/std::nullopt);
  }

  static void run(const Problem& problem, const Plan& plan, const at::Tensor& a) {
    const c10::cuda::CUDAGuard guard(a.device());
    C10_CUDA_CHECK(launch(problem, plan, at::cuda::getCurrentCUDAStream()));
  }
};

}  // namespace

const DeviceInfo& cuda_device(c10::DeviceIndex index) {
  // A device's limits never change: each is read once, at its first product.
  static std::deque<std::once_flag> read(c10::cuda::device_count());
  static std::vector<DeviceInfo> devices(c10::cuda::device_count());
  TORCH_CHECK(index >= 0 && static_cast<size_t>(index) < devices.size(),
              "tiled_mm: there is no CUDA device ", static_cast<int>(index),
              "; to plan for one, name it, as device='h200'");
  std::call_once(read.at(index), [&] { devices.at(index) = read_device(index); });
  return devices[index];
}

std::vector<int64_t> cuda_kernel_attributes(const at::Tensor& a, const at::Tensor& b,
                                            std::optional<std::string_view> algo) {
  const Arithmetic arithmetic =
      resolve_arithmetic(a.scalar_type(), a.device().type(), std::nullopt);
  const Problem problem = problem_of(a, b, a.scalar_type(), arithmetic);
  const Plan plan = Cuda::plan(problem, algo, a);
  const c10::cuda::CUDAGuard guard(a.device());
  LaunchAttributes found;
  C10_CUDA_CHECK(attributes(problem, plan, &found));
  return {found.registers, found.shared_bytes, found.local_bytes, found.blocks_per_sm};
}

TORCH_LIBRARY_IMPL(tiled, CUDA, m) {
  m.impl("mm", &Product<Cuda>::mm);
  m.impl("bmm", &Product<Cuda>::bmm);
  m.impl("mm.out", &Product<Cuda>::mm_out);
}

}  // namespace tiled
