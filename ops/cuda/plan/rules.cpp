#include "cuda/plan/rules.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "core/algo.h"
#include "cuda/plan/rung.h"

namespace tiled {
namespace {

constexpr const char* KIND_NAMES[] = {"16bit", "tf32",  "float32", "float64",   "int8",
                                      "int16", "int32", "int64",   "complex64", "complex128"};
static_assert(std::size(KIND_NAMES) == KIND_COUNT);

constexpr const char* H100_RULES =
#include "cuda/plan/rules/h100.rules"
    ;

int place_of(Algo algo) {
  int place = 0;
  for (const Rung* rung : ladder()) {
    if (rung->algo == algo) return place;
    ++place;
  }
  return -1;
}

std::vector<std::string> variants_of(const Rung& rung) {
  return rung.variants != nullptr ? rung.variants() : std::vector<std::string>{"tile"};
}

bool is_known(const TileRates& rates) { return rates.busy > 0; }

}  // namespace

Kind kind_of(const Problem& problem) {
  if (problem.arithmetic == Arithmetic::Tf32) return Kind::Tf32;
  switch (problem.dtype) {
    case DType::Float16:
    case DType::BFloat16: return Kind::Sixteen;
    case DType::Float32: return Kind::Float32;
    case DType::Float64: return Kind::Float64;
    case DType::Int8:
    case DType::UInt8: return Kind::Int8;
    case DType::Int16: return Kind::Int16;
    case DType::Int32: return Kind::Int32;
    case DType::Int64: return Kind::Int64;
    case DType::Complex64: return Kind::Complex64;
    case DType::Complex128: return Kind::Complex128;
  }
  return Kind::Float32;
}

const char* name_of(Kind kind) { return KIND_NAMES[static_cast<int>(kind)]; }

// Lines of
//
//     chip NAME VALUE
//     tile RUNG KIND BUSY LATENCY END START P_MN Q_MN VARIANT
//
// where the variant goes to the end of the line. Others begin with #, the head among them.
Rules Rules::parse(std::string_view text, std::string& error) {
  Rules rules;
  std::vector<std::map<std::string, int, std::less<>>> variants;
  for (const Rung* rung : ladder()) {
    std::map<std::string, int, std::less<>> places;
    int place = 0;  // of several of one name, the first
    for (const std::string& name : variants_of(*rung)) places.emplace(name, place++);
    rules.tiles_.emplace_back(variants_of(*rung).size());
    variants.push_back(std::move(places));
  }
  std::map<std::string, double*, std::less<>> chip = {
#define CHIP_RATE(name, value) {#name, &rules.chip_.name},
#include "cuda/plan/chip_rates.inc"
  };
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, name, kind, variant;
    words >> first;
    if (first.empty()) continue;
    if (first[0] == '#') {
      rules.source += line.substr(std::min<size_t>(2, line.size())) + "\n";
      continue;
    }
    bool is_read = false;
    if (first == "chip") {
      double value = 0;
      is_read = static_cast<bool>(words >> name >> value) && value > 0 && chip.count(name) == 1;
      if (is_read) *chip[name] = value;
    } else if (first == "tile") {
      TileRates r;
      words >> name >> kind >> r.busy >> r.latency >> r.end >> r.start >> r.p_mn >> r.q_mn >>
          std::ws;
      is_read = static_cast<bool>(words) && std::getline(words, variant) && is_known(r);
      const std::optional<Algo> algo = parse_algo(name);
      const auto found = std::find(std::begin(KIND_NAMES), std::end(KIND_NAMES), kind);
      is_read = is_read && algo && place_of(*algo) >= 0 && found != std::end(KIND_NAMES);
      // A tile that no longer exists is left out.
      if (is_read) {
        const auto& places = variants[place_of(*algo)];
        if (const auto place = places.find(variant); place != places.end())
          rules.tiles_[place_of(*algo)][place->second][found - std::begin(KIND_NAMES)] = r;
      }
    }
    if (!is_read) {
      error = "cannot read the line '" + line + "'";
      return rules;
    }
  }
  rules.fill_gaps();
  return rules;
}

