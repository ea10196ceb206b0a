"""Cross entropy over a vocabulary that processes share out, its sums added by the tree."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._names import Reduction, Tree
from ._on_rank import on_rank
from ._tree_reduce import added, check_parts, gather, group_of


def cross_entropy(
    logits: Tensor,
    target: Tensor,
    group: Any = None,
    *,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
    sum_order: Tree = "tree",
) -> Tensor:
    """:func:`torch.nn.functional.cross_entropy` of a head whose columns are split, as by
    :class:`ColwiseParallel`: the loss and its gradient have the bits of one process, which calls
    this without a group, and a row's do not depend on the batch.

    A row's sum of exp(logit - maximum) is added by the contract's tree over the vocabulary, the
    losses by the tree over the rows, in float32 (of float64 in float64), to nearest. What processes
    send is three numbers for each row.

    Args:
        logits: [..., V / t], the columns of this process; float16, bfloat16, float32 or float64.
            All processes have the same shape.
        target: [...] of int64, the same on every process: columns of the whole vocabulary of V, or
            ``ignore_index``.
        group: a ProcessGroup, a DeviceMesh of one dimension, or (mesh, dimension), of t = 1, 2, 4,
            ... processes with the columns in the order of ranks; or None.
        reduction: ``'mean'`` over targets that are not ignored, ``'sum'`` or ``'none'``.
        sum_order: ``'tree'`` or ``'tree:LEAF'``. From two processes on V / t is a multiple of 16
            and at least a leaf, 1024 or LEAF; one process takes any V.

    Returns:
        [], or of ``'none'`` [...], where an ignored one is 0; float32, or float64 of float64, the
        same on every process. The gradient has the logits' dtype; there is no second derivative.

    Raises:
        RuntimeError: shapes, dtypes or options do not fit, V does not part into equal trees, or a
            target is no column; before anything is sent.
    """
    name, count = (None, 1) if group is None else group_of(group)
    if not logits.dtype.is_floating_point or logits.dtype.itemsize == 1:
        raise RuntimeError(f"cross_entropy: expected logits of 16 to 64 bits, got {logits.dtype}")
    if target.dtype != torch.int64 or logits.dim() == 0 or logits.shape[:-1] != target.shape:
        raise RuntimeError(
            f"cross_entropy: expected logits [..., V] and a target [...] of int64, got "
            f"{list(logits.shape)} and {list(target.shape)} of {target.dtype}"
        )
    if reduction not in ("mean", "sum", "none"):
        raise RuntimeError(f"cross_entropy: reduction {reduction!r}; expected mean, sum or none")
    if not sum_order.startswith("tree"):
        raise RuntimeError(f"cross_entropy: sum_order={sum_order!r} is not shared out")
    columns = logits.shape[-1]
    if count > 1:
        check_parts(columns * count, count, sum_order, 16, "cross_entropy: a vocabulary")
    used = target != ignore_index
    torch._assert_async(
        (~used | ((target >= 0) & (target < columns * count))).all(),
        f"cross_entropy: a target is no column of {columns * count}",
    )
    first = 0 if name is None else columns * _rank_in(name)
    with torch.autocast(logits.device.type, enabled=False):
        losses = _CrossEntropy.apply(
            logits.reshape(-1, columns),
            target.reshape(-1),
            used.reshape(-1),
            name,
            count,
            first,
            sum_order,
        )
        if reduction == "none":
            return losses.view(target.shape)
        total = _RowSum.apply(losses.unsqueeze(0), sum_order).squeeze(0)
    return total if reduction == "sum" else total / used.sum()


@torch.compiler.assume_constant_result
def _rank_in(name: str) -> int:
    from torch.distributed import distributed_c10d

    return distributed_c10d._resolve_process_group(name).rank()


def _row_sums(x: Tensor, order: str) -> Tensor:
    """[rows] of [rows, columns]: a product by ones rounds as a sum does."""
    ones = x.new_ones(x.shape[1], 1)
    return torch.ops.tiled.mm(x, ones, precision="ieee", sum_order=order).squeeze(1)


class _RowSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, order: str) -> Tensor:
        ctx.columns = x.shape[1]
        return _row_sums(x, order)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        return gradient.unsqueeze(1).expand(-1, ctx.columns), None


class _CrossEntropy(torch.autograd.Function):
    """[rows] of [rows, columns]."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        target: Tensor,
        used: Tensor,
        name: str | None,
        count: int,
        first: int,
        order: str,
    ) -> Tensor:
        dtype = torch.float64 if logits.dtype == torch.float64 else torch.float32
        columns = logits.shape[1]
        top = _of_all(logits.amax(1).to(dtype), name, count).amax(0)
        x = logits.to(dtype, copy=True).sub_(top.unsqueeze(1))
        at = target - first
        is_here = used & (at >= 0) & (at < columns)
        at = at.clamp(0, columns - 1).unsqueeze(1)
        own = x.gather(1, at).squeeze(1)  # the target's, on the process that has it
        parts = _of_all(torch.stack([_row_sums(x.exp_(), order), own]), name, count)
        total = added(parts[:, 0])
        owner = target.div(columns, rounding_mode="floor").clamp(0, count - 1).unsqueeze(0)
        ctx.save_for_backward(logits, top, total, at, is_here, used)
        losses = total.log() - parts[:, 1].gather(0, owner).squeeze(0)
        return losses.masked_fill(~used, 0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        logits, top, total, at, is_here, used = ctx.saved_tensors
        x = logits.to(top.dtype, copy=True).sub_(top.unsqueeze(1)).exp_().div_(total.unsqueeze(1))
        x.scatter_(1, at, x.gather(1, at) - is_here.unsqueeze(1).to(x.dtype))
        x.mul_(gradient.unsqueeze(1)).masked_fill_(~used.unsqueeze(1), 0)
        return (x.to(logits.dtype), *[None] * 6)


def _of_all(t: Tensor, name: str | None, count: int) -> Tensor:
    """[count, ...]: of every process."""
    if count == 1:
        return t.unsqueeze(0)
    with on_rank("cross_entropy", name):
        return gather(t.unsqueeze(0), 0, name)
