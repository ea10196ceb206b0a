// Tensors end here, kernels begin here: a matrix product as plain data.
//
//     C[b, i, j] = sum over k of A[b, i, k] * B[b, k, j]
//
// Nothing in this file knows ATen or CUDA. A Problem is passed to kernels by value.
#pragma once

#include <cstdint>

#include "core/epilogue.h"
#include "core/scales.h"
#include "core/segments.h"

namespace tiled {

// The arithmetic decides the bits; kernels of the same arithmetic agree bit for bit.
enum class Arithmetic : int8_t {
  Fma,     // one chain of fused multiply-adds a segment, k ascending; fp32 chains for 16-bit inputs
           // (rounded once, at the end), fp64 for fp64; complex: four such chains, of ar*br,
           // ai*bi, ar*bi and ai*br, a segment being (1st - 2nd, 3rd + 4th); integers wrap
  Tensor,  // 16-bit inputs on tensor cores, of one compute capability: one fp32 accumulator a
           // segment takes steps of 16 (7.5: 8) of k, ascending (wgmma and mma.sync m16n8k16 agree)
  Cpu16,   // 16-bit inputs on the CPU: bf16 in steps of the level's own instruction (pairs of k for
           // vdpbf16ps, 32 values for AMX) where it has one, else as Fma
  Tf32,    // fp32 inputs, each rounded to tf32 (to nearest, ties to even), likewise in steps of 8
  Fp16x3,  // fp32 inputs, each as two fp16 parts, three products of parts; main and cross products
           // of every 64 of K in fresh accumulators, added up in fp32
           // (cuda/engine/fp16x3/fp16x3.cu)
  Fp8,     // fp8 inputs with scales, in the order of core/scales.h
};

// Whether kernels of this arithmetic run on tensor cores.
constexpr bool on_tensor_cores(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::Tensor || arithmetic == Arithmetic::Tf32 ||
         arithmetic == Arithmetic::Fp16x3 || arithmetic == Arithmetic::Fp8;
}

// One matrix operand. Element (i, j) of batch entry b stands at
// data + (b * batch_stride + i * row_stride + j * col_stride) * size_of(dtype).
struct Operand {
  const void* data;      // null when the problem is only planned
  int64_t row_stride;    // elements
  int64_t col_stride;    // elements
  int64_t batch_stride;  // elements
  int32_t alignment;     // bytes, a power of two up to 16: divides the base address, the batch
                         // stride, and of the matrix's own strides every one but one of 1
};

struct Result {
  void* data;
  int64_t row_stride;    // elements
  int64_t col_stride;    // elements
  int64_t batch_stride;  // elements
  int32_t alignment;     // bytes, as Operand's
};

// The size of a product that its groups share out among them, if any: group g has the indices from
// ends[g - 1], or 0, to ends[g], and is the batch's entry g of what is not shared out. An operand
// or C that has the shared size has a batch stride of 0.
enum class Shared : int8_t { Nothing, M, N, K };

struct Groups {
  Shared shared = Shared::Nothing;
  bool wide = false;           // int64, else int32
  const void* ends = nullptr;  // of all entries of the batch, one after the other, on the device
};

struct Problem {
  int64_t batch;
  int64_t m, n, k;
  DType dtype;  // of A and B; of fp8 A's alone (Scales::b_dtype)
  Arithmetic arithmetic;
  int32_t leaf = 0;  // of the tree that sums K (core/sum_tree.h), elements; 0: one chain
  Operand a;         // [batch][M][K]
  Operand b;         // [batch][K][N]
  Result c;          // [batch][M][N]
  Epilogue epilogue;
  Groups groups;
  Scales scales;
};

constexpr bool is_grouped(const Problem& problem) {
  return problem.groups.shared != Shared::Nothing;
}

constexpr bool is_scaled(const Problem& problem) {
  return problem.scales.a.scaling != Scaling::Nothing;
}

// The segments of K. A scaled product has one total, however long K is, and so has a tree.
constexpr int64_t segment_count(const Problem& problem) {
  const bool is_one = is_scaled(problem) || problem.leaf > 0;
  return is_one && problem.k > 0 ? 1 : segment_count(problem.k);
}

// Makes it a product with groups. These begin anywhere: an operand of which neighbours along the
// shared index are neighbours in memory is aligned as its elements are.
constexpr void share_out(Problem& problem, const Groups& groups) {
  problem.groups = groups;
  const auto align = [&](Operand& x, bool has_rows, bool has_columns) {
    const bool along_shared = (has_rows && x.row_stride == 1) || (has_columns && x.col_stride == 1);
    const auto size = static_cast<int32_t>(size_of(problem.dtype));
    if (along_shared && size < x.alignment) x.alignment = size;
  };
  const Shared shared = groups.shared;
  align(problem.a, shared == Shared::M, shared == Shared::K);
  align(problem.b, shared == Shared::K, shared == Shared::N);
}

// The largest power of two up to 16 that divides `value` (16 for zero).
constexpr int32_t power_of_two_divisor(int64_t value) {
  const uint64_t bits = static_cast<uint64_t>(value) | 16;
  return static_cast<int32_t>(bits & (~bits + 1));
}

// Alignment, in bytes, of a strided matrix (see Operand::alignment). A row or column stride of 1 is
// the direction of vectors and does not count; a second one (overlapping views) does. Vectors never
// go from one matrix of the batch to the next, so that the batch's stride counts whatever it is:
// matrices of one element stand side by side.
inline int32_t alignment_of(const void* data, DType dtype, int64_t row_stride, int64_t col_stride,
                            int64_t batch_stride) {
  const int64_t size = size_of(dtype);
  int32_t alignment = power_of_two_divisor(reinterpret_cast<intptr_t>(data));
  const auto include = [&](int64_t stride) {
    const int32_t divisor = power_of_two_divisor(stride * size);
    if (divisor < alignment) alignment = divisor;
  };
  if (row_stride != 1) include(row_stride);
  if (col_stride != 1 || row_stride == 1) include(col_stride);
  include(batch_stride);
  return alignment;
}

}  // namespace tiled
