// Every schema of the library on one screen, but for those of streamed products
// (out_of_core/door.cpp). The kernels are registered where they are written.
#include "torch/schema.h"

#include <torch/library.h>

#include "cuda/plan/current_rules.h"
#include "torch/inspect.h"
#include "torch/inspect_cpu.h"
#include "torch/override.h"
#include "torch/tune.h"

namespace tiled {

namespace {

// "$options" in a schema stands for the options that every product has.
c10::FunctionSchema schema(const std::string& text) {
  return torch::schema(with_options(text).c_str());
}

c10::FunctionSchema scaled_schema(const std::string& text) {
  return torch::schema(with_options(text, SCALED_OPTIONS).c_str());
}

}  // namespace

TORCH_LIBRARY(tiled, m) {
  // C = A B. The functional overload comes first: torch.ops tries overloads in this order.
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag};
  m.def(schema("mm(Tensor a, Tensor b, *, $options) -> Tensor"), tags);
  // Returns nothing: a C++ kernel that returns Tensor(a!) fails functionalization in torch 2.11.
  m.def(schema("mm.out(Tensor a, Tensor b, *, $options, Tensor(a!) out) -> ()"), tags);
  // C[i] = A[i] B[i] for every i of a batch.
  m.def(schema("bmm(Tensor a, Tensor b, *, $options) -> Tensor"), tags);
  m.def(schema("bmm.out(Tensor a, Tensor b, *, $options, Tensor(a!) out) -> ()"), tags);

  // C = activation(alpha A B + beta input), rounded once; input expands to C and, where beta is 0,
  // is not read. out= may be the input.
  const std::string addmm =
      "(Tensor input, Tensor a, Tensor b, *, Scalar beta=1, Scalar alpha=1, str? activation=None,"
      " $options";
  m.def(schema("addmm" + addmm + ") -> Tensor"), tags);
  m.def(schema("addmm.out" + addmm + ", Tensor(a!) out) -> ()"), tags);
  m.def(schema("baddbmm" + addmm + ") -> Tensor"), tags);
  m.def(schema("baddbmm.out" + addmm + ", Tensor(a!) out) -> ()"), tags);
  // C = activation(x W^T + bias), x with any number of leading dimensions.
  const std::string linear =
      "(Tensor x, Tensor weight, Tensor? bias=None, *, str? activation=None, $options";
  m.def(schema("linear" + linear + ") -> Tensor"), tags);
  m.def(schema("linear.out" + linear + ", Tensor(a!) out) -> ()"), tags);
  // The same without options (torch/plain.cpp).
  m.def("_mm(Tensor a, Tensor b) -> Tensor", tags);
  m.def("_bmm(Tensor a, Tensor b) -> Tensor", tags);
  m.def("_addmm(Tensor input, Tensor a, Tensor b) -> Tensor", tags);
  m.def("_baddbmm(Tensor input, Tensor a, Tensor b) -> Tensor", tags);
  m.def("_linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor", tags);
  // linear whose backward adds weight's gradient to main_grad, and gives weight none. Where weight
  // needs no gradient, main_grad is not needed either.
  m.def(
      schema("_linear_into_main_grad(Tensor x, Tensor weight, Tensor? bias, Tensor? main_grad, *,"
             " str? activation=None, $options) -> Tensor"));
  // (C, the pre-activation): what autograd runs where a gradient needs both. The first
  // is of matrices or of batches.
  m.def(schema("_addmm_with_pre_activation" + addmm + ") -> (Tensor, Tensor)"), tags);
  m.def(schema("_linear_with_pre_activation" + linear + ") -> (Tensor, Tensor)"), tags);
  // Weight's gradient in a linear layer whose x is no matrix: grad^T x of all leading dimensions,
  // [N, K]. It takes them as they are, so that tensors that are split along one of them, as a
  // sequence may be between processes, need not be flattened. The second adds it to `sum`, rounded
  // once, to its dtype.
  m.def(schema("_linear_weight_grad(Tensor grad, Tensor x, *, $options) -> Tensor"), tags);
  m.def(schema("_add_linear_weight_grad(Tensor(a!) sum, Tensor grad, Tensor x, *, $options) -> ()"),
        tags);
  // Products of groups, which share out a size of a or of b, or K, by their cumulative ends; rows
  // and columns of C outside all groups are zero. The second also gives the
  // pre-activation; the backward of the third, whose groups share out rows, adds b's gradient to
  // main_grad and gives b none. The last adds left^T right of every group's rows [T, P] and [T, Q]
  // to its sum of [E, P, Q], rounded once.
  const std::string grouped =
      "(Tensor a, Tensor b, Tensor? offs=None, Tensor? bias=None, *, str? activation=None,"
      " $options";
  m.def(schema("grouped_mm" + grouped + ") -> Tensor"), tags);
  m.def(schema("grouped_mm.out" + grouped + ", Tensor(a!) out) -> ()"), tags);
  m.def(schema("_grouped_mm_with_pre_activation" + grouped + ") -> (Tensor, Tensor)"), tags);
  m.def(
      schema("_grouped_mm_into_main_grad(Tensor a, Tensor b, Tensor offs, Tensor? bias,"
             " Tensor? main_grad, *, str? activation=None, $options) -> Tensor"));
  m.def(schema("_add_grouped_weight_grad(Tensor(a!) sum, Tensor left, Tensor right, Tensor offs, *,"
               " $options) -> ()"),
        tags);
  // C = activation((scale_a A) (scale_b B) + bias), rounded once, of fp8 or of int8; with offsets,
  // or of batches, the forms of grouped_mm. The last adds the product to `sum`, rounded once.
  const std::string scaled = "(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, $options";
  m.def(scaled_schema("scaled_mm" + scaled + ") -> Tensor"), tags);
  m.def(scaled_schema("scaled_mm.out" + scaled + ", Tensor(a!) out) -> ()"), tags);
  m.def(scaled_schema("_add_scaled_mm(Tensor(a!) sum, " + scaled.substr(1) + ") -> ()"), tags);
  // x by blocks of 128 to fp8: (data, scale, data_t, scale_t), one pass over x
  // (core/quantization.h). The last two are of x's transpose, and of no elements if not asked for.
  m.def(
      "_quantize_blocks(Tensor x, bool square, ScalarType dtype, bool transposed)"
      " -> (Tensor, Tensor, Tensor, Tensor)",
      tags);
  // The way back through an epilogue in one pass: grad activation'(before), of relu with its result
  // for `before`, and the bias' gradient, the sums of that over all dimensions but the last, in the
  // order of core/gradient_pass.h. Without an activation the first has no elements, since it would
  // be grad itself, and without bias_dtype the second.
  m.def(
      "activation_backward(Tensor grad, Tensor? before, str? activation, *,"
      " ScalarType? bias_dtype=None) -> (Tensor, Tensor)",
      tags);

