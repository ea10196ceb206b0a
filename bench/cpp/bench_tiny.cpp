// bench_tiny: tiled::mm beside at::mm on squares of 1 ... 64 on the CPU, in every dtype, where what
// surrounds the arithmetic decides.
//
//   bench_tiny [rounds [json]]
//
// One thread; both allocate their result; both take turns in random order, and the ratio is
// at::mm's time over tiled::mm's in the same round, above 1 where tiled::mm is faster. Prints the
// medians, and for each dtype their geometric mean and the least; with `json` the ratios alone, as
// {"Float": {"1": 1.5, ...}, ...}.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <tiled_mm.h>

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

constexpr at::ScalarType TYPES[] = {at::kFloat,        at::kDouble,        at::kHalf, at::kBFloat16,
                                    at::kComplexFloat, at::kComplexDouble, at::kChar, at::kShort,
                                    at::kInt,          at::kLong,          at::kByte};
constexpr int64_t SIZES[] = {1, 2, 3, 4, 7, 8, 12, 16, 17, 24, 31, 32, 64};
constexpr double SAMPLE_SECONDS = 5e-4;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

template <typename Call>
double seconds_per_call(const Call& call, int64_t calls) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < calls; ++i) call();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count() / static_cast<double>(calls);
}

at::Tensor random_square(int64_t size, at::ScalarType type) {
  if (at::isIntegralType(type, false)) return at::randint(0, 100, {size, size}).to(type);
  return at::randn({size, size}, at::isComplexType(type) ? type : at::kFloat).to(type);
}

struct Times {
  double ours, theirs, ratio;  // seconds a call; medians
};

Times measure(int64_t size, at::ScalarType type, int rounds, std::mt19937& random) {
  const at::Tensor a = random_square(size, type), b = random_square(size, type);
  const auto run_ours = [&] { return tiled::mm(a, b); };
  const auto run_theirs = [&] { return at::mm(a, b); };
  const auto calls_for = [](const auto& call) {
    seconds_per_call(call, 10);
    const double estimate = seconds_per_call(call, 20);
    return std::max<int64_t>(1, static_cast<int64_t>(SAMPLE_SECONDS / estimate));
  };
  const int64_t our_calls = calls_for(run_ours), their_calls = calls_for(run_theirs);
  const auto seconds = [](const auto& call, int64_t calls) {
    return seconds_per_call(call, calls);
  };
  const Interleaved times =
      interleave(seconds, run_ours, our_calls, run_theirs, their_calls, rounds, random);
  return {median(times.ours), median(times.theirs), median(times.ratios)};
}

void print_json(int rounds, std::mt19937& random) {
  for (const at::ScalarType type : TYPES) {
    std::printf("%s\"%s\": {", type == TYPES[0] ? "{" : ", ", c10::toString(type));
    for (const int64_t size : SIZES)
      std::printf("%s\"%lld\": %.3f", size == SIZES[0] ? "" : ", ", static_cast<long long>(size),
                  measure(size, type, rounds, random).ratio);
    std::printf("}");
  }
  std::printf("}\n");
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 41;
  const bool json = argc == 3 && std::strcmp(argv[2], "json") == 0;
  if (argc > (json ? 3 : 2) || rounds < 1) {
    std::fprintf(stderr, "usage: bench_tiny [rounds [json]]\n");
    return 2;
  }
  const c10::NoGradGuard no_gradients;
  at::set_num_threads(1);
  std::mt19937 random(20);
  if (json) {
    print_json(rounds, random);
    return 0;
  }
  std::printf("at::mm's time / tiled::mm's (tiled::mm's ns) at size\n%-14s", "");
  for (const int64_t size : SIZES) std::printf("%13lld", static_cast<long long>(size));
  std::printf("\n");
  double all = 0;
  for (const at::ScalarType type : TYPES) {
    std::printf("%-14s", c10::toString(type));
    double logs = 0, least = INFINITY;
    for (const int64_t size : SIZES) {
      const Times t = measure(size, type, rounds, random);
      std::printf("  %5.2f (%4.0f)", t.ratio, t.ours * 1e9);
      std::fflush(stdout);
      logs += std::log(t.ratio);
      least = std::min(least, t.ratio);
    }
    all += logs / std::size(SIZES);
    std::printf("   geomean %.2f, least %.2f\n", std::exp(logs / std::size(SIZES)), least);
  }
  std::printf("geomean of all %.2f\n", std::exp(all / std::size(TYPES)));
  return 0;
}
