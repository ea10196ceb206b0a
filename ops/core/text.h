// Figures for people, and JSON for programs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tiled {

std::string fixed(double value, int decimals);

// A count with its thousands apart: 262,144.
std::string grouped(double value);

// Three digits: 683, 31.5, 4.36, 0.25. What is below 0.001 shows as 0.
std::string three_digits(double value);

// Two digits and an exponent: 7.6e-06.
std::string scientific(double value);

// With a decimal prefix from nano to peta: 66.9 Tflop/s, 2.05 ms.
std::string with_unit(double value, const std::string& unit);

// A compute capability: "9.0" of 90.
std::string capability_name(int capability);

// The parts with ", " between them.
template <typename Text>
std::string joined(const std::vector<Text>& parts) {
  std::string list;
  for (const Text& part : parts) list.append(list.empty() ? "" : ", ").append(part);
  return list;
}

// An array of JSON, of values that are JSON.
inline std::string array_of(const std::vector<std::string>& values) {
  return "[" + joined(values) + "]";
}

// One object; values come as JSON, numbers that do not exist as null.
class Object {
 public:
  Object& json(std::string_view key, const std::string& value);
  Object& text(std::string_view key, std::string_view value);
  Object& real(std::string_view key, double value);
  Object& count(std::string_view key, int64_t value);
  Object& truth(std::string_view key, bool value);
  std::string str() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

// A string of JSON.
std::string quoted(std::string_view text);

}  // namespace tiled
