// tiled_debug::scaled_with_tile: a scaled product of two matrices by one way of a rung, whatever
// the planner would choose.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "torch/hooks.h"
#include "torch/plan_by_name.h"
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
  const Plan plan = plan_by_name(problem, cuda_device(a.device().index()), /*algo=*/{},
                                 {std::string(tile), swap_ab, cluster_p, cluster_q,
                                  /*split_k=*/false});
  at::Tensor c = Backend::empty({problem.m, problem.n}, shape.type, a);
  problem.c.data = c.mutable_data_ptr();
  if (c.numel() > 0) Backend::run(problem, {plan}, a);
  return c;
}

}  // namespace tiled
