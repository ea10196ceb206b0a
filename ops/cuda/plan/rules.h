// The time that a chip takes for the work of each tile: the numbers that times are estimated from
// (estimate.h). Rules are data: text, made by `python -m bench.choice_fit` from recorded times
// (rules/), and no choice that follows them can change a bit. A value, as a device is.
#pragma once

#include <array>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/algo.h"
#include "cuda/plan/device.h"
#include "cuda/plan/measured.h"

namespace tiled {

// A tile's speed depends on these besides its sizes: the type of its elements and the arithmetic.
enum class Kind : int8_t {
  Sixteen,  // fp16 and bf16
  Tf32,
  Float32,  // fp16x3 too, which is a rung of its own
  Float64,
  Int8,
  Int16,
  Int32,
  Int64,
  Complex64,
  Complex128,
  Fp8,
};
constexpr int KIND_COUNT = 11;
Kind kind_of(const Problem& problem);
const char* name_of(Kind kind);

// The rates of a tile, in seconds. A step is BLOCK_K of K.
struct TileRates {
  double busy = 0;            // of a step, for each block on a multiprocessor that has several
  double latency = 0;         // of a step of a block that is alone there
  double end = 0;             // of a tile, without its steps
  double start = 0;           // of the call
  double p_mn = 1, q_mn = 1;  // times so much where P, or Q, is contiguous along m or n
  static constexpr int COUNT = 6;
};

// The rates of a chip.
struct ChipRates {
#define CHIP_RATE(name, value) double name = value;
#include "cuda/plan/chip_rates.inc"
};

class Rules {
 public:
  // Makes rules of the text of a rules file; `error` says what is wrong with it, and is empty if
  // nothing is.
  static Rules parse(std::string_view text, std::string& error);

  const ChipRates& chip() const { return chip_; }
  // The rates of a rung's tile. If it was not measured in this kind, its rates in another kind; if
  // it was measured in none, those of another tile.
  const TileRates& tile(Algo algo, int variant, Kind kind) const;

  // The way that was measured to be the fastest of the problem's class; null if none was.
  const MeasuredWay* measured(const Problem& problem) const;
  const std::map<std::string, MeasuredWay>& rows() const { return rows_; }
  void keep(const std::string& problem_class, const MeasuredWay& way) {
    rows_[problem_class] = way;
  }
  void keep(const std::map<std::string, MeasuredWay>& rows) {
    for (const auto& [problem_class, way] : rows) keep(problem_class, way);
  }
  // The same work on another device: what multiplies scales with its peak rates, what waits with
  // its clock, what moves with its memory.
  Rules scaled(const DeviceInfo& from, const DeviceInfo& to) const;

  // The lines of rates, as they were read, of rules that are not the shipped ones.
  std::string own_rates;

 private:
  void fill_gaps();
  static constexpr size_t ALGO_COUNT = std::size(ALL_ALGOS);
  // [rung][variant][kind]
  std::array<std::vector<std::array<TileRates, KIND_COUNT>>, ALGO_COUNT> tiles_;
  ChipRates chip_;
  std::map<std::string, MeasuredWay> rows_;  // by class_of()
};

// The shipped rules of a device: an H100's own, of any other chip the H100's, scaled.
const Rules& shipped_rules(const DeviceInfo& device);

}  // namespace tiled
