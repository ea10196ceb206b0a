// A CUDA device as the engine sees it: two streams for copies, and for products the one that was
// current when the job began, so that memory from PyTorch's allocator goes round in its order.
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include "out_of_core/plan.h"
#include "out_of_core/staging.h"
#include "scale/links.h"
#include "torch/hooks.h"
#include "torch/schema.h"

namespace tiled {
namespace {

struct CudaEvent : Event {
  at::cuda::CUDAEvent event;
};

class CudaDevice : public OutOfCoreDevice {
 public:
  explicit CudaDevice(c10::DeviceIndex index)
      : index_(index),
        products_(c10::cuda::getCurrentCUDAStream(index)),
        in_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index)),
        out_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, index)) {}

  std::string name() const override { return device().str(); }

  void enter() override {
    c10::cuda::set_device(index_);
    c10::cuda::setCurrentCUDAStream(products_);
  }

  at::Tensor allocate(int64_t bytes) override {
    at::Tensor memory = at::empty({bytes}, at::TensorOptions(device()).dtype(at::kByte));
    // The allocator may hand out memory that work before it in this stream still uses.
    const EventPtr free = record(Queue::Products);
    wait(Queue::In, free);
    wait(Queue::Out, free);
    return memory;
  }

  at::Tensor allocate_staging(int64_t bytes) override {
    return at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(true));
  }

  bool is_pinned(const at::Tensor& host) override { return host.is_pinned(); }

  at::Tensor mapped(const at::Tensor& host) override {
    void* address = nullptr;
    C10_CUDA_CHECK(cudaHostGetDevicePointer(&address, host.mutable_data_ptr(), 0));
    return at::from_blob(
        address, host.sizes(), host.strides(), [](void*) {},
        at::TensorOptions(device()).dtype(host.scalar_type()), device());
  }

  void copy(Queue queue, const at::Tensor& to, const at::Tensor& from) override {
    const Rows rows = rows_of(to, from);
    const auto kind = to.is_cuda() ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    if (rows.in_one())
      C10_CUDA_CHECK(
          cudaMemcpyAsync(rows.to, rows.from, rows.width * rows.count, kind, stream(queue)));
    else
      C10_CUDA_CHECK(cudaMemcpy2DAsync(rows.to, rows.to_pitch, rows.from, rows.from_pitch,
                                       rows.width, rows.count, kind, stream(queue)));
  }

  void multiply(const at::Tensor& a, const at::Tensor& b, const MmOptions& options,
                at::Tensor c) override {
    mm_out_operator().call(a, b, options, c);
  }

  void add(at::Tensor total, const at::Tensor& part) override { total.add_(part); }
  void round(at::Tensor result, const at::Tensor& total) override { result.copy_(total); }

  EventPtr record(Queue queue) override {
    auto made = std::make_shared<CudaEvent>();
    made->event.record(stream(queue));
    return made;
  }

  void wait(Queue queue, const EventPtr& event) override {
    if (event) cuda_event(event).block(stream(queue));
  }

  void synchronize(const EventPtr& event) override {
    if (event) cuda_event(event).synchronize();
  }

  void synchronize() override {
    for (const Queue queue : ALL_QUEUES) stream(queue).synchronize();
  }

 private:
  static at::cuda::CUDAEvent& cuda_event(const EventPtr& event) {
    return static_cast<CudaEvent&>(*event).event;
  }

  at::Device device() const { return at::Device(at::kCUDA, index_); }

  c10::cuda::CUDAStream stream(Queue queue) const {
    return queue == Queue::In ? in_ : queue == Queue::Out ? out_ : products_;
  }

  const c10::DeviceIndex index_;
  const c10::cuda::CUDAStream products_, in_, out_;
};

// Free on the device, or free in the allocator's own store.
int64_t free_bytes(c10::DeviceIndex index) {
  const c10::cuda::CUDAGuard guard(index);
  size_t free = 0, total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index);
  constexpr auto ALL = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return static_cast<int64_t>(free) + stats.reserved_bytes[ALL].current -
         stats.allocated_bytes[ALL].current;
}

}  // namespace

std::vector<OutOfCoreTarget> cuda_targets(const OutOfCoreProduct& product,
                                          const OutOfCoreOptions& options) {
  TORCH_CHECK(c10::cuda::device_count() > 0,
              "tiled_mm: out_of_core computes on GPUs, but No CUDA GPUs are available; on the CPU "
              "there is tiled_mm.mm");
  at::globalContext().lazyInitDevice(at::kCUDA);
  std::vector<at::Device> devices = options.devices;
  if (devices.empty()) devices.emplace_back(at::kCUDA, c10::cuda::current_device());
  std::vector<OutOfCoreTarget> targets;
  std::vector<c10::DeviceIndex> seen;
  for (const at::Device& device : devices) {
    const auto index = device.has_index() ? device.index() : c10::cuda::current_device();
    for (const c10::DeviceIndex other : seen)
      TORCH_CHECK(other != index, "tiled_mm: device cuda:", static_cast<int>(index),
                  " is named twice");
    seen.push_back(index);
    OutOfCoreTarget target =
        target_on(cuda_device(index), product, options,
                  options.memory ? *options.memory : scale::usable(free_bytes(index)));
    target.device = std::make_unique<CudaDevice>(index);
    targets.push_back(std::move(target));
  }
  return targets;
}

}  // namespace tiled
