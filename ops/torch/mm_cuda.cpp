// The CUDA key: Problem -> Plan -> launch on the current stream of the tensors' device. No
// synchronisation, and no memory but the result and the workspace that the plan declares.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/EmptyTensor.h>
#include <ATen/ops/full.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <cstdlib>
#include <deque>
#include <mutex>

#include "cuda/launch/launch.h"
#include "cuda/plan/architectures.h"
#include "cuda/plan/build.h"
#include "cuda/plan/fp16x3.h"
#include "torch/activation_backward.h"
#include "torch/addmm.h"
#include "torch/choose.h"
#include "torch/grouped.h"
#include "torch/hooks.h"
#include "torch/mm_with_tile.h"
#include "torch/options.h"
#include "torch/products.h"
#include "torch/quantize.h"
#include "torch/scaled.h"
#include "torch/scaled_with_tile.h"
#include "torch/tree_choice.h"
#include "torch/tune.h"

namespace tiled {
namespace {

constexpr Build BUILD = {
    TILED_MM_MMA_ARCHITECTURES,
    TILED_MM_BY_8_ARCHITECTURES,
#ifdef TILED_MM_HOPPER
    /*hopper=*/true,
#else
    /*hopper=*/false,
#endif
};

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
  return as_built(device, BUILD);
}

// Plans are made for the device, unless a test asks for another's plans.
DeviceInfo planned_device(const DeviceInfo& running) {
  const char* const name = std::getenv("TILED_MM_PLAN_AS");
  if (name == nullptr || *name == '\0') return running;
  std::string refusal;
  const std::optional<DeviceInfo> planned = planned_as(name, running, BUILD, refusal);
  TORCH_CHECK(planned, "tiled_mm: TILED_MM_PLAN_AS=", name, ": ", refusal);
  return *planned;
}

struct KnownDevice {
  DeviceInfo info;
  bool has_kernels;  // that run there, in this build
};

// A device's limits never change: each is read once, at its first product. Null if there is none.
const KnownDevice* known_device(c10::DeviceIndex index) {
  static std::deque<std::once_flag> read(c10::cuda::device_count());
  static std::vector<KnownDevice> devices(c10::cuda::device_count());
  if (index < 0 || static_cast<size_t>(index) >= devices.size()) return nullptr;
  std::call_once(read[index], [&] {
    const DeviceInfo running = read_device(index);
    devices[index] = {planned_device(running), runs_on(TILED_MM_ARCHITECTURES, running.capability)};
    load_rules_of_environment(devices[index].info);
  });
  return &devices[index];
}

struct Cuda {
  struct Chain : tiled::Plan {
    bool is_converted = false;  // the plan is of the product of another dtype that computes it
  };
  using Plan = TreePlan<Chain>;

  static Plan plan(const Problem& problem, const MmOptions& options, const at::Tensor& a) {
    return plan_of_either_order<Cuda>(problem, options, a);
  }

  static Chain plan_chain(const Problem& problem, const MmOptions& options, const at::Tensor& a) {
    const DeviceInfo& device = cuda_device(a.device().index());
    if (is_tuning() && !options.algo) tune_with_conversion(problem, device, a.device().index());
    if (const auto real = plan_of_conversion(problem, device, options)) return {*real, true};
    return {choose_plan(problem, device, a.scalar_type(), options)};
  }

  // The product, and that of another dtype that may compute it: of any values where it would read
  // copies. Without memory for these that one is left to estimates.
  static void tune_with_conversion(const Problem& problem, const DeviceInfo& device,
                                   c10::DeviceIndex index) {
    tune(problem, device, index);
    if (!has_conversion(problem)) return;
    Conversion conversion = conversion_of(problem);
    const c10::cuda::CUDAGuard guard(index);
    try {
      const c10::DataPtr a = workspace(conversion.a_bytes), b = workspace(conversion.b_bytes);
      if (conversion.copies_a) conversion.product.a.data = a.get();
      if (conversion.copies_b) conversion.product.b.data = b.get();
      tune(conversion.product, device, index);
    } catch (const c10::OutOfMemoryError&) {
    }
  }

