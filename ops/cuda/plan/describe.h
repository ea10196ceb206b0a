// What rungs say of their plans alike, for reports.
#pragma once

#include <string>
#include <vector>

#include "core/text.h"
#include "cuda/plan/rung.h"

namespace tiled {

// What reports say of plans whose segments of K are shared out, if they are.
inline void describe_sharing(Description& d, bool shares_segments) {
  if (shares_segments)
    d.lines.emplace_back("shares", "segments of K among blocks, adds their sums");
  d.json.emplace_back("shares_segments", shares_segments ? "true" : "false");
}

// Null for neither.
constexpr const char* names_of_operands(bool a, bool b) {
  return a && b ? "A and B" : a ? "A" : b ? "B" : nullptr;
}

// The beginning of what explain() says of a way that has been estimated.
inline std::string text_of(const NamedWay& way, double cycles) {
  return way.tile + (way.exchanged ? ", exchanged" : "") +
         (way.share_segments ? ", segments shared out: " : ": ") + grouped(cycles) + " cycles; ";
}

// Every way that the rung has for the problem, with the model's figures: explain()'s ways, among
// which the chosen one is known by its name, and an array of plan()'s.
class WayList {
 public:
  WayList(Description& description, NamedWay chosen)
      : description_(description), chosen_(std::move(chosen)) {}

  // `text` is what there is to say beside the way's name and its cycles.
  void add(const NamedWay& way, double cycles, const std::string& text, const Object& figures) {
    description_.ways.push_back({cycles, text_of(way, cycles) + text, way == chosen_});
    objects_.push_back(figures.str());
  }
  std::string json() const { return array_of(objects_); }

 private:
  Description& description_;
  NamedWay chosen_;
  std::vector<std::string> objects_;
};

}  // namespace tiled
