#include "cuda/plan/access.h"

#include <algorithm>
#include <iterator>

#include "core/text.h"
#include "cuda/plan/repack_layout.h"

namespace tiled {
namespace {

// The bytes of register_tile's vector loads; 0 where it has none for the dtype.
int vector_bytes(DType dtype) {
  switch (dtype) {
    case DType::Float32:
    case DType::Float64: return 16;
    case DType::Float16:
    case DType::BFloat16: return 8;
    default: return 0;
  }
}

// Vectors are contiguous along the dimension of stride 1. The step from one vector to the next must
// keep the alignment, for which Operand::alignment answers: a second stride of 1 (overlapping
// views), or one of the batch, makes it that of an element. The stride of a dimension of size 1 is
// never used; a "vector" along that dimension is one element, which any address serves.
Access access_of(const Side& side, int bytes) {
  if (bytes == 0) return Access::Elements;
  const bool along_rows = side.rows > 1 && side.row_stride == 1;
  const bool along_k = side.k > 1 && side.k_stride == 1;
  if (!along_rows && !along_k) {
    if (side.k <= 1) return Access::AlongK;
    return side.rows <= 1 ? Access::AlongMN : Access::Elements;
  }
  if (side.alignment < bytes) return Access::Elements;
  return along_k ? Access::AlongK : Access::AlongMN;
}

}  // namespace

Access copied_access_of(const Side& side) {
  const Access access = access_of(side, 16);
  const bool single = access == Access::AlongK ? side.k <= 1 : side.rows <= 1;
  return single ? Access::Elements : access;
}

Access async_access_of(const Side& side) {
  const Access access = copied_access_of(side);
  return access == Access::AlongMN ? access : Access::Elements;
}

bool overlaps_itself(const Side& side, int64_t batch) {
  struct Dimension {
    int64_t stride, size;
  };
  Dimension dimensions[] = {{side.row_stride, side.rows},
                            {side.k_stride, side.k},
                            {side.batch_stride, entries_of(side, batch)}};
  std::sort(std::begin(dimensions), std::end(dimensions),
            [](const Dimension& x, const Dimension& y) { return x.stride < y.stride; });
  int64_t extent = 1;
  for (const Dimension& d : dimensions) {
    if (d.size <= 1) continue;
    if (d.stride < extent) return true;
    extent = saturating_product(d.stride, d.size);
  }
  return false;
}

Accesses vector_accesses_of(const Problem& problem) {
  const int bytes = vector_bytes(problem.dtype);
  const Accesses found = {access_of(side_a(problem), bytes), access_of(side_b(problem), bytes)};
  if (found.a == Access::Elements || found.b == Access::Elements)
    return {Access::Elements, Access::Elements};
  return found;
}

std::string text_of(const Accesses& accesses) {
  const auto text = [](Access access, const char* rows) -> std::string {
    switch (access) {
      case Access::AlongK: return "by vectors along k";
      case Access::AlongMN: return std::string("by vectors along ") + rows;
      case Access::Elements: return "by single elements";
    }
    return "?";
  };
  return "A " + text(accesses.a, "m") + ", B " + text(accesses.b, "n");
}

std::string json_of(const Accesses& accesses) {
  const auto name = [](Access access) {
    switch (access) {
      case Access::AlongK: return "along_k";
      case Access::AlongMN: return "along_mn";
      case Access::Elements: return "elements";
    }
    return "?";
  };
  return Object().text("a", name(accesses.a)).text("b", name(accesses.b)).str();
}

}  // namespace tiled
