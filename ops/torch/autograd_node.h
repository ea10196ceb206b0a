// The derivatives of all products share these: nodes of every version of torch, and products of
// gradients asked for as the forward was.
#pragma once

#include <ATen/ops/add.h>
#include <ATen/ops/constant_pad_nd.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <mutex>
#include <type_traits>

#include "core/algo.h"
#include "torch/hooks.h"
#include "torch/precision.h"
#include "torch/schema.h"
#include "torch/sum_order.h"

namespace tiled {

using torch::autograd::collect_next_edges;
using torch::autograd::compute_requires_grad;
using torch::autograd::isFwGradDefined;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// Nodes are held by shared_ptr in torch 2.11 and by intrusive_ptr in later versions.
template <typename T>
auto make_node() {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, T>)
    return c10::make_intrusive<T>();
  else
    return std::shared_ptr<T>(new T(), [](T* node) { deleteNode(node); });  // looked up by T only
}

// Autograd needs this of one call, with these tensors for its inputs.
struct Recording {
  bool needs_gradient, has_tangent;
  // A call's derivatives run what the call runs, whatever the settings will be then: the precision
  // and the order of sums are read once and handed down, since another thread may change them at
  // any time.
  MmOptions options;

  template <typename... Inputs>
  Recording(const MmOptions& asked, const at::Tensor& operand, const Inputs&... inputs)
      : needs_gradient(compute_requires_grad(inputs...)),
        has_tangent((isFwGradDefined(inputs) || ...)),
        options(asked) {
    if (!needs_gradient && !has_tangent) return;
    options.precision = resolve_precision(operand.scalar_type(), target_of(operand), asked);
    options.sum_order = resolve_sum_order(asked);
  }

  // Null where nothing needs a gradient.
  template <typename T, typename... Inputs>
  auto node(const Inputs&... inputs) const {
    decltype(make_node<T>()) made;
    if (!needs_gradient) return made;
    made = make_node<T>();
    made->set_next_edges(collect_next_edges(inputs...));
    return made;
  }
};

// The call below autograd.
template <typename Door, typename... Arguments>
auto run_below(const Door& door, c10::DispatchKeySet keys, const Arguments&... arguments) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return door.redispatch(keys & c10::after_autograd_keyset, arguments...);
}

// Two threads may run a shared graph backward, one of them releasing what the other unpacks.
template <typename... Saved>
void release(std::mutex& mutex, Saved&... saved) {
  const std::lock_guard<std::mutex> lock(mutex);
  (saved.reset_data(), ...);
}

// The tangent of a product, da b + a db; undefined where neither has one.
template <typename Product>
at::Tensor product_tangent(const at::Tensor& a, const at::Tensor& b, const Product& product) {
  at::Tensor tangent;
  if (isFwGradDefined(a)) tangent = product(a._fw_grad(0), b._fw_primal(0));
  if (!isFwGradDefined(b)) return tangent;
  const at::Tensor other = product(a._fw_primal(0), b._fw_grad(0));
  return tangent.defined() ? at::add(tangent, other) : other;
}

// A copy whose elements are contiguous along the last dimension, its rows on multiples of 16 bytes.
// One element of padding is the least: without any, constant_pad_nd is a clone, which keeps the
// strides of what it copies.
inline at::Tensor aligned_copy(const at::Tensor& x) {
  const c10::SymInt unit = 16 / static_cast<int64_t>(x.element_size()), columns = x.sym_size(-1);
  return at::constant_pad_nd_symint(x, {0, unit - columns % unit}).slice_symint(-1, 0, columns);
}

// Whether this is a lesson on tensor cores, which reads operands in their own layout. It could
// refuse a gradient's layout (an expanded one, say), so it is given copies, both along K.
inline bool needs_copies(std::optional<std::string_view> algo) {
  if (!algo) return false;
  const std::optional<Algo> rung = parse_algo(*algo);
  return rung && is_lesson(*rung) && on_tensor_cores(*rung);
}

