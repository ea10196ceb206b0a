"""Sums of several processes, added by the tree that one process adds them by (docs/contract.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._names import Activation
from ._on_rank import on_rank
from ._peer_memory import of_all

#: Bytes of a sum up to which every process gets all of all others' in one step.
ONE_STEP = 1 << 20


def tree_reduce(
    partial: Tensor,
    group: Any,
    scatter_dim: int | None = None,
    *,
    out_dtype: torch.dtype | None = None,
    bias: Tensor | None = None,
    activation: Activation | None = None,
) -> Tensor:
    """``activation(sum over processes of partial + bias)``, rounded once, where each process has
    the sum of an equal part of K: with ``sum_order="tree"`` the bits of one process that has all.

    Sums are added pairwise in the order of ranks, ((0 + 1) + (2 + 3)) + ..., whatever their size
    and the topology: small ones are read by everyone, where they lie if GPUs reach each other's
    memory, or gathered; large ones are exchanged by blocks of rows, 1.5 times the bytes of an
    all_reduce in 16 bits. Nothing is added by the collective itself.

    All processes call it in the same order, with the same shape and dtype of ``partial``,
    ``scatter_dim``, ``out_dtype`` and ``activation``, and a bias all or none. No process sees what
    the others gave without a collective of its own, so this is not checked: as of
    torch.distributed.all_gather, what differs ends in the backend's error, its abort (gloo's), a
    wait until the group's timeout, or a wrong result.

    Args:
        partial: [..., N], the unrounded sum of this process's part: float32 (of 16-bit operands by
            ``out_dtype=torch.float32``) or float64. All processes have the same shape.
        group: a ProcessGroup, a DeviceMesh of one dimension, or (mesh, dimension), of 1, 2, 4, ...
            processes, which have their parts of K in the order of ranks.
        scatter_dim: leaves the result split along this dimension, but the last, evenly, each
            process with its part; ``None`` gives all of it to everyone.
        out_dtype: ``partial``'s (None), or float16 or bfloat16 of float32.
        bias: [N], added to the sum of all, the same on every process.
        activation: as of :func:`addmm`, of the sum and the bias.

    Returns:
        [..., N]. Its gradient is that of the whole, the same on every process, or, scattered, of
        the part. There is no second derivative.

    Raises:
        RuntimeError: the processes are no power of two, the dimension is the last one or is not
            shared out evenly, or shapes or dtypes do not fit; before anything is sent. Or a
            collective failed, as where a process died: the backend's error, with this process.
    """
    name, count = group_of(group)
    dims = partial.dim()
    if count & (count - 1):
        raise RuntimeError(f"tree_reduce: {count} processes are no power of two")
    if partial.dtype not in (torch.float32, torch.float64) or dims == 0:
        raise RuntimeError(
            f"tree_reduce: expected sums [..., N] of float32 or float64, got {partial.dtype} of "
            f"{dims} dimensions"
        )
    out_dtype = out_dtype or partial.dtype
    if out_dtype != partial.dtype and (
        partial.dtype != torch.float32 or out_dtype not in (torch.float16, torch.bfloat16)
    ):
        raise RuntimeError(f"tree_reduce: {partial.dtype} sums give no {out_dtype}")
    if bias is not None and bias.shape != partial.shape[-1:]:
        raise RuntimeError(
            f"tree_reduce: expected a bias of {list(partial.shape[-1:])}, got {list(bias.shape)}"
        )
    if scatter_dim is not None:
        if not -dims <= scatter_dim < dims or scatter_dim % dims == dims - 1:
            raise RuntimeError(
                f"tree_reduce: scatter_dim {scatter_dim} of {dims} dimensions; expected one in "
                "front of the last, whose sums the bias and the activation are of"
            )
        scatter_dim %= dims
        if partial.shape[scatter_dim] % count:
            raise RuntimeError(
                f"tree_reduce: {count} processes do not share out {list(partial.shape)} evenly "
                f"along dimension {scatter_dim}"
            )
    with on_rank("tree_reduce", name):
        return _TreeReduce.apply(partial, bias, name, count, scatter_dim, out_dtype, activation)


def check_parts(size: int, count: int, order: str, unit: int, what: str) -> None:
    """Whether `count` processes with an equal part each find the leaves of all of `size`.

    Raises:
        RuntimeError: they do not.
    """
    least = max(int(order.partition(":")[2] or 1024), unit)
    if count & (count - 1) or size % (count * unit) or size // count < least:
        raise RuntimeError(
            f"{what} of {size} does not part into {count} equal trees: sum_order={order!r} needs a "
            f"power of two of processes, and for each a multiple of {unit} and at least {least}"
        )


def group_of(group: Any) -> tuple[str, int]:
    """A group's name and how many processes it has."""
    from torch.distributed import _functional_collectives as functional
    from torch.distributed import distributed_c10d

    name = functional._resolve_group_name(group)
    return name, distributed_c10d._get_group_size_by_name(name)


def gather(x: Tensor, dim: int, name: str) -> Tensor:
    """All processes' tensors, one behind the other along a dimension. They are waited for here, as
    streams wait, so that an error of the collective is met here too."""
    from torch.distributed import _functional_collectives as functional

    return functional.wait_tensor(functional.all_gather_tensor(x.contiguous(), dim, name))


