"""The products as Python functions; ``torch.ops.tiled`` has the same without ``out=``'s return."""

from __future__ import annotations

import torch
from torch import Tensor


def mm(
    a: Tensor,
    b: Tensor,
    *,
    algo: str | None = None,
    precision: str | None = None,
    out_dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Matrix product of ``a`` [M, K] and ``b`` [K, N].

    The bits of an element depend on its row of ``a``, its column of ``b``, the dtype, the precision
    and the arithmetic of the device; not on M, N, strides, the batch or the run.

    Args:
        a: [M, K], any strides; float32, float64, float16, bfloat16, complex64, complex128, int8,
            int16, int32, int64 or uint8, on the CPU or a CUDA device.
        b: [K, N], dtype and device of ``a``.
        algo: a rung by name (see :func:`algos`), used in the backward too; ``None`` lets the
            planner choose.
        precision: for float32 inputs ``'ieee'`` (fp32 chains), ``'tf32'`` (operands rounded to 11
            bits) or ``'fp16x3'`` (fp32's error bound from tensor cores); ``None`` follows
            :func:`set_float32_precision`, else torch's own setting. Other dtypes know ``'ieee'``.
        out_dtype: ``torch.float32`` for float16 and bfloat16 inputs gives the unrounded sum.
        out: [M, N] of the result's dtype, or a tensor of no elements, which is resized. It may
            overlap an input. Gradients do not flow through it.

    Returns:
        [M, N], contiguous, or ``out``.

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit, in torch.mm's words; ``algo`` does not
            fit; ``out`` has another dtype or shape.
        NotImplementedError: no kernel for this dtype, layout or precision.
    """
    if out is None:
        return torch.ops.tiled.mm(a, b, algo=algo, precision=precision, out_dtype=out_dtype)
    torch.ops.tiled.mm.out(a, b, algo=algo, precision=precision, out_dtype=out_dtype, out=out)
    return out


def bmm(
    a: Tensor,
    b: Tensor,
    *,
    algo: str | None = None,
    precision: str | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Batched product of ``a`` [B, M, K] and ``b`` [B, K, N]: every entry has the bits of
    :func:`mm`, whose arguments and errors are the same.

    Returns:
        [B, M, N], contiguous.
    """
    return torch.ops.tiled.bmm(a, b, algo=algo, precision=precision, out_dtype=out_dtype)


def fp16x3_recomputed(a: Tensor, b: Tensor) -> Tensor:
    """How many elements of the product of ``a`` and ``b`` ``precision='fp16x3'`` computes again in
    fp64: those of rows and columns with NaN or Inf, those of which two fp16 parts have lost too
    much, those too large for a number, and all of them where K is below 64. It runs the product.

    Args:
        a: [M, K] or [B, M, K], float32, on a CUDA device of compute capability 9.0.
        b: [K, N] or [B, K, N], dtype and device of ``a``.

    Returns:
        The count, modulo 2^32: an int64 scalar on the device of ``a``. The host does not wait.

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit.
        NotImplementedError: no kernel for this device.
    """
    return torch.ops.tiled.fp16x3_recomputed(a, b)
