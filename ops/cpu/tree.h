// The pass that ends a product whose K is summed by a tree (core/sum_tree.h).
#pragma once

#include "core/sum_tree.h"
#include "cpu/blocked.h"

namespace tiled::cpu {

void add_parts(const TreePass& pass, const ParallelFor& parallel);

}  // namespace tiled::cpu
