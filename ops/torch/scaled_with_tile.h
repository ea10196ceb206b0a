// tiled_debug::scaled_with_tile: a scaled product of two matrices by a way of rung hopper, whatever
// the planner would choose.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cuda/plan/measured.h"
#include "torch/hooks.h"
#include "torch/scaled.h"

namespace tiled {

template <typename Backend>
at::Tensor scaled_with_tile(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                            const at::Tensor& scale_b, std::string_view tile, bool swap_ab,
                            int64_t cluster_p, int64_t cluster_q,
                            std::optional<at::ScalarType> out_dtype) {
  ScaledOptions asked;
  asked.out_dtype = out_dtype;
  const ScaledShape shape = check_scaled(a, b, scale_a, scale_b, asked);
  TORCH_CHECK(shape.sizes.size() == 2 && shape.product.shared == Shared::Nothing,
              "tiled_mm: expected a product of two matrices");
  Problem problem = scaled_problem(a, b, scale_a, scale_b, shape);
  const std::optional<Plan> found =
      plan_of_way(problem, cuda_device(a.device().index()), Algo::Hopper,
                  {std::string(tile), swap_ab, cluster_p, cluster_q, /*split_k=*/false});
  TORCH_CHECK(found, "tiled_mm: hopper has no way ", std::string(tile), swap_ab ? ", swap_ab" : "",
              ", cluster ", cluster_p, " x ", cluster_q, " for this problem");
  at::Tensor c = Backend::empty({problem.m, problem.n}, shape.type, a);
  problem.c.data = c.mutable_data_ptr();
  if (c.numel() > 0) Backend::run(problem, {*found}, a);
  return c;
}

}  // namespace tiled
