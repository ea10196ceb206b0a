"""The products as Python functions, with the names of torch's parameters; ``torch.ops.tiled`` has
the same without ``out=``'s return."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from . import _plain
from ._arguments import check_types, with_numbers, with_types_checked
from ._names import Activation, Algo, Precision, SumOrder

_ONE = 1  # the default of beta and alpha, to know it again by


def mm(
    input: Tensor,
    mat2: Tensor,
    out_dtype: torch.dtype | None = None,
    *,
    algo: Algo | None = None,
    precision: Precision | None = None,
    sum_order: SumOrder | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Matrix product of ``input`` [M, K] and ``mat2`` [K, N].

    The bits of an element depend on its row of ``input``, its column of ``mat2``, the dtype, the
    precision and the arithmetic of the device; not on M, N, strides, the batch or the run.

    Args:
        input: [M, K], any strides; float32, float64, float16, bfloat16, complex64, complex128,
            int8, int16, int32, int64 or uint8, on the CPU or a CUDA device.
        mat2: [K, N], dtype and device of ``input``.
        out_dtype: ``torch.float32`` for float16 and bfloat16 inputs gives the unrounded sum,
            ``torch.int32`` for int8 and uint8 inputs the sum modulo 2^32, not its low 8 bits.
        algo: a rung by name (see :func:`algos`), used in the backward too; ``None`` lets the
            planner choose.
        precision: for float32 inputs ``'ieee'`` (fp32 chains), ``'tf32'`` (operands rounded to 11
            bits) or ``'fp16x3'`` (fp32's error bound from tensor cores); ``None`` follows
            :func:`set_float32_precision`, else torch's own setting. Other dtypes know ``'ieee'``.
        sum_order: ``'chain'``, ``'tree'`` (leaves of 1024 to 2047 of K, added pairwise: a second
            order, in which K may be shared out, see docs/contract.md) or ``'tree:LEAF'``, LEAF a
            power of two from 16 to 16384; used in the backward too. ``None`` follows
            :func:`set_sum_order`. Of integers, and of K below twice a leaf, both are one. Lessons
            (``algo`` from ``'naive'`` to ``'warp_specialized'``) know ``'chain'`` alone.
        out: [M, N] of the result's dtype, or a tensor of no elements, which is resized. It may
            overlap an input. Gradients do not flow through it.

    Returns:
        [M, N], contiguous, or ``out``.

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit, in torch.mm's words; ``algo`` does not
            fit; ``out`` has another dtype or shape.
        NotImplementedError: no kernel for this dtype, layout or precision.
        TypeError: an argument has another type than its parameter, as of every function here.
    """
    try:
        if (
            out is None
            and out_dtype is None
            and algo is None
            and precision is None
            and sum_order is None
        ):
            return _plain.mm(input, mat2)
        options = {"algo": algo, "precision": precision, "out_dtype": out_dtype}
        options["sum_order"] = sum_order
        return into(out, torch.ops.tiled.mm, (input, mat2), options)
    except RuntimeError:
        check_types(mm, locals())
        raise


