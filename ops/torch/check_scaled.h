// The rules of scaled products (core/scales.h): torch's texts where torch._scaled_mm and
// torch.nn.functional.scaled_mm have some. Sizes are read as SymInts.
#pragma once

#include <sstream>

#include "torch/activation.h"
#include "torch/check_grouped.h"
#include "torch/from_tensors.h"
#include "torch/sum_order.h"

namespace tiled {

// A dimension of a tensor of scales counts one of these.
enum class Axis : int8_t { One, Entries, Rows, Blocks, EntriesOfRows };

// How the scales of an operand stand in their tensor.
struct ScaleLayout {
  Scaling scaling = Scaling::Nothing;
  int8_t dim = 0;       // of the tensor; 0 stands for any, of one element
  Axis axes[3] = {};    // [dim]
  bool spaced = false;  // Scales::spaced
};

// An operand as its scales see it.
struct ScaledOperand {
  const char* name;  // of its scales, for messages
  bool is_b;         // its rows are the columns of B
  bool has_entries;  // it is a batch, or each group has its own part of K
  bool is_matrix;
  bool shares_rows, shares_k;  // among groups
  c10::SymInt entries, rows, k;
};

inline std::optional<Scaling> parse_scaling(std::optional<std::string_view> name) {
  if (!name) return std::nullopt;
  for (const Scaling scaling :
       {Scaling::Tensorwise, Scaling::Rowwise, Scaling::Block1x128, Scaling::Block128x128})
    if (*name == name_of(scaling)) return scaling;
  TORCH_CHECK_NOT_IMPLEMENTED(false, "tiled_mm: no kernel scales by recipe '", std::string(*name),
                              "'; expected one of: TensorWise, RowWise, BlockWise1x128, "
                              "BlockWise128x128");
}

inline c10::SymInt blocks_of(const c10::SymInt& size) {
  return (size + (SCALE_BLOCK - 1)) / SCALE_BLOCK;
}

namespace detail {

// visit(layout) for every layout that an operand's scales may have, the simplest first, until one
// returns true; whether one did. The axes are A's; B's last two stand the other way round.
template <typename Visit>
bool any_scale_layout(const ScaledOperand& x, const Visit& visit) {
  using S = Scaling;
  constexpr Axis ONE = Axis::One, E = Axis::Entries, R = Axis::Rows, B = Axis::Blocks;
  const auto rows_by = [&](S scaling, Axis last, bool spaced = false) {
    const ScaleLayout of_a = {scaling, 2, {R, last}, spaced},
                      of_b = {scaling, 2, {last, R}, spaced};
    return visit(x.is_b ? of_b : of_a);
  };
  const auto entries_by = [&](S scaling, Axis last) {
    const ScaleLayout of_a = {scaling, 3, {E, R, last}}, of_b = {scaling, 3, {E, last, R}};
    return visit(x.is_b ? of_b : of_a);
  };
  const auto blocks = [&](S scaling) {
    return (x.is_matrix ? rows_by(scaling, B) : entries_by(scaling, B)) ||
           (x.shares_k && rows_by(scaling, B, /*spaced=*/true));
  };
  return visit({S::Tensorwise}) ||
         (x.has_entries &&
          (visit({S::Tensorwise, 1, {E}}) || visit({S::Tensorwise, 3, {E, ONE, ONE}}))) ||
         (x.is_matrix && rows_by(S::Rowwise, ONE)) ||
         (!x.has_entries && visit({S::Rowwise, 1, {R}})) ||
         (x.has_entries && (entries_by(S::Rowwise, ONE) ||
                            (x.is_matrix ? visit({S::Rowwise, 1, {Axis::EntriesOfRows}})
                                         : visit({S::Rowwise, 2, {E, R}})))) ||
         blocks(S::Block1x128) || (!x.shares_rows && blocks(S::Block128x128));
}

inline c10::SymInt size_along(Axis axis, const ScaleLayout& layout, const ScaledOperand& x) {
  const c10::SymInt rows = layout.scaling == Scaling::Block128x128 ? blocks_of(x.rows) : x.rows;
  switch (axis) {
    case Axis::One: break;
    case Axis::Entries: return x.entries;
    case Axis::Rows: return rows;
    case Axis::Blocks: return layout.spaced ? x.k / SCALE_BLOCK + x.entries : blocks_of(x.k);
    case Axis::EntriesOfRows: return x.entries * rows;
  }
  return 1;
}

inline bool fits(const at::Tensor& scale, const ScaleLayout& layout, const ScaledOperand& x) {
  if (layout.dim == 0) return TORCH_GUARD_OR_FALSE(scale.sym_numel().sym_eq(1));
  if (scale.dim() != layout.dim) return false;
  for (int64_t i = 0; i < scale.dim(); ++i)
    if (!TORCH_GUARD_OR_FALSE(scale.sym_size(i).sym_eq(size_along(layout.axes[i], layout, x))))
      return false;
  return true;
}

[[noreturn]] inline void throw_no_layout(const at::Tensor& scale, std::optional<Scaling> named,
                                         const ScaledOperand& x) {
  std::ostringstream expected;
  any_scale_layout(x, [&](const ScaleLayout& layout) {
    if (named && layout.scaling != *named) return false;
    expected << "\n- For " << name_of(layout.scaling) << " scaling, ";
    if (layout.dim == 0) expected << "one element";
    for (int i = 0; i < layout.dim; ++i)
      expected << (i == 0 ? "shape [" : ", ") << size_along(layout.axes[i], layout, x);
    expected << (layout.dim == 0 ? "" : "]");
    return false;
  });
  TORCH_CHECK(false, "Invalid scaling configuration.\n", x.name, " has shape ", scale.sym_sizes(),
              ", but expected one of:", expected.str());
}

}  // namespace detail

// How these scales stand, by their shape, and by the name of the recipe where it is said.
inline ScaleLayout check_scale(const at::Tensor& a, const at::Tensor& scale,
                               std::optional<std::string_view> recipe, const ScaledOperand& x) {
  check_same_device(a, scale, "tiled::scaled_mm", x.name);
  TORCH_CHECK(scale.scalar_type() == at::kFloat, "tiled_mm: ", x.name,
              " must be a float (fp32) tensor, got ", scale.scalar_type());
  const std::optional<Scaling> named = parse_scaling(recipe);
  ScaleLayout found;
  const bool any = detail::any_scale_layout(x, [&](const ScaleLayout& layout) {
    const bool fits = (!named || layout.scaling == *named) && detail::fits(scale, layout, x);
    if (fits) found = layout;
    return fits;
  });
  if (!any) detail::throw_no_layout(scale, named, x);
  return found;
}

// The scales as kernels find them.
inline OperandScales scales_of(const at::Tensor& scale, const ScaleLayout& layout, int64_t rows) {
  OperandScales found;
  found.data = static_cast<const float*>(address_of(scale));
  found.scaling = layout.scaling;
  for (int dim = 0; dim < layout.dim; ++dim) {
    const int64_t stride = scale.size(dim) > 1 ? scale.stride(dim) : 0;
    switch (layout.axes[dim]) {
      case Axis::One: break;
      case Axis::Entries: found.batch_stride = stride; break;
      case Axis::Rows: found.row_stride = stride; break;
      case Axis::Blocks: found.block_stride = stride; break;
      case Axis::EntriesOfRows:
        found.row_stride = stride, found.batch_stride = rows * stride;
        break;
    }
  }
  return found;
}

// Everything that is known of a scaled product before it runs.
struct ScaledShape {
  GroupedShape product;
  c10::SymDimVector sizes;  // of C
  ScaleLayout a, b;
  at::ScalarType type;  // of C
};

// fp8 by fp8 of either kind, or int8 by int8.
inline DType scaled_dtype_of(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kFloat8_e4m3fn: return DType::Float8E4M3FN;
    case at::kFloat8_e5m2: return DType::Float8E5M2;
    default: return DType::Int8;
  }
}

