// Which elements of C are computed again: a bit for each, from the kernels that have the sums to
// the guard. Only there can it be decided: C may be no sum, and may have been `input`.
//
//     square of 64 x 64 of C:  marks[64 rows][4]      16 columns a word of 16 bits
//                              listed                 bit 4 r + c: rows 16 r to 16 r + 15 of word c
//                                                     have been written
//
// On ordinary data nothing is written, and nothing but `listed` need be zero before: whoever finds
// an unsure element writes the words of all sixteen rows and says so, and the guard takes no notice
// of others. Rows are those of the kernel that writes, A's or B's (GuardList::rows_along_n).
#pragma once

#include "cuda/engine/fp16x3/fp16x3.h"
#include "cuda/engine/fp16x3/layout.h"

namespace tiled {

// Whether an element is computed again: whether what the parts of its row and column have lost
// could be seen beside the error that its size allows, or whether it is not finite, as one with a
// row of NaN or Inf is, and one too close to the largest number to be sure on which side it lies.
// `c` is the sum, unscaled, before any epilogue; `scale` the sum of the two exponents. Elements of
// both are below 2^15 after scaling, so what is lost of the product is below (row.lost +
// column.lost) 2^15, scaled; half of the smallest number is not seen.
__device__ __forceinline__ bool is_unsure(float lost, int scale, float c, float tolerance) {
  const bool seen = lost != 0 && ldexpf(lost, 16 - scale) >= 0x1p-149f &&
                    !(ldexpf(lost, 15) < tolerance * ldexpf(fabsf(c), scale));
  return seen || !(fabsf(c) <= 0x1.fffffep127f);
}

constexpr int MARKED_ROWS = 16;  // that one bit of `listed` stands for
constexpr int MARKED_COLUMNS = 16;
constexpr int WORDS = GUARD_SQUARE / MARKED_COLUMNS;  // of a row
static_assert(GUARD_MARK_BYTES == GUARD_SQUARE * WORDS * 2);

// The number of the square that holds (row, column).
__device__ __forceinline__ uint32_t square_of(const GuardList& list, uint32_t entry, uint32_t row,
                                              uint32_t column) {
  const uint32_t r = row / GUARD_SQUARE, c = column / GUARD_SQUARE;
  const uint32_t m = list.rows_along_n ? c : r, n = list.rows_along_n ? r : c;
  return (entry * list.squares_m + m) * list.squares_n + n;
}

// The words of (row, column) and of its neighbours to the right.
__device__ __forceinline__ uint16_t* marks_at(const GuardList& list, uint32_t square, uint32_t row,
                                              uint32_t column) {
  return list.marks + int64_t{square} * (GUARD_MARK_BYTES / 2) + row % GUARD_SQUARE * WORDS +
         column % GUARD_SQUARE / MARKED_COLUMNS;
}

// That `words` of the sixteen rows around `row` have been written, beginning with `column`'s.
__device__ __forceinline__ void list_square(const GuardList& list, uint32_t square, uint32_t row,
                                            uint32_t column, int words) {
  const uint32_t first =
      row % GUARD_SQUARE / MARKED_ROWS * WORDS + column % GUARD_SQUARE / MARKED_COLUMNS;
  if (atomicOr(list.listed + square, ((1u << words) - 1) << first) == 0)
    list.squares[atomicAdd(list.count, 1)] = square;
}

// Whether an element of a listed square, of which `written` is listed[square], is computed again.
__device__ __forceinline__ bool is_marked(const GuardList& list, uint32_t square, uint32_t written,
                                          uint32_t m, uint32_t n) {
  const uint32_t row = (list.rows_along_n ? n : m) % GUARD_SQUARE;
  const uint32_t column = (list.rows_along_n ? m : n) % GUARD_SQUARE;
  if (!(written >> (row / MARKED_ROWS * WORDS + column / MARKED_COLUMNS) & 1)) return false;
  return *marks_at(list, square, row, column) >> column % MARKED_COLUMNS & 1;
}

}  // namespace tiled