def bmm(
    input: Tensor,
    mat2: Tensor,
    out_dtype: torch.dtype | None = None,
    *,
    algo: Algo | None = None,
    precision: Precision | None = None,
    sum_order: SumOrder | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Batched product of ``input`` [B, M, K] and ``mat2`` [B, K, N]: every entry has the bits of
    :func:`mm`, whose arguments and errors are the same.

    Returns:
        [B, M, N], contiguous, or ``out``.
    """
    try:
        if (
            out is None
            and out_dtype is None
            and algo is None
            and precision is None
            and sum_order is None
        ):
            return _plain.bmm(input, mat2)
        options = {"algo": algo, "precision": precision, "out_dtype": out_dtype}
        options["sum_order"] = sum_order
        return into(out, torch.ops.tiled.bmm, (input, mat2), options)
    except RuntimeError:
        check_types(bmm, locals())
        raise


def into(
    out: Tensor | None, product: Callable, tensors: tuple[Tensor | None, ...], options: dict
) -> Tensor:
    """The product with the options that are given, each of which takes its time to pass; in ``out``
    if there is one: that overload of an operator returns nothing."""
    given = {name: value for name, value in options.items() if value is not None}
    if out is None:
        return product(*tensors, **given)
    product.out(*tensors, **given, out=out)
    return out


def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    out_dtype: torch.dtype | None = None,
    *,
    beta: float = 1,
    alpha: float = 1,
    activation: Activation | None = None,
    algo: Algo | None = None,
    precision: Precision | None = None,
    sum_order: SumOrder | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """``activation(beta * input + alpha * (mat1 @ mat2))`` in one pass, rounded once, at the end.

    The sum is :func:`mm`'s, with its bits, and what follows is done element by element in the type
    that it has: float32 for float16 and bfloat16. So a result of a slice is the slice of the
    result, bit for bit.

    Args:
        input: expands to [M, N]; dtype and device of ``mat1``. Where that is float32, float16 or
            bfloat16 it may be any of these.
        mat1, mat2: [M, K] and [K, N], as of :func:`mm`.
        out_dtype, algo, precision, sum_order: as of :func:`mm`, but int32 sums of int8 and uint8.
        beta, alpha: numbers, of Python or numpy, or tensors of no dimensions; for integers
            integers. Where ``beta`` is 0 the input is not read.
        activation: ``'relu'``, ``'gelu'``, ``'gelu_tanh'`` or ``'silu'``, of real floating-point
            results.
        out: [M, N] of the result's dtype, or a tensor of no elements, which is resized. It may be
            the input, or apart from all that is read. Gradients do not flow through it.

    Returns:
        [M, N], contiguous, or ``out``.

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit, in torch.addmm's words; the activation
            or ``algo`` is unknown or does not fit; ``out`` has another dtype or shape.
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
            if beta is _ONE and alpha is _ONE:
                return _plain.addmm(input, mat1, mat2)
            return torch.ops.tiled.addmm(input, mat1, mat2, beta=beta, alpha=alpha)
        options = {"beta": beta, "alpha": alpha, "activation": activation, "algo": algo}
        options |= {"precision": precision, "out_dtype": out_dtype, "sum_order": sum_order}
        return into(out, torch.ops.tiled.addmm, (input, mat1, mat2), options)
    except RuntimeError:
        again = with_numbers(addmm, locals())
        if again is None:
            check_types(addmm, locals())
            raise
    return addmm(**again)


def addmm_(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
    algo: Algo | None = None,
    precision: Precision | None = None,
    sum_order: SumOrder | None = None,
) -> Tensor:
    """``input = beta * input + alpha * (mat1 @ mat2)`` in place, rounded once, to the dtype of
    ``input``: a float32 ``input`` takes products of float16 and bfloat16 in float32, as gradients
    are accumulated. Gradients do not flow through it.

    Args:
        input: [M, N]; dtype and device of ``mat1``, or float32 where that is float16 or bfloat16.
        mat1, mat2, beta, alpha, algo, precision, sum_order: as of :func:`addmm`.

    Returns:
        ``input``.

    Raises:
        RuntimeError, NotImplementedError: as :func:`addmm`.
    """
    return addmm(
        input,
        mat1,
        mat2,
        beta=beta,
        alpha=alpha,
        algo=algo,
        precision=precision,
        sum_order=sum_order,
        out_dtype=getattr(input, "dtype", None),  # or addmm's refusal
        out=input,
    )


def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    out_dtype: torch.dtype | None = None,
    *,
    beta: float = 1,
    alpha: float = 1,
    activation: Activation | None = None,
    algo: Algo | None = None,
    precision: Precision | None = None,
    sum_order: SumOrder | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """:func:`addmm` of every entry of a batch: ``batch1`` [B, M, K], ``batch2`` [B, K, N], and
    ``input``, which expands to [B, M, N]. Every entry has the bits of :func:`addmm`.

    Returns:
        [B, M, N], contiguous, or ``out``.

    Raises:
        RuntimeError: as :func:`addmm`, in torch.baddbmm's words.
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
            if beta is _ONE and alpha is _ONE:
                return _plain.baddbmm(input, batch1, batch2)
            return torch.ops.tiled.baddbmm(input, batch1, batch2, beta=beta, alpha=alpha)
        options = {"beta": beta, "alpha": alpha, "activation": activation, "algo": algo}
        options |= {"precision": precision, "out_dtype": out_dtype, "sum_order": sum_order}
        return into(out, torch.ops.tiled.baddbmm, (input, batch1, batch2), options)
    except RuntimeError:
        again = with_numbers(baddbmm, locals())
        if again is None:
            check_types(baddbmm, locals())
            raise
    return baddbmm(**again)


@with_types_checked
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
