// Derivatives, in the manner of ATen's own generated kernels: a Node that saves what its gradients
// need, and the tangent of forward mode. (torch::autograd::Function would be shorter, but it has no
// forward mode and refuses to run under torch.func.) Gradients are products through the dispatcher
// again, so they can be differentiated, compiled and sharded like the forward.
#include <ATen/ops/add.h>
#include <ATen/ops/constant_pad_nd.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

#include <mutex>
#include <type_traits>

#include "core/algo.h"
#include "torch/hooks.h"
#include "torch/precision.h"
#include "torch/schema.h"

namespace tiled {
namespace {

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

// A copy whose elements lie along the last dimension, its rows on multiples of 16 bytes. One
// element of padding is the least: without any, constant_pad_nd is a clone, which keeps the strides
// of what it copies.
at::Tensor aligned_copy(const at::Tensor& x) {
  const c10::SymInt unit = 16 / static_cast<int64_t>(x.element_size()), columns = x.sym_size(-1);
  return at::constant_pad_nd_symint(x, {0, unit - columns % unit}).slice_symint(-1, 0, columns);
}

// How a call was asked for; its gradients are asked for in the same way.
class Request {
 public:
  Request() = default;

  // `asked` has its precision resolved: such names live forever, that of the rung is copied.
  explicit Request(const MmOptions& asked) : options_(asked), algo_(asked.algo) {
    options_.algo.reset();
    options_.out_dtype.reset();
  }

  at::Tensor product(const MmOperator& op, const at::Tensor& a, const at::Tensor& b) const {
    if (!algo_) return op.call(a, b, options_);
    MmOptions options = options_;
    options.algo = *algo_;
    // The rungs that read operands as they lie could refuse a gradient's layout (an expanded one,
    // say), so they are given copies, both along K.
    const std::optional<Algo> rung = parse_algo(*algo_);
    if (rung == Algo::TmaWgmma || rung == Algo::WarpSpecialized)
      return op.call(aligned_copy(a), aligned_copy(b.mT()).mT(), options);
    return op.call(a, b, options);
  }

 private:
  MmOptions options_;
  std::optional<std::string> algo_;
};

// A gradient has the layout of what it is the gradient of: row-major or column-major.
bool is_column_major(const at::Tensor& t) {
  return TORCH_GUARD_OR_FALSE(t.sym_stride(-2).sym_eq(1)) &&
         TORCH_GUARD_OR_FALSE(t.sym_stride(-1).sym_eq(t.sym_size(-2)));
}

// x y, computed as (y^T x^T)^T if the result is to be column-major.
at::Tensor product_in_layout(const MmOperator& op, const Request& request, const at::Tensor& x,
                             const at::Tensor& y, bool column_major) {
  return column_major ? request.product(op, y.mT(), x.mT()).mT() : request.product(op, x, y);
}

template <const MmOperator& (*OPERATOR)()>
struct MmBackward : public Node {
  SavedVariable a, b;  // a only if b needs a gradient, and the other way round
  bool a_column_major, b_column_major;
  at::ScalarType dtype;
  Request request;

  std::string name() const override {
    return OPERATOR == &bmm_operator ? "TiledBmmBackward0" : "TiledMmBackward0";
  }

  // Two threads may run a shared graph backward, one of them releasing what the other unpacks.
  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    a.reset_data();
    b.reset_data();
  }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    variable_list result(2);
    if (!gradients[0].defined()) return result;
    // An fp32 result of 16-bit inputs has an fp32 gradient, which is rounded to the inputs' dtype.
    const at::Tensor gradient = gradients[0].to(dtype);
    if (task_should_compute_output(0))
      result[0] =
          product_in_layout(OPERATOR(), request, gradient, b.unpack(getptr()).mH(), a_column_major);
    if (task_should_compute_output(1))
      result[1] =
          product_in_layout(OPERATOR(), request, a.unpack(getptr()).mH(), gradient, b_column_major);
    return result;
  }
};