  // The library's own fp32 precision: 'ieee', 'tf32', 'fp16x3', or None to follow torch's.
  m.def("set_float32_precision(str? precision) -> ()", &set_float32_precision);
  m.def("get_float32_precision() -> str?", &get_float32_precision);
  // A block within which it is another, by the number that entering it gives.
  m.def("_enter_float32_precision(str? precision) -> int", &detail::enter_float32_precision);
  m.def("_leave_float32_precision(int block) -> ()", [](int64_t block) {
    TORCH_CHECK(detail::leave_float32_precision(block),
                "tiled_mm: no such block of a float32 precision is open");
  });

  // The library's own order of sums: 'chain', 'tree' or 'tree:LEAF'; and blocks as above.
  m.def("set_sum_order(str order) -> ()", &set_sum_order);
  m.def("get_sum_order() -> str", &get_sum_order);
  m.def("_enter_sum_order(str order) -> int", &detail::enter_sum_order);
  m.def("_leave_sum_order(int block) -> ()", [](int64_t block) {
    TORCH_CHECK(detail::leave_sum_order(block), "tiled_mm: no such block of a sum order is open");
  });

  // Between the two, products measure their best ways as they are met (torch/tune.h), of all
  // threads. What was measured is written to a file, with what it has already, and read from one
  // again: of the current GPU, or of `device`, "cuda:1" or one of devices().
  m.def("_enter_tuning() -> ()", &detail::enter_tuning);
  m.def("_leave_tuning() -> ()", [] { detail::leave_tuning(); });
  m.def("save_rules(str path, str? device=None) -> ()", &save_rules);
  m.def("load_rules(str path) -> int", &load_rules);

  // torch's own products by tiled's kernels, on 'cpu', 'cuda' or both; and what computed them since
  // the last reset, as a JSON object.
  m.def("enable_override(str? device=None) -> ()", &enable_override_of);
  m.def("disable_override(str? device=None) -> ()", &disable_override_of);
  m.def("override_counts(bool reset=False) -> str", &override_counts);

