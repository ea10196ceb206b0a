// tiled::activation_backward for the CUDA key: on the current stream of the gradient's device,
// without a synchronisation.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/EmptyTensor.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include "cuda/launch/gradient_pass.h"
#include "torch/activation_backward.h"
#include "torch/hooks.h"

namespace tiled {
namespace {

struct Cuda {
  static at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type, const at::Tensor& like) {
    return at::detail::empty_cuda(sizes, type, like.device(), /*memory_format_opt=*/std::nullopt);
  }

  static void run(const GradientPass& pass, const at::Tensor& like) {
    cuda_device(like.device().index());  // refuses one that this build has no kernels for
    const c10::cuda::CUDAGuard guard(like.device());
    // It may be given back as soon as the kernels are enqueued (mm_cuda.cpp).
    c10::DataPtr workspace;
    if (const int64_t bytes = pass_back_workspace(pass); bytes > 0)
      workspace = c10::cuda::CUDACachingAllocator::get()->allocate(bytes);
    C10_CUDA_CHECK(launch_pass_back(pass, workspace.get(), at::cuda::getCurrentCUDAStream()));
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(tiled, CUDA, m) { m.impl("activation_backward", &activation_backward<Cuda>); }

}  // namespace tiled
