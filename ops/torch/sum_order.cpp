#include "torch/sum_order.h"

#include <array>

#include "core/algo.h"
#include "torch/setting.h"

namespace tiled {
namespace {

// By the binary logarithm of their leaves.
constexpr std::array<std::string_view, 15> NAMES = {
    "chain",    "",         "",     "",          "tree:16",   "tree:32",   "tree:64",   "tree:128",
    "tree:256", "tree:512", "tree", "tree:2048", "tree:4096", "tree:8192", "tree:16384"};
static_assert(int64_t{1} << (NAMES.size() - 1) == MOST_LEAF && NAMES[4] == "tree:16" &&
                  LEAST_LEAF == 16 && NAMES[10] == "tree" && DEFAULT_LEAF == 1024,
              "the names are those of core/sum_tree.h");

int8_t parse(std::string_view name) {
  if (name == "tree:1024") name = "tree";
  for (size_t i = 0; i < NAMES.size(); ++i)
    if (!name.empty() && NAMES[i] == name) return static_cast<int8_t>(i);
  TORCH_CHECK(false, "tiled_mm: unknown sum_order '", std::string(name),
              "'; expected 'chain', 'tree' or 'tree:LEAF', LEAF a power of two from ", LEAST_LEAF,
              " to ", MOST_LEAF);
}

// The rungs that are no lessons alone, with commas.
std::string names_with_trees() {
  std::string names;
  for (Algo algo : ALL_ALGOS)
    if (!is_lesson(algo)) names += (names.empty() ? "" : ", ") + std::string(name_of(algo));
  return names;
}

Setting library_order(0);

int8_t order_of(const MmOptions& options) {
  const int8_t order = options.sum_order ? parse(*options.sum_order) : library_order.now();
  if (order == 0 || !options.algo) return order;
  const std::optional<Algo> algo = parse_algo(*options.algo);
  TORCH_CHECK(!algo || !is_lesson(*algo), "tiled_mm: algo '", std::string(*options.algo),
              "' is a lesson, which sums in one chain; sum_order '", std::string(NAMES[order]),
              "' is for ", names_with_trees(), ", or for no algo");
  return order;
}

}  // namespace

int64_t leaf_of(const MmOptions& options) {
  const int8_t order = order_of(options);
  return order == 0 ? 0 : int64_t{1} << order;
}

std::string_view resolve_sum_order(const MmOptions& options) { return NAMES[order_of(options)]; }

void set_sum_order(std::string_view name) { library_order.set(parse(name)); }

std::string get_sum_order() { return std::string(NAMES[library_order.now()]); }

int64_t detail::enter_sum_order(std::string_view name) { return library_order.enter(parse(name)); }

bool detail::leave_sum_order(int64_t block) noexcept { return library_order.leave(block); }

}  // namespace tiled
