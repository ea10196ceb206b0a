// Matrices for the tests of the CPU core: any dtype and layout, in memory that ends at a page that
// may not be touched, so that a read or write past the end stops the test.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "core/problem.h"
#include "cpu/blocked.h"
#include "guarded_pages.h"

namespace tiled::test {

enum class Layout { Rows, Columns, PaddedRows, PaddedColumns, EveryOther, OneRow, Backwards };

struct Matrix {
  DType dtype;
  int64_t batch, rows, cols;
  cpu::Strides strides;
  size_t bytes;
  std::shared_ptr<GuardedPages> memory;
  char* data;

  Matrix(DType dtype, int64_t batch, int64_t rows, int64_t cols, Layout layout)
      : dtype(dtype), batch(batch), rows(rows), cols(cols) {
    switch (layout) {
      case Layout::Rows: strides = {rows * cols, cols, 1}; break;
      case Layout::Columns: strides = {rows * cols, 1, rows}; break;
      case Layout::PaddedRows: strides = {rows * (cols + 3) + 1, cols + 3, 1}; break;
      case Layout::PaddedColumns: strides = {cols * (rows + 5), 1, rows + 5}; break;
      case Layout::EveryOther: strides = {rows * cols * 6, cols * 6, 2}; break;
      case Layout::OneRow: strides = {0, 0, 1}; break;  // operands only
      case Layout::Backwards: strides = {rows * cols, -cols, -1}; break;
    }
    const auto reach = [](int64_t size, int64_t stride) {
      return size > 0 ? (size - 1) * stride : 0;
    };
    const int64_t span = reach(rows, strides.row) + reach(cols, strides.col);
    const int64_t first = span < 0 ? -span : 0;
    const int64_t count = (span < 0 ? -span : span) + reach(batch, strides.batch) + 1;
    bytes = count * size_of(dtype);
    memory = std::make_shared<GuardedPages>(bytes);
    data = memory->data() + first * size_of(dtype);
  }

  char* at(int64_t b, int64_t i, int64_t j) const {
    return data + (b * strides.batch + i * strides.row + j * strides.col) * size_of(dtype);
  }
  void poison() { std::memset(memory->data(), 0xa5, bytes); }
};

// 16-bit numbers, written again from their definition: fraction bits, and the exponent of the
// smallest subnormal.
struct Format {
  int fraction, lowest;
};
constexpr Format HALF = {10, -24};
constexpr Format BRAIN = {7, -133};

inline double from_16(uint16_t bits, Format f) {
  const int exponent = (bits & 0x7fff) >> f.fraction;
  const int top = (1 << (15 - f.fraction)) - 1;
  const double fraction = bits & ((1 << f.fraction) - 1);
  double value = fraction;
  if (exponent == top) {
    value = fraction == 0 ? INFINITY : NAN;
  } else if (exponent > 0) {
    value = std::ldexp(fraction + (1 << f.fraction), exponent - 1);
  }
  value = std::ldexp(value, f.lowest);
  return bits & 0x8000 ? -value : value;
}

// To nearest even, by the definition: the nearest multiple of the last place.
inline double round_16(double x, Format f) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int place = std::max(std::ilogb(x) - f.fraction, f.lowest);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -place)), place);
  const double limit =
      from_16(static_cast<uint16_t>(((1 << (15 - f.fraction)) - 1) << f.fraction) - 1, f);
  return std::fabs(rounded) > limit ? std::copysign(INFINITY, x) : rounded;
}

// Real part (part 0) or imaginary part (part 1) of a float element, as a double.
inline double number(DType dtype, const char* p, int part = 0) {
  float f;
  double d;
  uint16_t h;
  switch (dtype) {
    case DType::Float32:
    case DType::Complex64: std::memcpy(&f, p + 4 * part, 4); return f;
    case DType::Float64:
    case DType::Complex128: std::memcpy(&d, p + 8 * part, 8); return d;
    case DType::Float16: std::memcpy(&h, p, 2); return from_16(h, HALF);
    case DType::BFloat16: std::memcpy(&h, p, 2); return from_16(h, BRAIN);
    default: throw std::logic_error("integers are compared as integers");
  }
}

// Normal data; all bits random for integers.
inline void fill(Matrix& matrix, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  const int64_t size = size_of(matrix.dtype);
  for (char* p = matrix.memory->data(); p < matrix.memory->data() + matrix.bytes; p += size) {
    const double re = normal(random), im = normal(random);
    const float parts[2] = {static_cast<float>(re), static_cast<float>(im)};
    const double wide_parts[2] = {re, im};
    const uint64_t integer = random();
    uint32_t bits;
    std::memcpy(&bits, parts, 4);
    // A half with the sign and fraction of a float, and an exponent between 2^-4 and 2^3.
    const uint16_t half = static_cast<uint16_t>((bits >> 16 & 0x8000) | ((11 + integer % 8) << 10) |
                                                (bits >> 13 & 0x3ff));
    const uint16_t brain = static_cast<uint16_t>(bits >> 16);
    switch (matrix.dtype) {
      case DType::Float32:
      case DType::Complex64: std::memcpy(p, parts, size); break;
      case DType::Float64:
      case DType::Complex128: std::memcpy(p, wide_parts, size); break;
      case DType::Float16: std::memcpy(p, &half, size); break;
      case DType::BFloat16: std::memcpy(p, &brain, size); break;
      default: std::memcpy(p, &integer, size);
    }
  }
}

inline Problem problem_of(const Matrix& a, const Matrix& b, const Matrix& c) {
  Problem p = {};
  p.batch = a.batch;
  p.m = a.rows;
  p.n = b.cols;
  p.k = a.cols;
  p.dtype = a.dtype;
  p.arithmetic = p.dtype == DType::BFloat16 ? Arithmetic::Cpu16 : Arithmetic::Fma;
  p.a = {a.data, a.strides.row, a.strides.col, a.strides.batch, 1};
  p.b = {b.data, b.strides.row, b.strides.col, b.strides.batch, 1};
  p.c = {c.data, c.strides.row, c.strides.col, c.strides.batch, 1};
  p.epilogue.out_dtype = c.dtype;
  return p;
}

}  // namespace tiled::test