  static bool one_product_sums(const Problem& whole, const SumTree& tree, const MmOptions& options,
                               const at::Tensor& a) {
    const DeviceInfo& device = cuda_device(a.device().index());
    return tiled::one_product_sums(whole, tree, device, a.scalar_type(), options);
  }

  static Target target(const at::Tensor& a) { return target_of(a); }

  static at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type, const at::Tensor& a) {
    return at::detail::empty_cuda(sizes, type, a.device(), /*memory_format_opt=*/std::nullopt);
  }

  static constexpr bool READS_OFFSETS = true;

  static bool runs_scaled(const Problem& problem, const at::Tensor& a) {
    return any_rung_computes(problem, cuda_device(a.device().index()));
  }

  static void run(const Problem& problem, const Plan& plan, const at::Tensor& a) {
    const c10::cuda::CUDAGuard guard(a.device());
    run_either_order<Cuda>(problem, plan, a);
  }

  // On the current device, which is the tensors'.
  static void run_chain(const Problem& problem, const Chain& plan, const at::Tensor&) {
    const auto stream = at::cuda::getCurrentCUDAStream();
    if (plan.is_converted) {
      const Conversion conversion = conversion_of(problem);
      const c10::DataPtr place =
          workspace(workspace_aligned(plan.workspace_bytes) + conversion.bytes());
      C10_CUDA_CHECK(launch_conversion(conversion, plan, place.get(), stream));
      return;
    }
    const c10::DataPtr place = workspace(plan.workspace_bytes);
    C10_CUDA_CHECK(launch(problem, plan, place.get(), stream));
  }

  static void add(const TreePass& pass) {
    C10_CUDA_CHECK(launch_tree_sum(pass, at::cuda::getCurrentCUDAStream()));
  }

  static void run(const GradientPass& pass, const at::Tensor& like) {
    cuda_device(like.device().index());  // refuses one that this build has no kernels for
    const c10::cuda::CUDAGuard guard(like.device());
    const c10::DataPtr place = workspace(pass_back_workspace(pass));
    C10_CUDA_CHECK(launch_pass_back(pass, place.get(), at::cuda::getCurrentCUDAStream()));
  }

  static void run(const Quantization& pass, const at::Tensor& x) {
    cuda_device(x.device().index());  // refuses one that this build has no kernels for
    const c10::cuda::CUDAGuard guard(x.device());
    C10_CUDA_CHECK(launch_quantize(pass, at::cuda::getCurrentCUDAStream()));
  }

  // From the caching allocator, which hands it on in the stream's order: it may be given back as
  // soon as the kernels are enqueued, in a graph's capture too.
  static c10::DataPtr workspace(int64_t bytes) {
    return bytes > 0 ? c10::cuda::CUDACachingAllocator::get()->allocate(bytes) : c10::DataPtr();
  }
};

// The guard counts in the workspace, in 32 bits; the count is copied from there on the device.
at::Tensor fp16x3_recomputed(const at::Tensor& a, const at::Tensor& b) {
  a.dim() == 3 ? check_bmm(a, b) : check_mm(a, b);
  MmOptions options;
  options.precision = "fp16x3";
  const at::ScalarType type = a.scalar_type();
  Problem problem = problem_of(a, b, type, resolve_arithmetic(type, target_of(a), options));
  const Plan plan = choose_plan(problem, cuda_device(a.device().index()), type, options);
  const c10::cuda::CUDAGuard guard(a.device());
  at::Tensor c = Cuda::empty({problem.batch, problem.m, problem.n}, type, a);
  const std::optional<int64_t> begin = place_of_recomputed(plan);
  if (!begin || c.numel() == 0) return at::full({}, c.numel(), a.options().dtype(at::kLong));
  problem.c.data = c.mutable_data_ptr();
  const at::Tensor workspace = Cuda::empty({plan.workspace_bytes}, at::kByte, a);
  C10_CUDA_CHECK(
      launch(problem, plan, workspace.mutable_data_ptr(), at::cuda::getCurrentCUDAStream()));
  const at::Tensor count = workspace.slice(0, *begin, *begin + 4).view(at::kInt)[0];
  return count.to(at::kLong).bitwise_and(0xffffffff);  // it has no sign
}

}  // namespace

