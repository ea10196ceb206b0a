#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/threshold_backward.h>

#include "torch/autograd_finished.h"

namespace tiled {

at::Tensor activation_gradient(const at::Tensor& gradient, const at::Tensor& before,
                               Activation activation) {
  switch (activation) {
    case Activation::None: return gradient;
    case Activation::Relu: return at::threshold_backward(gradient, before, 0);
    case Activation::Gelu: return at::gelu_backward(gradient, before, "none");
    case Activation::GeluTanh: return at::gelu_backward(gradient, before, "tanh");
    case Activation::Silu: {
      const at::Tensor s = at::sigmoid(before);
      return gradient * (s * (1 + before * (1 - s)));
    }
  }
  return gradient;
}

}  // namespace tiled
