// A plan for people and for programs.
#pragma once

#include <string>

#include "scale/plan.h"

namespace tiled::scale {

struct Report {
  Task task;
  Rates rates;  // of one device
  Plan plan;
  std::string device, dtype, arithmetic;
  int64_t devices;
  int64_t memory;  // that each may use
};

std::string to_text(const Report& report);

// One JSON object: device, devices, dtype, arithmetic, m, n, k, memory; stays ("a", "b" or "c"),
// tile {m, n, k}, tiles {m, n, count}, steps_k, group, slots {a, b, c}, device_bytes,
// workspace_bytes; bytes_in, bytes_out, compulsory_bytes_in; rates {to_device, to_host, flops};
// seconds {in, out, flops, estimate}; bound ("link in", "link out" or "arithmetic").
std::string to_json(const Report& report);

}  // namespace tiled::scale
