// The CPU key: ATen's tensors and threads bound to the core, which knows neither.
#include "torch/mm_cpu.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

#include <algorithm>

#include "cpu/gradient_pass.h"
#include "cpu/quantize.h"
#include "cpu/rungs.h"
#include "cpu/tree.h"
#include "torch/activation_backward.h"
#include "torch/addmm.h"
#include "torch/grouped.h"
#include "torch/options.h"
#include "torch/products.h"
#include "torch/quantize.h"
#include "torch/scaled.h"
#include "torch/tree.h"

namespace tiled {

Algo cpu_algo(std::optional<std::string_view> asked) {
  if (!asked) return cpu::DEFAULT_RUNG;
  const std::optional<Algo> algo = parse_algo(*asked);
  const std::vector<Algo>& fitting = cpu::rungs();
  if (std::find(fitting.begin(), fitting.end(), algo) == fitting.end())
    throw_unfit_algo(*asked, fitting,
                     algo ? "it runs on CUDA tensors, and these are on the CPU" : "");
  return *algo;
}

namespace {

// One task is worth a thread: the core hands over tasks that are large enough.
void run_tasks(int64_t count, cpu::Body body, void* state) {
  at::parallel_for(0, count, /*grain_size=*/1,
                   [&](int64_t begin, int64_t end) { body(state, begin, end); });
}

cpu::ParallelFor all_threads() {
  return {&run_tasks, at::in_parallel_region() ? 1 : at::get_num_threads()};
}

struct Cpu {
  using Chain = Algo;
  using Plan = TreePlan<Chain>;

  static Plan plan(const Problem& problem, const MmOptions& options, const at::Tensor& a) {
    return plan_of_either_order<Cpu>(problem, options, a);
  }

  static Chain plan_chain(const Problem&, const MmOptions& options, const at::Tensor&) {
    return cpu_algo(options.algo);
  }

  static constexpr bool one_product_sums(const Problem&, const SumTree&, const MmOptions&,
                                         const at::Tensor&) {
    return false;
  }

  static Target target(const at::Tensor&) { return {at::kCPU}; }

  static at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type, const at::Tensor&) {
    return at::detail::empty_cpu(sizes, type);
  }

  static constexpr bool READS_OFFSETS = false;

  static bool runs_scaled(const Problem&, const at::Tensor&) { return true; }

  static void run(const Problem& problem, const Plan& plan, const at::Tensor& a) {
    run_either_order<Cpu>(problem, plan, a);
  }

  static void run_chain(const Problem& problem, Chain plan, const at::Tensor&) {
    cpu::run(problem, plan, all_threads());
  }

  static void add(const TreePass& pass) { cpu::add_parts(pass, all_threads()); }

  static c10::DataPtr workspace(int64_t bytes) { return c10::GetCPUAllocator()->allocate(bytes); }

  static void run(const GradientPass& pass, const at::Tensor&) {
    cpu::pass_back(pass, all_threads());
  }

  static void run(const Quantization& pass, const at::Tensor&) {
    cpu::quantize(pass, all_threads());
  }
};

}  // namespace

const Products& cpu_products() {
  static constexpr Products products =
      products_of<Cpu>([](const at::Tensor& a) { return a.is_cpu(); });
  return products;
}

TORCH_LIBRARY_IMPL(tiled, CPU, m) {
  m.impl("mm", kernel<&Product<Cpu>::mm>);
  m.impl("bmm", kernel<&Product<Cpu>::bmm>);
  m.impl("mm.out", kernel<&Product<Cpu>::mm_out<&check_mm>>);
  m.impl("bmm.out", kernel<&Product<Cpu>::mm_out<&check_bmm>>);
  register_addmm<Cpu>(m);
  register_grouped<Cpu>(m);
  register_scaled<Cpu>(m);
  m.impl("_quantize_blocks", &quantize_blocks<Cpu>);
  m.impl("activation_backward", &activation_backward<Cpu>);
}

TORCH_LIBRARY_IMPL(tiled_debug, CPU, m) {
  m.impl("mm_with_epilogue", kernel<&mm_with_epilogue<Cpu>>);
}

}  // namespace tiled
