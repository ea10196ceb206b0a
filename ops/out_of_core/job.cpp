#include "out_of_core/job.h"

#include <c10/util/Exception.h>

#include "out_of_core/threads.h"

namespace tiled {
namespace {

// The same error, which says this too. One of torch's own keeps its type.
std::exception_ptr with_context(const std::exception_ptr& error, const std::string& context) {
  try {
    try {
      std::rethrow_exception(error);
    } catch (c10::Error& known) {
      known.add_context(context);
      throw;
    } catch (const std::exception& other) {
      TORCH_CHECK(false, other.what(), "; ", context);
    }
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace

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
  thread_ = start_thread([this] { run(); });
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
  std::vector<std::thread> others(targets_.size());  // the first target is this thread's
  try {
    for (size_t i = 1; i < targets_.size(); ++i) others[i] = start_thread([&work, i] { work(i); });
    work(0);
  } catch (...) {
    shared.fail(std::current_exception());
  }
  for (std::thread& other : others)
    if (other.joinable()) other.join();
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
  error_ = error ? with_context(error, tiles_done_text()) : nullptr;
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
  return progress_now();
}

OutOfCoreProgress OutOfCoreJob::progress_now() const {
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
  // The first caller joins, and others wait for it.
  const std::lock_guard<std::mutex> lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

at::Tensor OutOfCoreJob::result() {
  const std::lock_guard<std::mutex> lock(mutex_);
  TORCH_CHECK(ended_, "tiled_mm: out_of_core has not ended");
  if (error_) std::rethrow_exception(error_);
  const OutOfCoreProgress p = progress_now();
  TORCH_CHECK(p.tiles_done == p.tiles, "out_of_core was stopped; ", tiles_done_text());
  return product_.c;
}

std::string OutOfCoreJob::tiles_done_text() const {
  const OutOfCoreProgress p = progress_now();
  return "tiled_mm: " + std::to_string(p.tiles_done) + " of " + std::to_string(p.tiles) +
         " tiles of out are done, the others untouched";
}

}  // namespace tiled
