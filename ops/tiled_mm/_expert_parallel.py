"""A parallel style of experts: each process keeps and computes its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import (
    DTensor,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    parallel,
)

from ._grouped import grouped_mm
from ._on_rank import on_rank
from ._tree_reduce import group_of
from .nn._experts import Experts


def _united(rows: Tensor, name: str) -> Tensor:
    """The rows of all processes, where each has zeros, +0, for the rows of others. Their bits are
    added as integers, as wide as rows are multiples of: a sum of numbers would turn a -0, as 16-bit
    results round to, into +0."""
    from torch.distributed import _functional_collectives as functional

    size = rows.shape[-1] * rows.element_size()
    integer = torch.int64 if size % 8 == 0 else torch.int32 if size % 4 == 0 else torch.uint8
    with on_rank("ExpertParallel", name):
        total = functional.all_reduce(rows.contiguous().view(integer), "sum", name)
        return functional.wait_tensor(total).view(rows.dtype)


class _Own(torch.autograd.Function):
    """Rows [T, ...], the same on every process, in `order`. Backward unites the processes' rows."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor, back: Tensor, name: str) -> Tensor:
        ctx.save_for_backward(order, back)
        ctx.name = name
        return rows[order]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        return _All.apply(gradient, *ctx.saved_tensors, ctx.name), None, None, None


class _All(torch.autograd.Function):
    """The processes' rows [T, ...], brought back from `order` and united: backward is _Own."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor, back: Tensor, name: str) -> Tensor:
        ctx.save_for_backward(order, back)
        ctx.name = name
        return _united(rows[back], name)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        return _Own.apply(gradient, *ctx.saved_tensors, ctx.name), None, None, None


def own_rows(offs: Tensor, rows: int, first: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """How to bring the rows of `count` experts from `first` on to the front, without a wait.

    Returns:
        ``(order, back, ends)``: rows [T] from the first expert's on, and then those before it; how
        to bring them back; and the experts' ends among them, [count].
    """
    ends = offs.clamp(0, rows).cummax(0).values  # what they count as on a GPU
    begin = ends[first - 1] if first > 0 else ends.new_zeros(())
    at = torch.arange(rows, device=offs.device)
    size = max(rows, 1)
    return (at + begin) % size, (at - begin) % size, ends[first : first + count] - begin


class _Parallel:
    """Experts whose weights are DTensors. :class:`Experts` follows as a base."""

    _shared: tuple[Any, str, int, int]  # the mesh, its group, the first expert here and how many

    def forward(self, input: Tensor, offs: Tensor) -> Tensor:
        mesh, name, first, count = self._shared
        x, offs = (
            t.redistribute(mesh, [Replicate()]).to_local() if isinstance(t, DTensor) else t
            for t in (input, offs)
        )
        torch._check(
            offs.shape == (self.experts,),
            lambda: "tiled_mm: offs are the ends of all experts, [E], and not of one process's",
        )
        if offs.device.type == "cpu":  # all of them are checked here, so all processes raise
            grouped_mm(x[:, :0], x.new_empty(self.experts, 0, 1), offs=offs)
        order, back, ends = own_rows(offs, x.shape[0], first, count)
        rows = super().forward(_Own.apply(x, order, back, name), ends)
        return _All.apply(rows, order, back, name)

    def _layer(
        self, x: Tensor, weight: Tensor, offs: Tensor, activation: str | None = None
    ) -> Tensor:
        local = weight.to_local() if isinstance(weight, DTensor) else weight
        return super()._layer(x, local, offs, activation)


class ExpertParallel(parallel.ParallelStyle):
    """Each process keeps an equal part of the experts of a :class:`tiled_mm.nn.Experts`, in the
    order of ranks, and computes the rows of these alone.

    Rows, their ends, and the result are the same on every process, and so is a router's index: they
    are tensors, or DTensors, which are gathered; the result is a tensor. A row is computed by one
    process and zero in the others, so that the result and all gradients have the bits of one
    process: :meth:`tiled_mm.nn.Experts.routed` adds up a token's experts behind the collective. The
    weights and their gradients are DTensors, ``Shard(0)``.

    Forward takes an all_reduce of the result [T, out_features] and backward one of the
    rows' gradient [T, in_features]; a router's T is the tokens times the experts of each. The host
    does not wait.

    Raises:
        RuntimeError: the processes do not share out the experts evenly; where the style is applied.
        NotImplementedError: the module is no :class:`tiled_mm.nn.Experts`, or adds to
            ``main_grad``.
    """

    def _apply(self, module: torch.nn.Module, device_mesh: Any) -> torch.nn.Module:
        if not isinstance(module, Experts):
            raise NotImplementedError(
                "tiled_mm.distributed.ExpertParallel is for tiled_mm.nn.Experts, got "
                f"{type(module).__name__}"
            )
        if module.accumulate_main_grad:
            raise NotImplementedError(
                "tiled_mm.distributed.ExpertParallel adds no gradient to main_grad: set "
                "accumulate_main_grad=False"
            )
        name, processes = group_of(device_mesh)
        if module.experts % processes:
            raise RuntimeError(
                f"ExpertParallel: {processes} processes do not share out {module.experts} experts "
                "evenly"
            )
        distribute_module(module, device_mesh, self._split)
        count = module.experts // processes
        kind = type(module)
        module.__class__ = type(kind.__name__, (_Parallel, kind), {})
        module._shared = device_mesh, name, device_mesh.get_local_rank() * count, count
        return module

    @staticmethod
    def _split(name: str, module: torch.nn.Module, mesh: Any) -> None:
        for key, weight in list(module.named_parameters(recurse=False)):
            split = distribute_tensor(weight, mesh, [Shard(0)])
            module.register_parameter(key, torch.nn.Parameter(split, weight.requires_grad))
