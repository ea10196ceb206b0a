// The arguments that rung hopper is launched with; see engine/hopper/hopper.cuh. Host and device.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "core/sum_tree.h"
#include "cuda/plan/cluster_plan.h"
#include "cuda/plan/divisor.h"

namespace tiled {

// A matrix that the kernel writes.
struct HopperOutput {
  CUtensorMap map;  // by_tma only
  void* data;
  int64_t p, q, batch, segment;  // strides, elements
  bool unrounded;                // its elements are of the sums' type
  bool by_tma;                   // else warps write it from slices
};

struct HopperArguments {
  CUtensorMap p_map, q_map;    // P [batch][p][k] and Q [batch][q][k]
  CUtensorMap p_edge, q_edge;  // their last rows (OperandTile::Reach)
  int32_t p, q, k, batch;      // elements
  int32_t p_batch, q_batch;    // 0: every batch entry reads the same matrix; else 1
  // The grid of work: tiles of the cluster, segments of split-K, batch.
  int32_t clusters_p, clusters_q;  // clusters that cover P and Q
  int32_t segments;                // of split-K; 1: a block does all of K
  int32_t cluster_p, cluster_q;    // blocks of a cluster along P or along Q; one of them is 1
  // A panel is so many clusters along P, all of which are done before the next along Q.
  Divisor by_tiles;     // clusters_p * clusters_q
  Divisor by_segments;  // segments
  Divisor by_panel;     // the panel's height * clusters_q
  Divisor by_height;    // the panel's height
  Divisor by_last;      // the last panel's height
  // Epilogue::pre_activation, where it is kept; and C, or in split-K the sums of one segment after
  // the other.
  HopperOutput outputs[2];
  Epilogue epilogue;  // its rows are P's and its columns Q's
  bool finishes;      // by it: it is not the identity, and C is C
  bool keeps_pre_activation;
  // Where a block keeps its tile between segments, if registers have no room for it:
  // [block][consumer][register / 4][thread] float4; of a tree as often as sums wait there. Of
  // shared segments, their sums.
  float* totals;
  // Only kernels for groups read these.
  Groups groups;
  bool groups_of_p, groups_of_q;  // whose rows they share out; else it is K
  int32_t c_batch;                // as p_batch: 0 where groups write to one matrix

  constexpr HopperOutput& c() { return outputs[1]; }
  constexpr const HopperOutput& c() const { return outputs[1]; }
};

// Arguments of kernels whose K a tree sums. Where leaves are shared out among blocks, as segments
// are, C is the place of their sums.
struct TreeArguments : HopperArguments {
  LeafTable leaves;
  uint8_t additions[MOST_LEAVES];  // TreePart::additions
};

// Arguments of kernels for scaled products.
struct ScaledArguments : HopperArguments {
  OperandScales p_scales, q_scales;
  bool blockwise;  // a scale of either changes along K
  bool one_q;      // a tile's columns of Q have one scale in common, for a block of K
  // Where groups share out K the maps above are those of copies that groups begin lines of. One
  // that begins at a multiple of 16 bytes is read where it is, if these exist.
  CUtensorMap p_place, q_place, p_place_edge, q_place_edge;
  bool has_p_place, has_q_place;
  // Groups share out K, and their scales stand without spaces: group g's operands have g blocks
  // more before them.
  bool dense_blocks;
};

}  // namespace tiled
