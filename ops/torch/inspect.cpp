#include "torch/inspect.h"

#include "core/text.h"
#include "cpu/rungs.h"
#include "cuda/plan/current_rules.h"
#include "cuda/plan/estimate.h"
#include "cuda/plan/measured.h"
#include "cuda/plan/rung.h"
#include "explain/lines.h"
#include "explain/report.h"
#include "torch/activation.h"
#include "torch/choose.h"
#include "torch/from_tensors.h"
#include "torch/hooks.h"
#include "torch/inspect_cpu.h"
#include "torch/mm_cpu.h"
#include "torch/precision.h"
#include "torch/scaled.h"
#include "torch/tree_choice.h"

namespace tiled {

DeviceInfo device_by_name(std::string_view name) {
  if (name.substr(0, 4) == "cuda") {
    const c10::Device device{std::string(name)};
    return cuda_device(device.has_index() ? device.index() : current_cuda_device());
  }
  if (std::optional<DeviceInfo> device = named_device(name)) return *device;
  TORCH_CHECK(false, "tiled_mm: unknown device '", std::string(name),
              "'; expected one of: ", joined(device_names()), ", cuda");
}

namespace {

// The GPU to plan for, the named one, else the tensors' own, as far as products may fill it.
DeviceInfo device_of(const at::Tensor& a, OptionalName name) {
  if (name) return planned_part(device_by_name(*name));
  TORCH_CHECK(a.is_cuda(), "tiled_mm: ", a.device().type(),
              " tensors are on no GPU to plan for; name one, as device='h200'");
  return planned_part(cuda_device(a.device().index()));
}

bool on_cpu(const at::Tensor& a, OptionalName device) { return a.is_cpu() && !device; }

// A product with scales, which takes no rung and no precision by name.
Problem checked_scaled_problem(const at::Tensor& a, const at::Tensor& b, const MaybeTensor& scale_a,
                               const MaybeTensor& scale_b, const MmOptions& options) {
  TORCH_CHECK(scale_a && scale_b, "tiled_mm: a product with scales has two of them");
  TORCH_CHECK(!options.algo && !options.precision,
              "tiled_mm: a product with scales takes neither algo nor precision");
  ScaledOptions asked;
  asked.out_dtype = options.out_dtype;
  return scaled_problem(a, b, *scale_a, *scale_b, check_scaled(a, b, *scale_a, *scale_b, asked));
}

Problem checked_problem(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                        OptionalName device, const MaybeTensor& scale_a = {},
                        const MaybeTensor& scale_b = {}) {
  for (const at::Tensor& t : {a, b})
    TORCH_CHECK_NOT_IMPLEMENTED(t.layout() == at::kStrided,
                                "tiled_mm: expected dense (strided) tensors, got ", t.layout());
  if (scale_a || scale_b) return checked_scaled_problem(a, b, scale_a, scale_b, options);
  a.dim() == 3 ? check_bmm(a, b) : check_mm(a, b);
  std::optional<DeviceInfo> named;
  if (device) named = device_by_name(*device);
  const Target target = named ? Target{at::kCUDA, &*named} : target_of(a);
  return problem_of(a, b, check_out_dtype(a.scalar_type(), options),
                    resolve_arithmetic(a.scalar_type(), target, options));
}

// A product of one chain; of a tree the first of its leaves' products, and what it is a part of.
struct Explained {
  Problem problem;
  std::string text;                                 // in front of the rest; empty of a chain
  std::string leaves = "null", converted = "null";  // as JSON
  int64_t more_bytes = 0;                           // of the workspace, beside the plan's own
};

Explained first_product(const Problem& problem, const MmOptions& options, const at::Tensor& a,
                        OptionalName device) {
  const SumTree tree = tree_of(problem, leaf_of(options));
  if (tree.leaf == 0) return {problem, ""};
  std::vector<std::string> sizes;
  for (int64_t at = 0, size; at < problem.k; at += size) {
    size = leaf_at(tree, problem.k, at).size;
    sizes.push_back(std::to_string(size));
  }
  const std::vector<std::string> all = sizes;
  if (constexpr size_t SHOWN = 16; sizes.size() > SHOWN)
    sizes.resize(SHOWN), sizes.push_back("...");
  const std::string head =
      "K is summed by a tree of " + std::to_string(all.size()) + " leaves: " + joined(sizes) + "\n";
  const Problem whole = with_leaf(problem, tree);
  if (!on_cpu(a, device) &&
      one_product_sums(whole, tree, device_of(a, device), a.scalar_type(), options))
    return {whole, head + line("by", "one product"), array_of(all)};
  const TreePiece piece = tree_piece(problem, parts_of(tree, problem.k).size());
  const TreeNode node = first_node(problem, tree, piece);
  const std::string of_c =
      std::to_string(piece.m) + " x " + std::to_string(piece.n) + " of C" +
      (piece.entries > 1 ? " in " + std::to_string(piece.entries) + " entries of the batch" : "");
  const PartRun first = node.runs().front();
  return {
      node.product(first, nullptr),
      head +
          line("at a time", of_c + "; " + with_unit(static_cast<double>(node.bytes()), "B") +
                                " of workspace for leaves' sums, added and finished by one pass") +
          line("below", first.count > 1
                            ? std::to_string(first.count) + " leaves of one size, a batch"
                            : "the first leaf"),
      array_of(all)};
}

// The plan that the report is of: that, or, where a product of another dtype computes it, the other
// one.
Explained computed_product(Explained product, const MmOptions& options, const at::Tensor& a,
                           OptionalName device_name) {
  if (on_cpu(a, device_name)) return product;
  const Problem& p = product.problem;
  if (!plan_of_conversion(p, device_of(a, device_name), options)) return product;
  const Conversion conversion = conversion_of(p);
  const bool of_complex = is_complex(p.dtype), copies = conversion.copies_a || conversion.copies_b;
  product.converted = '"' + std::string(name_of(p.dtype)) + '"';
  product.text +=
      line(name_of(p.dtype),
           std::string("by a ") +
               (of_complex ? "real product of twice the rows and columns" : "product in float32") +
               (copies ? ", behind a copy of operands" : "") + ", and a pass that " +
               (of_complex ? "combines" : "finishes") + " its sums");
  product.more_bytes = conversion.bytes();
  product.problem = conversion.product;
  return product;
}

// A plan's JSON with its leaves, and of which dtype the product is that it is a part of.
std::string with_more(std::string plan, const Explained& product) {
  plan.pop_back();
  return plan + ", \"leaves\": " + product.leaves + ", \"converted\": " + product.converted + "}";
}

PlanReport report_of(const at::Tensor& a, const Explained& product, const MmOptions& options,
                     OptionalName device_name) {
  const Problem& problem = product.problem;
  const DeviceInfo device = device_of(a, device_name);
  PlanReport r = report(problem, device, choose_plan(problem, device, a.scalar_type(), options));
  if (product.more_bytes > 0)
    r.plan.workspace_bytes = workspace_aligned(r.plan.workspace_bytes) + product.more_bytes;
  return r;
}

}  // namespace

std::vector<std::string> algos(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                               OptionalName device) {
  MmOptions any_algo = options;
  any_algo.algo.reset();
  const Problem problem = checked_problem(a, b, any_algo, device);
  const bool is_tree = leaf_of(any_algo) > 0;
  std::vector<std::string> names;
  for (Algo algo : on_cpu(a, device)
                       ? cpu::rungs()
                       : fitting_algos(problem, device_of(a, device), a.scalar_type(), options))
    if (!is_tree || !is_lesson(algo)) names.emplace_back(name_of(algo));
  return names;
}

std::string explain_text(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                         OptionalName device, bool verbose, const MaybeTensor& scale_a,
                         const MaybeTensor& scale_b) {
  const Problem problem = checked_problem(a, b, options, device, scale_a, scale_b);
  const Explained product =
      computed_product(first_product(problem, options, a, device), options, a, device);
  return product.text + (on_cpu(a, device)
                             ? cpu_explain_text(product.problem, cpu_algo(options.algo))
                             : to_text(report_of(a, product, options, device), verbose));
}

std::string plan_json(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                      OptionalName device, const MaybeTensor& scale_a, const MaybeTensor& scale_b) {
  const Problem problem = checked_problem(a, b, options, device, scale_a, scale_b);
  const Explained product =
      computed_product(first_product(problem, options, a, device), options, a, device);
  return with_more(on_cpu(a, device) ? cpu_plan_json(product.problem, cpu_algo(options.algo))
                                     : to_json(report_of(a, product, options, device)),
                   product);
}

namespace {

// The formula of cuda/plan/estimate.cpp is given this.
std::string demand_json(const Problem& problem, const Rung& rung, const Plan& plan) {
  const Demand& d = plan.demand;
  const DemandTerms terms = terms_of(problem, plan);
  return Object()
      .text("variant", variants_of(rung)[d.variant])
      .text("kind", name_of(kind_of(problem)))
      .count("resident", d.resident)
      .count("cluster_p", d.cluster_p)
      .count("cluster_q", d.cluster_q)
      .count("cluster_k", d.cluster_k)
      .truth("p_mn", d.p_mn_major)
      .truth("q_mn", d.q_mn_major)
      .truth("stream_k", d.stream_k)
      .real("units", d.units)
      .real("steps", terms.steps)
      .real("elements", terms.elements)
      .real("ends", d.ends)
      .real("filled", d.filled)
      .real("loaded", d.loaded_bytes)
      .real("off_sector", d.off_sector_bytes)
      .real("line_loads", d.line_loads)
      .real("store_lines", d.store_lines)
      .real("again", d.again_bytes)
      .real("bytes", terms.bytes)
      .real("copies", terms.copies)
      .count("kernels", plan.step_count)
      .str();
}

}  // namespace

std::string ways_json(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                      std::optional<std::string_view> activation, OptionalName device_name,
                      const MaybeTensor& scale_a, const MaybeTensor& scale_b) {
  Problem problem = checked_problem(a, b, options, device_name, scale_a, scale_b);
  problem = with_leaf(problem, tree_of(problem, leaf_of(options)));
  if (activation) problem.epilogue.activation = parse_activation(*activation);
  const DeviceInfo device = device_of(a, device_name);
  const std::shared_ptr<const Rules> rules = current_rules(device);
  std::vector<std::string> found;
  for (const Rung* rung : ladder()) {
    if (options.algo ? *options.algo != name_of(rung->algo)
                     : !supports(rung->algo, problem, device))
      continue;
    rung->ways(problem, device, [&](const Way& way) {
      const Plan plan = rung->plan(problem, device, way);
      found.push_back(way_object(problem, plan)
                          .truth("by_name", rung->use == Use::ByName)
                          .real("seconds", estimated_seconds(problem, device, *rules, plan))
                          .json("demand", demand_json(problem, *rung, plan))
                          .str());
    });
  }
  return array_of(found);
}

std::string rules_row(const at::Tensor& a, const at::Tensor& b, std::string_view tile, bool swap_ab,
                      int64_t cluster_p, int64_t cluster_q, bool split_k, const MmOptions& options,
                      std::optional<std::string_view> activation, OptionalName device_name) {
  Problem problem = checked_problem(a, b, options, device_name);
  if (activation) problem.epilogue.activation = parse_activation(*activation);
  const std::optional<Algo> algo = options.algo ? parse_algo(*options.algo) : std::nullopt;
  TORCH_CHECK(algo, "tiled_mm: rules_row needs algo");
  const NamedWay name = {std::string(tile), swap_ab, cluster_p, cluster_q, split_k};
  TORCH_CHECK(plan_of_way(problem, device_of(a, device_name), *algo, name),
              "tiled_mm: ", *options.algo, " has no such way for this problem");
  return "row " + class_of(problem) + ' ' + text_of(MeasuredWay{*algo, name, 1, 1, "2000-01-01"});
}

std::string occupancy_json(std::string_view device, int64_t threads, int64_t registers,
                           int64_t shared_bytes) {
  // No GPU holds a block of 2^20 threads, and with more of them the arithmetic would overflow.
  constexpr int64_t MOST = 1 << 20;
  TORCH_CHECK(threads >= 1 && threads <= MOST, "tiled_mm: threads of a block must be 1 to ", MOST,
              ", got ", threads);
  TORCH_CHECK(registers >= 0 && registers <= 255,
              "tiled_mm: registers of a thread must be 0 (not known) to 255, got ", registers);
  TORCH_CHECK(shared_bytes >= 0, "tiled_mm: shared_bytes must not be negative, got ", shared_bytes);
  const BlockResources block{static_cast<int>(threads), static_cast<int>(registers), shared_bytes};
  return to_json(occupancy(device_by_name(device), block));
}

std::string roofline_json(std::string_view name, double bytes, double flops,
                          std::string_view peak) {
  const DeviceInfo device = device_by_name(name);
  TORCH_CHECK(bytes >= 0 && flops >= 0, "tiled_mm: bytes and flops must not be negative, got ",
              bytes, " and ", flops);
  TORCH_CHECK(peak == "float32" || peak == "float64", "tiled_mm: unknown peak '", std::string(peak),
              "'; expected 'float32' or 'float64'");
  return to_json(
      roofline(device, bytes, flops, peak == "float64" ? device.fp64_flops : device.fp32_flops));
}

std::vector<int64_t> kernel_attributes(const at::Tensor& a, const at::Tensor& b,
                                       const MmOptions& options) {
  check_mm(a, b);
  TORCH_CHECK(a.is_cuda(), "tiled_mm: kernel_attributes needs CUDA tensors, got ",
              a.device().type());
  return cuda_kernel_attributes(a, b, options);
}

}  // namespace tiled
