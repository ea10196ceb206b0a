#include "scale/plan.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/segments.h"
#include "scale/memory.h"
#include "scale/slots.h"

namespace tiled::scale {
namespace {

constexpr int64_t LEAST_SIDE = 16;  // of a block, unless the matrix is smaller
constexpr int64_t GROUPS[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};  // blocks that stay
constexpr int64_t STREAM_SLOTS = 2;      // one block is used while the next comes
constexpr int64_t RESULT_SLOTS = 2;      // one tile is computed while the last goes
constexpr double CALL_SECONDS = 10e-6;   // a product's launch and its first steps
constexpr int64_t MANY_PRODUCTS = 5000;  // no better plan is looked for among such
constexpr double LINK_PRICE = 0.05;      // of a second on the link: others want it too

int64_t divided(int64_t x, int64_t by) { return (x + by - 1) / by; }

// Sides that a block may have: all of it, or a power of two or one and a half of it.
std::vector<int64_t> sides(int64_t size) {
  std::vector<int64_t> found;
  for (int64_t side = LEAST_SIDE; side < size; side *= 2) {
    found.push_back(side);
    if (side + side / 2 < size) found.push_back(side + side / 2);
  }
  found.push_back(size);
  std::reverse(found.begin(), found.end());  // few tiles first: soon done, and often good
  return found;
}

// Counts and bytes of what stands in the plan so far.
void fill(Plan& plan, const Task& task, const Workspace& workspace) {
  plan.workspace_bytes = 0;
  plan.tiles_m = divided(task.m, plan.block_m);
  plan.tiles_n = divided(task.n, plan.block_n);
  plan.steps_k = divided(task.k, plan.block_k);
  plan.slots_c = std::min(RESULT_SLOTS, plan.tiles());
  plan.keeps_parts = plan.steps_k > 1;
  plan.keeps_totals = plan.keeps_parts && task.sum_bytes != task.result_bytes;
  // Where C stays, products are of one segment each.
  const int64_t product_k = plan.keeps_parts ? SEGMENT_K : task.k;
  // The last tiles of rows and columns are smaller, and may be computed another way.
  const int64_t last_m = task.m - (plan.tiles_m - 1) * plan.block_m;
  const int64_t last_n = task.n - (plan.tiles_n - 1) * plan.block_n;
  const int64_t last_k = task.k - (divided(task.k, product_k) - 1) * product_k;
  for (const int64_t m : {plan.block_m, last_m})
    for (const int64_t n : {plan.block_n, last_n})
      for (const int64_t k : {product_k, last_k})
        plan.workspace_bytes = std::max(plan.workspace_bytes, workspace(m, n, k));
  const auto bytes = [](bool along_first, int64_t first, int64_t second, int64_t size) {
    return in_a_row(bytes_of(along_first ? first : second, along_first ? second : first, size));
  };
  const int64_t blocks =
      plan.slots_a * bytes(task.a_along_k, plan.block_k, plan.block_m, task.element_bytes) +
      plan.slots_b * bytes(task.b_along_k, plan.block_k, plan.block_n, task.element_bytes);
  const auto tile = [&](int64_t size) {
    return bytes(task.c_along_n, plan.block_n, plan.block_m, size);
  };
  const int64_t sums = int64_t{plan.keeps_parts} + int64_t{plan.keeps_totals};
  plan.matrix_bytes = (task.maps ? 0 : blocks) + plan.slots_c * tile(task.result_bytes) +
                      sums * tile(task.sum_bytes);
  plan.device_bytes =
      allocated_at_most(plan.matrix_bytes) + allocated_at_most(plan.workspace_bytes);
}

// Of one product of the plan's full blocks.
double product_seconds(const Plan& plan, const Task& task, const Rates& rates) {
  // What the device takes at a time it takes as long for if there is less of it.
  const double tile = static_cast<double>(plan.block_m) * plan.block_n;
  const double waves = std::ceil(tile / rates.at_once) * rates.at_once / tile;
  const double share = tile / task.m / task.n * plan.block_k / task.k;
  // A segment's sums and the totals are read, the totals written.
  const double additions =
      plan.keeps_parts ? 3 * tile * task.sum_bytes * (plan.block_k / SEGMENT_K) / rates.memory : 0;
  return CALL_SECONDS + task.flops / rates.flops * share * waves + additions;
}

// What a plan costs by its clocks.
double price_of(double seconds, double bytes_in, const Rates& rates) {
  return seconds + LINK_PRICE * bytes_in / rates.to_device;
}
double price_of(const Plan& plan, const Rates& rates) {
  return price_of(plan.seconds, plan.bytes_in, rates);
}

// A plan costs no less than this, by the formulas of plan.h, of which the streaming blocks are
// taken off that are still there when the next group begins.
double least_price(const Plan& plan, const Task& task, const Rates& rates) {
  const double row = static_cast<double>(task.k) * task.element_bytes;
  const double a = task.m * row, b = task.n * row;
  const auto passing = [&](double stays, int64_t blocks, double streams, int64_t block) {
    const double groups = divided(blocks, plan.group);
    return stays + groups * streams - (groups - 1) * std::min(streams, STREAM_SLOTS * block * row);
  };
  const double in = task.maps || plan.stays == Stays::C ? plan.tiles_n * a + plan.tiles_m * b
                    : plan.stays == Stays::A            ? passing(a, plan.tiles_m, b, plan.block_n)
                                                        : passing(b, plan.tiles_n, a, plan.block_m);
  const double full = static_cast<double>(task.m / plan.block_m) * (task.n / plan.block_n) *
                      (task.k / plan.block_k);
  const double busy = full * product_seconds(plan, task, rates);
  const double out = static_cast<double>(task.m) * task.n * task.result_bytes;
  // Before the products the first blocks come, after them the last tile goes; a smaller one, maybe.
  const double last = static_cast<double>(task.m - (plan.tiles_m - 1) * plan.block_m) *
                      (task.n - (plan.tiles_n - 1) * plan.block_n) * task.result_bytes;
  const double first = task.maps ? 0
                                 : (plan.block_m + plan.block_n) *
                                       static_cast<double>(plan.block_k) * task.element_bytes;
  const double least = std::max({(busy + first / rates.to_device) / task.devices,
                                 in / rates.to_device / task.devices,
                                 (first / rates.to_device + out / rates.to_host) / task.devices,
                                 first / rates.to_device + last / rates.to_host});
  return price_of(least, in, rates) * (1 - 1e-9);
}

// Goes through the plan as the engine does, with a clock for the link each way and one for the
// arithmetic: a block comes when the link is free and the place's last product is done; a product
// begins when its blocks are there and a place for its tile is free.
void simulate(Plan& plan, const Task& task, const Rates& rates) {
  Slots a_slots(plan.slots_a), b_slots(plan.slots_b);
  std::vector<double> a_there(plan.slots_a), a_free(plan.slots_a), b_there(plan.slots_b),
      b_free(plan.slots_b), c_free(plan.slots_c);
  double in = 0, products = 0, out = 0;
  plan.bytes_in = 0;
  const int64_t share = divided(plan.tiles(), task.devices);
  const double full = product_seconds(plan, task, rates);
  for (int64_t index = 0; index < plan.tiles(); ++index) {
    const Tile tile = tile_at(plan, index);
    const int64_t rows = std::min(plan.block_m, task.m - tile.i * plan.block_m);
    const int64_t columns = std::min(plan.block_n, task.n - tile.j * plan.block_n);
    double& place = c_free[index % plan.slots_c];
    products = std::max(products, place);
    for (int64_t step = 0; step < plan.steps_k; ++step) {
      const int64_t depth = std::min(plan.block_k, task.k - step * plan.block_k);
      const auto come = [&](Slots::Found found, int64_t elements, std::vector<double>& there,
                            const std::vector<double>& free) {
        if (found.there && !task.maps) return;
        in = std::max(in, free[found.slot]) + elements * task.element_bytes / rates.to_device;
        there[found.slot] = in;
        plan.bytes_in += elements * task.element_bytes;
      };
      const Slots::Found a = a_slots.take(tile.i * plan.steps_k + step);
      const Slots::Found b = b_slots.take(tile.j * plan.steps_k + step);
      come(a, rows * depth, a_there, a_free);
      come(b, columns * depth, b_there, b_free);
      const double part =
          static_cast<double>(rows) / plan.block_m * columns / plan.block_n * depth / plan.block_k;
      products = std::max({products, a_there[a.slot], b_there[b.slot]}) + full * part;
      a_free[a.slot] = b_free[b.slot] = products;
    }
    place = out = std::max(out, products) + rows * columns * task.result_bytes / rates.to_host;
    // Devices that share the tiles out equally are done with their last ones together.
    if (index < share) plan.seconds = out;
  }
  plan.bytes_out = task.m * task.n * task.result_bytes;
  plan.seconds_in = plan.bytes_in / rates.to_device;
  plan.seconds_out = plan.bytes_out / rates.to_host;
  plan.seconds_flops = task.flops / rates.flops;
}

class Search {
 public:
  Search(const Task& task, const Rates& rates, int64_t memory, const Workspace& workspace)
      : task_(task), rates_(rates), memory_(memory), workspace_(workspace) {}

