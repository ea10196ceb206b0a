// Lines that reports of the GPU's and of the CPU's products have in common.
#pragma once

#include <iomanip>
#include <sstream>
#include <string>

#include "core/problem.h"

namespace tiled {

// One line of a table: a name and what there is to say.
inline std::string line(const std::string& name, const std::string& text) {
  std::ostringstream out;
  out << "  " << std::left << std::setw(11) << name << ' ' << text << '\n';
  return out.str();
}

// C, A and B with their sizes, and their dtypes.
inline std::string problem_text(const Problem& p) {
  const std::string batch = p.batch == 1 ? "" : std::to_string(p.batch) + ", ";
  const auto matrix = [&](int64_t rows, int64_t columns) {
    return "[" + batch + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  };
  std::string text = "C" + matrix(p.m, p.n) + " = A" + matrix(p.m, p.k) + " B" + matrix(p.k, p.n) +
                     ", " + name_of(p.dtype);
  if (is_scaled(p)) text += std::string(" by ") + name_of(p.scales.b_dtype);
  if (p.epilogue.out_dtype != p.dtype) text += std::string(" to ") + name_of(p.epilogue.out_dtype);
  if (is_scaled(p))
    text += std::string(", scaled ") + name_of(p.scales.a.scaling) + " and " +
            name_of(p.scales.b.scaling);
  return text;
}

}  // namespace tiled
