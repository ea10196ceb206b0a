// The engine needs this of a device: memory of its own, three queues that each run in order, events
// between them, and a product. The CUDA half and the CPU that plays a device for tests are the two.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <string>

#include "scale/plan.h"
#include "tiled_mm.h"

namespace tiled {

// The queues of copies to the device, of products, and of copies to the host.
enum class Queue : int8_t { In, Products, Out };
constexpr std::array<Queue, 3> ALL_QUEUES = {Queue::In, Queue::Products, Queue::Out};

// A point in a queue, reached when all that was put there before is done.
class Event {
 public:
  virtual ~Event() = default;
};
using EventPtr = std::shared_ptr<Event>;  // null: a point that has been reached

// Every function but allocate's, mapped's and synchronize's returns at once. Where the device is
// out of memory they raise c10::OutOfMemoryError.
class OutOfCoreDevice {
 public:
  virtual ~OutOfCoreDevice() = default;

  virtual std::string name() const = 0;

  // Called first by every thread that uses the device.
  virtual void enter() = 0;

  // Bytes of the device's memory, which begin at a multiple of scale::MEMORY_STEP.
  virtual at::Tensor allocate(int64_t bytes) = 0;

  // Bytes of host memory that the queues copy from and to while the host goes on.
  virtual at::Tensor allocate_staging(int64_t bytes) = 0;

  // Whether the queues can copy this host tensor while the host goes on.
  virtual bool is_pinned(const at::Tensor& host) = 0;

  // The pinned tensor as kernels of the device see it.
  virtual at::Tensor mapped(const at::Tensor& host) = 0;

  // Copies a matrix between host and device, both row-major or both column-major; the
  // host's memory is pinned.
  virtual void copy(Queue queue, const at::Tensor& to, const at::Tensor& from) = 0;

  // c = a b. The product's options have the precision resolved.
  virtual void multiply(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                        at::Tensor c) = 0;

  // total += part, and result = total, rounded.
  virtual void add(at::Tensor total, const at::Tensor& part) = 0;
  virtual void round(at::Tensor result, const at::Tensor& total) = 0;

  virtual EventPtr record(Queue queue) = 0;
  virtual void wait(Queue queue, const EventPtr& event) = 0;  // the queue does; the host goes on
  virtual void synchronize(const EventPtr& event) = 0;        // the host waits
  virtual void synchronize() = 0;                             // for all queues
};

}  // namespace tiled
