#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/AutogradState.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/segments.h"
#include "cuda/plan/current_rules.h"
#include "cuda/plan/estimate.h"
#include "explain/report.h"
#include "out_of_core/plan.h"
#include "out_of_core/staging.h"
#include "scale/links.h"
#include "torch/check.h"
#include "torch/choose.h"
#include "torch/from_tensors.h"
#include "torch/sum_order.h"

namespace tiled {
namespace {

// A device reads and writes the tensor's memory past the dispatcher.
void check_memory(const at::Tensor& t, const char* name) {
  constexpr auto WITHOUT =
      at::kTensorSubclassLike | at::DispatchKeySet(at::DispatchKey::ZeroTensor);
  TORCH_CHECK_NOT_IMPLEMENTED(
      (t.key_set() & WITHOUT).empty(),
      "tiled_mm: out_of_core copies the memory of its tensors, and ", name,
      " has none: it is one of torch.func's, of tracing, of a subclass with __torch_dispatch__, or "
      "a zero tensor of forward differentiation");
  check_allocated(t);
}

void check_devices(const std::vector<at::Device>& devices) {
  for (size_t i = 0; i < devices.size(); ++i) {
    TORCH_CHECK(devices[i].is_cuda(), "tiled_mm: out_of_core computes on GPUs, not on ",
                devices[i]);
    for (size_t j = 0; j < i; ++j)
      TORCH_CHECK(devices[i] != devices[j], "tiled_mm: device ", devices[i], " is named twice");
  }
}

void check_operand(const at::Tensor& t, const char* name, at::DeviceType device) {
  TORCH_CHECK_NOT_IMPLEMENTED(t.layout() == at::kStrided,
                              "tiled_mm: expected dense (strided) tensors, got ", t.layout());
  TORCH_CHECK(t.device().type() == device, "tiled_mm: out_of_core streams CPU tensors, but ", name,
              " is on ", t.device(), "; tiled_mm.mm multiplies what is on a device");
  TORCH_CHECK(!(at::GradMode::is_enabled() && t.requires_grad()),
              "tiled_mm: out_of_core does not support automatic differentiation, but ", name,
              " requires grad");
  TORCH_CHECK(!(c10::AutogradState::get_tls_state().get_fw_grad_mode() && t._fw_grad(0).defined()),
              "tiled_mm: out_of_core does not support automatic differentiation, but ", name,
              " has a tangent");
  if (device == at::kCPU) check_memory(t, name);
}

// New memory is mapped when it is first written, 4 KiB at a time, which for gigabytes takes longer
// than a 16-bit product: the system is asked for pages of 2 MiB. It may refuse, and nothing is
// lost.
void ask_for_large_pages(const at::Tensor& t) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t PAGE = 2 << 20;
  const auto begin = reinterpret_cast<uintptr_t>(t.const_data_ptr());
  const uintptr_t first = (begin + PAGE - 1) / PAGE * PAGE,
                  end = (begin + t.nbytes()) / PAGE * PAGE;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
}

void check_apart(const at::Tensor& out, const at::Tensor& input) {
  TORCH_CHECK(!may_overlap(out, input),
              "unsupported operation: some elements of the input tensor and the written-to tensor "
              "refer to a single memory location. Please clone() the tensor before performing the "
              "operation.");
}

// The product of one tile on the device, where its operands are as the engine puts them.
Problem tile_problem(const OutOfCoreProduct& product, Arithmetic arithmetic, int64_t m, int64_t n,
                     int64_t k, at::ScalarType type) {
  const int64_t size = product.a.element_size();
  const auto operand = [&](const at::Tensor& host, int64_t rows, int64_t columns) {
    const bool by_columns = lies_by_columns(host);
    const int64_t pitch = scale::pitch_of(by_columns ? rows : columns, size);
    Operand o{nullptr, by_columns ? 1 : pitch, by_columns ? pitch : 1, 0, 16};
    o.alignment =
        alignment_of(nullptr, dtype_of(host.scalar_type()), o.row_stride, o.col_stride, 0);
    return o;
  };
  Problem problem = problem_of(operand(product.a, m, k), operand(product.b, k, n), 1, m, n, k,
                               dtype_of(product.a.scalar_type()), type, arithmetic);
  const Operand c = operand(product.c, m, n);
  problem.c = {nullptr, c.row_stride, c.col_stride, 0, c.alignment};
  return problem;
}

scale::Task task_of(const OutOfCoreProduct& product, const OutOfCoreTarget& target, bool copy) {
  const auto& [a, b, c] = product;
  const bool is_complex = a.is_complex();
  scale::Task task{};
  task.m = a.size(0), task.n = b.size(1), task.k = a.size(1);
  task.a_along_k = !lies_by_columns(a);
  task.b_along_k = lies_by_columns(b);
  task.c_along_n = !lies_by_columns(c);
  task.element_bytes = a.element_size();
  task.result_bytes = c.element_size();
  task.sum_bytes =
      static_cast<int64_t>(c10::elementSize(sum_type_of(a.scalar_type(), c.scalar_type())));
  task.maps = !copy;
  task.cuts_k = copy && task.k >= DEEP_K && target.arithmetic != Arithmetic::Fp16x3;
  task.flops = (is_complex ? 8. : 2.) * task.m * task.n * task.k;
  return task;
}

}  // namespace

