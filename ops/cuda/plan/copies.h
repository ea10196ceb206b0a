// Operands that are copied before the product: which kernel does it, by what grid. Where the copies
// lie is repack_layout.h's.
#pragma once

#include "cuda/plan/plan.h"
#include "cuda/plan/repack_layout.h"

namespace tiled {

struct Copy {
  Side from, to;  // to: copied(from)
};

// None, one or two, in the workspace one after the other.
class Copies {
 public:
  explicit Copies(const Problem& problem, void* workspace = nullptr)
      : problem_(problem), workspace_(workspace) {}

  // Copies an operand to its next place, where the copy has the strides of `to`. Returns the copy.
  Side add(const Side& from, Side to);

  int count() const { return count_; }
  const Copy& operator[](int i) const { return copies_[i]; }
  int64_t bytes() const { return bytes_; }  // of the workspace

 private:
  const Problem& problem_;
  void* workspace_;  // null while it is only planned
  Copy copies_[2];
  int count_ = 0;
  int64_t bytes_ = 0;
};

// How one operand goes.
enum class CopyBy : int8_t {
  Rows,     // as its rows lie
  Squares,  // through squares in shared memory
  Vectors,  // the same by vectors of fp32
};
struct CopyGrid {
  CopyBy by;
  int64_t rows, columns;                 // of the copy; elements lie along a row
  int32_t across;                        // threads side by side along a row, a power of two
  int32_t blocks_x, blocks_y, blocks_z;  // along a row; down the rows; through the batch

  int64_t blocks() const { return int64_t{blocks_x} * blocks_y * blocks_z; }
};

constexpr int COPY_THREADS = 256;
constexpr int COPY_ROWS_A_THREAD = 4;              // CopyBy::Rows
constexpr int COPY_SQUARE = 32, COPY_SQUARES = 4;  // CopyBy::Squares: a side, and how many
constexpr int COPY_VECTOR_SIDE = 64;               // CopyBy::Vectors: the elements of a side

// Of all copies; two that go alike are one kernel's.
struct CopyGrids {
  CopyGrid grid[2];
  bool together;
};
CopyGrids copy_grids_of(const Copies& copies, const Problem& problem);

// Adds the kernels that make them, in the order of launch_copies (parts/repack.h), and their bytes
// to the workspace.
void add_copies(Plan& plan, const Copies& copies, const Problem& problem);

}  // namespace tiled
