#include "cuda/plan/real_parts.h"

#include <algorithm>

#include "cuda/plan/repack_layout.h"
#include "cuda/plan/turned.h"

namespace tiled {
namespace {

// What asks for more of the workspace stays with the kernels of complex numbers, which need none.
constexpr int64_t MOST_BYTES = int64_t{1} << 30;
constexpr int64_t MOST_ROWS = int64_t{1} << 30, MOST_STRIDE = int64_t{1} << 58;  // twice these fit

int64_t rounded_up(int64_t size, int64_t unit) { return blocks_over(size, unit) * unit; }

bool is_copied(const Side& side) { return side.row_stride != 1 && side.rows > 1; }

// An operand's parts: rows of real and imaginary parts in turn.
Side parts_of(Side side, DType part, int64_t batch) {
  const int64_t size = size_of(part);
  const bool copies = is_copied(side);
  side.rows *= 2;
  if (copies) {
    side.data = nullptr;
    side.row_stride = rounded_up(side.k, 16 / size), side.k_stride = 1;
    side.batch_stride = entries_of(side, batch) == 1 ? 0 : side.rows * side.row_stride;
    side.alignment = 16;
    return side;
  }
  side.row_stride = 1, side.k_stride *= 2, side.batch_stride *= 2;
  side.alignment = std::min({side.alignment, power_of_two_divisor(side.k_stride * size),
                             power_of_two_divisor(side.batch_stride * size)});
  return side;
}

int64_t bytes_of(const Side& copy, DType part, int64_t batch) {
  const int64_t elements =
      saturating_product(copy.rows, saturating_product(copy.row_stride, entries_of(copy, batch)));
  return workspace_aligned(std::min(saturating_product(elements, size_of(part)), 2 * MOST_BYTES));
}

}  // namespace

bool has_real_parts(const Problem& p) {
  if (!is_complex(p.dtype) || p.leaf > 0 || is_grouped(p) || p.k == 0 || segment_count(p) > 1)
    return false;
  const bool is_empty = p.batch == 0 || p.m == 0 || p.n == 0;
  if (is_empty || std::max({p.m, p.n, p.batch}) > MOST_ROWS) return false;
  for (const Operand* x : {&p.a, &p.b})
    if (std::max({x->row_stride, x->col_stride, x->batch_stride}) > MOST_STRIDE) return false;
  return real_parts(p).bytes() <= MOST_BYTES;
}

RealParts real_parts(const Problem& problem) {
  const bool along_m = problem.c.row_stride == 1 && problem.c.col_stride != 1;
  RealParts parts{};
  parts.whole = along_m ? turned(problem) : problem;
  Problem& p = parts.product;
  p = parts.whole;
  p.dtype = p.dtype == DType::Complex64 ? DType::Float32 : DType::Float64;
  p.m *= 2, p.n *= 2;
  Side a = side_a(parts.whole), b = side_b(parts.whole);
  parts.copies_a = is_copied(a), parts.copies_b = is_copied(b);
  a = parts_of(a, p.dtype, p.batch), b = parts_of(b, p.dtype, p.batch);
  p.a = {a.data, a.row_stride, a.k_stride, a.batch_stride, a.alignment};
  p.b = {b.data, b.k_stride, b.row_stride, b.batch_stride, b.alignment};
  const int64_t pitch = rounded_up(p.n, 8);  // elements: whole vectors of the pass
  p.c = {nullptr, pitch, 1, p.m * pitch, 16};
  p.epilogue = {};
  p.epilogue.out_dtype = p.dtype;
  parts.a_bytes = parts.copies_a ? bytes_of(a, p.dtype, p.batch) : 0;
  parts.b_bytes = parts.copies_b ? bytes_of(b, p.dtype, p.batch) : 0;
  Side r = side_a(p);
  r.row_stride = pitch, r.batch_stride = p.c.batch_stride;
  parts.r_bytes = bytes_of(r, p.dtype, p.batch);
  return parts;
}

double seconds_of_passes(const RealParts& parts, const Rules& rules) {
  const ChipRates& chip = rules.chip();
  const double moved = 2 * static_cast<double>(parts.a_bytes + parts.b_bytes) +
                       1.5 * static_cast<double>(parts.r_bytes);  // C is half as large
  return moved / chip.copy + (parts.copies_a || parts.copies_b ? 2 : 1) * chip.kernel;
}

}  // namespace tiled
