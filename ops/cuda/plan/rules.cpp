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

constexpr const char* KIND_NAMES[] = {"16bit", "tf32",  "float32",   "float64",    "int8", "int16",
                                      "int32", "int64", "complex64", "complex128", "fp8"};
static_assert(std::size(KIND_NAMES) == KIND_COUNT);

constexpr const char* H100_RULES =
#include "h100_rules.inc"  // rules/h100.rules
    ;

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
    case DType::Float8E4M3FN:
    case DType::Float8E5M2: return Kind::Fp8;
  }
  return Kind::Float32;
}

const char* name_of(Kind kind) { return KIND_NAMES[static_cast<int>(kind)]; }

// Lines of
//
//     chip NAME VALUE
//     tile RUNG KIND BUSY LATENCY END START P_MN Q_MN VARIANT
//     row CLASS WAY
//
// where the variant and the way go to the end of the line (class_of(), text_of() of measured.h).
// Others begin with #, or are of a file's frame, which current_rules.cpp looks at.
Rules Rules::parse(std::string_view text, std::string& error) {
  Rules rules;
  std::map<Algo, std::map<std::string, int, std::less<>>> variants;
  for (const Rung* rung : ladder()) {
    int place = 0;  // of several of one name, the first
    for (const std::string& name : variants_of(*rung)) variants[rung->algo].emplace(name, place++);
    rules.tiles_[static_cast<size_t>(rung->algo)].resize(place);
  }
  std::map<std::string, double*, std::less<>> chip = {
#define CHIP_RATE(name, value) {#name, &rules.chip_.name},
#include "cuda/plan/chip_rates.inc"
  };
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::istringstream words(line);
    std::string first, name, kind, variant;
    words >> first;
    if (first.empty() || first[0] == '#' || first == "tiled_mm" || first == "device" ||
        first == "ways" || first == "lines")
      continue;
    bool is_read = false;
    if (first == "chip") {
      double value = 0;
      is_read = static_cast<bool>(words >> name >> value) && value > 0 && chip.count(name) == 1 &&
                !(words >> variant);
      if (is_read) *chip[name] = value;
    } else if (first == "tile") {
      TileRates r;
      words >> name >> kind;
      is_read = true;
      for (double* number : {&r.busy, &r.latency, &r.end, &r.start, &r.p_mn, &r.q_mn})
        is_read = is_read && words >> *number && *number > 0;
      is_read = is_read && std::getline(words >> std::ws, variant);
      const std::optional<Algo> algo = parse_algo(name);
      const auto found = std::find(std::begin(KIND_NAMES), std::end(KIND_NAMES), kind);
      is_read = is_read && algo && variants.count(*algo) == 1 && found != std::end(KIND_NAMES);
      if (is_read) {  // a tile that no longer exists is left out
        const auto place = variants[*algo].find(variant);
        if (place != variants[*algo].end())
          rules.tiles_[static_cast<size_t>(*algo)][place->second][found - std::begin(KIND_NAMES)] =
              r;
      }
    } else if (first == "row") {
      const bool has_way = words >> name && std::getline(words >> std::ws, variant);
      const std::optional<MeasuredWay> way = has_way ? read_way(variant) : std::nullopt;
      is_read = way.has_value();
      if (is_read) rules.keep(name, *way);
    }
    if (is_read && first != "row") rules.own_rates += line + "\n";
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

const MeasuredWay* Rules::measured(const Problem& problem) const {
  if (rows_.empty()) return nullptr;
  const auto row = rows_.find(class_of(problem));
  return row == rows_.end() ? nullptr : &row->second;
}

const TileRates& Rules::tile(Algo algo, int variant, Kind kind) const {
  return tiles_[static_cast<size_t>(algo)][variant][static_cast<int>(kind)];
}

namespace {

// The peak of what a rung multiplies elements of this kind with.
double peak_of(Algo algo, Kind kind, const DeviceInfo& device) {
  const bool on_tensors = on_tensor_cores(algo);
  switch (kind) {
    case Kind::Sixteen:
    case Kind::Tf32:
    case Kind::Fp8:
    case Kind::Int8: return on_tensors ? device.tensor_flops : device.fp32_flops;
    case Kind::Float64:
      return on_tensors && device.fp64_tensor_flops > 0 ? device.fp64_tensor_flops
                                                        : device.fp64_flops;
    case Kind::Complex128: return device.fp64_flops;
    case Kind::Float32: return algo == Algo::Fp16x3 ? device.tensor_flops : device.fp32_flops;
    default: return device.fp32_flops;
  }
}

// How many times as long work takes at one rate as at another; alike where one is not known.
double times_as_long(double rate, double other) { return rate > 0 && other > 0 ? rate / other : 1; }

}  // namespace

Rules Rules::scaled(const DeviceInfo& from, const DeviceInfo& to) const {
  Rules rules = *this;
  const double clock = times_as_long(from.clock_hz, to.clock_hz);
  const double wider = static_cast<double>(to.all_multiprocessors()) / from.all_multiprocessors();
  for (const Rung* rung : ladder())
    for (auto& kinds : rules.tiles_[static_cast<size_t>(rung->algo)])
      for (int k = 0; k < KIND_COUNT; ++k) {
        const Kind kind = static_cast<Kind>(k);
        TileRates& r = kinds[k];
        r.busy *=
            wider * times_as_long(peak_of(rung->algo, kind, from), peak_of(rung->algo, kind, to));
        r.latency *= clock, r.end *= clock, r.start *= clock;
      }
  ChipRates& chip = rules.chip_;
  const double memory = times_as_long(from.memory_bandwidth, to.memory_bandwidth);
  chip.copy /= memory, chip.memory /= memory;
  chip.cache *= wider / clock, chip.pair_load /= clock, chip.pair_memory /= clock;
  chip.line *= clock, chip.store *= clock, chip.spread *= clock;
  return rules;
}

namespace {

// Shipped text has been read by a test.
Rules parsed(const char* text) {
  std::string error;
  Rules rules = Rules::parse(text, error);
  if (!error.empty()) throw std::logic_error("tiled_mm: shipped rules: " + error);
  rules.own_rates.clear();
  return rules;
}

}  // namespace

const Rules& shipped_rules(const DeviceInfo& device) {
  static const DeviceInfo h100 = *named_device("h100");
  static const Rules h100_rules = parsed(H100_RULES);
  static std::mutex mutex;
  static std::map<std::array<double, 6>, Rules> scaled;  // by all that they hang on
  if (device.name.find("H100") != std::string::npos &&
      device.all_multiprocessors() == h100.multiprocessors)
    return h100_rules;
  // A device reports its pins' rate, which its data sheet rounds: it counts as the sheet has it.
  for (const std::string& name : device_names()) {
    const DeviceInfo named = *named_device(name);
    const double rate = device.memory_bandwidth / named.memory_bandwidth;
    if (named.name == device.name && named.multiprocessors == device.all_multiprocessors() &&
        named.clock_hz == device.clock_hz && rate != 1 && std::abs(rate - 1) < 0.03)
      return shipped_rules(named);
  }
  const std::lock_guard lock(mutex);
  const std::array<double, 6> key = {static_cast<double>(device.all_multiprocessors()),
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
