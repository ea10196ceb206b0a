"""Tensors to 8 bits with scales, as :func:`tiled_mm.scaled_mm` takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from ._arguments import with_types_checked
from ._names import Recipe
from ._scaled import _name

if TYPE_CHECKING:
    from torch.nn.functional import ScalingType

#: The largest number of each dtype, which a block's largest element becomes.
_LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0, torch.int8: 127.0}
_LEAST = 2.0**-126  # the least scale of a block that is not all zeros: fp32's least normal number


class Quantized(NamedTuple):
    """``data * scale`` is about x; ``data_t`` and ``scale_t`` are the same of x's transpose."""

    data: Tensor
    scale: Tensor
    data_t: Tensor | None = None
    scale_t: Tensor | None = None


@with_types_checked
def quantize(
    x: Tensor,
    recipe: ScalingType | Recipe = "BlockWise1x128",
    *,
    dtype: torch.dtype = torch.float8_e4m3fn,
    transposed: bool = False,
) -> Quantized:
    """x in 8 bits: ``x * (1 / scale)``, rounded to nearest, ties to even. A scale is the largest
    element in size of what it holds for, divided by the largest number of ``dtype``.

    A scale is 1 where all that it holds for is zero, and at least 2^-126. NaN and infinities make a
    scale NaN or infinite, and so every product that it enters. No gradient flows. The bits are the
    same on every device. Blocks take one pass, with the transpose or without.

    Args:
        x: [rows, K], or [E, rows, K], each entry by itself; float32, float16 or bfloat16, any
            strides. For the right operand of a product, [K, N], quantize its transpose and give
            ``data.mT`` and ``scale.mT``: contiguous along K, as fp8's instructions want it.
        recipe: what has a scale of its own: ``'TensorWise'``, ``'RowWise'``, ``'BlockWise1x128'``
            (128 of K in each row) or ``'BlockWise128x128'``, or torch's ScalingType.
        dtype: float8_e4m3fn, float8_e5m2, or int8, which has no blocks and no -128.
        transposed: x's transpose too, as a training step's weight gradient needs it: scaled along
            its own rows, but of TensorWise and BlockWise128x128 the same numbers.

    Returns:
        ``data`` of x's shape, contiguous, and float32 ``scale``: [1], [rows, 1],
        [rows, ceil(K / 128)] or [ceil(rows / 128), ceil(K / 128)], of E entries [E, 1, 1] and so
        on; where asked for, the same of the transpose. Scales of 1 x 128 are contiguous along the
        rows, as a product reads them.

    Raises:
        RuntimeError: x is no matrix or batch of them, or has another dtype; the recipe or ``dtype``
            is none of these.
    """
    recipe = _name(recipe)
    _check(x, recipe, dtype)
    x = x.detach()
    if recipe.startswith("BlockWise"):
        square = recipe == "BlockWise128x128"
        made = torch.ops.tiled._quantize_blocks(x, square, dtype, transposed)
        return Quantized(*(made if transposed else made[:2]))
    data, scale = _quantized(x, recipe, dtype)
    if not transposed:
        return Quantized(data, scale)
    if recipe == "TensorWise":
        return Quantized(data, scale, data.mT.contiguous(), scale)
    return Quantized(data, scale, *_quantized(x.mT, recipe, dtype))


def _check(x: Tensor, recipe: str, dtype: torch.dtype) -> None:
    if x.dim() not in (2, 3):
        raise RuntimeError(f"tiled_mm: quantize takes a matrix or a batch of them, got {x.dim()}D")
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise RuntimeError(f"tiled_mm: quantize takes float32, float16 or bfloat16, got {x.dtype}")
    if dtype not in _LARGEST:
        raise RuntimeError(
            f"tiled_mm: quantize makes float8_e4m3fn, float8_e5m2 or int8, not {dtype}"
        )
    if recipe not in ("TensorWise", "RowWise", "BlockWise1x128", "BlockWise128x128"):
        raise RuntimeError(
            f"tiled_mm: unknown recipe '{recipe}'; expected one of: TensorWise, RowWise, "
            "BlockWise1x128, BlockWise128x128"
        )
    if dtype == torch.int8 and recipe.startswith("BlockWise"):
        raise RuntimeError("tiled_mm: int8 is scaled TensorWise or RowWise")


def _quantized(x: Tensor, recipe: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    x = x.float()
    scale = _scale(_largest(x, (-1,) if recipe == "RowWise" else (-2, -1)), dtype)
    data = _rounded(x * scale.reciprocal(), dtype).contiguous()
    return data, scale.view(1) if recipe == "TensorWise" and x.dim() == 2 else scale


def _largest(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    if any(x.shape[d] == 0 for d in dims):
        return x.new_zeros([1 if d - x.dim() in dims else n for d, n in enumerate(x.shape)])
    return x.abs().amax(dims, keepdim=True)


def _scale(largest: Tensor, dtype: torch.dtype) -> Tensor:
    # By a tensor: on a GPU torch multiplies by a number's reciprocal, which has other bits.
    scale = (largest / largest.new_full((), _LARGEST[dtype])).clamp_min(_LEAST)
    return torch.where(largest == 0, 1.0, scale)


def _rounded(x: Tensor, dtype: torch.dtype) -> Tensor:
    largest = _LARGEST[dtype]
    x = x.clamp(-largest, largest)
    return (x.round() if dtype == torch.int8 else x).to(dtype)
