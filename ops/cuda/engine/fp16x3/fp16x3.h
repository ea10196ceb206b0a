// The kernels of rung fp16x3 share these: fp32 operands as two planes of fp16 each, their
// scales, and the list of what is computed again. Host and device; see fp16x3.cu.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/engine/fp16x3/splits.h"
#include "cuda/parts/launch/hopper_arguments.h"
#include "cuda/parts/launch/launch.h"
#include "cuda/plan/hand_over.h"

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
  StreamKGrid stream_k;  // which blocks do which steps
  GuardList guard;
  float tolerance;  // of is_unsure; of groups that share out K each has its own
  bool coarse;      // Fp16x3Plan's
  bool swap_ab;     // P is B and Q is A
};

// async.cu reads the planes, [batch][hi, lo][rows][k] each, where all entries differ.
struct Fp16x3AsyncArguments {
  Fp16x3Arguments product;   // without maps; no swap_ab
  const __half *p, *q;       // P is A, Q is B
  int64_t p_pitch, q_pitch;  // elements from row to row,
  int64_t p_plane, q_plane;  // and from hi to lo
};
Kernel<Fp16x3AsyncArguments> fp16x3_async_kernel(int tile, bool of_groups);

// The product of W, fp32, with the fragments of X, of at most FEW_ROWS rows; W's scales on the way.
struct Fp16x3FewRowsArguments {
  const float* w;
  int64_t w_rows, k, batch;
  int64_t w_row, w_k, w_batch;  // strides, elements
  bool beside;                  // rows of W lie beside each other, else along k or anyhow
  bool vectors;                 // so aligned to 16 bytes
  bool w_is_a;                  // else W is B
  const void* x;
  int64_t x_rows, x_batch;   // rows; 16 bytes from one entry to the next
  int32_t cluster, slots;    // blocks that share K, and FewRowsBlock::slots
  const RowScale* x_scales;  // [batch][x_rows]
  int64_t x_scales_batch;
  float* c;
  int64_t c_m, c_n, c_batch;  // strides, elements
  Epilogue epilogue;
  bool finishes;  // by it: it is not the identity
  GuardList guard;
  float tolerance;
};
Kernel<Fp16x3FewRowsArguments> fp16x3_few_rows_kernel(bool w_is_a, bool beside, bool shares);

// Computes again in fp64: the marked elements of the listed squares, or, where there is no list
// (its `count` null), all elements.
struct GuardArguments {
  Problem problem;
  GuardList list;
  bool coarse;  // Fp16x3Plan's
};
Kernel<GuardArguments> guard_kernel(bool of_groups);

// The product of the planes, with stream-K or without; and of P as it is in memory.
Kernel<Fp16x3Arguments> fp16x3_kernel(int tile, bool p_mn_major, bool q_mn_major, bool stream_k);
Kernel<Fp16x3Arguments> fp16x3_groups_kernel(int tile, bool p_mn_major, bool q_mn_major);
Kernel<Fp16x3Arguments> fp16x3_direct_kernel(int tile, bool p_mn_major, bool swap_ab);

}  // namespace tiled