at::ScalarType sum_type_of(at::ScalarType dtype, at::ScalarType result) {
  return is_16_bit(dtype) ? at::kFloat : result;
}

OutOfCoreProduct::OutOfCoreProduct(const at::Tensor& a, const at::Tensor& b,
                                   const std::optional<at::Tensor>& out,
                                   const OutOfCoreOptions& options, at::DeviceType device)
    : a(a), b(b) {
  check_devices(options.devices);
  check_operand(a, "a", device);
  check_operand(b, "b", device);
  check_mm(a, b);
  dtype_of(a.scalar_type());
  TORCH_CHECK_NOT_IMPLEMENTED(leaf_of({}) == 0 || is_integer(dtype_of(a.scalar_type())),
                              "tiled_mm: out_of_core sums K in the order of one chain; call it "
                              "under sum_order 'chain'");
  const at::ScalarType type =
      check_out_dtype(a.scalar_type(), {std::nullopt, options.precision, options.out_dtype});
  if (!out) {
    c = at::empty({a.size(0), b.size(1)}, a.options().dtype(type));
    if (device == at::kCPU) {
      check_memory(c, "out");
      ask_for_large_pages(c);
    }
    return;
  }
  check_operand(*out, "out", device);
  TORCH_CHECK(check_out(a, *out, type, {a.sym_size(0), b.sym_size(1)}) == OutShape::Fits,
              "tiled_mm: out has shape ", out->sizes(),
              ", which does not match the required output shape [", a.size(0), ", ", b.size(1),
              "]; out_of_core does not resize it");
  check_no_self_overlap(*out);
  check_apart(*out, a);
  check_apart(*out, b);
  c = *out;
}

OutOfCoreTarget target_on(const DeviceInfo& whole, const OutOfCoreProduct& product,
                          const OutOfCoreOptions& options, int64_t memory) {
  const DeviceInfo device = planned_part(whole);
  const at::ScalarType dtype = product.a.scalar_type();
  const Target target{at::kCUDA, &device};
  const MmOptions asked{std::nullopt, options.precision, std::nullopt};
  OutOfCoreTarget found;
  found.name = device.name;
  found.arithmetic = resolve_arithmetic(dtype, target, asked);
  // Settings of the library and of torch may change while the product runs.
  found.options.precision = resolve_precision(dtype, target, asked);
  const double link = scale::link_rate(device.capability);
  found.rates = {link, link, peak_flops(device, dtype_of(dtype), found.arithmetic),
                 device.memory_bandwidth};
  found.memory = options.memory.value_or(memory);
  TORCH_CHECK(found.memory > 0, "tiled_mm: memory must be positive, got ", found.memory);
  const at::ScalarType type = product.c.scalar_type();
  // Refuses what no kernel of the device computes.
  choose_plan(tile_problem(product, found.arithmetic, 64, 64, 64, type), device, dtype,
              found.options);
  found.product_of = [product, arithmetic = found.arithmetic, device, type](int64_t m, int64_t n,
                                                                            int64_t k) {
    const Problem problem = tile_problem(product, arithmetic, m, n, k, type);
    const Choice best = choose(problem, device, *current_rules(device));
    return scale::Product{best.plan.workspace_bytes, best.seconds};
  };
  return found;
}

int64_t memory_of(const std::vector<OutOfCoreTarget>& targets) {
  const auto less = [](const auto& x, const auto& y) { return x.memory < y.memory; };
  return std::min_element(targets.begin(), targets.end(), less)->memory;
}

scale::Report plan_out_of_core(const OutOfCoreProduct& product,
                               const std::vector<OutOfCoreTarget>& targets, bool copy,
                               int64_t memory) {
  const OutOfCoreTarget& target = targets.front();
  for (const OutOfCoreTarget& other : targets)
    TORCH_CHECK(other.arithmetic == target.arithmetic, "tiled_mm: the devices ", target.name,
                " and ", other.name,
                " compute these inputs by different arithmetic, so that bits of out would depend "
                "on where its tiles were computed; precision='ieee' is the same on both");
  scale::Task task = task_of(product, target, copy);
  task.devices = static_cast<int64_t>(targets.size());
  const auto plan = scale::make_plan(task, target.rates, memory, target.product_of);
  TORCH_CHECK(plan, "tiled_mm: not even the smallest tiles of [", task.m, ", ", task.k, "] x [",
              task.k, ", ", task.n, "] ", product.a.scalar_type(), " fit into ", memory,
              " bytes of the device's memory");
  return {task,
          target.rates,
          *plan,
          target.name,
          name_of(dtype_of(product.a.scalar_type())),
          arithmetic_name(target.arithmetic),
          task.devices,
          memory};
}

}  // namespace tiled