  std::optional<Plan> best() {
    for (const int64_t block_m : sides(task_.m)) {
      for (const int64_t block_n : sides(task_.n)) {
        whole_k(Stays::A, block_m, block_n);
        whole_k(Stays::B, block_m, block_n);
        if (task_.cuts_k) pieces_of_k(block_m, block_n);
      }
    }
    return best_;
  }

 private:
  // More places than blocks of a group let the next group's blocks come early.
  void whole_k(Stays stays, int64_t block_m, int64_t block_n) {
    Plan plan{};
    plan.stays = stays;
    plan.block_m = block_m, plan.block_n = block_n, plan.block_k = task_.k;
    const bool a_stays = stays == Stays::A;
    const int64_t staying = a_stays ? divided(task_.m, block_m) : divided(task_.n, block_n);
    const int64_t streaming = a_stays ? divided(task_.n, block_n) : divided(task_.m, block_m);
    for (const int64_t asked : GROUPS) {
      const int64_t group = std::min(asked, staying);
      int64_t before = 0;
      for (const int64_t early : {int64_t{1}, (group + 1) / 2, group}) {
        const int64_t places = std::min(staying, group + early);
        if (places == before) continue;
        before = places;
        const int64_t passing = std::min(streaming, STREAM_SLOTS);
        plan.group = group;
        plan.slots_a = a_stays ? places : passing;
        plan.slots_b = a_stays ? passing : places;
        consider(plan);
      }
      if (group == staying) return;
    }
  }

