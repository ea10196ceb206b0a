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
#include <cmath>
#include <ctime>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/launch/launch.h"
#include "cuda/plan/current_rules.h"
#include "cuda/plan/estimate.h"
#include "torch/tune.h"

namespace tiled {
namespace {

constexpr size_t WAYS = 24;             // by estimate, of all rungs
constexpr int ROUNDS = 7;               // in turn, of the ways that come near the fastest
constexpr double NEAR = 1.15;           // so much longer than the fastest at its first times
constexpr double MOST_SECONDS = 0.3;    // of the GPU's time, from which on there are fewer rounds
constexpr double ROW_SECONDS = 1.5e-4;  // of launches that are timed together
constexpr int MOST_LAUNCHES = 48;

c10::DataPtr allocated(int64_t bytes) {
  return c10::cuda::CUDACachingAllocator::get()->allocate(static_cast<size_t>(bytes));
}

// Bytes from a matrix's first element to the end of its last.
template <typename Matrix>
int64_t extent_of(const Matrix& x, int64_t batch, int64_t rows, int64_t columns, DType dtype) {
  const int64_t last =
      (rows - 1) * x.row_stride + (columns - 1) * x.col_stride + (batch - 1) * x.batch_stride;
  return (1 + last) * static_cast<int64_t>(size_of(dtype));
}

// A way, and its launches as a graph: a CPU launches short kernels more slowly than a GPU runs
// them.
struct Candidate {
  explicit Candidate(const Choice& choice)
      : plan(choice.plan), begin(cudaEventDefault), end(cudaEventDefault) {}
  ~Candidate() {
    if (graph != nullptr) (void)cudaGraphExecDestroy(graph);
  }
  Candidate(const Candidate&) = delete;
  Candidate& operator=(const Candidate&) = delete;

  Plan plan;
  c10::DataPtr workspace;  // the graph's
  cudaGraphExec_t graph = nullptr;
  at::cuda::CUDAEvent begin, end;
  std::vector<double> seconds;

  c10::DataPtr workspace_of_one() const {
    return plan.workspace_bytes > 0 ? allocated(plan.workspace_bytes) : c10::DataPtr();
  }

  void run(const Problem& problem, cudaStream_t stream) {
    if (graph != nullptr) {
      C10_CUDA_CHECK(cudaGraphLaunch(graph, stream));
      return;
    }
    const c10::DataPtr space = workspace_of_one();
    C10_CUDA_CHECK(launch(problem, plan, space.get(), stream));
  }

  void capture(const std::vector<Problem>& problems) {
    workspace = workspace_of_one();
    const auto side = at::cuda::getStreamFromPool();  // the call's may be one that none can capture
    cudaGraph_t captured = nullptr;
    C10_CUDA_CHECK(cudaStreamBeginCapture(side, cudaStreamCaptureModeThreadLocal));
    cudaError_t error = cudaSuccess;
    for (const Problem& problem : problems)
      if (error == cudaSuccess) error = launch(problem, plan, workspace.get(), side);
    const cudaError_t ended = cudaStreamEndCapture(side, &captured);
    if (error == cudaSuccess && ended == cudaSuccess)
      error = cudaGraphInstantiate(&graph, captured, 0);
    if (captured != nullptr) (void)cudaGraphDestroy(captured);
    C10_CUDA_CHECK(error);
    C10_CUDA_CHECK(ended);
  }

  double median() {
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }
};

// The problem's operands, once more or several times: copies that one launch after the other reads,
// so that all of them find their operands in memory and none in a cache.
class Copies {
 public:
  Copies(const Problem& problem, int count, cudaStream_t stream) {
    problems_.assign(count, problem);
    if (count == 1) return;
    for (Problem& copy : problems_) {
      const auto copied = [&](const Operand& x, int64_t rows, int64_t columns) {
        const int64_t bytes = extent_of(x, problem.batch, rows, columns, problem.dtype);
        // At as many bytes past a multiple of 256 as the operand itself.
        const int64_t offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(x.data) % 256);
        memory_.push_back(allocated(bytes + offset));
        char* const data = static_cast<char*>(memory_.back().get()) + offset;
        C10_CUDA_CHECK(cudaMemcpyAsync(data, x.data, bytes, cudaMemcpyDeviceToDevice, stream));
        return data;
      };
      copy.a.data = copied(problem.a, problem.m, problem.k);
      copy.b.data = copied(problem.b, problem.k, problem.n);
    }
  }
  std::vector<Problem>& problems() { return problems_; }

