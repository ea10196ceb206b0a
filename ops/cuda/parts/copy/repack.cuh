// The kernels of repack.cu and transpose.cu share this: the copy, and a block's part of it.
#pragma once

#include <cstdint>

#include "cuda/parts/copy/shifted.cuh"
#include "cuda/parts/launch/launch.h"
#include "cuda/parts/schedule/group_scan.cuh"
#include "cuda/plan/copies.h"

namespace tiled {

struct Matrix {
  const void* from;
  void* to;
  int64_t rows, columns;                      // of the copy; elements are contiguous along a row
  int64_t from_row, from_column, from_batch;  // strides, elements
  int64_t to_row, to_batch;                   // strides, elements
  int64_t batch;
  int across;                  // threads side by side along a row, a power of two
  int32_t blocks_x, blocks_y;  // along a row; down the rows, each block striding by all of these
  int32_t blocks_z;            // through the batch, likewise
  bool leaves_aligned;         // of a spaced copy: groups that begin at 16 bytes are not copied
};

struct RepackArguments {
  Matrix first, second;
  uint32_t first_blocks;  // of the grid; the others are the second's
  // Only spaced copies read these.
  Groups groups;
  int32_t group_count, k;
};

// A block's matrix and its place there.
struct Task {
  const Matrix& m;
  int64_t x, y, z;
};
__device__ __forceinline__ Task task_of(const RepackArguments& args) {
  const bool is_second = blockIdx.x >= args.first_blocks;
  const Matrix& m = is_second ? args.second : args.first;
  const uint32_t block = blockIdx.x - (is_second ? args.first_blocks : 0);
  const uint32_t row = block / m.blocks_x;
  return {m, block % m.blocks_x, row % m.blocks_y, row / m.blocks_y};
}

// Which columns of the operand become those of the copy that a block's threads write: the same, and
// zeros behind the last.
template <bool SPACED>
struct SourceColumns {
  static constexpr bool are_left = false;
  const Matrix& m;
  __device__ __forceinline__ SourceColumns(const RepackArguments&, const Task& task) : m(task.m) {}
  __device__ __forceinline__ int64_t further() const { return 0; }
  __device__ __forceinline__ int64_t end() const { return m.columns; }
};

// A spaced copy's, where each block has a line: `further` on than in the copy, to their group's
// end. By whole warps.
template <>
struct SourceColumns</*SPACED=*/true> {
  int64_t distance, group_end;
  bool are_left;  // no product reads them in the copy
  __device__ __forceinline__ SourceColumns(const RepackArguments& args, const Task& task) {
    constexpr int LINE = static_cast<int>(LINE_BYTES);
    const auto lines = [](int begin, int end) -> uint32_t { return end / LINE - begin / LINE + 1; };
    GroupScan scan(args.groups, args.group_count, args.k, /*has_rest=*/false, lines);
    const GroupTile line = scan.at(static_cast<uint32_t>(task.x));
    distance = line.begin + (int64_t{line.number} - task.x) * LINE;
    group_end = line.end;
    are_left = task.m.leaves_aligned && line.begin % 16 == 0;
  }
  __device__ __forceinline__ int64_t further() const { return distance; }
  __device__ __forceinline__ int64_t end() const { return group_end; }
};

// 16 bytes of a line of `length` elements that begins anywhere, from element `first` on, which is
// one of them. They come by aligned loads, two of which hold what is wanted; load() of several
// before the first value() has all of them under way together.
template <typename T>
struct PieceOfLine {
  static constexpr int VECTOR = 16 / sizeof(T);
  uint4 low, high;
  int skew;  // elements of `low` before it

  __device__ __forceinline__ void load(const T* line, int64_t first, int64_t length) {
    const T* at = line + first;
    skew = static_cast<int>(reinterpret_cast<uintptr_t>(at) % 16 / sizeof(T));
    const int end = skew == 0 ? VECTOR : 2 * VECTOR - skew;
    if (first >= skew && first + end <= length) {
      const uint4* pieces = reinterpret_cast<const uint4*>(at - skew);
      low = pieces[0];
      high = pieces[skew == 0 ? 0 : 1];
    } else {  // at a line's ends: nothing outside of it is read
      T elements[VECTOR];
#pragma unroll
      for (int j = 0; j < VECTOR; ++j) elements[j] = first + j < length ? at[j] : T(0);
      low = reinterpret_cast<const uint4&>(elements);
      high = low, skew = 0;
    }
  }
  __device__ __forceinline__ uint4 value() const {
    return shifted<1>(low, high, skew * static_cast<int>(sizeof(T)));
  }
};

Kernel<RepackArguments> transpose_kernel();                   // transpose.cu
Kernel<RepackArguments> transpose_bytes_kernel(bool spaced);  // transpose_bytes.cu

}  // namespace tiled
