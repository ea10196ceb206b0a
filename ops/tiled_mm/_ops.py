"""The products as Python functions; ``torch.ops.tiled`` has the same without ``out=``'s return."""

from __future__ import annotations

from collections.abc import Callable

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
        out_dtype: ``torch.float32`` for float16 and bfloat16 inputs gives the unrounded sum,
            ``torch.int32`` for int8 and uint8 inputs the sum modulo 2^32, not its low 8 bits.
        out: [M, N] of the result's dtype, or a tensor of no elements, which is resized. It may
            overlap an input. Gradients do not flow through it.

    Returns:
        [M, N], contiguous, or ``out``.

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit, in torch.mm's words; ``algo`` does not
            fit; ``out`` has another dtype or shape.
        NotImplementedError: no kernel for this dtype, layout or precision.
    """
    if out is None:  # no helper here: calls of small products cost little else
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


def _into(
    out: Tensor | None, product: Callable, *tensors: Tensor | None, **options: object
) -> Tensor:
    """The product, in ``out`` if there is one: that overload of an operator returns nothing."""
    if out is None:
        return product(*tensors, **options)
    product.out(*tensors, **options, out=out)
    return out


def addmm(
    input: Tensor,
    a: Tensor,
    b: Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
    activation: str | None = None,
    algo: str | None = None,
    precision: str | None = None,
    out_dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """``activation(beta * input + alpha * (a @ b))`` in one pass, rounded once, at the end.

    The sum is :func:`mm`'s, with its bits, and what follows is done element by element in the type
    that it has: float32 for float16 and bfloat16. So a result of a slice is the slice of the
    result, bit for bit.

    Args:
        input: expands to [M, N]; dtype and device of ``a``. Where ``a`` is float32, float16 or
            bfloat16 it may be any of these.
        a, b, algo, precision, out_dtype: as of :func:`mm`, but int32 sums of int8 and uint8.
        beta, alpha: numbers; for integers integers. Where ``beta`` is 0 the input is not read.
        activation: ``'relu'``, ``'gelu'``, ``'gelu_tanh'`` or ``'silu'``, of real floating-point
            results.
        out: [M, N] of the result's dtype, or a tensor of no elements, which is resized. It may be
            the input, or lie apart from all that is read. Gradients do not flow through it.

    Returns:
        [M, N], contiguous, or ``out``.

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit, in torch.addmm's words; the activation
            or ``algo`` is unknown or does not fit; ``out`` has another dtype or shape.
        NotImplementedError: no kernel for this dtype, layout or precision.
    """
    return _into(
        out,
        torch.ops.tiled.addmm,
        input,
        a,
        b,
        beta=beta,
        alpha=alpha,
        activation=activation,
        algo=algo,
        precision=precision,
        out_dtype=out_dtype,
    )


def addmm_(
    input: Tensor,
    a: Tensor,
    b: Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
    algo: str | None = None,
    precision: str | None = None,
) -> Tensor:
    """``input = beta * input + alpha * (a @ b)`` in place, rounded once, to the dtype of ``input``:
    a float32 ``input`` takes products of float16 and bfloat16 in float32, as gradients are
    accumulated. Gradients do not flow through it.

    Args:
        input: [M, N]; dtype and device of ``a``, or float32 where that is float16 or bfloat16.
        a, b, beta, alpha, algo, precision: as of :func:`addmm`.

    Returns:
        ``input``.

    Raises:
        RuntimeError, NotImplementedError: as :func:`addmm`.
    """
    return addmm(
        input,
        a,
        b,
        beta=beta,
        alpha=alpha,
        algo=algo,
        precision=precision,
        out_dtype=input.dtype,
        out=input,
    )


def baddbmm(
    input: Tensor,
    a: Tensor,
    b: Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
    activation: str | None = None,
    algo: str | None = None,
    precision: str | None = None,
    out_dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """:func:`addmm` of every entry of a batch: ``a`` [B, M, K], ``b`` [B, K, N], and ``input``,
    which expands to [B, M, N]. Every entry has the bits of :func:`addmm`.

    Returns:
        [B, M, N], contiguous, or ``out``.

    Raises:
        RuntimeError: as :func:`addmm`, in torch.baddbmm's words.
        NotImplementedError: no kernel for this dtype, layout or precision.
    """
    return _into(
        out,
        torch.ops.tiled.baddbmm,
        input,
        a,
        b,
        beta=beta,
        alpha=alpha,
        activation=activation,
        algo=algo,
        precision=precision,
        out_dtype=out_dtype,
    )


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    activation: str | None = None,
    algo: str | None = None,
    precision: str | None = None,
    out_dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """``activation(x @ weight.T + bias)`` in one pass, rounded once, at the end:
    torch.nn.functional.linear with an activation.

    A row's result has the bits of :func:`mm`, so it does not depend on the rows beside it: not on
    the batch, nor on how its dimensions are folded.

    Args:
        x: [..., K], with any number of leading dimensions, none too; any strides.
        weight: [N, K], or [K] without a bias; dtype and device of ``x``.
        bias: [N], or what torch broadcasts; dtypes as of :func:`addmm`'s input.
        activation, algo, precision, out_dtype: as of :func:`addmm`.
        out: [..., N] of the result's dtype, or a tensor of no elements, which is resized. It lies
            apart from all that is read. Gradients do not flow through it.

    Returns:
        [..., N], contiguous; [...] for a weight of one dimension; or ``out``.

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit, in torch.nn.functional.linear's words;
            the activation or ``algo`` is unknown or does not fit; ``out`` has another dtype or
            shape.
        NotImplementedError: no kernel for this dtype, layout or precision.
    """
    return _into(
        out,
        torch.ops.tiled.linear,
        x,
        weight,
        bias,
        activation=activation,
        algo=algo,
        precision=precision,
        out_dtype=out_dtype,
    )


def fp16x3_recomputed(a: Tensor, b: Tensor) -> Tensor:
    """How many elements of the product of ``a`` and ``b`` ``precision='fp16x3'`` computes again in
    fp64: those of rows and columns with NaN or Inf, those of which two fp16 parts have lost too
    much, those too large for a number, and all of them where K is below 64. It runs the product.

    Args:
        a: [M, K] or [B, M, K], float32, on a CUDA device that has a kernel of fp16x3's: of compute
            capability 8.0 or later.
        b: [K, N] or [B, K, N], dtype and device of ``a``.

    Returns:
        The count, modulo 2^32: an int64 scalar on the device of ``a``. The host does not wait.

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit.
        NotImplementedError: no kernel for this device.
    """
    return torch.ops.tiled.fp16x3_recomputed(a, b)