  // These say what would run, and why. They compute nothing and take meta tensors too. algos()
  // lists what `algo` may be, and does not look at the one that it is given.
  m.def(schema("algos(Tensor a, Tensor b, *, $options, str? device=None) -> str[]"),
        kernel<&algos>);
  m.def(schema("explain(Tensor a, Tensor b, *, $options, str? device=None, bool verbose=False,"
               " Tensor? scale_a=None, Tensor? scale_b=None) -> str"),
        kernel<&explain_text>);
  m.def("devices() -> str[]", &device_names);
  // How many elements of the product, mm's or bmm's, precision 'fp16x3' computes again in
  // fp64: an int64 scalar on the operands' device. It runs the product.
  m.def("fp16x3_recomputed(Tensor a, Tensor b) -> Tensor");
}

// For measuring and debugging the library; nothing here is needed to use it.
TORCH_LIBRARY(tiled_debug, m) {
  // explain() as a JSON object: what tiled_mm.plan() reads.
  m.def(schema("plan(Tensor a, Tensor b, *, $options, str? device=None, Tensor? scale_a=None,"
               " Tensor? scale_b=None) -> str"),
        kernel<&plan_json>);
  // Every way to run the product: what bench.choice measures.
  m.def(schema("ways(Tensor a, Tensor b, *, $options, str? activation=None, str? device=None,"
               " Tensor? scale_a=None, Tensor? scale_b=None) -> str"),
        kernel<&ways_json>);
  // The text that save_rules() would write to a new file; and back to the shipped rules, of all
  // devices.
  m.def("rules(str? device=None) -> str", &rules_text);
  m.def("forget_rules() -> ()", &forget_rules);
  // The row of a rules file that would choose this way for the product: for tests of the choice.
  m.def(schema("rules_row(Tensor a, Tensor b, str tile, bool swap_ab, int cluster_p,"
               " int cluster_q, bool split_k, *, $options, str? activation=None,"
               " str? device=None) -> str"),
        kernel<&rules_row>);
  // A number of the CPU's blockings, which is `value` from then on: for bench.cpu_blocking.
  m.def("cpu_budget(int number, int column, int? value=None) -> int", &cpu_budget);
  m.def("occupancy(str device, *, int threads, int registers=0, int shared_bytes=0) -> str",
        &occupancy_json);
  m.def("roofline(str device, *, float bytes, float flops, str peak='float32') -> str",
        &roofline_json);
  // A rung with this tile, cluster and so on, whatever the planner would choose: to compare them.
  // The rung is `algo`, else the one that has a way of this name. plan() lists the ways of all that
  // have many. Clusters other than 1 x 1 are hopper's and fp16x3's.
  m.def(
      schema("mm_with_tile(Tensor a, Tensor b, str tile, bool swap_ab, int cluster_p,"
             " int cluster_q, bool split_k, *, $options) -> Tensor"));
  // The same of a scaled product of two matrices.
  m.def(
      "scaled_with_tile(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, str tile,"
      " bool swap_ab, int cluster_p, int cluster_q, *, ScalarType? out_dtype=None) -> Tensor");
  // The same with an epilogue: (C, pre_activation) with C = activation(pre_activation),
  // pre_activation = A B + bias.
  m.def(
      schema("finished_with_tile(Tensor a, Tensor b, str tile, bool swap_ab, int cluster_p,"
             " int cluster_q, bool split_k, *, Tensor? bias=None, str? activation=None,"
             " bool pre_activation=False, $options) -> (Tensor, Tensor)"));
  // (C, pre_activation) with C = activation(pre_activation), pre_activation = beta input + (alpha A
  // B + bias), of matrices or of batches (core/epilogue.h). `pre_activation` is undefined if it is
  // not asked for.
  m.def(schema(
      "mm_with_epilogue(Tensor a, Tensor b, *, Tensor? bias=None, str bias_along='n',"
      " Tensor? input=None, Scalar alpha=1, Scalar beta=1, str? activation=None,"
      " bool pre_activation=False, Tensor(a!)? out=None, $options) -> (Tensor(a!), Tensor)"));
  // [registers a thread, static shared bytes, local bytes a thread, blocks a multiprocessor] of the
  // kernel that would run, as the CUDA runtime reports them.
  m.def(schema("kernel_attributes(Tensor a, Tensor b, *, $options) -> int[]"),
        kernel<&kernel_attributes>);
}

#define OPERATOR(Type, function, name, overload)      \
  const Type& function() {                            \
    static const Type door("tiled::" name, overload); \
    return door;                                      \
  }
#include "torch/operators.inc"

const ActivationBackwardOperator& activation_backward_operator() {
  static const auto door = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("tiled::activation_backward", "")
                               .typed<ActivationBackwardSignature>();
  return door;
}

}  // namespace tiled
