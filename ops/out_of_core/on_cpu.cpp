// The CPU in the part of a device, for tests: a few MiB of memory that it counts, copies by memcpy
// in threads of their own, products by tiled::mm. What the engine does wrong, it shows. No other
// file names it. It stands in the library because what it drives is not exported from there.
#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "out_of_core/door.h"
#include "out_of_core/staging.h"
#include "out_of_core/threads.h"
#include "scale/memory.h"
#include "torch/schema.h"

namespace tiled {
namespace {

struct CpuDeviceOptions {
  int64_t capacity;         // bytes of its memory, whatever the plan asks for
  int64_t fail_at = -1;     // the product that fails, counted from 0; none if negative
  double slow_seconds = 0;  // that each product takes longer
};

// All such devices hold this now: bytes of their memory and of staging memory, and threads.
struct CpuDevicesHold {
  std::atomic<int64_t> bytes{0}, staging_bytes{0}, threads{0};
};

CpuDevicesHold& cpu_devices_hold() {
  static CpuDevicesHold hold;
  return hold;
}

struct CpuEvent : Event {
  std::mutex mutex;
  std::condition_variable change;
  bool reached = false;

  void reach() {
    const std::lock_guard<std::mutex> lock(mutex);
    reached = true;
    change.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex);
    change.wait(lock, [this] { return reached; });
  }
};

// One thread that does what it is given, in order. After an error it does no more work, but events
// are still reached; the error is raised by the next call that waits for the device, as CUDA does.
class CpuQueue {
 public:
  CpuQueue() : thread_(start_thread([this] { run(); })) { ++cpu_devices_hold().threads; }
  ~CpuQueue() {
    put(nullptr);
    thread_.join();
    --cpu_devices_hold().threads;
  }

  void put(std::function<void()> task) {
    const std::lock_guard<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
    change_.notify_all();
  }

 private:
  void run() {
    for (;;) {
      std::function<void()> task;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        change_.wait(lock, [this] { return !tasks_.empty(); });
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      if (!task) return;
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable change_;
  std::deque<std::function<void()>> tasks_;
  std::thread thread_;
};

// Memory that is counted while it lives. The device's is filled with a value that no product would
// leave there.
at::Tensor counted(int64_t bytes, std::atomic<int64_t>& count, std::atomic<int64_t>* own) {
  void* memory = std::malloc(bytes);
  TORCH_CHECK(memory, "out of host memory");
  if (own) std::memset(memory, 0x7f, bytes);
  count += bytes;
  if (own) *own += bytes;
  return at::from_blob(
      memory, {bytes},
      [bytes, &count, own](void* p) {
        std::free(p);
        count -= bytes;
        if (own) *own -= bytes;
      },
      at::kByte);
}

class CpuDevice : public OutOfCoreDevice {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options) : options_(options) {}

  std::string name() const override { return "a CPU in the part of a device"; }
  void enter() override {}

  // Takes as much as a GPU's allocator may.
  at::Tensor allocate(int64_t bytes) override {
    const int64_t taken = scale::allocated_at_most(bytes);
    TORCH_CHECK_WITH(OutOfMemoryError, used_ + taken <= options_.capacity, "out of memory: ", used_,
                     " bytes of ", options_.capacity, " are in use, and ", taken, " are asked for");
    return counted(taken, cpu_devices_hold().bytes, &used_).narrow(0, 0, bytes);
  }

  at::Tensor allocate_staging(int64_t bytes) override {
    return counted(bytes, cpu_devices_hold().staging_bytes, nullptr);
  }

  // A host tensor counts as pinned if its data begin where a page does: tests have both kinds.
  bool is_pinned(const at::Tensor& host) override {
    return reinterpret_cast<uintptr_t>(host.storage().data()) % 4096 == 0;
  }

  at::Tensor mapped(const at::Tensor& host) override { return host; }

  void copy(Queue queue, const at::Tensor& to, const at::Tensor& from) override {
    put(queue, [rows = rows_of(to, from), to, from] {
      for (int64_t i = 0; i < rows.count; ++i)
        std::memcpy(static_cast<char*>(rows.to) + i * rows.to_pitch,
                    static_cast<const char*>(rows.from) + i * rows.from_pitch, rows.width);
    });
  }

  void multiply(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                at::Tensor c) override {
    put(Queue::Products, [this, a, b, options, c]() mutable {
      TORCH_CHECK(products_++ != options_.fail_at, "the device has failed");
      if (options_.slow_seconds > 0)
        std::this_thread::sleep_for(std::chrono::duration<double>(options_.slow_seconds));
      mm_out_operator().call(a, b, options, c);
    });
  }

  void add(at::Tensor total, const at::Tensor& part) override {
    put(Queue::Products, [total, part] { total.add_(part); });
  }
  void round(at::Tensor result, const at::Tensor& total) override {
    put(Queue::Products, [result, total] { result.copy_(total); });
  }

  EventPtr record(Queue queue) override {
    auto made = std::make_shared<CpuEvent>();
    queues_[static_cast<size_t>(queue)].put([made] { made->reach(); });
    return made;
  }

  void wait(Queue queue, const EventPtr& event) override {
    if (event)
      queues_[static_cast<size_t>(queue)].put([event] { static_cast<CpuEvent&>(*event).wait(); });
  }

  void synchronize(const EventPtr& event) override {
    if (event) static_cast<CpuEvent&>(*event).wait();
    check();
  }

  void synchronize() override {
    std::vector<EventPtr> events;
    for (const Queue queue : ALL_QUEUES) events.push_back(record(queue));
    for (const EventPtr& event : events) static_cast<CpuEvent&>(*event).wait();
    check();
  }

 private:
  void put(Queue queue, std::function<void()> task) {
    queues_[static_cast<size_t>(queue)].put([this, task = std::move(task)] {
      if (failed_) return;
      try {
        task();
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex_);
        error_ = std::current_exception();
        failed_ = true;
      }
    });
  }

