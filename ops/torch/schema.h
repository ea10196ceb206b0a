// The typed doors into the dispatcher for every part of the library that calls an operator.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string_view>

namespace tiled {

using MmSignature = at::Tensor(const at::Tensor& a, const at::Tensor& b,
                               std::optional<std::string_view> algo,
                               std::optional<std::string_view> precision,
                               std::optional<at::ScalarType> out_dtype);
using MmOutSignature = void(const at::Tensor& a, const at::Tensor& b,
                            std::optional<std::string_view> algo,
                            std::optional<std::string_view> precision,
                            std::optional<at::ScalarType> out_dtype, at::Tensor& out);

using MmOperator = c10::TypedOperatorHandle<MmSignature>;
using MmOutOperator = c10::TypedOperatorHandle<MmOutSignature>;

const MmOperator& mm_operator();         // tiled::mm
const MmOperator& bmm_operator();        // tiled::bmm
const MmOutOperator& mm_out_operator();  // tiled::mm.out

}  // namespace tiled
