// The products of a device as functions, for code that knows the device only when it is called.
#pragma once

#include <tuple>

#include "torch/finished.h"
#include "torch/grouped.h"

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
  // Whether this build has kernels that run where the tensor is.
  bool (*run_on)(const at::Tensor& a);
};

template <typename Backend>
constexpr Products products_of(bool (*run_on)(const at::Tensor&)) {
  return {&Product<Backend>::mm, &Product<Backend>::bmm, &finished_product<Backend>,
          &Grouped<Backend>::product, run_on};
}

const Products& cpu_products();

// Null in a build without CUDA.
const Products* cuda_products();

}  // namespace tiled
