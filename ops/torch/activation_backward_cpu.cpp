// tiled::activation_backward for the CPU key.
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include "cpu/gradient_pass.h"
#include "torch/activation_backward.h"

namespace tiled {
namespace {

void run_tasks(int64_t count, cpu::Body body, void* state) {
  at::parallel_for(0, count, /*grain_size=*/1,
                   [&](int64_t begin, int64_t end) { body(state, begin, end); });
}

struct Cpu {
  static at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type, const at::Tensor&) {
    return at::detail::empty_cpu(sizes, type);
  }

  static void run(const GradientPass& pass, const at::Tensor&) {
    const int threads = at::in_parallel_region() ? 1 : at::get_num_threads();
    cpu::pass_back(pass, {&run_tasks, threads});
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(tiled, CPU, m) { m.impl("activation_backward", &activation_backward<Cpu>); }

}  // namespace tiled
