// Derivatives of grouped products: products of groups again, in the form that the shapes say. Where
// groups share out rows (a layer of experts), a's gradient is of the same form and b's shares out
// K; and so on around. What is outside all groups is zero in C and in the gradients, and is not
// read.
#include <torch/library.h>

#include <utility>

#include "torch/autograd_finished.h"
#include "torch/main_grad.h"

namespace tiled {
namespace {

// The precision of a float bias gradient. The sums of linear's are fp32, and so are these, whatever
// the products round their operands to.
std::optional<std::string_view> precision_of_sums(const at::Tensor& gradient,
                                                  std::optional<std::string_view> precision) {
  if (gradient.scalar_type() != at::kFloat) return std::nullopt;
  if (precision == "ieee" || precision == "fp16x3") return precision;
  const Target target = target_of(gradient);
  return target.gpu != nullptr && target.gpu->capability >= 80 ? "fp16x3" : "ieee";
}

// The sums of a gradient's rows in every group: [T, N], of which groups share out the rows, or
// [E, M, N], to [E, N].
at::Tensor sums_of_groups(const at::Tensor& gradient, const std::optional<at::Tensor>& offs,
                          at::ScalarType bias_dtype, const MmOptions& asked) {
  const bool is_matrix = gradient.dim() == 2;
  MmOptions options;
  options.precision = precision_of_sums(gradient, asked.precision);
  options.sum_order = asked.sum_order;
  if (bias_dtype == at::kFloat) options.out_dtype = bias_dtype;
  const c10::SymInt rows = gradient.sym_size(-2);
  at::Tensor ones = gradient.new_ones_symint({1, rows});
  if (!is_matrix) ones = ones.expand_symint({gradient.sym_size(0), 1, rows});
  return grouped_operator()
      .call(ones, gradient, is_matrix ? offs : std::nullopt, std::nullopt, std::nullopt, options)
      .squeeze(1);
}

struct GroupedBackward : public FinishedBackward {
  SavedVariable a, b;  // a only if b needs a gradient, and the other way round
  SavedVariable offs;
  bool a_column_major, b_column_major;
  at::Tensor main_grad;  // where b's gradient is added; undefined if it is returned
  at::ScalarType bias_dtype;
  MmOptions of_sums;  // the precision and the order of products

  std::string name() const override { return "TiledGroupedMmBackward0"; }

  void release_variables() override { release(mutex_, value, a, b, offs); }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list result(3);
    const at::Tensor pre_activation = std::get<0>(pre_activation_gradient(gradients, std::nullopt));
    if (!pre_activation.defined()) return result;
    const at::Tensor saved = offs.unpack();
    const std::optional<at::Tensor> ends = saved.defined() ? std::optional(saved) : std::nullopt;
    if (task_should_compute_output(2))
      result[2] = sums_of_groups(pre_activation, ends, bias_dtype, of_sums);
    const at::Tensor gradient = pre_activation.to(dtype);
    if (task_should_compute_output(0))
      result[0] = in_layout(gradient, b.unpack(getptr()).mH(), ends, a_column_major);
    if (!task_should_compute_output(1)) return result;
    const at::Tensor left = a.unpack(getptr());
    if (main_grad.defined())
      add_in_order(next_edge(1), main_grad, [&] {
        request.add_grouped(main_grad, left.conj().resolve_conj(), gradient.resolve_conj(), *ends);
      });
    else
      result[1] = in_layout(left.mH(), gradient, ends, b_column_major);
    return result;
  }