// How a call was asked for; its gradients are asked for in the same way.
class GradientRequest {
 public:
  GradientRequest() = default;

  // `asked` has its precision and its order resolved: such names live forever, that of the rung is
  // copied.
  explicit GradientRequest(const MmOptions& asked) : options_(asked), algo_(asked.algo) {
    options_.algo.reset();
    options_.out_dtype.reset();
  }

  at::Tensor product(const MmOperator& op, const at::Tensor& a, const at::Tensor& b) const {
    if (needs_copies(algo_)) return op.call(aligned_copy(a), aligned_copy(b.mT()).mT(), all());
    return op.call(a, b, all());
  }

  // x weight^T, x [..., K] with any leading dimensions.
  at::Tensor linear(const at::Tensor& x, const at::Tensor& weight) const {
    const LinearOperator& op = linear_operator();
    if (needs_copies(algo_))
      return op.call(aligned_copy(x), aligned_copy(weight), std::nullopt, std::nullopt, all());
    return op.call(x, weight, std::nullopt, std::nullopt, all());
  }

  // gradient^T x, [N, K], of all leading dimensions of gradient [..., N] and x [..., K].
  at::Tensor linear_weight_grad(const at::Tensor& gradient, const at::Tensor& x) const {
    return linear_weight_grad_operator().call(gradient, x, all());
  }

  // Products of groups.
  at::Tensor grouped(const at::Tensor& a, const at::Tensor& b,
                     const std::optional<at::Tensor>& offs) const {
    const auto call = [&](const at::Tensor& x, const at::Tensor& y) {
      return grouped_operator().call(x, y, offs, std::nullopt, std::nullopt, all());
    };
    return needs_copies(algo_) ? call(aligned_copy(a), aligned_copy(b.mT()).mT()) : call(a, b);
  }

  // sum [E, P, Q] += left^T right of every group's rows, rounded once, to the dtype of the sum,
  // which is written in its own layout.
  void add_grouped(const at::Tensor& sum, const at::Tensor& left, const at::Tensor& right,
                   const at::Tensor& offs) const {
    const bool turned = sum.stride(-2) == 1 && sum.stride(-1) != 1;
    at::Tensor target = turned ? sum.mT() : sum;
    add_grouped_weight_grad_operator().call(target, turned ? right : left, turned ? left : right,
                                            offs, all());
  }

  // sum += a b, rounded once, to the dtype of the sum.
  void add_product(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b) const {
    MmOptions options = all();
    options.out_dtype = sum.scalar_type();
    addmm_out_operator().call(sum, a, b, 1, 1, std::nullopt, options, sum);
  }

  // sum += gradient^T x of all leading dimensions, likewise.
  void add_linear_weight_grad(at::Tensor& sum, const at::Tensor& gradient,
                              const at::Tensor& x) const {
    add_linear_weight_grad_operator().call(sum, gradient, x, all());
  }

 private:
  // With the rung. It lives as long as this object does.
  MmOptions all() const {
    MmOptions options = options_;
    if (algo_) options.algo = *algo_;
    return options;
  }

  MmOptions options_;
  std::optional<std::string> algo_;
};

// A gradient has the layout of what it is the gradient of: row-major or column-major.
inline bool is_column_major(const at::Tensor& t) {
  return TORCH_GUARD_OR_FALSE(t.sym_stride(-2).sym_eq(1)) &&
         TORCH_GUARD_OR_FALSE(t.sym_stride(-1).sym_eq(t.sym_size(-2)));
}

// x y, computed as (y^T x^T)^T if the result is to be column-major.
inline at::Tensor product_in_layout(const MmOperator& op, const GradientRequest& request,
                                    const at::Tensor& x, const at::Tensor& y, bool column_major) {
  return column_major ? request.product(op, y.mT(), x.mT()).mT() : request.product(op, x, y);
}

}  // namespace tiled
