#include "core/text.h"

#include <cmath>
#include <iomanip>
#include <limits>
#include <locale>
#include <sstream>

namespace tiled {
namespace {

std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  std::ostringstream text;
  text.imbue(std::locale::classic());  // a decimal point, whatever the program's locale
  text.precision(std::numeric_limits<double>::max_digits10);
  text << value;
  return text.str();
}

}  // namespace

std::string fixed(double value, int decimals) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << std::fixed << std::setprecision(decimals) << value;
  return text.str();
}

std::string grouped(double value) {
  std::string digits = fixed(value, 0);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string three_digits(double value) {
  if (!std::isfinite(value)) return "-";
  if (value >= 999.5) return grouped(value);
  if (value >= 99.95) return fixed(value, 0);
  if (value >= 9.995) return fixed(value, 1);
  return fixed(value, value >= 0.1 || value == 0 ? 2 : 3);
}

std::string scientific(double value) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << std::scientific << std::setprecision(1) << value;
  return text.str();
}

std::string with_unit(double value, const std::string& unit) {
  if (!std::isfinite(value)) return "-";
  constexpr const char* PREFIXES[] = {"n", "u", "m", "", "k", "M", "G", "T", "P"};
  constexpr int LAST = 8;
  int prefix = 3;
  while (value >= 999.5 && prefix < LAST) value /= 1000, ++prefix;
  while (value > 0 && value < 0.9995 && prefix > 0) value *= 1000, --prefix;
  return three_digits(value) + " " + PREFIXES[prefix] + unit;
}

std::string capability_name(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    // A control character is in no name; a space keeps the JSON valid if one ever is.
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + "\"";
}

Object& Object::json(std::string_view key, const std::string& value) {
  text_ += (text_.empty() ? "" : ", ") + quoted(key) + ": " + value;
  return *this;
}
Object& Object::text(std::string_view key, std::string_view value) {
  return json(key, quoted(value));
}
Object& Object::real(std::string_view key, double value) { return json(key, number(value)); }
Object& Object::count(std::string_view key, int64_t value) {
  return json(key, std::to_string(value));
}
Object& Object::truth(std::string_view key, bool value) {
  return json(key, value ? "true" : "false");
}

}  // namespace tiled
