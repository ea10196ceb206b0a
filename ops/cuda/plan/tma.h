// The rungs that read operands by TMA ask this of a problem, and others whose counters are as wide.
#pragma once

#include <algorithm>

#include "cuda/plan/plan.h"

namespace tiled {

// TMA's coordinates and the kernels' counters have 31 bits; a tile may reach beyond the end.
constexpr int64_t MOST_OF_TMA = (int64_t{1} << 31) - 512;

inline bool sizes_fit_tma(const Problem& problem) {
  return problem.m <= MOST_OF_TMA && problem.n <= MOST_OF_TMA && problem.k <= MOST_OF_TMA &&
         problem.batch <= MOST_OF_TMA;
}

// The arithmetic of mma.sync and wgmma, in which their kernels agree bit for bit.
constexpr bool is_of_wgmma(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::Tensor || arithmetic == Arithmetic::Tf32;
}

// wgmma reads tf32 and elements of 8 bits along K alone.
constexpr bool lies_along_k(const Problem& problem) {
  return problem.arithmetic == Arithmetic::Tf32 || size_of(problem.dtype) == 1;
}

// Whether neighbours in the direction that is_mn_major() tells lie side by side.
inline bool is_side_by_side(const Side& side) {
  return is_mn_major(side) ? side.rows <= 1 || side.row_stride == 1
                           : side.k <= 1 || side.k_stride == 1;
}

// Whether wgmma can read the operand by TMA where it lies.
inline bool tma_reads(const Side& side, const Problem& problem) {
  return is_mappable(side) && !(lies_along_k(problem) && is_mn_major(side));
}

// A step of K is 128 bytes.
inline int32_t tma_step(const Problem& problem) {
  return static_cast<int32_t>(128 / size_of(problem.dtype));
}

// Clusters of so many blocks that run at once, a block on each multiprocessor. Larger ones than two
// do not fill a chip whose groups of multiprocessors are no multiples of them: of an H200's 132,
// 120 (cudaOccupancyMaxActiveClusters), and others are taken to be alike.
inline int64_t clusters_at_once(const DeviceInfo& device, int blocks) {
  return std::max(
      1, (blocks <= 2 ? device.multiprocessors : device.multiprocessors * 10 / 11) / blocks);
}

// The kernel of the sums, with shared memory that is given to it at the launch. (Where K is 0 there
// is nothing to load, and tensor maps of nothing do not exist: then add_sums() alone, of none.)
inline Step product_step(int32_t threads, int64_t blocks, int64_t shared_bytes) {
  Step step{};
  step.work = Work::Product;
  step.threads_x = static_cast<int16_t>(threads), step.threads_y = 1;
  step.grid_x = blocks, step.grid_y = 1;
  step.shared_bytes = static_cast<int32_t>(shared_bytes);
  step.dynamic = true;
  return step;
}

}  // namespace tiled
