// The kernels of rung few_rows.
#pragma once

#include <cuda.h>

#include <type_traits>

#include "core/sum_tree.h"
#include "cuda/engine/few_rows/strips.h"
#include "cuda/engine/few_rows/tiles.h"
#include "cuda/parts/launch/launch.h"

namespace tiled {

// The members that every block reads come first: a line of constants that is not in the cache yet
// is waited for.
struct FewRowsArguments {
  CUtensorMap p_maps[2], q_map;   // P [batch][p][k] and Q [batch][q][k]
  int32_t p, q;                   // elements
  FewRowsStrips strips;           // along K: the maps' boxes are least() and most() strips high
  int32_t strip;                  // elements; along m or n: the width of the maps' boxes
  Divisor by_columns, by_blocks;  // by the tiles along Q, and by strips.blocks
  Divisor by_tiles;               // by the tiles of a segment, in split-K
  int32_t tiles;                  // of all entries and segments
  int32_t stages;                 // of K, of a tile
  int32_t segment;                // of these stages
  FewRowsStage stage;
  int32_t q_loads;        // bytes of Q in a stage
  bool p_batch, q_batch;  // false: every batch entry reads the same matrix
  bool c_fp32;
  bool finishes;     // by the epilogue: it is not the identity
  uint32_t nothing;  // 0, which no compiler knows: see FewRowsRing::has_read
  void* c;
  int64_t c_p, c_q, c_batch;  // strides, elements
  int32_t batch;              // entries, of each segment's sums, which follow each other
  Epilogue epilogue;          // its rows are P's and its columns Q's
};

// The same for kernels whose K a tree sums. Where leaves are shared out among blocks, as segments
// are, C is the place of their sums; a tile then has one, and nothing is added to it.
struct FewRowsTreeArguments : FewRowsArguments {
  bool shares_leaves;
  LeafTable leaves;
  uint8_t additions[MOST_LEAVES];  // TreePart::additions
};
template <bool TREES>
using FewRowsArgumentsOf = std::conditional_t<TREES, FewRowsTreeArguments, FewRowsArguments>;
template <bool TREES>
using FewRowsKernel = Kernel<FewRowsArgumentsOf<TREES>>;

// By element type.
template <bool TREES>
FewRowsKernel<TREES> few_rows_bf16(int tile, bool p_mn_major);
template <bool TREES>
FewRowsKernel<TREES> few_rows_fp16(int tile, bool p_mn_major);
template <bool TREES>
FewRowsKernel<TREES> few_rows_warps_bf16(int tile, bool p_mn_major);
template <bool TREES>
FewRowsKernel<TREES> few_rows_warps_fp16(int tile, bool p_mn_major);
template <bool TREES>
FewRowsKernel<TREES> few_rows_tf32(int tile, bool p_mn_major);
template <bool TREES>
FewRowsKernel<TREES> few_rows_fp64(int tile, bool p_mn_major, bool q_mn_major);
// fp32, not on tensor cores.
template <bool TREES>
FewRowsKernel<TREES> few_rows_lanes(int tile, bool p_mn_major);
template <bool TREES>
FewRowsKernel<TREES> few_rows_patches(int tile, bool p_mn_major, bool q_mn_major);

}  // namespace tiled
