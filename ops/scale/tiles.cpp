#include "scale/tiles.h"

#include <algorithm>

namespace tiled::scale {

Tiles::Tiles(const Plan& plan, int64_t devices) : plan_(plan) {
  runs_.reserve(plan.tiles() + devices);  // a run that is split adds one, of a device without any
  for (int64_t index = 0; index < plan.tiles(); ++index) {
    if (runs_.empty() || tile_at(plan, index).group != tile_at(plan, runs_.back().next).group)
      runs_.push_back({index, index, -1});
    runs_.back().end = index + 1;
  }
}

Tiles::Run* Tiles::run_for(int64_t device) {
  Run* longest = nullptr;
  Run* untouched = nullptr;
  for (Run& run : runs_) {
    if (run.next == run.end) continue;
    if (run.device == device) return &run;
    if (run.device < 0 && !untouched) untouched = &run;
    if (!longest || run.end - run.next > longest->end - longest->next) longest = &run;
  }
  if (untouched) {
    untouched->device = device;
    return untouched;
  }
  if (!longest) return nullptr;
  // Where a streaming block changes, if there is such a place in the later half.
  const int64_t column = tiles_of_a_column(plan_, longest->next);
  const int64_t half = (longest->end - longest->next) / 2;
  const int64_t rounded = half / column * column;
  const int64_t begin = longest->end - std::max<int64_t>(rounded > 0 ? rounded : half, 1);
  const Run stolen{begin, longest->end, device};
  longest->end = begin;
  const auto is_done = [](const Run& run) { return run.next == run.end; };
  runs_.erase(std::remove_if(runs_.begin(), runs_.end(), is_done), runs_.end());
  runs_.push_back(stolen);
  return &runs_.back();
}

std::optional<int64_t> Tiles::take(int64_t device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Run* run = run_for(device);
  if (!run) return std::nullopt;
  return run->next++;
}

}  // namespace tiled::scale
