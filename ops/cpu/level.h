// The tables of one instruction level, built from VECTOR_BYTES and the size of the register tile.
// Included by exactly one file a level.
#pragma once

#include "cpu/dot_kernel.h"
#include "cpu/finish_rows.h"
#include "cpu/kernels.h"
#include "cpu/micro_kernel.h"
#include "cpu/naive.h"
#include "cpu/pack.h"
#include "cpu/pass_back_rows.h"
#include "cpu/promote_rows.h"
#include "cpu/raw_kernel.h"

namespace tiled::cpu {
namespace {

// A tile of `rows` rows may be this wide without needing more registers than the full tile:
// accumulators, one row of b, and a scalar.
template <int FULL_ROWS, int FULL_VECTORS>
constexpr int widest(int rows) {
  const int vectors = FULL_VECTORS * (FULL_ROWS + 1) / (rows + 1);
  return vectors < MAX_VECTORS ? vectors : MAX_VECTORS;
}

template <typename Math, int FULL_ROWS, int FULL_VECTORS, int ROWS, int VECTORS>
constexpr void add_tiles(Kernels& kernels) {
  constexpr int WIDE = widest<FULL_ROWS, FULL_VECTORS>(ROWS);
  kernels.tile[ROWS][VECTORS] = &multiply_tile<Math, ROWS, VECTORS>;
  kernels.wide[ROWS] = WIDE;
  if constexpr (VECTORS < WIDE) {
    add_tiles<Math, FULL_ROWS, FULL_VECTORS, ROWS, VECTORS + 1>(kernels);
  } else if constexpr (ROWS < FULL_ROWS) {
    add_tiles<Math, FULL_ROWS, FULL_VECTORS, ROWS + 1, 1>(kernels);
  }
}

template <typename Math, int ROWS, int VECTORS>
constexpr Kernels make_kernels() {
  static_assert(ROWS <= MAX_ROWS && VECTORS <= MAX_VECTORS, "the table has a place for every tile");
  Kernels kernels = {};
  kernels.lanes = LANES<typename Math::Sum>;
  kernels.rows = ROWS;
  kernels.rounds = Math::ROUNDS;
  kernels.row_unit = 1;
  add_tiles<Math, ROWS, VECTORS, 1, 1>(kernels);
  return kernels;
}

template <typename Kind, int ROWS, int VECTORS>
constexpr Kernels RAW = raw_kernels<Widened<Kind>, widest<ROWS, VECTORS>, ROWS / 2 + 1>();

template <typename Kind, int ROWS>
constexpr Kernels DOT = dot_kernels<Kind, Chain<typename Kind::Sum>, ROWS>();

template <typename Kind>
constexpr Codec real(Accumulator accumulator, const Kernels* raw, const Kernels* dot) {
  using Sum = typename Kind::Sum;
  constexpr bool DIRECT = sizeof(typename Kind::Element) == sizeof(Sum);
  Codec codec = {accumulator,
                 1,
                 1,
                 1,
                 DIRECT,
                 &pack_real<Kind>,
                 &pack_real<Kind>,
                 nullptr,
                 &pack_real<Kind>,
                 &store_real<Kind>,
                 &combine<Sum, Sum>,
                 nullptr,
                 nullptr,
                 raw,
                 dot,
                 false};
  if constexpr (Sum(0.5) != 0) {
    codec.activate = &activate<Sum>;
    codec.pass_back = &pass_back<Sum, sizeof(typename Kind::Element) == 2>;
  }
  return codec;
}

template <typename T>
constexpr Codec complex(Accumulator accumulator) {
  return {accumulator,
          2,
          1,
          1,
          true,
          &pack_real<Same<T>>,
          &pack_complex_b<T, false>,
          &pack_complex_b<T, true>,
          &move_complex<T>,
          &store_complex<T>,
          &combine<Complex<T>, T>,
          nullptr,
          nullptr,
          nullptr,
          nullptr,
          false};
}

template <int ROWS, int VECTORS, int DOT_ROWS>
constexpr ChainTable make_chains() {
  using A = Accumulator;
  return {
      FUSED,
      {make_kernels<Chain<float>, ROWS, VECTORS>(), make_kernels<Chain<double>, ROWS, VECTORS>(),
       make_kernels<Chain<uint16_t>, ROWS, VECTORS>(),
       make_kernels<Chain<uint32_t>, ROWS, VECTORS>(),
       make_kernels<Chain<uint64_t>, ROWS, VECTORS>()},
      // in the order of DType, then bytes whose sums C keeps whole
      {real<Same<float>>(A::Float32, nullptr, &DOT<Same<float>, DOT_ROWS>),
       real<Same<double>>(A::Float64, nullptr, &DOT<Same<double>, DOT_ROWS>),
       real<Half>(A::Float32, &RAW<Half, ROWS, VECTORS>, &DOT<Half, DOT_ROWS>),
       real<BFloat16>(A::Float32, &RAW<BFloat16, ROWS, VECTORS>, &DOT<BFloat16, DOT_ROWS>),
       complex<float>(A::Float32), complex<double>(A::Float64),
       real<Byte>(A::UInt16, nullptr, nullptr), real<Same<uint16_t>>(A::UInt16, nullptr, nullptr),
       real<Same<uint32_t>>(A::UInt32, nullptr, nullptr),
       real<Same<uint64_t>>(A::UInt64, nullptr, nullptr), real<Byte>(A::UInt16, nullptr, nullptr),
       real<WholeByte<int8_t>>(A::UInt32, nullptr, nullptr),
       real<WholeByte<uint8_t>>(A::UInt32, nullptr, nullptr)},
      {&naive_rows<Same<float>>, &naive_rows<Same<double>>, &naive_rows<Half>,
       &naive_rows<BFloat16>, &naive_rows<ComplexElement<float>>,
       &naive_rows<ComplexElement<double>>, &naive_rows<Byte>, &naive_rows<Same<uint16_t>>,
       &naive_rows<Same<uint32_t>>, &naive_rows<Same<uint64_t>>, &naive_rows<Byte>,
       &naive_rows<WholeByte<int8_t>>, &naive_rows<WholeByte<uint8_t>>},
      &promote};
}

}  // namespace
}  // namespace tiled::cpu