inline void check_scaled_dtypes(const at::Tensor& a, const at::Tensor& b) {
  const auto is_fp8 = [](const at::Tensor& t) {
    return t.scalar_type() == at::kFloat8_e4m3fn || t.scalar_type() == at::kFloat8_e5m2;
  };
  TORCH_CHECK(is_fp8(a) || a.scalar_type() == at::kChar,
              "Expected mat_a to be Float8 matrix (or Char) got ", a.scalar_type());
  TORCH_CHECK(is_fp8(a) ? is_fp8(b) : b.scalar_type() == at::kChar, "Expected mat_b to be ",
              is_fp8(a) ? "Float8" : "Char", " matrix got ", b.scalar_type());
}

// The dtype of C: bfloat16 unless another is asked for.
inline at::ScalarType check_scaled_out_dtype(std::optional<at::ScalarType> asked) {
  const at::ScalarType type = asked.value_or(at::kBFloat16);
  TORCH_CHECK(type == at::kBFloat16 || type == at::kHalf || type == at::kFloat,
              "Only bf16, fp16, and fp32 high precision output types are supported for scaled "
              "products, got ",
              type);
  return type;
}

inline ScaledShape check_scaled(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                                const at::Tensor& scale_b, const ScaledOptions& asked) {
  ScaledShape shape;
  const auto& offs = asked.offs;
  const bool is_plain = a.dim() == 2 && b.dim() == 2 && !offs;
  if (is_plain) {
    TORCH_SYM_CHECK(a.sym_size(1).sym_eq(b.sym_size(0)),
                    "mat1 and mat2 shapes cannot be multiplied (", a.sym_size(0), "x",
                    a.sym_size(1), " and ", b.sym_size(0), "x", b.sym_size(1), ")");
    shape.product = {Shared::Nothing, 1, a.sym_size(0), b.sym_size(1), a.sym_size(1)};
    shape.sizes = {shape.product.m, shape.product.n};
    check_same_device(a, b, "tiled::scaled_mm", "mat_b");
  } else {
    shape.product = grouped_shape(a, b, offs);
    shape.sizes = shape.product.sizes();
  }
  check_scaled_dtypes(a, b);
  const auto& [shared, groups, m, n, k] = shape.product;
  const bool shares_k = shared == Shared::K;
  const auto operand = [&](const char* name, bool is_b, const at::Tensor& t) {
    return ScaledOperand{name,
                         is_b,
                         t.dim() == 3 || shares_k,
                         t.dim() == 2,
                         shared == (is_b ? Shared::N : Shared::M),
                         shares_k,
                         groups,
                         is_b ? n : m,
                         k};
  };
  shape.a = check_scale(a, scale_a, asked.recipe_a, operand("scale_a", false, a));
  shape.b = check_scale(a, scale_b, asked.recipe_b, operand("scale_b", true, b));
  TORCH_CHECK(is_blockwise(shape.a.scaling) <= (a.scalar_type() != at::kChar) &&
                  is_blockwise(shape.b.scaling) <= (a.scalar_type() != at::kChar),
              "tiled_mm: int8 is scaled TensorWise or RowWise, since its sum is one of all of K");
  TORCH_CHECK(!is_blockwise(shape.a.scaling) || !is_blockwise(shape.b.scaling) ||
                  shape.a.spaced == shape.b.spaced,
              "tiled_mm: the blocks of scale_a and of scale_b begin with groups, or at multiples "
              "of 128, but not each in another way");
  shape.type = check_scaled_out_dtype(asked.out_dtype);
  check_activation(asked.activation, at::kFloat);
  MmOptions order;
  order.sum_order = asked.sum_order;
  leaf_of(order);  // or its refusal
  if (!asked.bias) return shape;
  if (!is_plain) {
    check_grouped_bias(a, at::kFloat, *asked.bias, shape.product);
  } else {
    const at::Tensor& bias = *asked.bias;
    TORCH_SYM_CHECK(c10::SymBool(bias.dim() == 1).sym_and(bias.sym_numel().sym_eq(n)),
                    "Bias must be size ", n, " but got ", bias.sym_sizes());
    check_same_device(a, bias, "tiled::scaled_mm", "bias");
    TORCH_CHECK(may_be_added(bias.scalar_type(), at::kFloat),
                "Bias must be BFloat16, Half or Float, but got ", bias.scalar_type());
  }
  return shape;
}

}  // namespace tiled
