// Grouped products of a backend: the products of groups that share out one size of an operand, by
// offsets that are data on the device (core/problem.h: Groups). A Backend has, beside what
// product.h says,
//   static constexpr bool READS_OFFSETS;
// whether its plans are for all groups at once. Else groups are run one after the other, each as
// mm's own problem. Either way their bits are mm's.
//
// Every element of C is written: outside all groups it is zero. Offsets that decrease or are
// outside the shared size are refused on the CPU, before anything is written. On a GPU they are
// taken as what they can mean: each end is at least the one before and at most the size.
#pragma once

#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "core/groups.h"
#include "torch/check_grouped.h"
#include "torch/finished.h"
#include "torch/forms.h"
#include "torch/options.h"
#include "torch/sum_order.h"

namespace tiled {

// The groups' ends, in order and within `total`; `offs` is dense and on the host.
inline std::vector<int64_t> group_ends(const at::Tensor& offs, int64_t total) {
  std::vector<int64_t> ends(offs.numel());
  if (offs.scalar_type() == at::kLong)
    std::copy_n(offs.const_data_ptr<int64_t>(), ends.size(), ends.begin());
  else
    std::copy_n(offs.const_data_ptr<int32_t>(), ends.size(), ends.begin());
  int64_t before = 0;
  for (size_t g = 0; g < ends.size(); ++g) {
    TORCH_CHECK(ends[g] >= before, "tiled_mm: offs must not decrease", g == 0 ? " below 0" : "",
                ", but offs[", g, "] is ", ends[g],
                g == 0 ? std::string() : " after " + std::to_string(before));
    TORCH_CHECK(ends[g] <= total, "tiled_mm: offs[", g, "] is ", ends[g],
                ", past the end of the dimension that groups share out, which has size ", total);
    before = ends[g];
  }
  return ends;
}

// Runs a problem of which some size is shared out group by group. Every plan is made before the
// first group runs: a rung that was asked for may refuse one.
template <typename Backend>
void run_each_group(const Problem& problem, const std::vector<int64_t>& ends,
                    const MmOptions& options, const at::Tensor& a) {
  std::vector<std::pair<Problem, typename Backend::Plan>> todo;
  todo.reserve(ends.size());
  const auto align = [](auto& x) {
    x.alignment = std::min(x.alignment, power_of_two_divisor(reinterpret_cast<intptr_t>(x.data)));
  };
  for (size_t g = 0; g < ends.size(); ++g) {
    Problem group =
        problem_of_group(problem, static_cast<int64_t>(g), g == 0 ? 0 : ends[g - 1], ends[g]);
    align(group.a), align(group.b), align(group.c);
    if (group.m > 0 && group.n > 0) todo.emplace_back(group, Backend::plan(group, options, a));
  }
  for (const auto& [group, plan] : todo) Backend::run(group, plan, a);
}

// Scales that are not spaced belong to whole blocks of all of K, which no two groups may share.
inline void check_blocks_of_groups(const Problem& problem, const std::vector<int64_t>& ends) {
  if (problem.groups.shared != Shared::K || !is_blockwise(problem.scales) || problem.scales.spaced)
    return;
  for (size_t g = 0; g + 1 < ends.size(); ++g)
    TORCH_CHECK(ends[g] % SCALE_BLOCK == 0 || ends[g] == problem.k, "tiled_mm: offs[", g, "] is ",
                ends[g], ", but groups of K whose scales are [rows, ceil(T / ", SCALE_BLOCK,
                ")] begin at multiples of ", SCALE_BLOCK, "; those of groups that begin anywhere ",
                "are [rows, T / ", SCALE_BLOCK, " + E]");
}

// Clears the part of C, or of the pre-activation, that lies outside all groups.
inline void clear_beyond(const at::Tensor& c, Shared shared, int64_t end) {
  const int64_t dim = shared == Shared::M ? 0 : 1;
  if (c.defined() && shared != Shared::K && end < c.size(dim))
    c.narrow(dim, end, c.size(dim) - end).zero_();
}

// The arguments of run_groups(), checked.
struct GroupedProduct {
  Problem problem;  // without C, ends and the pre-activation
  const GroupedShape& shape;
  at::IntArrayRef sizes;  // C's
  at::ScalarType type;    // C's
  const at::Tensor& a;
  const std::optional<at::Tensor>& offs;
  std::initializer_list<const at::Tensor*> reads;  // beside what the epilogue reads
};

// C, and the pre-activation, undefined where it is not asked for.
template <typename Backend>
std::tuple<at::Tensor, at::Tensor> run_groups(GroupedProduct&& x, const EpilogueOptions& asked,
                                              const MmOptions& options) {
  const GroupedShape& shape = x.shape;
  const at::Tensor& a = x.a;
  const std::optional<at::Tensor>& offs = x.offs;
  Problem& problem = x.problem;
  if (shape.c_is_matrix()) problem.c.batch_stride = 0;
  fill_epilogue(problem, a, asked, x.sizes);

  // An operand that C shares memory with would be read after it is written. That is refused where
  // it is certain; where it is not, C is computed aside.
  bool aside = false;
  if (asked.out) {
    const auto keep_apart = [&](const at::Tensor& t) {
      aside |= may_overlap_unless_certain(*asked.out, t);
    };
    for (const at::Tensor* t : x.reads) keep_apart(*t);
    if (asked.bias) keep_apart(*asked.bias);
    if (offs) keep_apart(*offs);
    TORCH_CHECK(!aside || !asked.input,
                "tiled_mm: the sums may share memory with the operands of what is added to them");
  }
  const bool allocates = !asked.out || aside;
  at::Tensor c, pre_activation;
  if (!allocates) {
    c = *asked.out;
    problem.c = result_of(c);
  }
  if (asked.pre_activation) {
    pre_activation = Backend::empty(x.sizes, x.type, a);
    keep_pre_activation(problem, pre_activation);
  }
  const auto allocate = [&] {
    if (!allocates) return;
    c = Backend::empty(x.sizes, x.type, a);
    problem.c.data = c.mutable_data_ptr();
  };
  at::Tensor dense_offs;
  const int32_t a_alignment = problem.a.alignment, b_alignment = problem.b.alignment;
  if (offs) {
    dense_offs = offs->contiguous();
    share_out(problem, {shape.shared, offs->scalar_type() == at::kLong, address_of(dense_offs)});
  }
  const bool has_groups = offs && problem.batch > 0;
  bool reads_offsets = has_groups && Backend::READS_OFFSETS;
  // Kernels do not take every form of scaled products: groups then run one by one.
  if (reads_offsets && is_scaled(problem)) reads_offsets = Backend::runs_scaled(problem, a);
  // A group's leaves follow from its own part of K.
  if (reads_offsets && shape.shared == Shared::K)
    reads_offsets = tree_of(problem, leaf_of(options)).leaf == 0;
  if (!offs || reads_offsets) {
    const auto plan = Backend::plan(problem, options, a);
    allocate();
    if (c.numel() > 0) Backend::run(problem, plan, a);
  } else {
    const Shared shared = shape.shared;
    const int64_t total = shared == Shared::M   ? problem.m
                          : shared == Shared::N ? problem.n
                                                : problem.k;
    std::vector<int64_t> ends;
    if (has_groups) ends = group_ends(dense_offs.cpu(), total);
    check_blocks_of_groups(problem, ends);
    allocate();
    // Here it is known how each group is aligned.
    problem.a.alignment = a_alignment, problem.b.alignment = b_alignment;
    run_each_group<Backend>(problem, ends, options, a);
    const int64_t end = ends.empty() ? 0 : ends.back();
    clear_beyond(c, shared, end);
    clear_beyond(pre_activation, shared, end);
  }
  if (allocates && asked.out) c = asked.out->copy_(c);
  return {c, pre_activation};
}

// The same of checked operands.
template <typename Backend>
std::tuple<at::Tensor, at::Tensor> finished_groups(const at::Tensor& a, const at::Tensor& b,
                                                   const std::optional<at::Tensor>& offs,
                                                   const GroupedShape& shape,
                                                   const EpilogueOptions& asked,
                                                   const MmOptions& options) {
  const c10::SymDimVector sym_sizes = shape.sizes();
  const at::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(c10::SymIntArrayRef(sym_sizes));
  const bool is_finished = asked.bias || asked.input || asked.pre_activation ||
                           parse_activation(asked.activation) != Activation::None;
  const at::ScalarType type = check_grouped_out_dtype(a.scalar_type(), is_finished, options);
  if (asked.out) check_finished_out(a, *asked.out, type, sizes);
  if (options.algo && !parse_algo(*options.algo))
    throw_unfit_algo(*options.algo, {std::begin(ALL_ALGOS), std::end(ALL_ALGOS)});
  const Arithmetic arithmetic = resolve_arithmetic(a.scalar_type(), Backend::target(a), options);
  const Problem problem = problem_of(
      operand_of(a), operand_of(b), shape.groups.expect_int(), shape.m.expect_int(),
      shape.n.expect_int(), shape.k.expect_int(), dtype_of(a.scalar_type()), type, arithmetic);
  return run_groups<Backend>({problem, shape, sizes, type, a, offs, {&a, &b}}, asked, options);
}

// grouped_mm (forms.h).
template <typename Backend>
at::Tensor grouped_product(at::Tensor* pre_activation, at::Tensor* out, const at::Tensor& a,
                           const at::Tensor& b, const std::optional<at::Tensor>& offs,
                           const std::optional<at::Tensor>& bias,
                           std::optional<std::string_view> activation, const MmOptions& options) {
  const GroupedShape shape = check_grouped(a, b, offs, bias);
  std::optional<at::Tensor> target;
  if (out != nullptr) {
    const bool is_finished = bias || parse_activation(activation) != Activation::None;
    const at::ScalarType type = check_grouped_out_dtype(a.scalar_type(), is_finished, options);
    if (check_out(a, *out, type, shape.sizes()) == OutShape::Fits)
      target = *out;
    else
      check_no_self_overlap(*out);
  }
  auto [c, of_pre_activation] = finished_groups<Backend>(
      a, b, offs, shape, {bias, "n", {}, 1, 1, activation, pre_activation != nullptr, target},
      options);
  if (pre_activation != nullptr) *pre_activation = std::move(of_pre_activation);
  if (out != nullptr && !target) write_out(*out, c);
  return std::move(c);
}

// sum += left^T right of every group, rounded once, to the dtype of the sum.
template <typename Backend>
void add_grouped_weight_grad(at::Tensor& sum, const at::Tensor& left, const at::Tensor& right,
                             const at::Tensor& offs, const MmOptions& asked) {
  const GroupedShape shape = check_grouped_weight_grad(sum, left, right, offs);
  MmOptions options = asked;
  options.out_dtype = sum.scalar_type();
  finished_groups<Backend>(left.mT(), right, offs, shape, {{}, "n", sum, 1, 1, {}, false, sum},
                           options);
}

// Every operator of this file, of a backend.
template <typename Backend>
void register_grouped(torch::Library& m) {
  using Grouped = Forms<&grouped_product<Backend>>;
  m.impl("grouped_mm", kernel<&Grouped::product>);
  m.impl("grouped_mm.out", kernel<&Grouped::out>);
  m.impl("_grouped_mm_with_pre_activation", kernel<&Grouped::with_pre_activation>);
  m.impl("_add_grouped_weight_grad", kernel<&add_grouped_weight_grad<Backend>>);
}

}  // namespace tiled