template <const MmOperator& (*OPERATOR)()>
at::Tensor differentiable(c10::DispatchKeySet keys, const at::Tensor& a, const at::Tensor& b,
                          const MmOptions& asked) {
  const bool needs_gradient = compute_requires_grad(a, b);
  const bool has_tangent = isFwGradDefined(a) || isFwGradDefined(b);
  // What this call runs, its derivatives run too, whatever the setting will be then. It is read
  // once and handed down: another thread may change it at any time.
  MmOptions options = asked;
  if (needs_gradient || has_tangent)
    options.precision = resolve_precision(a.scalar_type(), target_of(a), asked);

  decltype(make_node<MmBackward<OPERATOR>>()) node;
  if (needs_gradient) {
    node = make_node<MmBackward<OPERATOR>>();
    node->set_next_edges(collect_next_edges(a, b));
    if (node->should_compute_output(1)) node->a = SavedVariable(a, /*is_output=*/false);
    if (node->should_compute_output(0)) node->b = SavedVariable(b, /*is_output=*/false);
  }
  at::Tensor c = [&] {
    at::AutoDispatchBelowADInplaceOrView below;
    return OPERATOR().redispatch(keys & c10::after_autograd_keyset, a, b, options);
  }();
  if (node) {
    // Only now are a and b known to be matrices.
    node->a_column_major = is_column_major(a);
    node->b_column_major = is_column_major(b);
    node->dtype = a.scalar_type();
    node->request = Request(options);
    torch::autograd::set_history(c, node);
  }
  if (has_tangent) {
    const auto term = [&](const at::Tensor& x, const at::Tensor& y) {
      return OPERATOR().call(x, y, options);
    };
    at::Tensor tangent;
    if (isFwGradDefined(a)) tangent = term(a._fw_grad(0), b._fw_primal(0));
    if (isFwGradDefined(b)) {
      const at::Tensor other = term(a._fw_primal(0), b._fw_grad(0));
      tangent = tangent.defined() ? at::add(tangent, other) : other;
    }
    c._set_fw_grad(tangent, /*level=*/0, /*is_inplace_op=*/false);
  }
  return c;
}

void mm_out_without_gradient(c10::DispatchKeySet keys, const at::Tensor& a, const at::Tensor& b,
                             const MmOptions& options, at::Tensor& out) {
  if (compute_requires_grad(a, b) || compute_requires_grad(out))
    torch::autograd::throw_error_out_requires_grad("mm");
  TORCH_CHECK_NOT_IMPLEMENTED(
      !isFwGradDefined(a) && !isFwGradDefined(b) && !isFwGradDefined(out),
      "Trying to use forward AD with mm_out that does not support it because it is an out= "
      "function");
  at::AutoDispatchBelowAutograd below;
  mm_out_operator().redispatch(keys & c10::after_autograd_keyset, a, b, options, out);
}

// A kernel that writes through a pointer leaves the version as it was; autograd finds overwritten
// saved tensors by it.
void mm_out_bumps_version(c10::DispatchKeySet keys, const at::Tensor& a, const at::Tensor& b,
                          const MmOptions& options, at::Tensor& out) {
  // What increment_version would say, but before anything is written.
  TORCH_CHECK(
      !out.is_inference() || c10::InferenceMode::is_enabled(),
      "Inplace update to inference tensor outside InferenceMode is not allowed. You can make "
      "a clone to get a normal tensor before doing inplace update.");
  {
    at::AutoDispatchBelowADInplaceOrView below;
    mm_out_operator().redispatch(keys & c10::after_ADInplaceOrView_keyset, a, b, options, out);
  }
  torch::autograd::increment_version(out);
}

}  // namespace

TORCH_LIBRARY_IMPL(tiled, Autograd, m) {
  m.impl("mm", kernel<&differentiable<&mm_operator>>);
  m.impl("bmm", kernel<&differentiable<&bmm_operator>>);
  m.impl("mm.out", kernel<&mm_out_without_gradient>);
}

TORCH_LIBRARY_IMPL(tiled, ADInplaceOrView, m) { m.impl("mm.out", kernel<&mm_out_bumps_version>); }

}  // namespace tiled
