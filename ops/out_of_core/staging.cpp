#include "out_of_core/staging.h"

#include <algorithm>
#include <limits>

namespace tiled {
namespace {

bool is_lazy(const at::Tensor& t) { return t.is_conj() || t.is_neg(); }

}  // namespace

Rows rows_of(const at::Tensor& to, const at::Tensor& from) {
  const auto has_rows = [](const at::Tensor& t) { return t.size(1) == 1 || t.stride(1) == 1; };
  if (!has_rows(to) || !has_rows(from) ||
      (to.size(1) == 1 && lies_by_columns(to) && lies_by_columns(from) && to.size(0) > 1)) {
    const at::Tensor turned = to.t(), turned_from = from.t();
    TORCH_INTERNAL_ASSERT(has_rows(turned) && has_rows(turned_from));
    return rows_of(turned, turned_from);
  }
  Rows rows{to.mutable_data_ptr(),
            from.const_data_ptr(),
            to.size(1) * to.element_size(),
            to.size(0),
            0,
            0};
  const auto pitch = [&](const at::Tensor& t) {
    return t.size(0) == 1 ? rows.width : t.stride(0) * t.element_size();
  };
  rows.to_pitch = pitch(to);
  rows.from_pitch = pitch(from);
  return rows;
}

bool copies_directly(OutOfCoreDevice& device, const at::Tensor& host) {
  const at::Tensor t = lies_by_columns(host) ? host.t() : host;
  const bool rows_lie_apart = t.size(0) == 1 || t.stride(0) >= t.size(1);
  const bool pitch_fits =
      t.size(0) == 1 || t.stride(0) * t.element_size() < std::numeric_limits<int32_t>::max();
  return (t.stride(1) == 1 || t.size(1) == 1) && rows_lie_apart && pitch_fits && !is_lazy(host) &&
         device.is_pinned(host);
}

template <typename Body>
void Staging::each_part(at::Tensor host, at::Tensor device, const Body& body) {
  if (pieces_.empty())
    for (int64_t i = 0; i < PIECES; ++i)
      pieces_.push_back({device_.allocate_staging(piece_bytes_), nullptr});
  if (lies_by_columns(device)) {
    host = host.t();
    device = device.t();
  }
  const int64_t most = piece_bytes_ / host.element_size();
  const int64_t columns = std::min(host.size(1), most);
  const int64_t rows = std::max<int64_t>(most / columns, 1);
  for (int64_t i = 0; i < host.size(0); i += rows) {
    for (int64_t j = 0; j < host.size(1); j += columns) {
      const int64_t height = std::min(rows, host.size(0) - i);
      const int64_t width = std::min(columns, host.size(1) - j);
      const auto part = [&](const at::Tensor& t) {
        return t.narrow(0, i, height).narrow(1, j, width);
      };
      Piece& piece = pieces_[next_++ % pieces_.size()];
      const at::Tensor pinned = piece.memory.narrow(0, 0, height * width * host.element_size())
                                    .view(host.scalar_type())
                                    .view({height, width});
      body(part(host), part(device), pinned, piece);
    }
  }
}

void Staging::to_device(const at::Tensor& to, const at::Tensor& host) {
  each_part(host, to,
            [&](const at::Tensor& from, const at::Tensor& part, at::Tensor pinned, Piece& piece) {
              device_.synchronize(piece.free);
              pinned.copy_(from);
              device_.copy(Queue::In, part, pinned);
              piece.free = device_.record(Queue::In);
            });
}

void Staging::to_host(const at::Tensor& host, const at::Tensor& from) {
  struct Coming {
    at::Tensor to, pinned;
    EventPtr there;
  };
  std::vector<Coming> coming;  // the oldest first
  size_t landed = 0;
  const auto land = [&] {
    Coming& oldest = coming[landed++];
    device_.synchronize(oldest.there);
    oldest.to.copy_(oldest.pinned);
  };
  each_part(host, from,
            [&](const at::Tensor& to, const at::Tensor& part, const at::Tensor& pinned, Piece&) {
              if (coming.size() - landed == PIECES) land();  // it is this piece's
              device_.copy(Queue::Out, pinned, part);
              coming.push_back({to, pinned, device_.record(Queue::Out)});
            });
  while (landed < coming.size()) land();
}

}  // namespace tiled
