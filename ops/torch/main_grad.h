// main_grad: where a weight's gradient is added by the product that computes it, in place of .grad.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <mutex>

#include "torch/check_addmm.h"

namespace tiled {

// main_grad must have weight's shape and device, and float or the dtype of the product of this
// dtype.
inline void check_main_grad(const at::Tensor& main_grad, const at::Tensor& weight,
                            at::ScalarType dtype, const char* op) {
  const at::ScalarType type = main_grad.scalar_type();
  TORCH_CHECK(type == dtype || (type == at::kFloat && sums_are_floats(dtype)),
              "tiled_mm: main_grad of a ", dtype, " product has dtype ", type,
              "; expected that or Float");
  TORCH_CHECK(main_grad.sizes() == weight.sizes(), "tiled_mm: main_grad has shape ",
              main_grad.sizes(), ", and weight ", weight.sizes());
  TORCH_CHECK(!main_grad.requires_grad(), "tiled_mm: main_grad may not require a gradient itself");
  check_same_device(weight, main_grad, op, "main_grad");
}

// Where there is no main_grad.
inline void check_needs_no_main_grad(const at::Tensor& weight, at::ScalarType dtype) {
  TORCH_CHECK(!torch::autograd::compute_requires_grad(weight),
              "tiled_mm: main_grad is missing: set weight.main_grad to a tensor of shape ",
              weight.sizes(), " and dtype ", sums_are_floats(dtype) ? at::kFloat : dtype, " on ",
              weight.device(), ", to which backward() adds weight's gradient");
}

// The node at the end of the edge's path, by way of casts and views: a leaf's AccumulateGrad.
inline torch::autograd::Node& leaf_of(const torch::autograd::Edge& edge) {
  torch::autograd::Node* node = edge.function.get();
  while (node->num_outputs() > 0) {
    const auto& edges = node->next_edges();
    const auto next =
        std::find_if(edges.begin(), edges.end(), [](const auto& e) { return e.is_valid(); });
    if (next == edges.end()) break;
    node = next->function.get();
  }
  return *node;
}

// Runs add(), which adds to main_grad on the current stream, as autograd adds to .grad: one
// addition after the other, whatever the streams of the nodes that compute them, and all of them
// before what the caller of backward() enqueues next.
//
// The engine runs every node on the stream of its forward, and in the end has the caller's stream
// wait for those of the AccumulateGrad nodes. Weight's own node is one of these, though it gets
// nothing to accumulate; so each addition waits for what its stream has, and that stream for the
// addition.
template <typename Add>
void add_in_order(const torch::autograd::Edge& to_weight, const at::Tensor& main_grad,
                  const Add& add) {
  static std::mutex mutex;  // several threads may run backward passes of one weight
  const std::lock_guard<std::mutex> lock(mutex);
  const std::optional<c10::Stream> order = leaf_of(to_weight).stream();
  if (!order || order->device() != main_grad.device()) return add();
  const c10::Stream current =
      c10::impl::VirtualGuardImpl(order->device_type()).getStream(order->device());
  if (current == *order) return add();
  const auto wait = [](const c10::Stream& waiting, const c10::Stream& first) {
    c10::Event event(first.device_type());
    event.record(first);
    waiting.wait(event);
  };
  wait(current, *order);
  add();
  wait(*order, current);
}

}  // namespace tiled