 private:
  // x y, computed as (y^T x^T)^T if the result is to be column-major.
  at::Tensor in_layout(const at::Tensor& x, const at::Tensor& y,
                       const std::optional<at::Tensor>& ends, bool column_major) const {
    return column_major ? request.grouped(y.mT(), x.mT(), ends).mT() : request.grouped(x, y, ends);
  }
};

// A bias spread over C as the product adds it: by a product over no k.
at::Tensor spread(const at::Tensor& bias, const at::Tensor& a, const at::Tensor& b,
                  const std::optional<at::Tensor>& offs, const at::Tensor& c) {
  if (c.dim() == 3) return bias.to(c.scalar_type()).unsqueeze(1).expand_symint(c.sym_sizes());
  MmOptions options;
  options.out_dtype = c.scalar_type();
  return grouped_operator().call(a.narrow(-1, 0, 0), b.narrow(-2, 0, 0), offs, bias, std::nullopt,
                                 options);
}

// `main_grad` is undefined where b has an ordinary gradient.
WithPreActivation record_into(const at::Tensor& main_grad, bool wants_pre_activation,
                              c10::DispatchKeySet keys, const at::Tensor& a, const at::Tensor& b,
                              const std::optional<at::Tensor>& offs,
                              const std::optional<at::Tensor>& bias,
                              std::optional<std::string_view> activation, const MmOptions& asked) {
  const FinishedCall call(activation, asked, a, a, b, bias);
  const MmOptions& options = call.options;
  const auto node = call.node<GroupedBackward>(a, b, bias);
  if (node) {
    if (node->should_compute_output(1)) node->a = SavedVariable(a, /*is_output=*/false);
    if (node->should_compute_output(0)) node->b = SavedVariable(b, /*is_output=*/false);
    if (offs) node->offs = SavedVariable(*offs, /*is_output=*/false);
  }
  at::Tensor c, pre_activation;
  std::tie(c, pre_activation) =
      call.run(wants_pre_activation, grouped_operator(), grouped_with_pre_activation_operator(),
               keys, a, b, offs, bias, activation, options);
  if (node) {
    // Only now are a and b known to be matrices or batches of them.
    node->a_column_major = is_column_major(a);
    node->b_column_major = is_column_major(b);
    node->main_grad = main_grad;
    node->of_sums.precision = options.precision, node->of_sums.sum_order = options.sum_order;
    if (bias) node->bias_dtype = bias->scalar_type();
  }
  const auto tangent = [&] {
    std::optional<at::Tensor> of_bias;  // until it has been added
    if (isFwGradDefined(bias)) of_bias = bias->_fw_grad(0);
    const at::Tensor sum = product_tangent(a, b, [&](const at::Tensor& x, const at::Tensor& y) {
      return grouped_operator().call(x, y, offs, std::exchange(of_bias, std::nullopt), std::nullopt,
                                     options);
    });
    return sum.defined() ? sum : spread(*of_bias, a._fw_primal(0), b._fw_primal(0), offs, c);
  };
  call.record(c, pre_activation, node, a.scalar_type(), tangent);
  return {std::move(c), std::move(pre_activation)};
}

WithPreActivation record_groups(bool wants_pre_activation, c10::DispatchKeySet keys,
                                const at::Tensor& a, const at::Tensor& b,
                                const std::optional<at::Tensor>& offs,
                                const std::optional<at::Tensor>& bias,
                                std::optional<std::string_view> activation,
                                const MmOptions& options) {
  return record_into(/*main_grad=*/{}, wants_pre_activation, keys, a, b, offs, bias, activation,
                     options);
}

at::Tensor grouped_into_main_grad(c10::DispatchKeySet keys, const at::Tensor& a,
                                  const at::Tensor& b, const at::Tensor& offs,
                                  const std::optional<at::Tensor>& bias,
                                  const std::optional<at::Tensor>& main_grad,
                                  std::optional<std::string_view> activation,
                                  const MmOptions& options) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 3,
              "tiled_mm: main_grad is of the weights [E, K, N] of rows [T, K], but they are ",
              b.dim(), "D and ", a.dim(), "D");
  if (main_grad)
    check_main_grad(*main_grad, b, a.scalar_type(), "tiled::_grouped_mm_into_main_grad");
  else
    check_needs_no_main_grad(b, a.scalar_type());
  return std::get<0>(record_into(main_grad.value_or(at::Tensor()), false, keys, a, b, offs, bias,
                                 activation, options));
}

// Without gradients it is grouped_mm.
at::Tensor grouped_alone(const at::Tensor& a, const at::Tensor& b, const at::Tensor& offs,
                         const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>&,
                         std::optional<std::string_view> activation, const MmOptions& options) {
  return grouped_operator().call(a, b, offs, bias, activation, options);
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Autograd, m) {
  m.impl("grouped_mm", kernel<&Recorded<&record_groups>::product>);
  m.impl("_grouped_mm_with_pre_activation", kernel<&Recorded<&record_groups>::with_pre_activation>);
  m.impl("_grouped_mm_into_main_grad", kernel<&grouped_into_main_grad>);
}

TORCH_LIBRARY_IMPL(tiled, CompositeExplicitAutograd, m) {
  m.impl("_grouped_mm_into_main_grad", kernel<&grouped_alone>);
}

}  // namespace tiled
