// How far a product may be from the truth: the library's two error gates. A test passes both or
// fails; neither has a tolerance that was found by trying.
//
// The truth, and the sums of magnitudes |A||B| beside it, come in a type of at least 113 bits.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace tiled::test {

#if LDBL_MANT_DIG >= 113
using Wide = long double;
#else
using Wide = __float128;
#endif

inline Wide magnitude(Wide x) { return x < 0 ? -x : x; }

struct Expected {
  std::vector<Wide> value;  // [elements] of A B
  std::vector<Wide> scale;  // [elements] of |A| |B|
  int64_t k;                // products in each sum
};

// Unit roundoff 2^-bits of the result and of the accumulator, and the result's smallest subnormal.
struct Rounding {
  double u_out, u_acc, smallest;
};
constexpr Rounding FLOAT64 = {0x1p-53, 0x1p-53, 0x1p-1074};
constexpr Rounding FLOAT32 = {0x1p-24, 0x1p-24, 0x1p-149};
constexpr Rounding FLOAT16 = {0x1p-11, 0x1p-24, 0x1p-24};
constexpr Rounding BFLOAT16 = {0x1p-8, 0x1p-24, 0x1p-133};

inline std::string describe(const char* what, size_t i, double got, const Expected& expected,
                            double bound) {
  std::ostringstream text;
  text.precision(17);
  text << what << " at element " << i << ": got " << got << ", expected "
       << static_cast<double>(expected.value[i]) << ", bound " << bound;
  return text.str();
}

// Gate 1, for any data: |C - R| <= u_out |R| + g u_acc (|A||B|) + smallest, where
// g = min(k, 8 sqrt(k)): k is the certain bound, for data built to be worst; the other one holds
// with high probability for all other data (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019).
// Returns what is wrong, or nothing. Written so that a NaN fails.
inline std::string gate_any(const std::vector<double>& c, const Expected& expected,
                            const Rounding& r, bool worst_case = false) {
  if (c.size() != expected.value.size()) return "wrong number of elements";
  const double k = static_cast<double>(expected.k);
  const double g = worst_case ? k : std::fmin(k, 8 * std::sqrt(k));
  for (size_t i = 0; i < c.size(); ++i) {
    const Wide bound = r.u_out * magnitude(expected.value[i]) + g * r.u_acc * expected.scale[i] +
                       static_cast<Wide>(r.smallest);
    if (!(magnitude(c[i] - expected.value[i]) <= bound))
      return describe("gate 1", i, c[i], expected, static_cast<double>(bound));
  }
  return "";
}

// Gate 2, for zero-mean normal data.
//   - No element is off by more than u_out |R| + 16 u_acc (|A||B|).
//   - In units of u_out |R| + u_acc (|A||B|), and counted positive away from zero, the errors' RMS
//     is at most 1 and their mean at most 6 / sqrt(elements). Rounding to nearest has no bias, and
//     an error of rounding is at most u times the partial sum; partial sums of k products grow as
//     sqrt(k), so k of those errors add up to an RMS of at most u k / sqrt(2 * 3), against (|A||B|)
//     = 2 k / pi: a ratio of 0.64.
inline std::string gate_normal(const std::vector<double>& c, const Expected& expected,
                               const Rounding& r) {
  if (c.size() != expected.value.size()) return "wrong number of elements";
  double squares = 0, sum = 0;
  for (size_t i = 0; i < c.size(); ++i) {
    const Wide error = c[i] - expected.value[i];
    const Wide out = r.u_out * magnitude(expected.value[i]);
    const Wide acc = r.u_acc * expected.scale[i];
    const Wide bound = out + 16 * acc + static_cast<Wide>(r.smallest);
    if (!(magnitude(error) <= bound))
      return describe("gate 2", i, c[i], expected, static_cast<double>(bound));
    const double unit = static_cast<double>(out + acc + static_cast<Wide>(r.smallest));
    const double relative = static_cast<double>(expected.value[i] < 0 ? -error : error) / unit;
    squares += relative * relative;
    sum += relative;
  }
  const double count = static_cast<double>(c.size());
  const double rms = std::sqrt(squares / count), mean = sum / count;
  if (c.empty() || (rms <= 1 && std::fabs(mean) <= 6 / std::sqrt(count))) return "";
  std::ostringstream text;
  text << "gate 2: RMS " << rms << " (limit 1), mean " << mean << " (limit " << 6 / std::sqrt(count)
       << ") of the error's unit";
  return text.str();
}

}  // namespace tiled::test