void Rules::fill_gaps() {
  const auto fill = [](std::array<TileRates, KIND_COUNT>& kinds, const TileRates& rates) {
    for (TileRates& kind : kinds)
      if (!is_known(kind)) kind = rates;
  };
  for (auto& variants : tiles_) {
    TileRates any = {1e-6, 1e-6, 1e-6, 1e-6, 1, 1};
    for (auto& kinds : variants) {
      const auto known = std::find_if(kinds.begin(), kinds.end(), is_known);
      if (known == kinds.end()) continue;
      any = *known;
      fill(kinds, TileRates(*known));
    }
    for (auto& kinds : variants) fill(kinds, any);
  }
}

const TileRates& Rules::tile(Algo algo, int variant, Kind kind) const {
  return tiles_[place_of(algo)][variant][static_cast<int>(kind)];
}

Rules Rules::scaled(const DeviceInfo& from, const DeviceInfo& to) const {
  Rules rules = *this;
  const double clock = from.clock_hz / to.clock_hz;
  // Seconds of a multiprocessor's multiply-adds; a rate that one of them lacks counts as alike.
  const auto slower = [&](double ours, double theirs) {
    return ours > 0 && theirs > 0 ? ours / from.multiprocessors / (theirs / to.multiprocessors)
                                  : clock;
  };
  const double fp32 = slower(from.fp32_flops, to.fp32_flops);
  const double fp64 = slower(from.fp64_flops, to.fp64_flops);
  const double tensor = slower(from.tensor_flops, to.tensor_flops);
  const Ladder rungs = ladder();
  for (int i = 0; i < rungs.count; ++i)
    for (auto& kinds : rules.tiles_[i])
      for (int kind = 0; kind < KIND_COUNT; ++kind) {
        TileRates& r = kinds[kind];
        const bool is_fp64 =
            kind == static_cast<int>(Kind::Float64) || kind == static_cast<int>(Kind::Complex128);
        r.busy *= on_tensor_cores(rungs.first[i]->algo) && !is_fp64 ? tensor
                  : is_fp64                                         ? fp64
                                                                    : fp32;
        r.latency *= clock, r.end *= clock, r.start *= clock;
      }
  ChipRates& chip = rules.chip_;
  const double memory = to.memory_bandwidth / from.memory_bandwidth;
  const double cache = to.multiprocessors * to.clock_hz / (from.multiprocessors * from.clock_hz);
  chip.copy *= memory, chip.memory *= memory, chip.sums *= cache, chip.cache *= cache;
  return rules;
}

namespace {

// Shipped text has been read by a test.
Rules parsed(const char* text) {
  std::string error;
  Rules rules = Rules::parse(text, error);
  if (!error.empty()) throw std::logic_error("tiled_mm: shipped rules: " + error);
  return rules;
}

}  // namespace

const Rules& shipped_rules(const DeviceInfo& device) {
  static const DeviceInfo h100 = *named_device("h100");
  static const Rules h100_rules = parsed(H100_RULES);
  static std::mutex mutex;
  static std::map<std::array<double, 6>, Rules> scaled;  // by all that they hang on
  if (device.name.find("H100") != std::string::npos &&
      device.multiprocessors == h100.multiprocessors)
    return h100_rules;
  // A device reports its pins' rate, which its data sheet rounds: it counts as the sheet has it.
  for (const std::string& name : device_names()) {
    const DeviceInfo named = *named_device(name);
    const double rate = device.memory_bandwidth / named.memory_bandwidth;
    if (named.name == device.name && named.multiprocessors == device.multiprocessors &&
        named.clock_hz == device.clock_hz && rate != 1 && std::abs(rate - 1) < 0.03)
      return shipped_rules(named);
  }
  const std::lock_guard lock(mutex);
  const std::array<double, 6> key = {static_cast<double>(device.multiprocessors),
                                     device.clock_hz,
                                     device.fp32_flops,
                                     device.fp64_flops,
                                     device.tensor_flops,
                                     device.memory_bandwidth};
  const auto found = scaled.find(key);
  if (found != scaled.end()) return found->second;
  return scaled.emplace(key, h100_rules.scaled(h100, device)).first->second;
}

}  // namespace tiled
