// The products of a device as functions, for code that knows the device only when it is called.
#pragma once

#include <tuple>

#include "torch/finished.h"
#include "torch/grouped.h"
#include "torch/scaled.h"

namespace tiled {

struct Products {
  at::Tensor (*mm)(const at::Tensor& a, const at::Tensor& b, const MmOptions&);
  at::Tensor (*bmm)(const at::Tensor& a, const at::Tensor& b, const MmOptions&);
  std::tuple<at::Tensor, at::Tensor> (*finished)(const at::Tensor& a, const at::Tensor& b,
                                                 const EpilogueOptions&, const MmOptions&);
  at::Tensor (*grouped)(const at::Tensor& a, const at::Tensor& b,
                        const std::optional<at::Tensor>& offs,
                        const std::optional<at::Tensor>& bias,
                        std::optional<std::string_view> activation, const MmOptions&);
  at::Tensor (*scaled)(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                       const at::Tensor& scale_b, const ScaledOptions&);
  // Whether a kernel computes it there; what does not fit is a c10::Error.
  bool (*runs_scaled)(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                      const at::Tensor& scale_b, const ScaledOptions&);
  // Whether this build has kernels that run where the tensor is.
  bool (*run_on)(const at::Tensor& a);
};

template <typename Backend>
constexpr Products products_of(bool (*run_on)(const at::Tensor&)) {
  return {&Product<Backend>::mm,
          &Product<Backend>::bmm,
          &finished_product<Backend>,
          &Forms<&grouped_product<Backend>>::product,
          &Scaled<Backend>::product,
          &Scaled<Backend>::runs,
          run_on};
}

const Products& cpu_products();

// Null in a build without CUDA.
const Products* cuda_products();

}  // namespace tiled
