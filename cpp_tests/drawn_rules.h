// Rules with numbers drawn at random, so that a test holds whatever they are.
#pragma once

#include <sstream>

#include "cuda/plan/rules.h"
#include "planned.h"

namespace tiled::test {

inline Rules parsed(const std::string& text) {
  std::string error;
  const Rules rules = Rules::parse(text, error);
  EXPECT_EQ(error, "");
  return rules;
}

// Numbers for every tile in every kind.
inline Rules drawn_rules(std::mt19937_64& random) {
  const auto number = [&] { return static_cast<double>(1 + random() % 1000) * 1e-8; };
  std::ostringstream text;
  for (const Rung* rung : ladder())
    for (const std::string& variant : variants_of(*rung))
      for (int kind = 0; kind < KIND_COUNT; ++kind) {
        text << "tile " << name_of(rung->algo) << ' ' << name_of(static_cast<Kind>(kind));
        for (int i = 0; i < 4; ++i) text << ' ' << number();
        text << " 1.1 0.9 " << variant << '\n';
      }
  return parsed(text.str());
}

}  // namespace tiled::test
