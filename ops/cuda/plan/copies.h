// Operands that are copied before the product: which kernel does it, by what grid. The layout of
// the copies is in repack_layout.h.
#pragma once

#include "cuda/plan/plan.h"
#include "cuda/plan/repack_layout.h"

namespace tiled {

// How one operand goes.
enum class CopyBy : int8_t {
  Rows,     // as its rows are
  Squares,  // through squares in shared memory
  Vectors,  // the same by vectors of fp32
  Bytes,    // the same by vectors of bytes
};
struct CopyGrid {
  CopyBy by;
  int64_t rows, columns;                 // of the copy; elements are contiguous along a row
  bool spaced;                           // a block of threads copies a line of each of its rows
  int32_t across;                        // threads side by side along a row, a power of two
  int32_t blocks_x, blocks_y, blocks_z;  // along a row; down the rows; through the batch

  int64_t blocks() const { return int64_t{blocks_x} * blocks_y * blocks_z; }
};

constexpr int COPY_THREADS = 256;
constexpr int COPY_ROWS_A_THREAD = 4;              // CopyBy::Rows
constexpr int COPY_SQUARE = 32, COPY_SQUARES = 4;  // CopyBy::Squares: a side, and how many
constexpr int COPY_VECTOR_SIDE = 64;               // CopyBy::Vectors: the elements of a side
constexpr int COPY_BYTE_SIDE = 128;                // CopyBy::Bytes: the same
// Rows of a line that a block copies: many, since each block looks for its line's group.
constexpr int COPY_SPACED_ROWS = 2048;

CopyGrid copy_grid_of(const Side& from, const Side& to, const Problem& problem);

// Adds the kernels that copy P and Q as the plan has them, one for both where they go alike.
void add_copies(Plan& plan, const Problem& problem);

// The problem as the plan's product reads it: copies in place of the operands, if there are any.
// The workspace is null while it is only planned.
Problem problem_as_read(const Problem& problem, const Plan& plan, char* workspace = nullptr);

}  // namespace tiled
