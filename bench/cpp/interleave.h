// Two calls timed in turns, in an order drawn anew for each round, so that neither always meets the
// cooler chip or the warmer cache.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

struct Interleaved {
  std::vector<double> ours, theirs;  // seconds a call, by round
  std::vector<double> ratios;        // theirs / ours
};

// `seconds(call, calls)`: the time of one of so many calls.
template <typename Seconds, typename Ours, typename Theirs>
Interleaved interleave(const Seconds& seconds, const Ours& ours, int64_t our_calls,
                       const Theirs& theirs, int64_t their_calls, int rounds,
                       std::mt19937& random) {
  Interleaved times;
  for (int round = 0; round < rounds; ++round) {
    const bool ours_first = (random() & 1) != 0;
    if (ours_first) times.ours.push_back(seconds(ours, our_calls));
    times.theirs.push_back(seconds(theirs, their_calls));
    if (!ours_first) times.ours.push_back(seconds(ours, our_calls));
    times.ratios.push_back(times.theirs.back() / times.ours.back());
  }
  return times;
}
