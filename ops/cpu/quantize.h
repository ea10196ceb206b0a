// Tensors to fp8 by blocks (core/quantization.h) on the CPU.
#pragma once

#include "core/quantization.h"
#include "cpu/blocked.h"

namespace tiled::cpu {

void quantize(const Quantization& pass, const ParallelFor& parallel);

}  // namespace tiled::cpu
