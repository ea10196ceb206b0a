#include "torch/override_scaled.h"

#include <ATen/BlasBackend.h>
#include <ATen/native/Resize.h>

#include <algorithm>

#include "torch/check_scaled.h"
#include "torch/memory.h"

namespace tiled {
namespace {

using asked::Arguments;
using MaybeTensor = std::optional<at::Tensor>;

MaybeTensor tensor_of(const c10::IValue& value) {
  MaybeTensor t = value.toOptional<at::Tensor>();
  return t && t->defined() ? t : std::nullopt;
}

// The four operands, a bias, a scale of the result, which is of fp8 results alone, and a dtype.
ScaledCall call_of(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                   const at::Tensor& scale_b, const c10::IValue& bias, bool scales_result,
                   std::optional<at::ScalarType> out_dtype) {
  ScaledCall call{a, b, scale_a, scale_b, {}, std::nullopt};
  call.options.bias = tensor_of(bias);
  call.options.out_dtype = out_dtype;
  if (scales_result) call.verdict = Verdict::Scalar;
  return call;
}

std::optional<at::ScalarType> dtype_or(const c10::IValue& asked, at::ScalarType otherwise) {
  return asked.toOptional<at::ScalarType>().value_or(otherwise);
}

std::optional<Scaling> scaling_of(int64_t recipe) {
  using at::blas::ScalingType;
  switch (static_cast<ScalingType>(recipe)) {
    case ScalingType::TensorWise: return Scaling::Tensorwise;
    case ScalingType::RowWise: return Scaling::Rowwise;
    case ScalingType::BlockWise1x128: return Scaling::Block1x128;
    case ScalingType::BlockWise128x128: return Scaling::Block128x128;
    default: return std::nullopt;
  }
}

// The scales of a matrix of `rows` rows, as torch's recipes have them, to ours. There 128x128 is
// [ceil(K / 128), ceil(rows / 128)] of both operands, the first rounded up to a multiple of 4, and
// B's 1x128 [N, ceil(K / 128)].
at::Tensor as_ours(const at::Tensor& scale, Scaling scaling, bool is_b, int64_t rows, int64_t k) {
  if (scale.dim() != 2) return scale;
  const int64_t blocks = (k + SCALE_BLOCK - 1) / SCALE_BLOCK;
  if (scaling == Scaling::Block1x128 && is_b && scale.size(0) == rows && scale.size(1) == blocks)
    return scale.t();
  const int64_t row_blocks = (rows + SCALE_BLOCK - 1) / SCALE_BLOCK;
  if (scaling == Scaling::Block128x128 && scale.size(0) == (blocks + 3) / 4 * 4 &&
      scale.size(1) == row_blocks)
    return is_b ? scale.narrow(0, 0, blocks) : scale.narrow(0, 0, blocks).t();
  return scale;
}

// Lists of one scale and one recipe, and no scales in another order, for one side.
struct Recipe {
  at::Tensor scale;
  std::optional<Scaling> scaling;

