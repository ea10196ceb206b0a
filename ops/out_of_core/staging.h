// Data on its way between ordinary host memory and a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <vector>

#include "out_of_core/device.h"

namespace tiled {

// Whether a matrix is in memory column after column rather than row after row.
inline bool lies_by_columns(const at::Tensor& t) {
  if (t.size(1) == 1) return t.stride(0) == 1;
  return t.stride(1) != 1 && (t.size(0) == 1 || t.stride(0) == 1);
}

// A copy between host and device as both sides see it: rows of bytes, the begins of two of them a
// pitch apart.
struct Rows {
  void* to;
  const void* from;
  int64_t width, count;          // bytes of a row, and how many
  int64_t to_pitch, from_pitch;  // bytes; the width where rows follow each other without a gap

  bool in_one() const { return to_pitch == width && from_pitch == width; }
};
Rows rows_of(const at::Tensor& to, const at::Tensor& from);

// Bytes of pinned memory in pieces, which data of ordinary memory goes through: one piece is copied
// by the host while another is on the link.
class Staging {
 public:
  static constexpr int64_t PIECES = 4;
  static constexpr int64_t MOST_PIECE_BYTES = 16 << 20;

  // For matrices of at most so many bytes.
  Staging(OutOfCoreDevice& device, int64_t matrix_bytes)
      : device_(device), piece_bytes_(std::min(MOST_PIECE_BYTES, matrix_bytes)) {}

  // Copies a matrix to the device, by its queue for that, or from there to the host, and then waits
  // until it is there. Strides of the host's are arbitrary. The pinned memory is allocated by the
  // first copy.
  void to_device(const at::Tensor& to, const at::Tensor& host);
  void to_host(const at::Tensor& host, const at::Tensor& from);

 private:
  struct Piece {
    at::Tensor memory;
    EventPtr free;
  };
  // Calls body(part of the host's, part of the device's, as much pinned memory, its piece) for one
  // part after the other, so that each piece's turn comes again after PIECES parts.
  template <typename Body>
  void each_part(at::Tensor host, at::Tensor device, const Body& body);

  OutOfCoreDevice& device_;
  const int64_t piece_bytes_;
  std::vector<Piece> pieces_;
  size_t next_ = 0;
};

// Whether the device's queues can copy between it and this matrix as it stands: pinned, the
// elements of its rows or columns side by side, and these one after the other.
bool copies_directly(OutOfCoreDevice& device, const at::Tensor& host);

}  // namespace tiled
