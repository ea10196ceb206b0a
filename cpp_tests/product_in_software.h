// Matrices for kernels in software (software_gpu/block.h), which end where no memory follows, and
// the product that is asked of them.
#pragma once

// clang-format off: before all else, what CUDA C++ has by itself
#include "software_gpu/block.h"
// clang-format on

#include <algorithm>

#include "core/problem.h"
#include "guarded.h"

namespace tiled {
namespace test {

// The layout of a matrix: along which dimension, the elements that stand before it and after each
// of its rows, how far apart neighbours are, and the elements after its last that are no operand's.
struct Lie {
  bool along_rows;  // row-major
  int before = 0, after = 0, apart = 1, behind = 0;
};

struct Matrix {
  Matrix(int64_t batch, int64_t rows, int64_t columns, Lie lie, int bytes)
      : rows(rows),
        columns(columns),
        lie(lie),
        bytes(bytes),
        pitch((lie.along_rows ? columns : rows) * lie.apart + lie.after),
        entry((lie.along_rows ? rows : columns) * pitch),
        memory(std::max<int64_t>(0, lie.before + batch * entry - lie.after - lie.apart + 1) * bytes,
               lie.behind * bytes) {
    std::memset(memory.data(), POISON, memory.bytes());
  }
  int64_t row_stride() const { return lie.along_rows ? pitch : lie.apart; }
  int64_t column_stride() const { return lie.along_rows ? lie.apart : pitch; }
  char* data() const { return memory.data() + lie.before * bytes; }
  template <typename T>
  T& at(int64_t b, int64_t row, int64_t column) const {
    return reinterpret_cast<T*>(data())[b * entry + row * row_stride() + column * column_stride()];
  }

  // Whether nothing around its elements has been written.
  bool is_untouched_around(int64_t batch) const {
    std::vector<bool> inside(memory.bytes());
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
          std::fill_n(inside.begin() +
                          (lie.before + b * entry + i * row_stride() + j * column_stride()) * bytes,
                      bytes, true);
    for (size_t i = 0; i < inside.size(); ++i)
      if (!inside[i] && memory.data()[i] != POISON) return false;
    return true;
  }

  static constexpr char POISON = static_cast<char>(0xff);  // of numbers, NaN
  int64_t rows, columns;
  Lie lie;
  int bytes;
  int64_t pitch, entry;
  Guarded memory;
};

struct Product {
  int64_t batch = 1, m, n, k;
  int64_t leaf = 0;  // of a tree that sums K; 0: one chain
  Lie a{true}, b{true}, c{true};
  bool unrounded = false;  // C holds sums: fp32, or 32 bits of bytes
  Activation activation = Activation::None;
  Along bias_along = Along::Nothing;
};

inline Product sized(int64_t m, int64_t n, int64_t k, bool a_rows = true, bool b_rows = true) {
  Product p{};
  p.m = m, p.n = n, p.k = k;
  p.a = {a_rows}, p.b = {b_rows};
  return p;
}

template <typename T>
constexpr DType dtype_of() {
  if (sizeof(T) == 1) return std::is_signed_v<T> ? DType::Int8 : DType::UInt8;
  if (sizeof(T) == 4) return DType::Float32;
  return std::is_same_v<T, __half> ? DType::Float16 : DType::BFloat16;
}

}  // namespace test
}  // namespace tiled
