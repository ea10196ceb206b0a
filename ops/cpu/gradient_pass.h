// A gradient's way back through an epilogue (core/gradient_pass.h) on the CPU.
#pragma once

#include "core/gradient_pass.h"
#include "cpu/blocked.h"

namespace tiled::cpu {

void pass_back(const GradientPass& pass, const ParallelFor& parallel);

// For tests: at a given level.
void pass_back(const GradientPass& pass, const ParallelFor& parallel, const Level& level);

}  // namespace tiled::cpu
