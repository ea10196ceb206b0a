// Products of bytes, int8 or uint8, whose sums are integers of 32 bits that wrap: one chain of all
// of K, since no order changes a bit, and no totals. With scales the sum becomes fp32, to nearest,
// and goes on as a total of fp8's does (core/scales.h).
#pragma once

#include <cstdint>

#include "cuda/engine/hopper/scaled_operands.cuh"

namespace tiled {

// A kernel's T where P and Q are int8 with scales and C is of `C`, or fp32.
template <typename C>
struct Int8Scaled {
  uint8_t bits;
};
template <typename C>
constexpr bool IS_SCALED<Int8Scaled<C>> = true;

template <typename Byte, typename C, typename Args>
struct TypesOfBytes {
  using Operands = Byte;
  using Sum = int32_t;
  using Result = C;
  using Arguments = Args;
};
template <>
struct TypesOf<signed char> : TypesOfBytes<signed char, signed char, HopperArguments> {};
template <>
struct TypesOf<unsigned char> : TypesOfBytes<unsigned char, unsigned char, HopperArguments> {};
template <typename C>
struct TypesOf<Int8Scaled<C>> : TypesOfBytes<signed char, C, ScaledArguments> {};

// The scales of int8 are found as fp8's; they are asked for at the end alone.
template <typename C, typename Tile>
struct TileScales<Int8Scaled<C>, Tile> : TileScales<Fp8Scaled<ptx::E4m3, ptx::E4m3, C>, Tile> {
  using TileScales<Fp8Scaled<ptx::E4m3, ptx::E4m3, C>, Tile>::TileScales;
};

}  // namespace tiled
