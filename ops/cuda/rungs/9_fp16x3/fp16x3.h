// What the three kernels of rung fp16x3 share: fp32 operands as two planes of fp16 each, their
// scales, and the list of what is computed again. Host and device; see fp16x3.cu.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/parts/hopper.h"
#include "cuda/plan/fp16x3_plan.h"
#include "cuda/plan/fp16x3_tiles.h"

namespace tiled {

// One row of A, or column of B, times 2^exponent lies in [2^14, 2^15) at its largest element. What
// its two fp16 parts leave out of the elements too small for them adds up to at most `lost` (after
// scaling); infinite where an element is not finite.
struct RowScale {
  int32_t exponent;
  float lost;
};

// The squares of C that hold an element to be computed again, and which ones: guard_marks.cuh.
struct GuardList {
  uint32_t* count;       // of squares listed
  uint32_t* recomputed;  // elements
  uint32_t* listed;      // [batch][squares along m][squares along n], what is written of its marks
  uint32_t* squares;     // indices into `listed`, in any order
  uint16_t* marks;       // GUARD_MARK_BYTES of each of `listed`
  uint32_t squares_m, squares_n;
  bool rows_along_n;  // of marks; else along m
};

struct Fp16x3Arguments {
  HopperArguments grid;                 // maps of the planes, [batch][2][rows][k] each, grid and C
  const RowScale *p_scales, *q_scales;  // [batch][rows]
  int64_t p_scales_batch, q_scales_batch;
  GuardList guard;
  float tolerance;  // of is_unsure
  bool exchanged;   // P is B and Q is A
};

// Whether an element is computed again: whether what the parts of its row and column have lost
// could be seen beside the error that its size allows, or whether it is not finite, as one with a
// row of NaN or Inf is, and one too close to the largest number to be sure on which side it lies.
// `c` is the sum, unscaled, before any epilogue; `scale` the sum of the two exponents. Elements of
// both are below 2^15 after scaling, so what is lost of the product is below (row.lost +
// column.lost) 2^15, scaled; half of the smallest number is not seen.
#ifdef __CUDACC__
__device__ __forceinline__ bool is_unsure(float lost, int scale, float c, float tolerance) {
  const bool seen = lost != 0 && ldexpf(lost, 16 - scale) >= 0x1p-149f &&
                    !(ldexpf(lost, 15) < tolerance * ldexpf(fabsf(c), scale));
  return seen || !(fabsf(c) <= 0x1.fffffep127f);
}
#endif

struct RowExtent;  // fp16x3_layout.h
struct SplitPanel;

// Planes and scales of one operand. `to` is split_planes(from) (fp16x3_layout.h), or has no data:
// then the scales alone.
struct SplitJob {
  Side from, to;
  int64_t batch;
  RowScale* scales;
  RowExtent* extents;  // where rows lie beside each other
  SplitPanel* panels;
  bool permuted;  // along k, in the order in which direct.cu has k
};
// One operand or both. `zeros` are cleared before anything else, extents and panels among them.
cudaError_t launch_splits(const SplitJob* jobs, int count, uint32_t* zeros, int64_t zero_count,
                          cudaStream_t stream);

// The same for few rows, into fragments as few_rows.cu loads them, few_rows_bytes an entry.
cudaError_t launch_split_fragments(const Side& from, void* to, int64_t batch, RowScale* scales,
                                   uint32_t* zeros, int64_t zero_count, cudaStream_t stream);

// The product of W, fp32, with the fragments of X, of at most FEW_ROWS rows; W's scales on the way.
struct FewRowsArguments {
  const float* w;
  int64_t w_rows, k, batch;
  int64_t w_row, w_k, w_batch;  // strides, elements
  bool beside;                  // rows of W lie beside each other, else along k or anyhow
  bool vectors;                 // so aligned to 16 bytes
  bool w_is_a;                  // else W is B
  const void* x;
  int64_t x_rows, x_batch;   // rows; 16 bytes from one entry to the next
  int32_t slots;             // of FewRowsBlock
  const RowScale* x_scales;  // [batch][x_rows]
  int64_t x_scales_batch;
  float* c;
  int64_t c_m, c_n, c_batch;  // strides, elements
  Epilogue epilogue;
  bool finishes;  // by it: it is not the identity
  GuardList guard;
  float tolerance;
};
const void* fp16x3_few_rows_kernel(bool w_is_a, bool beside);

// Computes again in fp64: the marked elements of the listed squares, or, where there is no list
// (its `count` null), all elements.
struct GuardArguments {
  Problem problem;
  GuardList list;
};
cudaError_t launch_guard(const GuardArguments& args, int blocks, cudaStream_t stream);

// The product of the planes. Takes Fp16x3Arguments.
const void* fp16x3_kernel(int tile, bool p_mn_major, bool q_mn_major);
const void* fp16x3_direct_kernel(int tile, bool p_mn_major, bool exchanged);

// That of a plan, for the operands in fp32.
const void* fp16x3_kernel_of(const Sides& sides, const HopperPlan& plan);

}  // namespace tiled
