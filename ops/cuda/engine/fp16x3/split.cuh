// The kernels of split.cu and split_beside.cu share this.
#pragma once

#include "cuda/engine/fp16x3/fp16_parts.cuh"
#include "cuda/engine/fp16x3/fp16x3.h"
#include "cuda/engine/fp16x3/layout.h"
#include "cuda/parts/launch/early_start.cuh"
#include "cuda/parts/launch/fault.cuh"
#include "cuda/parts/schedule/group_scan.cuh"

namespace tiled {

struct SplitArguments {
  const float* from;
  __half* to;  // hi, lo is `plane` elements on; or fragments
  RowScale* scales;
  MagnitudeRange* ranges;  // of rows beside each other, [panel][measurer][SPLIT_PANEL]
  SplitPanel* panels;      // panels_of() them
  int64_t rows, k, batch;
  int64_t from_row, from_k, from_batch;  // strides, elements
  int64_t to_pitch, to_k, plane;         // elements: of the copy from row to row, along k; hi to lo
  Groups groups;                         // that share out K
  int64_t tiles, fragments;              // of eight rows; elements of an entry
  SplitShares shares;                    // of split_beside.cu
  uint32_t* zeros;                       // cleared on the way
  int64_t zero_count;
  bool vectors;  // aligned to 16 bytes in the direction in which rows lie
  bool beside;   // the kernel before may still be running
};
// The operands, P or Q, whose rows are side by side.
struct MeasureArguments {
  SplitArguments first, second;
  int64_t first_blocks;
};

// One kernel runs beside the one before it. So that one lets it start only once all that came
// before has ended, and it waits for that one before it ends itself.
__device__ __forceinline__ void begin(const SplitArguments& args) {
  if (!args.beside) wait_for_kernels_before();
  let_the_next_start();
}
__device__ __forceinline__ void end(const SplitArguments& args) {
  if (args.beside && blockIdx.x == 0) wait_for_kernels_before();
}

__device__ __forceinline__ void clear(const SplitArguments& args) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  if (FAULT == Fault::NoClear || blockIdx.y != 0) return;
#pragma unroll 1
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.zero_count;
       i += threads)
    args.zeros[i] = 0;
}

// An entry of the batch, or a group that shares out K: where its K begins in the operand and in the
// planes, and its length.
struct SplitEntry {
  int64_t from, to, k;
};
template <bool OF_GROUPS>
__device__ __forceinline__ SplitEntry split_entry(const SplitArguments& args, int64_t entry) {
  if constexpr (OF_GROUPS) {
    GroupScan scan(args.groups, static_cast<int>(args.batch), static_cast<int>(args.k),
                   /*has_rest=*/false, [](int, int) -> uint32_t { return 1; });
    const GroupTile part = scan.at(static_cast<uint32_t>(entry));
    return {part.begin * args.from_k, place_of_group(part.begin, entry) * args.to_k,
            part.end - part.begin};
  } else {
    return {entry * args.from_batch, 2 * entry * args.plane, args.k};
  }
}

// Four neighbours in memory, 8 bytes.
__device__ __forceinline__ void write_four(__half* to, __half2 first, __half2 second) {
  *reinterpret_cast<uint2*>(to) = make_uint2(reinterpret_cast<const uint32_t&>(first),
                                             reinterpret_cast<const uint32_t&>(second));
}

// split_beside.cu.
Kernel<SplitArguments> split_beside_kernel(SplitForm form, bool of_groups);
Kernel<MeasureArguments> measure_kernel(bool of_groups);

}  // namespace tiled
