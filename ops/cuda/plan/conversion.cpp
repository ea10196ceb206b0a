#include "cuda/plan/conversion.h"

#include <algorithm>

#include "cuda/plan/repack_layout.h"
#include "cuda/plan/rules.h"
#include "cuda/plan/swap_ab.h"

namespace tiled {
namespace {

// A product that asks for more of the workspace stays with the dtype's own kernels, which need
// less.
constexpr int64_t MOST_BYTES = int64_t{1} << 30;
constexpr int64_t MOST_ROWS = int64_t{1} << 30, MOST_STRIDE = int64_t{1} << 58;  // twice these fit

int64_t rounded_up(int64_t size, int64_t unit) { return blocks_over(size, unit) * unit; }

// Whether lines of neighbours are columns of the operand's rows, and not the rows themselves.
bool is_along_rows(const Side& side) {
  return side.rows > 1 && side.row_stride == 1 && (side.k <= 1 || side.k_stride != 1);
}

// A copy of an operand, of `rows` rows, with lines of whole vectors along k, or along the rows.
Side copy_of(Side side, int64_t rows, bool along_rows, DType dtype, int64_t batch) {
  const int64_t vector = 16 / size_of(dtype);
  side.data = nullptr, side.rows = rows, side.alignment = 16;
  const int64_t pitch = rounded_up(along_rows ? rows : side.k, vector);
  side.row_stride = along_rows ? 1 : pitch, side.k_stride = along_rows ? pitch : 1;
  side.batch_stride =
      entries_of(side, batch) == 1 ? 0 : saturating_product(pitch, along_rows ? side.k : rows);
  return side;
}

// A complex operand that is contiguous along its rows, where it is.
Side parts_in_place(Side side, DType part) {
  side.rows *= 2, side.row_stride = 1, side.k_stride *= 2, side.batch_stride *= 2;
  side.alignment = std::min({side.alignment, power_of_two_divisor(side.k_stride * size_of(part)),
                             power_of_two_divisor(side.batch_stride * size_of(part))});
  return side;
}

// An operand as the other product reads it.
Side converted(const Side& side, DType dtype, bool copies, bool of_complex, int64_t batch) {
  if (!copies) return parts_in_place(side, dtype);
  return of_complex ? copy_of(side, 2 * side.rows, false, dtype, batch)
                    : copy_of(side, side.rows, is_along_rows(side), dtype, batch);
}

int64_t bytes_of(const Side& copy, DType dtype, int64_t batch) {
  const bool along_rows = copy.row_stride == 1 && copy.k_stride != 1;
  const int64_t lines = along_rows ? copy.k : copy.rows;
  const int64_t elements =
      saturating_product(saturating_product(lines, along_rows ? copy.k_stride : copy.row_stride),
                         entries_of(copy, batch));
  return workspace_aligned(std::min(saturating_product(elements, size_of(dtype)), 2 * MOST_BYTES));
}

DType dtype_of_conversion(DType dtype) {
  return dtype == DType::Complex128 ? DType::Float64 : DType::Float32;
}

}  // namespace

bool has_conversion(const Problem& p) {
  if (!may_be_converted(p) || is_grouped(p) || p.k == 0) return false;
  if (is_complex(p.dtype) && (p.leaf > 0 || segment_count(p) > 1)) return false;
  const bool is_empty = p.batch == 0 || p.m == 0 || p.n == 0;
  if (is_empty || std::max({p.m, p.n, p.batch}) > MOST_ROWS) return false;
  for (const Operand* x : {&p.a, &p.b})
    if (std::max({x->row_stride, x->col_stride, x->batch_stride}) > MOST_STRIDE) return false;
  return conversion_of(p).bytes() <= MOST_BYTES;
}

Conversion conversion_of(const Problem& problem) {
  const bool along_m = problem.c.row_stride == 1 && problem.c.col_stride != 1;
  Conversion conversion{};
  const Problem& whole = conversion.whole = along_m ? with_ab_swapped(problem) : problem;
  const bool of_complex = is_complex(whole.dtype);
  Problem& p = conversion.product;
  p = whole;
  p.dtype = dtype_of_conversion(whole.dtype);
  if (of_complex) p.m *= 2, p.n *= 2;
  Side a = side_a(whole), b = side_b(whole);
  const auto is_copied = [&](const Side& side) {
    return !of_complex || (side.row_stride != 1 && side.rows > 1);
  };
  conversion.copies_a = is_copied(a), conversion.copies_b = is_copied(b);
  a = converted(a, p.dtype, conversion.copies_a, of_complex, p.batch);
  b = converted(b, p.dtype, conversion.copies_b, of_complex, p.batch);
  p.a = {a.data, a.row_stride, a.k_stride, a.batch_stride, a.alignment};
  p.b = {b.data, b.k_stride, b.row_stride, b.batch_stride, b.alignment};
  const int64_t pitch = rounded_up(p.n, 8);  // elements: whole vectors of the pass
  p.c = {nullptr, pitch, 1, p.m * pitch, 16};
  p.epilogue = {};
  p.epilogue.out_dtype = p.dtype;
  conversion.a_bytes = conversion.copies_a ? bytes_of(a, p.dtype, p.batch) : 0;
  conversion.b_bytes = conversion.copies_b ? bytes_of(b, p.dtype, p.batch) : 0;
  Side r = side_a(p);
  r.row_stride = pitch, r.k_stride = 1, r.batch_stride = p.c.batch_stride;
  conversion.r_bytes = bytes_of(r, p.dtype, p.batch);
  return conversion;
}

double seconds_of_passes(const Conversion& conversion, const Rules& rules) {
  const ChipRates& chip = rules.chip();
  // The bytes that are read for a byte of a copy, and written for one of R: elements of 16 bits are
  // half as large as fp32, and four numbers of R become a complex number's two.
  const Problem& whole = conversion.whole;
  const bool of_complex = is_complex(whole.dtype);
  const double read = of_complex ? 1 : 0.5;
  const double written = whole.epilogue.out_dtype == DType::Float32 ? 1 : 0.5;
  const double copied = static_cast<double>(conversion.a_bytes + conversion.b_bytes);
  const double moved =
      (1 + read) * copied + (1 + written) * static_cast<double>(conversion.r_bytes);
  return moved / chip.copy + (copied > 0 ? 2 : 1) * chip.kernel;
}

}  // namespace tiled
