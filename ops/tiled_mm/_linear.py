"""A linear layer as a function."""

from __future__ import annotations

import torch
from torch import Tensor

from . import _plain
from ._arguments import check_types
from ._names import Activation, Algo, Precision, SumOrder
from ._ops import into


def linear(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    activation: Activation | None = None,
    algo: Algo | None = None,
    precision: Precision | None = None,
    sum_order: SumOrder | None = None,
    out_dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """``activation(input @ weight.T + bias)`` in one pass, rounded once, at the end:
    torch.nn.functional.linear with an activation.

    A row's result has the bits of :func:`mm`, so it does not depend on the rows beside it: not on
    the batch, nor on how its dimensions are folded.

    Args:
        input: [..., K], with any number of leading dimensions, none too; any strides. Or jagged
            (torch.nested): [B, ragged, ..., K], and so is the result.
        weight: [N, K], or [K] without a bias; dtype and device of ``input``.
        bias: [N], or what torch broadcasts; dtypes as of :func:`addmm`'s input.
        activation, algo, precision, out_dtype, sum_order: as of :func:`addmm`.
        out: [..., N] of the result's dtype, or a tensor of no elements, which is resized. It
            must be apart from all that is read. Gradients do not flow through it.

    Returns:
        [..., N], contiguous; [...] for a weight of one dimension; or ``out``.

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit, in torch.nn.functional.linear's words;
            the activation or ``algo`` is unknown or does not fit; ``out`` has another dtype or
            shape.
        NotImplementedError: no kernel for this dtype, layout or precision.
    """
    try:
        if (
            out is None
            and out_dtype is None
            and activation is None
            and algo is None
            and precision is None
            and sum_order is None
        ):
            return _plain.linear(input, weight, bias)
        options = {"activation": activation, "algo": algo, "precision": precision}
        options |= {"out_dtype": out_dtype, "sum_order": sum_order}
        return into(out, torch.ops.tiled.linear, (input, weight, bias), options)
    except RuntimeError:
        check_types(linear, locals())
        raise
