// Where tensors are in memory: whether they have any, and whether one shares some with another or
// with itself. By addresses: two storages may hold one array (torch.from_numpy, DLPack).
#pragma once

#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

namespace tiled {

// Null for meta tensors and for what functorch and FakeTensorMode wrap, which have no memory. A
// tensor whose storage was freed, as FSDP and the offloading of activations leave them, is refused
// in torch's words.
inline const void* address_of(const at::Tensor& t) {
  if (t.is_meta() || !t.has_storage()) return nullptr;
  TORCH_CHECK(t.unsafeGetTensorImpl()->storage_initialized(),
              "The tensor has a non-zero number of elements, but its data is not allocated yet.");
  return t.const_data_ptr();
}

inline void check_allocated(const at::Tensor& t) { address_of(t); }

// The bytes from the first element to the last; none for a tensor of no elements.
struct ByteRange {
  uintptr_t begin, end;

  ByteRange(const void* first, const at::Tensor& t)
      : begin(reinterpret_cast<uintptr_t>(first)), end(begin) {
    if (t.numel() == 0) return;
    int64_t last = 0;  // element, counted from the first
    for (int64_t i = 0; i < t.dim(); ++i) last += (t.size(i) - 1) * t.stride(i);
    end += static_cast<uintptr_t>((last + 1) * t.itemsize());
  }

  bool overlaps(const ByteRange& other) const {
    return std::max(begin, other.begin) < std::min(end, other.end);
  }
};

// Whether writing to out could change t. Views that interleave count as overlapping, since whether
// they have an element in common is hard to tell.
inline bool may_overlap(const at::Tensor& out, const at::Tensor& t) {
  check_allocated(out);
  // A lazy copy gets memory of its own before it is written.
  const ByteRange written(out.mutable_data_ptr(), out);
  return written.overlaps(ByteRange(address_of(t), t));
}

// Refuses, in torch's words, an out that is certain to overlap t; true where it only may.
inline bool may_overlap_unless_certain(const at::Tensor& out, const at::Tensor& t) {
  if (!may_overlap(out, t)) return false;
  TORCH_CHECK(
      !out.is_same(t) && !(out.is_non_overlapping_and_dense() && t.is_non_overlapping_and_dense()),
      "unsupported operation: some elements of the input tensor and the written-to tensor refer to "
      "a single memory location. Please clone() the tensor before performing the operation.");
  return true;
}

namespace detail {

struct Extent {
  int64_t size, stride;
};

// Whether steps along these dimensions, of which the first has the largest stride, lead from an
// element to one that is `distance` after it; not all of them are 0 unless one before was
// `taken`.
inline bool leads_to(const Extent* dims, size_t count, int64_t distance, bool taken) {
  if (count == 0) return distance == 0 && taken;
  int64_t rest = 0;  // the furthest that the dimensions behind this one lead
  for (size_t i = 1; i < count; ++i) rest += (dims[i].size - 1) * dims[i].stride;
  const auto [size, stride] = dims[0];
  const int64_t first = std::max(1 - size, (distance - rest) / stride - 1);
  const int64_t last = std::min(size - 1, (distance + rest) / stride + 1);
  for (int64_t step = first; step <= last; ++step)
    if (leads_to(dims + 1, count - 1, distance - step * stride, taken || step != 0)) return true;
  return false;
}

}  // namespace detail

// Whether two elements are one memory location. Meta tensors have none.
inline bool overlaps_itself(const at::Tensor& t) {
  if (at::has_internal_overlap(t) == at::MemOverlap::Yes) return true;
  if (t.is_meta() || t.numel() == 0 || t.is_non_overlapping_and_dense()) return false;
  c10::SmallVector<detail::Extent, 4> dims;
  for (int64_t i = 0; i < t.dim(); ++i)
    if (t.size(i) > 1) dims.push_back({t.size(i), t.stride(i)});
  std::sort(dims.begin(), dims.end(),
            [](const auto& x, const auto& y) { return x.stride > y.stride; });
  return detail::leads_to(dims.data(), dims.size(), 0, /*taken=*/false);
}

inline void check_no_self_overlap(const at::Tensor& out) {
  TORCH_CHECK(!overlaps_itself(out),
              "unsupported operation: more than one element of the written-to tensor refers to a "
              "single memory location. Please clone() the tensor before performing the operation.");
}

}  // namespace tiled
