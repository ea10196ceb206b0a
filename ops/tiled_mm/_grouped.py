"""Grouped products as a function."""

from __future__ import annotations

import torch
from torch import Tensor

from ._arguments import check_types
from ._names import Activation, Algo, Precision, SumOrder
from ._ops import into


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    activation: Activation | None = None,
    algo: Algo | None = None,
    precision: Precision | None = None,
    sum_order: SumOrder | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The products of E groups, as torch.nn.functional.grouped_mm has them: each is
    ``activation(A @ B + bias)`` of its own rows, columns or part of K, with the bits of
    :func:`mm`, whatever the other groups are.

    ========================= ========================== ===============================
    ``mat_a``, ``mat_b``      result                     groups share out
    ========================= ========================== ===============================
    [T, K], [E, K, N]         [T, N]                     rows (a layer of experts)
    [E, M, K], [K, T]         [M, T]                     columns
    [M, T], [T, N]            [E, M, N]                  K (the experts' weight gradients)
    [E, M, K], [E, K, N]      [E, M, N]                  nothing: :func:`bmm`
    ========================= ========================== ===============================

    Args:
        mat_a, mat_b: of one dtype and device, any strides and alignment; dtypes as of :func:`mm`.
        offs: [E], int32 or int64, on the device of ``mat_a``: the cumulative ends of the groups in
            the size T that they share out. A group may be empty. What is in the operands behind
            the last end is not read into any sum, and is zero in the result (torch leaves it as it
            finds it). None where both operands have three dimensions. E is at most 2^31 - 1.
        bias: [E, N], a row for every group; dtypes as of :func:`addmm`'s input. Not where groups
            share out columns.
        out_dtype: as of :func:`mm`.
        activation: as of :func:`addmm`.
        algo, precision: as of :func:`mm`. On a GPU rungs that take no groups refuse them; the
            others read ``offs`` on the device, and the host does not wait.
        sum_order: as of :func:`mm`. Where groups share out K, a group's leaves are found by its own
            part of K: on a GPU ``offs`` is then copied to the host, which waits for it, and in the
            capture of a CUDA graph this is an error.
        out: of the result's shape and dtype, or a tensor of no elements, which is resized. It
            must be apart from all that is read. Gradients do not flow through it.

    Returns:
        The result, contiguous, or ``out``. A call takes memory for it and, on a GPU, for copies of
        operands that TMA cannot read where they are, and, where K or T is 32768 or more, for sums
        of parts of K: at most a tile for every block of the grid. See docs/grouped.md.

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit, in torch's words where it has some; on
            the CPU ``offs`` decreases, or has an end below 0 or above T, before anything is
            written (on a GPU each end counts as at least the one before and at most T); the
            activation or ``algo`` is unknown or does not fit; ``out`` has another dtype or shape.
        NotImplementedError: no kernel for this dtype, layout or precision.
    """
    try:
        options = {"activation": activation, "algo": algo, "precision": precision}
        options |= {"out_dtype": out_dtype, "sum_order": sum_order}
        return into(out, torch.ops.tiled.grouped_mm, (mat_a, mat_b, offs, bias), options)
    except RuntimeError:
        check_types(grouped_mm, locals())
        raise
