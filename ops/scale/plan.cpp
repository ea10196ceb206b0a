#include "scale/plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/segments.h"
#include "scale/memory.h"
#include "scale/plan_seconds.h"

namespace tiled::scale {
namespace {

constexpr int64_t LEAST_SIDE = 16;  // of a block, unless the matrix is smaller
constexpr int64_t GROUPS[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};  // blocks that stay
constexpr int64_t RESULT_SLOTS = 2;      // one tile is computed while the last goes
constexpr int64_t MANY_PRODUCTS = 5000;  // no better plan is looked for among such
constexpr double WORTH_IT = 0.99;        // nor where it could save less than this leaves

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

// Counts of what stands in the plan so far, and the bytes of its matrices.
void fill(Plan& plan, const Task& task) {
  plan.tiles_m = divided(task.m, plan.block_m);
  plan.tiles_n = divided(task.n, plan.block_n);
  plan.steps_k = divided(task.k, plan.block_k);
  plan.slots_c = std::min(RESULT_SLOTS, plan.tiles());
  plan.keeps_parts = plan.steps_k > 1;
  plan.keeps_totals = plan.keeps_parts && task.sum_bytes != task.result_bytes;
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
}

// Lists every plan whose matrices fit, and goes through them from the least bound of their price
// up, until no bound is worth it beside the best price. So few are asked for their products and
// simulated.
class Search {
 public:
  Search(const Task& task, const Rates& rates, int64_t memory, const ProductOf& product)
      : task_(task), rates_(rates), memory_(memory), product_(product) {}

  std::optional<Plan> best() {
    for (const int64_t block_m : sides(task_.m)) {
      for (const int64_t block_n : sides(task_.n)) {
        whole_k(Stays::A, block_m, block_n);
        whole_k(Stays::B, block_m, block_n);
        if (task_.cuts_k) pieces_of_k(block_m, block_n);
      }
    }
    // Where bounds are equal the first is taken, which has the fewest tiles.
    std::sort(order_.begin(), order_.end());
    for (const auto& [least, index] : order_) {
      if (best_ && least >= WORTH_IT * price_of(*best_, rates_)) break;
      consider(listed_[index]);
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
        list(plan);
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
    list(plan);
  }

  void list(Plan plan) {
    fill(plan, task_);
    if (plan.matrix_bytes > memory_) return;
    plan.product_seconds = product_seconds(plan, task_, rates_, 0);
    order_.emplace_back(least_price(plan, task_, rates_), listed_.size());
    listed_.push_back(plan);
  }

  void consider(Plan plan) {
    if (best_ && plan.tiles() * plan.steps_k > MANY_PRODUCTS) return;
    // Where C stays, products are of one segment each.
    const int64_t product_k = plan.keeps_parts ? SEGMENT_K : task_.k;
    plan.product_seconds = product_seconds(
        plan, task_, rates_, product_of(plan.block_m, plan.block_n, product_k).seconds);
    if (best_ && least_price(plan, task_, rates_) >= WORTH_IT * price_of(*best_, rates_)) return;
    // The last tiles of rows and columns are smaller, and may be computed another way.
    const int64_t last_m = task_.m - (plan.tiles_m - 1) * plan.block_m;
    const int64_t last_n = task_.n - (plan.tiles_n - 1) * plan.block_n;
    const int64_t last_k = task_.k - (divided(task_.k, product_k) - 1) * product_k;
    plan.workspace_bytes = 0;
    for (const int64_t m : {plan.block_m, last_m})
      for (const int64_t n : {plan.block_n, last_n})
        for (const int64_t k : {product_k, last_k})
          plan.workspace_bytes =
              std::max(plan.workspace_bytes, product_of(m, n, k).workspace_bytes);
    plan.device_bytes =
        allocated_at_most(plan.matrix_bytes) + allocated_at_most(plan.workspace_bytes);
    if (plan.device_bytes > memory_) return;
    const double limit = best_ ? price_of(*best_, rates_) : std::numeric_limits<double>::infinity();
    if (simulate(plan, task_, rates_, limit) && price_of(plan, rates_) < limit) best_ = plan;
  }

  const Product& product_of(int64_t m, int64_t n, int64_t k) {
    const auto [found, is_new] = products_.try_emplace({m, n, k});
    if (is_new) found->second = product_(m, n, k);
    return found->second;
  }

  const Task& task_;
  const Rates& rates_;
  const int64_t memory_;
  const ProductOf& product_;
  std::vector<Plan> listed_;
  std::vector<std::pair<double, size_t>> order_;  // the bound of a price, and whose
  std::map<std::tuple<int64_t, int64_t, int64_t>, Product> products_;
  std::optional<Plan> best_;
};

}  // namespace

std::optional<Plan> make_plan(const Task& task, const Rates& rates, int64_t memory,
                              const ProductOf& product) {
  return Search(task, rates, memory, product).best();
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
