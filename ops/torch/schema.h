// The typed doors into the dispatcher for every part of the library that calls an operator.
#pragma once

#include <ATen/core/Tensor.h>

#include "torch/options.h"

namespace tiled {

using MmOperator =
    Operator<at::Tensor(const at::Tensor& a, const at::Tensor& b, const MmOptions& options)>;
using MmOutOperator = Operator<void(const at::Tensor& a, const at::Tensor& b,
                                    const MmOptions& options, at::Tensor& out)>;

const MmOperator& mm_operator();         // tiled::mm
const MmOperator& bmm_operator();        // tiled::bmm
const MmOutOperator& mm_out_operator();  // tiled::mm.out

}  // namespace tiled