 private:
  std::vector<Problem> problems_;
  std::vector<c10::DataPtr> memory_;
};

// Launches in a row that one time is of: a single short one would be timed with its start, which a
// kernel that follows others shares with them.
int launches_of(double seconds) {
  return std::clamp(static_cast<int>(std::ceil(ROW_SECONDS / seconds)), 1, MOST_LAUNCHES);
}

class Tuner {
 public:
  Tuner(const Problem& problem, const DeviceInfo& device, double seconds)
      : stream_(at::cuda::getCurrentCUDAStream()), copies_(problem, launches_of(seconds), stream_) {
    const DType dtype = problem.epilogue.out_dtype;
    c_ = allocated(extent_of(problem.c, problem.batch, problem.m, problem.n, dtype));
    const Companion<void*>& pre_activation = problem.epilogue.pre_activation;
    if (pre_activation.data != nullptr)
      pre_activation_ =
          allocated(extent_of(pre_activation, problem.batch, problem.m, problem.n, dtype));
    for (Problem& copy : copies_.problems()) {
      copy.c.data = c_.get();
      if (pre_activation.data != nullptr) copy.epilogue.pre_activation.data = pre_activation_.get();
    }
    // Bytes that are read last fill L2, so that operands come from memory, as between a model's
    // layers.
    const auto floats = at::TensorOptions().dtype(at::kFloat).device(at::kCUDA);
    cache_ = at::empty({2 * device.l2_bytes / 4}, floats);
  }

  double launches() { return static_cast<double>(copies_.problems().size()); }

  // Each way once, since a kernel is loaded at its first launch. A way for which there is no memory
  // drops out.
  void begin(std::vector<std::unique_ptr<Candidate>>& ways) {
    for (auto& way : ways) {
      try {
        way->run(copies_.problems()[0], stream_);
        if (launches() > 1) way->capture(copies_.problems());
      } catch (const c10::OutOfMemoryError&) {
        way.reset();
      }
    }
    ways.erase(std::remove(ways.begin(), ways.end(), nullptr), ways.end());
  }

  // One time of each way.
  void round(std::vector<std::unique_ptr<Candidate>>& ways) {
    for (auto& way : ways) {
      at::sum(cache_);
      way->begin.record(stream_);
      way->run(copies_.problems()[0], stream_);
      way->end.record(stream_);
    }
    for (auto& way : ways) {
      way->end.synchronize();
      way->seconds.push_back(1e-3 * way->begin.elapsed_time(way->end) / launches());
    }
  }

 private:
  c10::cuda::CUDAStream stream_;
  Copies copies_;
  c10::DataPtr c_, pre_activation_;
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
  const std::vector<Choice> choices = ranked_ways(problem, device, *rules);
  std::vector<std::unique_ptr<Candidate>> ways;
  if (choices.empty()) return;  // no rung computes it, which the call says
  for (size_t i = 0; i < std::min(WAYS, choices.size()); ++i)
    ways.push_back(std::make_unique<Candidate>(choices[i]));
  const Plan& estimated = choices.front().plan;
  const NamedWay estimates_way = name_of_way(problem, estimated);

  Tuner tuner(problem, device, choices.front().seconds);
  tuner.begin(ways);
  for (int i = 0; i < 2; ++i) tuner.round(ways);
  double best = std::numeric_limits<double>::infinity(), estimates_seconds = 0;
  const auto is_estimates = [&](const Candidate& way) {
    return way.plan.algo == estimated.algo && name_of_way(problem, way.plan) == estimates_way;
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
  const double a_round = tuner.launches() * best * static_cast<double>(ways.size());
  const int rounds = std::clamp(static_cast<int>(MOST_SECONDS / a_round), 2, ROUNDS);
  for (int i = 0; i < rounds && ways.size() > 1; ++i) tuner.round(ways);
  if (ways.empty()) return;  // there was memory for none
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
