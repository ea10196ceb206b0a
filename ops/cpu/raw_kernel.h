// Few rows of A, and a B whose elements in memory are no operands of the micro-kernel yet: it reads
// them as they stand and makes operands in registers. Packing would take as long as the product.
#pragma once

#include "cpu/convert.h"
#include "cpu/kernels.h"
#include "cpu/micro_kernel.h"
#include "cpu/pack.h"

namespace tiled::cpu {
namespace {

// Rows of elements to widen. `Reader<VECTORS>` is made from a Tile and reads one step of b.
template <typename Kind>
struct Widened {
  template <int VECTORS>
  class Reader {
   public:
    using Sum = typename Kind::Sum;
    explicit Reader(const Tile& tile)
        : tile_(tile), b_(static_cast<const typename Kind::Element*>(tile.b)) {}

    inline __attribute__((always_inline)) void read(Vector<Sum>* row) {
      constexpr int64_t L = LANES<Sum>;
      fetch_rows<1, VECTORS * L * sizeof(*b_), false>(b_ + tile_.ahead / int64_t{sizeof(*b_)}, 0);
#pragma GCC unroll 8
      for (int j = 0; j < VECTORS - 1; ++j) row[j] = Kind::widen_vector(b_ + j * L);
      const auto* last = b_ + (VECTORS - 1) * L;
      row[VECTORS - 1] =
          tile_.last == L ? Kind::widen_vector(last) : widen_some<Kind>(last, tile_.last);
      b_ += tile_.b_k;
    }

   private:
    const Tile& tile_;
    const typename Kind::Element* b_;
  };
  using Math = Chain<typename Kind::Sum>;
};

template <typename From, int ROWS, int VECTORS>
void multiply_raw(const Tile& tile) {
  using Math = typename From::Math;
  multiply<Math, ROWS, VECTORS>(tile, typename From::template Reader<VECTORS>(tile),
                                Part<typename Math::Sum>(tile.last));
}

// WIDTH(rows): vectors of the widest tile.
template <typename From, int (*WIDTH)(int), int FULL_ROWS, int ROWS, int VECTORS>
constexpr void add_raw_tiles(Kernels& kernels) {
  kernels.wide[ROWS] = WIDTH(ROWS);
  kernels.tile[ROWS][VECTORS] = &multiply_raw<From, ROWS, VECTORS>;
  if constexpr (VECTORS < WIDTH(ROWS)) {
    add_raw_tiles<From, WIDTH, FULL_ROWS, ROWS, VECTORS + 1>(kernels);
  } else if constexpr (ROWS < FULL_ROWS) {
    add_raw_tiles<From, WIDTH, FULL_ROWS, ROWS + 1, 1>(kernels);
  }
}

template <typename From, int (*WIDTH)(int), int ROWS>
constexpr Kernels raw_kernels() {
  using Math = typename From::Math;
  Kernels kernels = {};
  kernels.lanes = LANES<typename Math::Sum>;
  kernels.rows = ROWS;
  kernels.rounds = Math::ROUNDS;
  kernels.row_unit = 1;
  add_raw_tiles<From, WIDTH, ROWS, 1, 1>(kernels);
  return kernels;
}

}  // namespace
}  // namespace tiled::cpu