  Recipe(const c10::IValue& scales, const c10::IValue& recipes, const c10::IValue& swizzles) {
    const auto all = scales.toTensorVector();
    const auto numbers = recipes.toIntVector(), orders = swizzles.toIntVector();
    if (all.size() != 1 || numbers.size() != 1) return;
    if (std::any_of(orders.begin(), orders.end(), [](int64_t order) { return order != 0; })) return;
    scale = all[0];
    scaling = scaling_of(numbers[0]);
  }
};

ScaledCall by_recipes(const at::Tensor& a, const at::Tensor& b, const Recipe& recipe_a,
                      const Recipe& recipe_b, const c10::IValue& bias, const c10::IValue& out_dtype,
                      at::ScalarType otherwise, const c10::IValue& contracted) {
  ScaledCall call = call_of(a, b, recipe_a.scale, recipe_b.scale, bias, /*scales_result=*/false,
                            dtype_or(out_dtype, otherwise));
  const bool is_plain = contracted.toIntVector().empty();
  if (!recipe_a.scaling || !recipe_b.scaling || !is_plain) {
    call.verdict = Verdict::Scalar;
    return call;
  }
  call.options.recipe_a = name_of(*recipe_a.scaling);
  call.options.recipe_b = name_of(*recipe_b.scaling);
  if (a.dim() != 2 || b.dim() != 2) return call;
  call.scale_a = as_ours(call.scale_a, *recipe_a.scaling, false, a.size(0), a.size(1));
  call.scale_b = as_ours(call.scale_b, *recipe_b.scaling, true, b.size(1), a.size(1));
  return call;
}

ScaledCall with_out(ScaledCall call, const c10::IValue& out_dtype, const at::Tensor& out) {
  call.out = out;
  call.options.out_dtype = dtype_or(out_dtype, out.scalar_type());
  if (call.options.out_dtype != out.scalar_type()) call.verdict = Verdict::Dtype;
  return call;
}

bool is_fp8(const at::Tensor& t) { return isFloat8Type(t.scalar_type()); }

}  // namespace

// A result is of A's dtype, fp8, if no other is asked for, and of out= of out's.

ScaledCall asked::scaled(Arguments x) {
  return call_of(x[0].toTensor(), x[1].toTensor(), x[2].toTensor(), x[3].toTensor(), x[4],
                 tensor_of(x[5]).has_value(), dtype_or(x[6], x[0].toTensor().scalar_type()));
}

ScaledCall asked::scaled_out(Arguments x) { return with_out(scaled(x), x[6], x[8].toTensor()); }

ScaledCall asked::scaled_by_recipes(Arguments x) {
  return by_recipes(x[0].toTensor(), x[1].toTensor(), {x[2], x[3], x[4]}, {x[5], x[6], x[7]}, x[8],
                    x[9], x[0].toTensor().scalar_type(), x[10]);
}

ScaledCall asked::scaled_by_recipes_out(Arguments x) {
  return with_out(scaled_by_recipes(x), x[9], x[12].toTensor());
}

ScaledCall asked::scaled_groups(Arguments x) {
  ScaledCall call = call_of(x[0].toTensor(), x[1].toTensor(), x[2].toTensor(), x[3].toTensor(),
                            x[5], tensor_of(x[6]).has_value(), dtype_or(x[7], at::kBFloat16));
  call.options.offs = tensor_of(x[4]);
  return call;
}

ScaledCall asked::scaled_groups_by_recipes(Arguments x) {
  ScaledCall call = by_recipes(x[0].toTensor(), x[1].toTensor(), {x[2], x[3], x[4]},
                               {x[5], x[6], x[7]}, x[9], x[10], at::kBFloat16, x[11]);
  call.options.offs = tensor_of(x[8]);
  return call;
}

Verdict judge(const ScaledCall& asked, at::DeviceType device, const Products& products) {
  if (asked.verdict != Verdict::Tiled) return asked.verdict;
  if (!is_fp8(asked.a) || !is_fp8(asked.b) || !sums_are_floats(*asked.options.out_dtype))
    return Verdict::Dtype;
  if (asked.a.device().type() != device || !products.run_on(asked.a)) return Verdict::Device;
  if (asked.out && (asked.out->device() != asked.a.device() || overlaps_itself(*asked.out)))
    return Verdict::Layout;
  try {
    return products.runs_scaled(asked.a, asked.b, asked.scale_a, asked.scale_b, asked.options)
               ? Verdict::Tiled
               : Verdict::Device;
  } catch (const c10::Error&) {
    return Verdict::Shape;
  }
}

at::Tensor compute(const ScaledCall& asked, const Products& products) {
  const auto& [a, b, scale_a, scale_b, options, out, verdict] = asked;
  at::Tensor c = products.scaled(a, b, scale_a, scale_b, options);
  if (!out) return c;
  at::Tensor to = *out;
  at::native::resize_output(to, c.sizes());
  return to.copy_(c);
}

}  // namespace tiled
