#include "cuda/plan/current_rules.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>

#include "core/text.h"
#include "cuda/plan/rung.h"

namespace tiled {
namespace {

constexpr const char* FIRST_LINE = "tiled_mm rules 1";

// By what a device is known by.
std::string key_of(const DeviceInfo& device) {
  return std::to_string(device.capability) + ' ' + std::to_string(device.all_multiprocessors()) +
         ' ' + device.name;
}

std::mutex mutex;
std::map<std::string, std::shared_ptr<const Rules>>& changed() {
  static std::map<std::string, std::shared_ptr<const Rules>> rules;
  return rules;
}
std::atomic<int64_t> version{1};

std::shared_ptr<const Rules> rules_of(const DeviceInfo& device) {  // the mutex is held
  const auto found = changed().find(key_of(device));
  if (found != changed().end()) return found->second;
  return {std::shared_ptr<const Rules>(), &shipped_rules(device)};  // it lives forever
}

void replace(const DeviceInfo& device, Rules rules) {  // the mutex is held
  changed()[key_of(device)] = std::make_shared<const Rules>(std::move(rules));
  version.fetch_add(1, std::memory_order_relaxed);
}

constexpr int64_t CHIP_RATES = 0
#define CHIP_RATE(name, value) +1
#include "cuda/plan/chip_rates.inc"
    ;

// A number of the rungs' names and their variants: FNV-1a, 64 bits (Fowler, Noll and Vo).
std::string table_of_ways() {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    hash = (hash ^ '\n') * 0x100000001b3u;
  };
  for (const Rung* rung : ladder()) {
    add(name_of(rung->algo));
    if (rung->variants != nullptr)
      for (const std::string& name : rung->variants()) add(name);
  }
  std::ostringstream text;
  text << std::hex << hash;
  return text.str();
}

}  // namespace

std::shared_ptr<const Rules> current_rules(const DeviceInfo& device) {
  const std::lock_guard lock(mutex);
  return rules_of(device);
}

int64_t rules_version() { return version.load(std::memory_order_relaxed); }

void keep_measured(const DeviceInfo& device, const std::string& problem_class,
                   const MeasuredWay& way) {
  const std::lock_guard lock(mutex);
  Rules rules = *rules_of(device);
  rules.keep(problem_class, way);
  replace(device, std::move(rules));
}

void forget_rules() {
  const std::lock_guard lock(mutex);
  changed().clear();
  version.fetch_add(1, std::memory_order_relaxed);
}

void use_rules(const DeviceInfo& device, const Rules& rules) {
  const std::lock_guard lock(mutex);
  const std::shared_ptr<const Rules> known = rules_of(device);
  Rules result = rules.own_rates.empty() ? *known : rules;
  result.keep(known->rows());
  result.keep(rules.rows());
  replace(device, std::move(result));
}

std::string rules_file(const DeviceInfo& device, const Rules& rules) {
  std::ostringstream text;
  text << FIRST_LINE << "\ndevice " << key_of(device) << "\nways " << table_of_ways() << '\n'
       << rules.own_rates;
  for (const auto& [problem_class, way] : rules.rows())
    text << "row " << problem_class << ' ' << text_of(way) << '\n';
  const std::string body = text.str();
  return body + "lines " + std::to_string(std::count(body.begin(), body.end(), '\n')) + '\n';
}

std::string read_rules_file(const std::string& text, const std::vector<DeviceInfo>& devices,
                            DeviceInfo& device, Rules& rules) {
  std::istringstream lines(text);
  std::string line, made_on, ways;
  int64_t count = 0, expected = -1, chip = 0;
  const auto rest_of = [&](std::string_view word) {
    return line.compare(0, word.size(), word) == 0 ? line.substr(word.size()) : std::string();
  };
  while (expected < 0 && std::getline(lines, line)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (count == 0 && line != FIRST_LINE)
      return rest_of("tiled_mm rules ").empty()
                 ? "it is no rules file"
                 : "it is of another version ('" + line + "', this is '" + FIRST_LINE + "')";
    if (const std::string rest = rest_of("device "); !rest.empty())
      made_on = rest;
    else if (const std::string hash = rest_of("ways "); !hash.empty())
      ways = hash;
    else if (const std::string number = rest_of("lines "); !number.empty())
      expected = std::atoll(number.c_str());
    chip += !rest_of("chip ").empty();
    ++count;
  }
  if (expected != count - 1) return "it is damaged: its last line does not count its lines";
  if (ways != table_of_ways())
    return "it was made by another version of the library, whose ways are not this one's; measure "
           "again";
  if (chip != 0 && chip != CHIP_RATES)
    return "its numbers of the chip were fitted by another version of the formula; fit them again";
  const auto found = std::find_if(devices.begin(), devices.end(),
                                  [&](const DeviceInfo& d) { return key_of(d) == made_on; });
  if (found == devices.end()) {
    std::vector<std::string> known;
    for (const DeviceInfo& d : devices) known.push_back("'" + key_of(d) + "'");
    return "it was made on another device (compute capability, multiprocessors, name: '" + made_on +
           "'; here: " + joined(known) + ")";
  }
  std::string error;
  rules = Rules::parse(text, error);
  if (!error.empty()) return "it is damaged: " + error;
  device = *found;
  return "";
}

}  // namespace tiled
