// A product larger than a GPU's memory, while it runs.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "out_of_core/plan.h"
#include "out_of_core/worker.h"

namespace tiled {

// A running product, in threads of its own. Functions may be called from any thread.
class OutOfCoreJob {
 public:
  OutOfCoreJob(OutOfCoreProduct product, std::vector<OutOfCoreTarget> targets, bool copy);
  ~OutOfCoreJob();  // stops it
  OutOfCoreJob(const OutOfCoreJob&) = delete;
  OutOfCoreJob& operator=(const OutOfCoreJob&) = delete;

  // Waits until all threads have ended, and says whether they have; not longer than this.
  bool wait(double seconds);

  OutOfCoreProgress progress();

  // No tile is begun any more; returns when all threads have ended and all memory is given back.
  void stop();

  // C, after the end; or the error, which says how much of C is done. The same at every call.
  at::Tensor result();

 private:
  void run();
  void attempt();

  // With mutex_ held.
  OutOfCoreProgress progress_now() const;
  std::string tiles_done_text() const;

  OutOfCoreProduct product_;
  std::vector<OutOfCoreTarget> targets_;
  const bool copy_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();

  std::mutex mutex_;  // of what follows
  std::condition_variable change_;
  std::optional<scale::Report> report_;  // none where there is nothing to do
  std::unique_ptr<SharedJob> shared_;    // of the last attempt
  bool stopping_ = false, ended_ = false;
  double seconds_ = 0;  // at the end
  std::exception_ptr error_;

  std::mutex join_mutex_;  // of what follows
  std::thread thread_;
};

}  // namespace tiled
