// One device's share of a product larger than it. Three threads, each a stage, so that none waits
// for another's work:
//
//   loader   takes tiles, finds room for their blocks of A and B, and has these copied
//   worker   has the products made, as their blocks come
//   drainer  has finished tiles copied to C, and counts them once they are there
//
// The device's own queues do the same three things in the same order; events keep them apart where
// they share a place.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "out_of_core/device.h"
#include "scale/tiles.h"

namespace tiled {

// The devices of one job share this.
struct SharedJob {
  at::Tensor a, b, c;  // on the host
  bool maps;           // a and b are read where they are
  at::ScalarType sum_type;
  scale::Plan plan;
  scale::Tiles tiles;
  std::function<void()> on_change;  // a tile is done, or the job has failed

  SharedJob(at::Tensor a, at::Tensor b, at::Tensor c, bool maps, at::ScalarType sum_type,
            const scale::Plan& plan, int64_t devices, std::function<void()> on_change)
      : a(std::move(a)),
        b(std::move(b)),
        c(std::move(c)),
        maps(maps),
        sum_type(sum_type),
        plan(plan),
        tiles(plan, devices),
        on_change(std::move(on_change)) {}

  std::atomic<int64_t> tiles_done{0}, bytes_in{0}, bytes_out{0};
  std::atomic<bool> stopping{false};  // no tile is begun any more

  void fail(std::exception_ptr error);  // the first error counts; it stops the job
  std::exception_ptr error();

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

// A queue between two stages, of a bounded length. Every stage takes from its queue to the end, in
// failure too, so that no stage waits for ever; and no call allocates, so that none fails.
template <typename T>
class Channel {
 public:
  explicit Channel(size_t most) : values_(most) {}

  void put(T value) {
    std::unique_lock<std::mutex> lock(mutex_);
    change_.wait(lock, [&] { return count_ < values_.size(); });
    values_[(first_ + count_++) % values_.size()] = std::move(value);
    change_.notify_all();
  }

  // Empty once it was closed and all is taken.
  std::optional<T> take() {
    std::unique_lock<std::mutex> lock(mutex_);
    change_.wait(lock, [&] { return closed_ || count_ > 0; });
    if (count_ == 0) return std::nullopt;
    std::optional<T> value = std::exchange(values_[first_], T{});
    first_ = (first_ + 1) % values_.size();
    --count_;
    change_.notify_all();
    return value;
  }

  void close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    change_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable change_;
  std::vector<T> values_;  // a ring: count_ of them, from first_ on
  size_t first_ = 0, count_ = 0;
  bool closed_ = false;
};

// Does its share of the job with this device, in this thread, which start_thread() has started, and
// two more; returns when the device is idle and all memory is given back. An error goes to the job.
void run_worker(SharedJob& job, OutOfCoreDevice& device, int64_t index, const MmOptions& options);

}  // namespace tiled