  void pieces_of_k(int64_t block_m, int64_t block_n) {
    Plan plan{};
    plan.stays = Stays::C;
    plan.block_m = block_m, plan.block_n = block_n, plan.block_k = SEGMENT_K;
    plan.group = 1;
    plan.slots_a = plan.slots_b = STREAM_SLOTS;
    consider(plan);
  }

  void consider(Plan& plan) {
    fill(plan, task_, workspace_);
    if (plan.device_bytes > memory_) return;
    if (best_ && least_price(plan, task_, rates_) >= price_of(*best_, rates_)) return;
    if (best_ && plan.tiles() * plan.steps_k > MANY_PRODUCTS) return;
    simulate(plan, task_, rates_);
    if (!best_ || price_of(plan, rates_) < price_of(*best_, rates_)) best_ = plan;
  }

  const Task& task_;
  const Rates& rates_;
  const int64_t memory_;
  const Workspace& workspace_;
  std::optional<Plan> best_;
};

}  // namespace

std::optional<Plan> make_plan(const Task& task, const Rates& rates, int64_t memory,
                              const Workspace& workspace) {
  return Search(task, rates, memory, workspace).best();
}

Tile tile_at(const Plan& plan, int64_t index) {
  const bool b_stays = plan.stays == Stays::B;
  const int64_t staying = b_stays ? plan.tiles_n : plan.tiles_m;
  const int64_t streaming = b_stays ? plan.tiles_m : plan.tiles_n;
  const int64_t group = index / (plan.group * streaming);
  const int64_t first = group * plan.group, blocks = std::min(plan.group, staying - first);
  const int64_t inside = index - first * streaming;
  const int64_t column = inside / blocks, stay = first + inside % blocks;
  const int64_t stream = group % 2 == 0 ? column : streaming - 1 - column;
  return b_stays ? Tile{stream, stay, group} : Tile{stay, stream, group};
}

int64_t tiles_of_a_column(const Plan& plan, int64_t index) {
  const int64_t staying = plan.stays == Stays::B ? plan.tiles_n : plan.tiles_m;
  return std::min(plan.group, staying - tile_at(plan, index).group * plan.group);
}

}  // namespace tiled::scale
