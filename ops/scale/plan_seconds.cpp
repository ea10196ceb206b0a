// The time that a plan takes.
#include "scale/plan_seconds.h"

#include <algorithm>
#include <vector>

#include "core/segments.h"
#include "scale/slots.h"

namespace tiled::scale {
namespace {

constexpr double CALL_SECONDS = 10e-6;  // a product's launch and its first steps
constexpr double LINK_PRICE = 0.05;     // of a second on the link: others want it too

// The share of the link's rate that a matrix crosses it at. Rows that are apart in the host's
// memory are slower than one piece: 0.6 to 1 of its rate on an H200's host, the less the farther
// apart they are, and below a KiB less again.
constexpr double share_of_link(int64_t along, int64_t whole, int64_t element_bytes) {
  constexpr double APART = 0.7, SHORT = 128;  // of the rate; bytes
  if (along == whole) return 1;
  const double width = static_cast<double>(along * element_bytes);
  return APART * width / (width + SHORT);
}

// Bytes/s of blocks of A, of B, and of tiles of C.
struct Crossing {
  double a, b, c;
};

Crossing crossing_of(const Plan& plan, const Task& t, const Rates& rates) {
  const auto share = [&](bool along_first, int64_t first, int64_t whole_first, int64_t second,
                         int64_t whole_second, int64_t bytes) {
    return along_first ? share_of_link(first, whole_first, bytes)
                       : share_of_link(second, whole_second, bytes);
  };
  return {
      rates.to_device * share(t.a_along_k, plan.block_k, t.k, plan.block_m, t.m, t.element_bytes),
      rates.to_device * share(t.b_along_k, plan.block_k, t.k, plan.block_n, t.n, t.element_bytes),
      rates.to_host * share(t.c_along_n, plan.block_n, t.n, plan.block_m, t.m, t.result_bytes)};
}

double price_of(double seconds, double bytes_in, const Rates& rates) {
  return seconds + LINK_PRICE * bytes_in / rates.to_device;
}

}  // namespace

double price_of(const Plan& plan, const Rates& rates) {
  return price_of(plan.seconds, plan.bytes_in, rates);
}

double product_seconds(const Plan& plan, const Task& task, const Rates& rates,
                       double seconds_of_one) {
  const double tile = static_cast<double>(plan.block_m) * plan.block_n;
  const double least = task.flops / rates.flops * (tile / task.m / task.n * plan.block_k / task.k);
  if (!plan.keeps_parts) return CALL_SECONDS + std::max(least, seconds_of_one);
  // A segment's sums and the totals are read, the totals written.
  const double segments = static_cast<double>(plan.block_k) / SEGMENT_K;
  const double additions = 3 * tile * task.sum_bytes / rates.memory;
  return CALL_SECONDS + std::max(least, segments * seconds_of_one) + segments * additions;
}

// By the formulas of plan.h, of which the streaming blocks are taken off that are still there when
// the next group begins.
double least_price(const Plan& plan, const Task& task, const Rates& rates) {
  const Crossing rate = crossing_of(plan, task, rates);
  const double row = static_cast<double>(task.k) * task.element_bytes;
  const double a = task.m * row, b = task.n * row;
  const auto streamed = [&](int64_t staying, double streams, int64_t block) {
    const double groups = divided(staying, plan.group);
    return groups * streams - (groups - 1) * std::min(streams, STREAM_SLOTS * block * row);
  };
  double in_a = plan.tiles_n * a, in_b = plan.tiles_m * b;
  if (!task.maps && plan.stays == Stays::A)
    in_a = a, in_b = streamed(plan.tiles_m, b, plan.block_n);
  if (!task.maps && plan.stays == Stays::B)
    in_b = b, in_a = streamed(plan.tiles_n, a, plan.block_m);
  const double full = static_cast<double>(task.m / plan.block_m) * (task.n / plan.block_n) *
                      (task.k / plan.block_k);
  const double busy = full * plan.product_seconds;
  const double out = static_cast<double>(task.m) * task.n * task.result_bytes;
  // Before the products the first blocks come, after them the last tile goes; a smaller one, maybe.
  const double last = static_cast<double>(task.m - (plan.tiles_m - 1) * plan.block_m) *
                      (task.n - (plan.tiles_n - 1) * plan.block_n) * task.result_bytes;
  const double depth = static_cast<double>(plan.block_k) * task.element_bytes;
  const double first =
      task.maps ? 0 : plan.block_m * depth / rate.a + plan.block_n * depth / rate.b;
  const double least =
      std::max({(busy + first) / task.devices, (in_a / rate.a + in_b / rate.b) / task.devices,
                (first + out / rate.c) / task.devices, first + last / rate.c});
  return price_of(least, in_a + in_b, rates) * (1 - 1e-9);
}

bool simulate(Plan& plan, const Task& task, const Rates& rates, double limit) {
  Slots a_slots(plan.slots_a), b_slots(plan.slots_b);
  std::vector<double> a_there(plan.slots_a), a_free(plan.slots_a), b_there(plan.slots_b),
      b_free(plan.slots_b), c_free(plan.slots_c);
  double in = 0, products = 0, out = 0;
  plan.bytes_in = 0;
  const int64_t share = divided(plan.tiles(), task.devices);
  // How many products are still to come, counted in full blocks; not read where several devices
  // share them.
  double rest =
      static_cast<double>(task.m) / plan.block_m * task.n / plan.block_n * task.k / plan.block_k;
  const double full = plan.product_seconds;
  const Crossing rate = crossing_of(plan, task, rates);
  for (int64_t index = 0; index < plan.tiles(); ++index) {
    const Tile tile = tile_at(plan, index);
    const int64_t rows = std::min(plan.block_m, task.m - tile.i * plan.block_m);
    const int64_t columns = std::min(plan.block_n, task.n - tile.j * plan.block_n);
    double& place = c_free[index % plan.slots_c];
    products = std::max(products, place);
    for (int64_t step = 0; step < plan.steps_k; ++step) {
      const int64_t depth = std::min(plan.block_k, task.k - step * plan.block_k);
      const auto come = [&](Slots::Found found, int64_t elements, double bytes_a_second,
                            std::vector<double>& there, const std::vector<double>& free) {
        if (found.there && !task.maps) return;
        in = std::max(in, free[found.slot]) + elements * task.element_bytes / bytes_a_second;
        there[found.slot] = in;
        plan.bytes_in += elements * task.element_bytes;
      };
      const Slots::Found a = a_slots.take(tile.i * plan.steps_k + step);
      const Slots::Found b = b_slots.take(tile.j * plan.steps_k + step);
      come(a, rows * depth, rate.a, a_there, a_free);
      come(b, columns * depth, rate.b, b_there, b_free);
      const double part =
          static_cast<double>(rows) / plan.block_m * columns / plan.block_n * depth / plan.block_k;
      products = std::max({products, a_there[a.slot], b_there[b.slot]}) + full * part;
      a_free[a.slot] = b_free[b.slot] = products;
      rest -= part;
    }
    const double more = task.devices == 1 ? full * rest : 0;
    if (index < share && products + more > limit) return false;
    place = out = std::max(out, products) + rows * columns * task.result_bytes / rate.c;
    // Devices that share the tiles out equally are done with their last ones together.
    if (index < share) plan.seconds = out;
  }
  plan.bytes_out = task.m * task.n * task.result_bytes;
  plan.seconds_in = plan.bytes_in / rates.to_device;
  plan.seconds_out = plan.bytes_out / rates.to_host;
  plan.seconds_flops = task.flops / rates.flops;
  return true;
}

}  // namespace tiled::scale
