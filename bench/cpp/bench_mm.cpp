// bench_cpp: tiled::mm beside at::mm through LibTorch, on a short list of problems.
//
//   bench_cpp [cpu|cuda] [rounds]
//
// As in `python -m bench`: random normal data, both take turns in random order, the ratio of the
// same round first, and a wrong result fails. The clock is the host's, around so many calls that
// waiting for the device at the end does not matter; what it shows beyond the Python benchmark is
// the C++ door, without an interpreter in the way.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <tiled_mm.h>
#include <torch/cuda.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "interleave.h"

namespace {

struct Shape {
  int64_t m, n, k;
  bool transposed_b;  // B is a transposed view, as a linear layer's weight
};

constexpr Shape CPU_SHAPES[] = {
    {16, 16, 16, false}, {256, 256, 256, false}, {1000, 1000, 1000, false}, {1, 4096, 4096, true}};
constexpr Shape CUDA_SHAPES[] = {{16, 16, 16, false},
                                 {1024, 1024, 1024, false},
                                 {4095, 4095, 4095, false},
                                 {4096, 4096, 4096, false},
                                 {16, 4096, 4096, true}};
constexpr double SAMPLE_SECONDS = 5e-3;
constexpr int64_t MOST_CALLS = 20000;

struct Quartiles {
  double q1, median, q3;
};

Quartiles quartiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double position = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(position);
    const size_t above = std::min(below + 1, values.size() - 1);
    return values[below] +
           (position - static_cast<double>(below)) * (values[above] - values[below]);
  };
  return {at(0.25), at(0.5), at(0.75)};
}

class Stopwatch {
 public:
  explicit Stopwatch(at::Device device) : device_(device) {}

  // Seconds per call.
  template <typename Call>
  double operator()(const Call& call, int64_t calls) const {
    await_device();
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < calls; ++i) call();
    await_device();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    return elapsed.count() / static_cast<double>(calls);
  }

 private:
  void await_device() const {
    if (device_.is_cuda()) torch::cuda::synchronize(device_.index());
  }

  at::Device device_;
};

// The largest |C - R| - u |R| over u (|A||B|), u being fp32's unit roundoff: at most 16 on
// zero-mean normal data. NaN where C has one.
double componentwise_error(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b) {
  const double u = std::ldexp(1.0, -24);
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const at::Tensor reference = at::mm(x, y);
  const at::Tensor scale = at::mm(x.abs(), y.abs());
  const at::Tensor error = (c.to(at::kDouble) - reference).abs() - u * reference.abs();
  return (error / (u * scale)).max().item<double>();  // max() propagates NaN
}

// Prints one line; false if ours is wrong.
bool measure(const Shape& shape, at::Device device, int rounds, std::mt19937& random) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  const at::Tensor a = at::randn({shape.m, shape.k}, options);
  const at::Tensor b = shape.transposed_b ? at::randn({shape.n, shape.k}, options).t()
                                          : at::randn({shape.k, shape.n}, options);
  const at::Tensor poison = at::full({shape.m, shape.n}, NAN, options);
  at::Tensor ours = poison.clone(), theirs = poison.clone();
  const auto run_ours = [&] { tiled::mm_out(ours, a, b); };
  const auto run_theirs = [&] { at::mm_out(theirs, a, b); };

  const Stopwatch seconds_per_call(device);
  const auto calls_for = [&](const auto& call) {
    call();
    const double estimate = seconds_per_call(call, 1);
    return std::clamp<int64_t>(static_cast<int64_t>(SAMPLE_SECONDS / estimate), 1, MOST_CALLS);
  };
  const int64_t our_calls = calls_for(run_ours), their_calls = calls_for(run_theirs);
  const double error = componentwise_error(ours, a, b);

  const Interleaved times =
      interleave(seconds_per_call, run_ours, our_calls, run_theirs, their_calls, rounds, random);
  const Quartiles ratio = quartiles(times.ratios);
  const double mine = quartiles(times.ours).median, peer = quartiles(times.theirs).median;
  const double flops = 2.0 * static_cast<double>(shape.m * shape.n) * static_cast<double>(shape.k);
  const bool right = error <= 16;  // false for NaN
  std::printf("%6lld x %5lld x %5lld %s  %6.3f (%.3f-%.3f)  %10.2f  %10.2f  %10.3g  %10.3g  %s\n",
              static_cast<long long>(shape.m), static_cast<long long>(shape.n),
              static_cast<long long>(shape.k), shape.transposed_b ? "nt" : "nn", ratio.median,
              ratio.q1, ratio.q3, mine * 1e6, peer * 1e6, flops / mine * 1e-9, flops / peer * 1e-9,
              right ? "" : "WRONG");
  return right;
}

int usage() {
  std::fprintf(stderr, "usage: bench_cpp [cpu|cuda] [rounds]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const bool has_cuda = torch::cuda::is_available();
  const char* name = argc > 1 ? argv[1] : has_cuda ? "cuda" : "cpu";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 30;
  const bool cuda = std::strcmp(name, "cuda") == 0;
  if (argc > 3 || rounds < 1 || (!cuda && std::strcmp(name, "cpu") != 0)) return usage();
  if (cuda && !has_cuda) {
    std::fprintf(stderr, "bench_cpp: this machine has no GPU that torch can use\n");
    return 2;
  }

  const c10::NoGradGuard no_gradients;
  const at::Device device = cuda ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  std::mt19937 random(20);
  std::printf(
      "float32 on %s; ratio: at::mm's time / tiled::mm's, median and quartiles of %d rounds\n",
      name, rounds);
  std::printf(
      "     m x     n x     k      ratio               tiled us      at us    tiled GF/s"
      "     at GF/s\n");
  bool right = true;
  const auto run = [&](const auto& shapes) {
    for (const Shape& shape : shapes) right = measure(shape, device, rounds, random) && right;
  };
  cuda ? run(CUDA_SHAPES) : run(CPU_SHAPES);
  return right ? 0 : 1;
}
