// How a problem's best ways are measured: in turn, with cold caches, on the stream of the call.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <ATen/cuda/CUDAGraphsUtils.cuh>
#include <algorithm>
#include <ctime>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/launch/launch.h"
#include "cuda/plan/current_rules.h"
#include "cuda/plan/estimate.h"
#include "torch/tune.h"

namespace tiled {
namespace {

constexpr size_t WAYS = 12;           // by estimate, of all rungs
constexpr int ROUNDS = 7;             // in turn, of the ways that come near the fastest
constexpr double NEAR = 1.15;         // so much longer than the fastest at its first times
constexpr double MOST_SECONDS = 0.3;  // of the GPU's time, from which on there are fewer rounds

c10::DataPtr allocated(int64_t bytes) {
  return c10::cuda::CUDACachingAllocator::get()->allocate(static_cast<size_t>(bytes));
}

// Bytes from a result's first element to the end of its last.
template <typename Matrix>
int64_t extent_of(const Matrix& c, const Problem& p, DType dtype) {
  return (1 + (p.m - 1) * c.row_stride + (p.n - 1) * c.col_stride +
          (p.batch - 1) * c.batch_stride) *
         static_cast<int64_t>(size_of(dtype));
}

struct Candidate {
  explicit Candidate(const Choice& choice)
      : plan(choice.plan), begin(cudaEventDefault), end(cudaEventDefault) {}
  Plan plan;
  at::cuda::CUDAEvent begin, end;
  std::vector<double> seconds;

  double median() {
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }
};

class Tuner {
 public:
  Tuner(const Problem& problem, const DeviceInfo& device)
      : problem_(problem), stream_(at::cuda::getCurrentCUDAStream()) {
    const DType dtype = problem.epilogue.out_dtype;
    c_ = allocated(extent_of(problem.c, problem, dtype));
    problem_.c.data = c_.get();
    if (problem.epilogue.before.data != nullptr) {
      before_ = allocated(extent_of(problem.epilogue.before, problem, dtype));
      problem_.epilogue.before.data = before_.get();
    }
    // What is read last fills L2, so that operands come from memory, as between a model's layers.
    const auto floats = at::TensorOptions().dtype(at::kFloat).device(at::kCUDA);
    cache_ = at::empty({2 * device.l2_bytes / 4}, floats);
  }

  // One time of each way; a way for which there is no memory drops out.
  void round(std::vector<std::unique_ptr<Candidate>>& ways, bool is_timed) {
    for (auto& way : ways) {
      if (is_timed) at::sum(cache_);
      try {
        c10::DataPtr workspace;
        if (way->plan.workspace_bytes > 0) workspace = allocated(way->plan.workspace_bytes);
        way->begin.record(stream_);
        C10_CUDA_CHECK(launch(problem_, way->plan, workspace.get(), stream_));
        way->end.record(stream_);
      } catch (const c10::OutOfMemoryError&) {
        way.reset();
      }
    }
    ways.erase(std::remove(ways.begin(), ways.end(), nullptr), ways.end());
    for (auto& way : ways) {
      way->end.synchronize();
      if (is_timed) way->seconds.push_back(1e-3 * way->begin.elapsed_time(way->end));
    }
  }

 private:
  Problem problem_;
  c10::cuda::CUDAStream stream_;
  c10::DataPtr c_, before_;
  at::Tensor cache_;
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm date{};
  gmtime_r(&now, &date);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &date);
  return text;
}

void measure(const Problem& problem, const DeviceInfo& device, const std::string& problem_class) {
  const std::shared_ptr<const Rules> rules = current_rules(device);
  std::vector<std::unique_ptr<Candidate>> ways;
  for (const Choice& choice : best_estimates(problem, device, *rules, WAYS))
    ways.push_back(std::make_unique<Candidate>(choice));
  if (ways.empty()) return;  // no rung computes it, which the call says
  Candidate* const estimated = ways.front().get();
  const NamedWay estimates_way = name_of_way(problem, estimated->plan);
  const Algo estimates_algo = estimated->plan.algo;

  Tuner tuner(problem, device);
  tuner.round(ways, /*is_timed=*/false);  // loads the kernels
  for (int i = 0; i < 2; ++i) tuner.round(ways, true);
  double best = std::numeric_limits<double>::infinity(), estimates_seconds = 0;
  const auto is_estimates = [&](const Candidate& way) {
    return way.plan.algo == estimates_algo && name_of_way(problem, way.plan) == estimates_way;
  };
  const auto note = [&] {
    for (auto& way : ways) {
      best = std::min(best, way->median());
      if (is_estimates(*way)) estimates_seconds = way->median();
    }
  };
  note();
  const double far = NEAR * best;
  ways.erase(
      std::remove_if(ways.begin(), ways.end(), [&](auto& way) { return way->median() > far; }),
      ways.end());
  const double a_round = best * static_cast<double>(ways.size());
  const int rounds = std::clamp(static_cast<int>(MOST_SECONDS / a_round), 2, ROUNDS);
  for (int i = 0; i < rounds && ways.size() > 1; ++i) tuner.round(ways, true);
  if (ways.empty()) return;
  note();
  Candidate& fastest = **std::min_element(
      ways.begin(), ways.end(), [](auto& x, auto& y) { return x->median() < y->median(); });
  if (estimates_seconds == 0) estimates_seconds = fastest.median();  // there was no memory for it
  keep_measured(device, problem_class,
                {fastest.plan.algo, name_of_way(problem, fastest.plan), fastest.median(),
                 estimates_seconds, today()});
}

}  // namespace

void tune(const Problem& problem, const DeviceInfo& device, c10::DeviceIndex index) {
  if (problem.batch == 0 || problem.m == 0 || problem.n == 0 || problem.k == 0) return;
  const c10::cuda::CUDAGuard guard(index);
  if (at::cuda::currentStreamCaptureStatus() != at::cuda::CaptureStatus::None) return;
  const std::string problem_class = class_of(problem);
  const auto is_known = [&] { return current_rules(device)->rows().count(problem_class) > 0; };
  if (is_known()) return;
  static std::mutex one_at_a_time;  // or they would slow each other down
  const std::lock_guard lock(one_at_a_time);
  if (is_known()) return;
  try {
    measure(problem, device, problem_class);
  } catch (const c10::OutOfMemoryError&) {
    // Without memory for scratch the call goes on by estimates.
  }
}

}  // namespace tiled
