#include <c10/util/Exception.h>

#include "torch/out_of_core.h"

namespace tiled {

OutOfCoreJob::OutOfCoreJob(OutOfCoreProduct product, std::vector<OutOfCoreTarget> targets,
                           bool copy)
    : product_(std::move(product)), targets_(std::move(targets)), copy_(copy) {
  const at::Tensor& c = product_.c;
  for (const at::Tensor& t : {product_.a, product_.b})
    for (const OutOfCoreTarget& target : targets_)
      TORCH_CHECK(copy_ || (target.device->is_pinned(t) && !t.is_conj() && !t.is_neg()),
                  "tiled_mm: copy=False lets kernels read a and b where they are, which takes "
                  "pinned memory: pass a.pin_memory() and b.pin_memory(), or copy=True");
  if (c.numel() == 0 || product_.a.size(1) == 0) {
    c.zero_();
    ended_ = true;
    return;
  }
  report_ = plan_out_of_core(product_, targets_, copy_, memory_of(targets_));
  // Devices write there past autograd, which is to know of it.
  c.unsafeGetTensorImpl()->bump_version();
  thread_ = std::thread([this] { run(); });
}

OutOfCoreJob::~OutOfCoreJob() { stop(); }

void OutOfCoreJob::attempt() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    shared_ = std::make_unique<SharedJob>(
        product_.a, product_.b, product_.c, !copy_,
        sum_type_of(product_.a.scalar_type(), product_.c.scalar_type()), report_->plan,
        static_cast<int64_t>(targets_.size()), [this] { change_.notify_all(); });
    shared_->stopping = stopping_;
  }
  SharedJob& shared = *shared_;
  const auto work = [&](size_t i) {
    MmOptions options = targets_[i].options;
    options.out_dtype = shared.plan.keeps_parts ? shared.sum_type : product_.c.scalar_type();
    run_worker(shared, *targets_[i].device, static_cast<int64_t>(i), options);
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < targets_.size(); ++i) others.emplace_back(work, i);
  work(0);
  for (std::thread& other : others) other.join();
  if (const std::exception_ptr error = shared.error()) std::rethrow_exception(error);
}

void OutOfCoreJob::run() {
  std::exception_ptr error;
  try {
    try {
      attempt();
    } catch (const c10::OutOfMemoryError&) {
      // Others may have taken memory since it was counted: once more, with tiles for half of it.
      scale::Report smaller =
          plan_out_of_core(product_, targets_, copy_, report_->plan.device_bytes / 2);
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        report_ = std::move(smaller);
      }
      attempt();
    }
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  error_ = error;
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  ended_ = true;
  change_.notify_all();
}

bool OutOfCoreJob::wait(double seconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  return change_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return ended_; });
}

OutOfCoreProgress OutOfCoreJob::progress() {
  const std::lock_guard<std::mutex> lock(mutex_);
  OutOfCoreProgress p{};
  const auto now = std::chrono::steady_clock::now();
  p.seconds = ended_ ? seconds_ : std::chrono::duration<double>(now - begin_).count();
  if (!report_) return p;
  p.tiles = report_->plan.tiles();
  if (!shared_) return p;
  p.tiles = shared_->plan.tiles();
  p.tiles_done = shared_->tiles_done;
  p.bytes_in = shared_->bytes_in;
  p.bytes_out = shared_->bytes_out;
  p.flops_done = report_->task.flops * p.tiles_done / p.tiles;
  return p;
}

void OutOfCoreJob::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    if (shared_) shared_->stopping = true;
  }
  if (thread_.joinable()) thread_.join();
}

at::Tensor OutOfCoreJob::result() {
  const OutOfCoreProgress p = progress();
  const std::string done = "tiled_mm: " + std::to_string(p.tiles_done) + " of " +
                           std::to_string(p.tiles) + " tiles of out are done, the others untouched";
  if (error_) {
    try {
      std::rethrow_exception(error_);
    } catch (c10::Error& error) {
      error.add_context(done);
      throw;
    } catch (const std::exception& error) {
      TORCH_CHECK(false, error.what(), "; ", done);
    }
  }
  TORCH_CHECK(ended_ && p.tiles_done == p.tiles, "out_of_core was stopped; ", done);
  return product_.c;
}

}  // namespace tiled
