"""Products of fp8 and int8 with scales, as a function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ._arguments import check_types
from ._names import Activation, Recipe, SumOrder
from ._ops import into

if TYPE_CHECKING:
    from torch.nn.functional import ScalingType


def scaled_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    *,
    scale_recipe_a: ScalingType | Recipe | None = None,
    scale_recipe_b: ScalingType | Recipe | None = None,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    activation: Activation | None = None,
    sum_order: SumOrder | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """``activation((scale_a * mat_a) @ (scale_b * mat_b) + bias)`` of fp8 or int8, rounded once.

    The bits of an element depend on its row of ``mat_a``, its column of ``mat_b``, their scales, K
    and the arithmetic of the device: not on M, N, strides, the batch, other groups or the run. In
    which order it is summed, and how far it may be off: docs/fp8.md, docs/contract.md.

    ================ ============================== ================================
    recipe           ``scale_a``                    ``scale_b``
    ================ ============================== ================================
    TensorWise       one element                    one element
    RowWise          [M, 1] or [M]                  [1, N] or [N]
    BlockWise1x128   [M, ceil(K / 128)]             [ceil(K / 128), N]
    BlockWise128x128 [ceil(M / 128), ceil(K / 128)] [ceil(K / 128), ceil(N / 128)]
    ================ ============================== ================================

    Each side has its own recipe. int8 takes TensorWise and RowWise.

    Args:
        mat_a: [M, K], any strides; float8_e4m3fn, float8_e5m2 or int8, on the CPU or a CUDA device.
            With ``offs``, or of batches, any form of :func:`grouped_mm`.
        mat_b: [K, N], device of ``mat_a``; either fp8 dtype beside fp8, int8 beside int8. On a GPU
            the fastest is contiguous along K, as the transpose of a row-major [N, K].
        scale_a, scale_b: float32, any strides; what an element of the operand counts for is the
            element times its scale. Zeros, infinities and NaN are as IEEE has them. Operands of
            three dimensions have one more in front, for the entries: [E], [E, M, 1] (or [E, M]),
            [E, M, ceil(K / 128)] and so on; one element serves all. Rows that groups share out are
            not scaled 128x128. Where groups share out K, RowWise is [E, M, 1], [E * M] or, for all
            groups, [M, 1]; and blocks are counted from each group's begin: either all groups begin
            at multiples of 128, and the scales are [M, ceil(T / 128)], or they begin anywhere, the
            scales are [M, T // 128 + E], and group g's first block is number begin // 128 + g.
        scale_recipe_a, scale_recipe_b: what is scaled, as torch.nn.functional.ScalingType or its
            name; None goes by the shape of the scales. It decides only where K <= 128 and several
            recipes have that shape: they then differ in nothing but the sign of a zero.
        offs: [E], int32 or int64: as of :func:`grouped_mm`.
        bias: [N], or of groups [E, N]; float32, float16 or bfloat16.
        out_dtype: bfloat16 (None), float16 or float32.
        activation: as of :func:`addmm`.
        sum_order: as of :func:`mm`, of fp8. A leaf has blocks of its own, and its scales.
        out: of the result's shape and dtype, or a tensor of no elements, which is resized. It lies
            apart from all that is read.

    Returns:
        The result, contiguous, or ``out``. No gradient flows through it (see
        :class:`tiled_mm.nn.Fp8Linear`).

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit, in torch's words where it has some; or
            as :func:`grouped_mm`.
        NotImplementedError: no kernel for this device, or a recipe other than these.
    """
    try:
        options = {"recipe_a": _name(scale_recipe_a), "recipe_b": _name(scale_recipe_b)}
        options |= {"offs": offs, "bias": bias, "out_dtype": out_dtype, "activation": activation}
        options["sum_order"] = sum_order
        return into(out, torch.ops.tiled.scaled_mm, (mat_a, mat_b, scale_a, scale_b), options)
    except RuntimeError:
        check_types(scaled_mm, locals())
        raise


def _name(recipe: Any) -> str | None:
    """Of a ScalingType, which torch has since 2.10, or what is none."""
    return getattr(recipe, "name", recipe)
