// The kernels of rung hopper. A tile has those of every type and layout in a file of its own: what
// differs in a type or two compresses to little more than one of them.
#pragma once

#include "cuda/engine/hopper/tiles.h"
#include "cuda/parts/launch/hopper_arguments.h"
#include "cuda/parts/launch/launch.h"

namespace tiled {

// Which kernel of a tile.
struct HopperKernel {
  DType dtype;     // float32: tf32; bytes are contiguous along k, and so is tf32's Q
  bool is_signed;  // bytes are, and C holds their sums; else it may hold the sums' low 8 bits
  bool p_mn_major, q_mn_major;
  bool finishes;  // by an epilogue that is not the identity; never of bytes
  bool grouped;
};
struct ScaledKernel {
  DType p, q;     // types of 8 bits
  bool fp16;      // C is, or else bf16 or fp32
  bool finishes;  // those of groups all do, since they clear the rows beyond the last
  bool grouped;
};

// Null where none is planned for.
template <typename Tile>
Kernel<HopperArguments> hopper_kernel(const HopperKernel& kernel);
template <typename Tile>
Kernel<TreeArguments> tree_kernel(const HopperKernel& kernel);
template <typename Tile>
Kernel<ScaledArguments> scaled_kernel(const ScaledKernel& kernel);

}  // namespace tiled
