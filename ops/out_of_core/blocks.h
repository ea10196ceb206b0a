// Blocks of A and B in a device's memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <mutex>
#include <vector>

#include "out_of_core/arena.h"
#include "out_of_core/staging.h"
#include "out_of_core/worker.h"
#include "scale/slots.h"

namespace tiled {

// A part of a matrix.
struct Range {
  int64_t row, rows, column, columns;
};

inline at::Tensor part_of(const at::Tensor& matrix, const Range& r) {
  return matrix.narrow(0, r.row, r.rows).narrow(1, r.column, r.columns);
}

inline at::Tensor corner_of(const at::Tensor& matrix, int64_t rows, int64_t columns) {
  return matrix.narrow(0, 0, rows).narrow(1, 0, columns);
}

// The blocks of one operand that are on the device. The loader takes them, the worker uses them.
class Blocks {
 public:
  Blocks(SharedJob& job, OutOfCoreDevice& device, Arena& arena, const at::Tensor& host,
         int64_t rows, int64_t columns, int64_t count)
      : job_(job),
        device_(device),
        host_(host),
        direct_(!job.maps && copies_directly(device, host)),
        slots_(count),
        places_(count),
        staging_(device, rows * columns * host.element_size()) {
    if (job.maps) return;
    const bool by_columns = lies_by_columns(host);
    for (Place& place : places_)
      place.memory = arena.take(rows, columns, by_columns, host.scalar_type());
  }

  struct Taken {
    int64_t slot;
    at::Tensor block;
    EventPtr there;
  };

  // The loader's: block `id`, which is this part of the operand. If it is not on the device, its
  // place is waited for and the copy put into the queue.
  Taken take(int64_t id, const Range& range) {
    const at::Tensor from = part_of(host_, range);
    if (job_.maps) {
      job_.bytes_in += from.nbytes();
      return {0, device_.mapped(from), nullptr};
    }
    const auto [slot, there] = slots_.take(id);
    Place& place = places_[slot];
    const at::Tensor block = corner_of(place.memory, range.rows, range.columns);
    if (!there) {
      // The products of the block that was there must be in their queue before it can be waited
      // for.
      std::unique_lock<std::mutex> lock(mutex_);
      change_.wait(lock, [&] { return place.pending == 0; });
      lock.unlock();
      device_.wait(Queue::In, place.used);
      if (direct_)
        device_.copy(Queue::In, block, from);
      else
        staging_.to_device(block, from);
      place.there = device_.record(Queue::In);
      job_.bytes_in += from.nbytes();
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    ++place.pending;
    return {slot, block, place.there};
  }

  // The worker's: a product of the block taken is in the queue, up to `event`.
  void used(const Taken& taken, const EventPtr& event) {
    if (job_.maps) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    Place& place = places_[taken.slot];
    if (event) place.used = event;
    --place.pending;
    change_.notify_all();
  }

 private:
  struct Place {
    at::Tensor memory;
    EventPtr there, used;
    int64_t pending = 0;  // products that are still to be put into their queue
  };

  SharedJob& job_;
  OutOfCoreDevice& device_;
  const at::Tensor host_;
  const bool direct_;
  scale::Slots slots_;
  std::vector<Place> places_;
  std::mutex mutex_;
  std::condition_variable change_;
  Staging staging_;
};

}  // namespace tiled
