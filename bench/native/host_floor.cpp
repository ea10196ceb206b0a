// Operators for the benchmark alone; built by bench/native/__init__.py when it is needed.
//
// tiled_bench::floor(a, b) does what any operator of this form must do and nothing more: it
// allocates [M, N] and (CUDA) launches an empty kernel. What torch.ops.tiled.mm costs on the host
// above this is its own doing. It is registered as plain C++ operators are: a kernel for each
// device, and one on the Autograd key that makes a graph node, saves both inputs and redispatches.
//
// tiled_bench::fp32_peak(sink, steps) runs independent fp32 multiply-adds in registers and returns
// how many: the compute ceiling of a measured roofline.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include <type_traits>

#ifdef TILED_MM_BENCH_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "kernels.h"
#endif

namespace tiled_bench {
namespace {

using at::Tensor;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

Tensor floor_cpu(const Tensor& a, const Tensor& b) {
  return at::empty({a.size(0), b.size(1)}, a.options());
}

#ifdef TILED_MM_BENCH_CUDA
Tensor floor_cuda(const Tensor& a, const Tensor& b) {
  const c10::cuda::CUDAGuard guard(a.device());
  Tensor c = at::empty({a.size(0), b.size(1)}, a.options());
  launch_empty(c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return c;
}

int64_t fp32_peak_cuda(const Tensor& sink, int64_t steps) {
  const c10::cuda::CUDAGuard guard(sink.device());
  const int64_t flops = launch_fp32_peak(sink.mutable_data_ptr<float>(), sink.numel(), steps,
                                         c10::cuda::getCurrentCUDAStream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return flops;
}
#endif

struct FloorBackward : public Node {
  SavedVariable a, b;

  std::string name() const override { return "FloorBackward"; }
  void release_variables() override {
    a.reset_data();
    b.reset_data();
  }
  variable_list apply(variable_list&&) override {
    TORCH_CHECK(false, "tiled_bench::floor computes nothing, so it has no gradient");
  }
};

// Nodes are held by shared_ptr in torch 2.11 and by intrusive_ptr in later versions.
template <typename T>
auto make_node() {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, T>)
    return c10::make_intrusive<T>();
  else
    return std::shared_ptr<T>(new T(), torch::autograd::deleteNode);
}

Tensor floor_autograd(c10::DispatchKeySet keys, const Tensor& a, const Tensor& b) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("tiled_bench::floor", "")
                             .typed<Tensor(const Tensor&, const Tensor&)>();
  decltype(make_node<FloorBackward>()) node;
  if (torch::autograd::compute_requires_grad(a, b)) {
    node = make_node<FloorBackward>();
    node->set_next_edges(torch::autograd::collect_next_edges(a, b));
    if (node->should_compute_output(1)) node->a = SavedVariable(a, /*is_output=*/false);
    if (node->should_compute_output(0)) node->b = SavedVariable(b, /*is_output=*/false);
  }
  Tensor c = [&] {
    at::AutoDispatchBelowADInplaceOrView below;
    return op.redispatch(keys & c10::after_autograd_keyset, a, b);
  }();
  if (node) torch::autograd::set_history(c, node);
  return c;
}

}  // namespace

TORCH_LIBRARY(tiled_bench, m) {
  m.def("floor(Tensor a, Tensor b) -> Tensor");
  m.def("fp32_peak(Tensor(a!) sink, int steps) -> int");
}

TORCH_LIBRARY_IMPL(tiled_bench, CPU, m) { m.impl("floor", &floor_cpu); }

#ifdef TILED_MM_BENCH_CUDA
TORCH_LIBRARY_IMPL(tiled_bench, CUDA, m) {
  m.impl("floor", &floor_cuda);
  m.impl("fp32_peak", &fp32_peak_cuda);
}
#endif

TORCH_LIBRARY_IMPL(tiled_bench, Autograd, m) { m.impl("floor", &floor_autograd); }

}  // namespace tiled_bench
