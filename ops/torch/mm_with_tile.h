// tiled_debug::mm_with_tile and finished_with_tile: a product by one way of a rung, whatever the
// planner would choose.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "torch/choose.h"
#include "torch/finished.h"
#include "torch/hooks.h"
#include "torch/plan_by_name.h"
#include "torch/tree.h"

namespace tiled {

// C, and the pre-activation, undefined where it is not asked for; by a rung's way of
// that name. With an epilogue the tile's kernel is another one, and so it is where a tree sums K.
template <typename Backend>
std::tuple<at::Tensor, at::Tensor> finished_with_tile(
    const at::Tensor& a, const at::Tensor& b, std::string_view tile, bool swap_ab,
    int64_t cluster_p, int64_t cluster_q, bool split_k, const std::optional<at::Tensor>& bias,
    std::optional<std::string_view> activation, bool keeps_pre_activation, const MmOptions& asked) {
  a.dim() == 3 ? check_bmm(a, b) : check_mm(a, b);
  const bool is_bare = !bias && !activation && !keeps_pre_activation;
  const at::ScalarType type = is_bare ? check_out_dtype(a.scalar_type(), asked)
                                      : check_finished_out_dtype(a.scalar_type(), asked);
  Problem problem =
      problem_of(a, b, type, resolve_arithmetic(a.scalar_type(), Backend::target(a), asked));
  std::vector<int64_t> sizes = {a.size(-2), b.size(-1)};
  if (a.dim() == 3) sizes.insert(sizes.begin(), a.size(0));
  problem = with_leaf(problem, tree_of(problem, leaf_of(asked)));
  EpilogueOptions epilogue;
  epilogue.bias = bias, epilogue.bias_along = "n", epilogue.activation = activation;
  fill_epilogue(problem, a, epilogue, sizes);
  const DeviceInfo& device = cuda_device(a.device().index());
  choose_plan(problem, device, a.scalar_type(), asked);  // refuses what the rung cannot do
  const Plan plan = plan_by_name(problem, device, asked.algo,
                                 {std::string(tile), swap_ab, cluster_p, cluster_q, split_k});
  at::Tensor c = Backend::empty(sizes, type, a), pre_activation;
  problem.c.data = c.mutable_data_ptr();
  if (keeps_pre_activation) {
    pre_activation = Backend::empty(sizes, type, a);
    keep_pre_activation(problem, pre_activation);
  }
  if (c.numel() > 0)
    Backend::run(problem, {typename Backend::Chain{plan}, {}, nullptr, problem.leaf}, a);
  return {std::move(c), std::move(pre_activation)};
}

template <typename Backend>
at::Tensor mm_with_tile(const at::Tensor& a, const at::Tensor& b, std::string_view tile,
                        bool swap_ab, int64_t cluster_p, int64_t cluster_q, bool split_k,
                        const MmOptions& asked) {
  return std::get<0>(finished_with_tile<Backend>(a, b, tile, swap_ab, cluster_p, cluster_q, split_k,
                                                 /*bias=*/{}, /*activation=*/{},
                                                 /*keeps_pre_activation=*/false, asked));
}

}  // namespace tiled