def reduced(
    partial: Tensor,
    bias: Tensor | None,
    name: str,
    count: int,
    scatter_dim: int | None,
    out_dtype: torch.dtype,
    activation: str | None,
) -> tuple[Tensor, Tensor]:
    """The result, and what its gradient needs of it: the pre-activation, of the result's dtype, or
    of relu and of none the result."""
    if count == 1:
        return finished(partial, bias, out_dtype, activation)
    if scatter_dim is not None:
        ours = added(_exchanged(partial.movedim(scatter_dim, 0), name, count))
        both = finished(ours, bias, out_dtype, activation)
        return tuple(t.movedim(0, scatter_dim) for t in both)
    if partial.numel() * partial.element_size() <= ONE_STEP:
        with of_all(partial, name) as roots:
            if roots is None:
                roots = gather(partial.unsqueeze(0), 0, name)
            if bias is not None or activation is not None:
                return finished(added(roots), bias, out_dtype, activation)
            y = added(roots, out=torch.empty_like(partial, dtype=out_dtype))
            return y, y
    rows = partial.reshape(-1, partial.shape[-1])
    missing = -len(rows) % count
    padded = torch.nn.functional.pad(rows, (0, 0, 0, missing)) if missing else rows
    ours = added(_exchanged(padded, name, count))
    y, value = finished(ours, bias, out_dtype, activation)
    whole = gather(y, 0, name)[: len(rows)].view(partial.shape)
    return whole, whole if value is y else gather(value, 0, name)[: len(rows)].view(partial.shape)


def _exchanged(rows: Tensor, name: str, count: int) -> Tensor:
    """[count, rows / count, ...]: of every process this one's rows."""
    from torch.distributed import _functional_collectives as functional

    received = functional.all_to_all_single(rows.contiguous(), None, None, name)
    return received.view(count, len(rows) // count, *rows.shape[1:])


def added(
    roots: Sequence[Tensor] | Tensor, out: Tensor | None = None, *, are_used_up: bool = False
) -> Tensor:
    """The sum of a power of two of them by the tree, in ``out`` if it is given, which rounds once.
    ``roots`` are tensors or a stack of them, in which sums may wait if they ``are_used_up``."""
    parts = list(roots)
    while len(parts) > 2:
        pairs = zip(parts[0::2], parts[1::2], strict=True)
        parts = [one.add_(two) if are_used_up else one + two for one, two in pairs]
    if len(parts) == 1:
        return parts[0] if out is None else out.copy_(parts[0])
    return torch.add(*parts, out=out)


def finished(
    sums: Tensor, bias: Tensor | None, out_dtype: torch.dtype, activation: str | None
) -> tuple[Tensor, Tensor]:
    """``activation(sums + bias)``, and what its gradient needs, as of :func:`reduced`."""
    if bias is not None:
        sums = sums + bias  # in the sums' dtype
    if activation is None:
        # A `to` that changes nothing as the last step of a Function has no gradient when compiled.
        y = sums if sums.dtype == out_dtype else sums.to(out_dtype)
        return y, y
    # A product over no k adds nothing, and its epilogue is every other product's.
    rows = sums.reshape(-1, sums.shape[-1])
    a = rows.new_empty((rows.shape[0], 0), dtype=out_dtype)
    b = rows.new_empty((0, rows.shape[1]), dtype=out_dtype)
    y, pre_activation = torch.ops.tiled._addmm_with_pre_activation(
        rows, a, b, activation=activation
    )
    y, pre_activation = y.view(sums.shape), pre_activation.view(sums.shape)
    return y, y if activation == "relu" else pre_activation


class _TreeReduce(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        partial: Tensor,
        bias: Tensor | None,
        name: str,
        count: int,
        scatter_dim: int | None,
        out_dtype: torch.dtype,
        activation: str | None,
    ) -> Tensor:
        y, value = reduced(partial, bias, name, count, scatter_dim, out_dtype, activation)
        ctx.save_for_backward(None if activation is None else value)
        ctx.asked = name, scatter_dim, activation, partial.dtype
        ctx.bias_dtype = None if bias is None else bias.dtype
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        name, scatter_dim, activation, dtype = ctx.asked
        (value,) = ctx.saved_tensors
        if scatter_dim is not None:
            with on_rank("tree_reduce", name):
                gradient = gather(gradient, scatter_dim, name)
                value = None if value is None else gather(value, scatter_dim, name)
        passed, sums = passed_back(
            gradient, value, activation, ctx.bias_dtype if ctx.needs_input_grad[1] else None
        )
        return passed.to(dtype), sums, None, None, None, None, None


def passed_back(
    gradient: Tensor, value: Tensor | None, activation: str | None, bias_dtype: torch.dtype | None
) -> tuple[Tensor, Tensor | None]:
    """The gradient in front of the activation, and the bias', where its dtype is given."""
    if activation is None and bias_dtype is None:
        return gradient, None
    passed, sums = torch.ops.tiled.activation_backward(
        gradient, value, activation, bias_dtype=bias_dtype
    )
    return gradient if activation is None else passed, None if bias_dtype is None else sums