const DeviceInfo& cuda_device(c10::DeviceIndex index) {
  const KnownDevice* device = known_device(index);
  TORCH_CHECK(device != nullptr, "tiled_mm: there is no CUDA device ", static_cast<int>(index),
              "; to plan for one, name it, as device='h200'");
  const DeviceInfo& info = device->info;
  TORCH_CHECK_NOT_IMPLEMENTED(device->has_kernels, "tiled_mm: this build has no kernels for ",
                              info.name, " of compute capability ",
                              capability_name(info.capability),
                              ", only for " TILED_MM_ARCHITECTURES " (TORCH_CUDA_ARCH_LIST)");
  return info;
}

std::vector<DeviceInfo> cuda_devices() {
  std::vector<DeviceInfo> devices;
  for (c10::DeviceIndex i = 0; const KnownDevice* device = known_device(i); ++i)
    devices.push_back(device->info);
  return devices;
}

c10::DeviceIndex current_cuda_device() { return c10::cuda::current_device(); }

const DeviceInfo* cuda_device_if_any(c10::DeviceIndex index) {
  const KnownDevice* device = known_device(index);
  return device != nullptr ? &device->info : nullptr;
}

std::vector<int64_t> cuda_kernel_attributes(const at::Tensor& a, const at::Tensor& b,
                                            const MmOptions& options) {
  const at::ScalarType type = check_out_dtype(a.scalar_type(), options);
  const Arithmetic arithmetic = resolve_arithmetic(a.scalar_type(), target_of(a), options);
  Problem problem = problem_of(a, b, type, arithmetic);
  const Cuda::Chain plan = Cuda::plan_chain(problem, options, a);
  if (plan.is_converted) problem = conversion_of(problem).product;
  const c10::cuda::CUDAGuard guard(a.device());
  LaunchAttributes found;
  C10_CUDA_CHECK(attributes(problem, plan, &found));
  return {found.registers, found.shared_bytes, found.local_bytes, found.blocks_per_sm};
}

const Products* cuda_products() {
  static constexpr Products products = products_of<Cuda>([](const at::Tensor& a) {
    const KnownDevice* device = known_device(a.device().index());
    return device != nullptr && device->has_kernels;
  });
  return &products;
}

TORCH_LIBRARY_IMPL(tiled, CUDA, m) {
  m.impl("mm", kernel<&Product<Cuda>::mm>);
  m.impl("bmm", kernel<&Product<Cuda>::bmm>);
  m.impl("mm.out", kernel<&Product<Cuda>::mm_out<&check_mm>>);
  m.impl("bmm.out", kernel<&Product<Cuda>::mm_out<&check_bmm>>);
  register_addmm<Cuda>(m);
  register_grouped<Cuda>(m);
  register_scaled<Cuda>(m);
  m.impl("_quantize_blocks", &quantize_blocks<Cuda>);
  m.impl("activation_backward", &activation_backward<Cuda>);
  m.impl("fp16x3_recomputed", &fp16x3_recomputed);
}

TORCH_LIBRARY_IMPL(tiled_debug, CUDA, m) {
  m.impl("mm_with_tile", kernel<&mm_with_tile<Cuda>>);
  m.impl("finished_with_tile", kernel<&finished_with_tile<Cuda>>);
  m.impl("mm_with_epilogue", kernel<&mm_with_epilogue<Cuda>>);
  m.impl("scaled_with_tile", &scaled_with_tile<Cuda>);
}

}  // namespace tiled
