// The memory of a job on one device: one allocation, cut into matrices.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include "out_of_core/device.h"
#include "scale/memory.h"
#include "scale/plan.h"

namespace tiled {

class Arena {
 public:
  Arena(OutOfCoreDevice& device, int64_t bytes) : memory_(device.allocate(bytes)) {}

  // The next matrix, row after row or column after column, at scale::pitch_of() from one to the
  // next. It keeps the memory alive. The planner counted it: there is room for all of a plan's.
  at::Tensor take(int64_t rows, int64_t columns, bool by_columns, at::ScalarType type) {
    const int64_t size = static_cast<int64_t>(c10::elementSize(type));
    const int64_t along = by_columns ? rows : columns, lines = by_columns ? columns : rows;
    uint8_t* const begin = memory_.mutable_data_ptr<uint8_t>() + used_;
    used_ += scale::in_a_row(scale::bytes_of(along, lines, size));
    TORCH_INTERNAL_ASSERT(used_ <= static_cast<int64_t>(memory_.nbytes()));
    // With a storage of its own: where two matrices share one, a product asks whether they overlap,
    // and would not see that they do not.
    const at::Tensor matrix = at::from_blob(
        begin, {lines, along}, {scale::pitch_of(along, size), 1}, [memory = memory_](void*) {},
        memory_.options().dtype(type), memory_.device());
    return by_columns ? matrix.t() : matrix;
  }

 private:
  const at::Tensor memory_;
  int64_t used_ = 0;
};

}  // namespace tiled
