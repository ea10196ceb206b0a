#include "cuda/plan/stream_k_plan.h"

#include "cuda/plan/hand_over.h"
#include "cuda/plan/stream_k.h"

namespace tiled {

int32_t stream_k_blocks(const Candidate& candidate, const Problem& problem,
                        const DeviceInfo& device) {
  if (is_grouped(problem) || problem.batch != 1 || problem.k == 0 || chain_count(problem) > 1)
    return 0;
  const int64_t tiles = saturating_product(blocks_over(problem.m, int64_t{candidate.block_m}),
                                           blocks_over(problem.n, int64_t{candidate.block_n}));
  const int64_t steps = blocks_over(problem.k, int64_t{candidate.block_k});
  for (int resident = candidate.resident; resident > 0; --resident) {
    const int32_t blocks = resident * device.multiprocessors;
    if (tiles < MAX_GRID_X && StreamK::fits(tiles, blocks, steps)) return blocks;
  }
  return 0;
}

void add_stream_k(Plan& plan, Step product, DType dtype, int32_t blocks) {
  product.grid_x = blocks;
  product.workspace_bytes =
      int64_t{blocks} * plan.block_m * plan.block_n * int64_t{accumulator_bytes(dtype)};
  plan.take(Area::Totals, product.workspace_bytes);
  Step clear{};
  clear.work = Work::Clear;
  clear.threads_x = 32, clear.threads_y = 1, clear.grid_x = clear.grid_y = 1;
  clear.workspace_bytes = hand_over_words_bytes(blocks);
  plan.take(Area::Words, clear.workspace_bytes);
  plan.add(clear);
  plan.add(product);
}

void describe_stream_k(Description& description, int32_t blocks) {
  if (blocks > 0)
    description.lines.emplace_back(
        "stream-K", "of " + std::to_string(blocks) + " blocks, which do equally much");
  description.json.emplace_back("stream_k", blocks > 0 ? "true" : "false");
}

}  // namespace tiled