  void check() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

  const CpuDeviceOptions options_;
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> products_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
  std::atomic<bool> failed_{false};
  std::array<CpuQueue, 3> queues_;  // ended first
};

OutOfCoreTarget cpu_target(const OutOfCoreProduct& product, const OutOfCoreOptions& options,
                           const CpuDeviceOptions& device) {
  const at::ScalarType dtype = product.a.scalar_type();
  const MmOptions asked{std::nullopt, options.precision, std::nullopt};
  OutOfCoreTarget target;
  target.device = std::make_unique<CpuDevice>(device);
  target.name = target.device->name();
  target.options.precision = resolve_precision(dtype, {at::kCPU}, asked);
  target.arithmetic = resolve_arithmetic(dtype, {at::kCPU}, asked);
  target.rates = {5e9, 5e9, 50e9, 10e9};
  target.memory = options.memory.value_or(device.capacity);
  target.product_of = [](int64_t, int64_t, int64_t) { return scale::Product{0, 0}; };
  return target;
}

struct OutOfCoreOnCpu : OutOfCoreHolder {
  using OutOfCoreHolder::OutOfCoreHolder;
};

// A job on CPUs that play devices, one for each capacity.
c10::intrusive_ptr<OutOfCoreOnCpu> start_on_cpu(const at::Tensor& a, const at::Tensor& b,
                                                const std::optional<at::Tensor>& out,
                                                const std::optional<std::string>& precision,
                                                std::optional<int64_t> out_dtype,
                                                const std::vector<int64_t>& capacities,
                                                std::optional<int64_t> memory, bool copy,
                                                int64_t fail_at, double slow_seconds) {
  const OutOfCoreOptions options = options_from_python(precision, out_dtype, {}, memory, copy);
  OutOfCoreProduct product(a, b, out, options);
  std::vector<OutOfCoreTarget> targets;
  // `fail_at` and `slow_seconds` are for the last device.
  for (size_t i = 0; i < capacities.size(); ++i) {
    const bool last = i + 1 == capacities.size();
    targets.push_back(cpu_target(product, options,
                                 {capacities[i], last ? fail_at : -1, last ? slow_seconds : 0}));
  }
  return c10::make_intrusive<OutOfCoreOnCpu>(
      std::make_unique<OutOfCoreJob>(std::move(product), std::move(targets), copy));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(tiled_debug, m) {
  auto c = m.class_<OutOfCoreOnCpu>("OutOfCoreOnCpu");
  c.def(torch::init(&start_on_cpu));
  define_job_methods(c);
  m.def("out_of_core_on_cpu_holds() -> int[]", [] {
    const CpuDevicesHold& hold = cpu_devices_hold();
    return std::vector<int64_t>{hold.bytes, hold.staging_bytes, hold.threads};
  });
}

}  // namespace tiled
