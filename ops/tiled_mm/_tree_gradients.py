"""Sums of gradients that do not depend on how many processes there are: those of micro-batches, of
one process or of several under FSDP2, added pairwise in the order of the micro-batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ._on_rank import on_rank
from ._tree_reduce import added


def use_tree_reduce_scatter(model: torch.nn.Module) -> None:
    """FSDP2's sums of gradients by the tree: of ranks, ((0 + 1) + (2 + 3)) + ..., unrounded.

    It is for a model after :func:`torch.distributed.fsdp.fully_shard`, and sets
    :meth:`FSDPModule.set_custom_reduce_scatter` of all its modules. Each rank sends and receives
    what it does in torch's reduce_scatter; a buffer of the size of the sum's operand is added to
    FSDP2's own while it is received.

    Gradients of float32 need ``MixedPrecisionPolicy(reduce_dtype=torch.float32)`` where parameters
    are computed with in 16 bits; float64 is summed in float64. They are averaged over ranks, as
    ever, or divided by :meth:`FSDPModule.set_gradient_divide_factor`'s 1, 2, 4, ...: these are
    exact. :class:`GradientTree` says what one process does for the same bits.

    Raises:
        RuntimeError: ranks are no power of two; no module is fully sharded; and in the backward,
            before anything is sent: the dtype of the sums is another one, or the factor.
        NotImplementedError: HSDP, and replicated modules, whose all_reduce torch does by itself.
    """
    from torch.distributed.fsdp import FSDPModule

    modules = [module for module in model.modules() if isinstance(module, FSDPModule)]
    if not modules:
        raise RuntimeError("use_tree_reduce_scatter: call fully_shard before it")
    for info in (group.mesh_info for module in modules for group in _parameter_groups(module)):
        if info.replicate_mesh_dim is not None:
            raise NotImplementedError(
                "use_tree_reduce_scatter: HSDP's all_reduce cannot be replaced; take a mesh of one "
                "dimension"
            )
        if info.shard_mesh_size & (info.shard_mesh_size - 1):
            raise RuntimeError(
                f"use_tree_reduce_scatter: {info.shard_mesh_size} ranks are no power of two"
            )
    for module in modules:
        module.set_custom_reduce_scatter(_TreeReduceScatter())


def _parameter_groups(module: Any) -> list:
    """FSDP2's of one module: up to torch 2.11 one or none, later several."""
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)
    return [g for g in (state._fsdp_param_group,) if g] if groups is None else list(groups)


class _TreeReduceScatter:
    """FSDP2 calls it as its ``ReduceScatter``, a private base class that it does not ask for."""

    def allocate(
        self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        """A buffer of FSDP2's for the operand [ranks * n], or the result [n].

        Raises:
            RuntimeError: sums of this dtype are rounded.
        """
        if dtype not in (torch.float32, torch.float64):
            raise RuntimeError(
                f"use_tree_reduce_scatter: sums of gradients are float32 or float64, got {dtype}: "
                "pass fully_shard an mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.float32)"
            )
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        group: Any,
        op: Any,
        async_op: bool = False,
    ) -> None:
        """[n] of [ranks * n], done on the current stream when it returns, ``async_op`` or not."""
        from torch import distributed

        count = group.size()
        factor = _factor(op, count)
        received = torch.empty_like(input_tensor)
        with on_rank("use_tree_reduce_scatter", group.group_name):
            distributed.all_to_all_single(received, input_tensor, group=group)
        added(received.view(count, *output_tensor.shape), output_tensor, are_used_up=True)
        if factor != 1:
            output_tensor.mul_(factor)


def _factor(op: Any, count: int) -> float:
    """The sum's, of an operator of torch.distributed.

    Raises:
        RuntimeError: the operator is no sum, or a product by the factor may be rounded.
    """
    from torch.distributed import ReduceOp

    if op == ReduceOp.SUM:
        return 1.0
    if op == ReduceOp.AVG:
        return 1.0 / count
    factor = op.__getstate__()[1] if op == ReduceOp.PREMUL_SUM else None
    if not isinstance(factor, float) or math.frexp(factor)[0] != 0.5:
        raise RuntimeError(
            "use_tree_reduce_scatter: expected a sum, or set_gradient_divide_factor with a power "
            f"of two, got {op} of {factor}"
        )
    return factor


class GradientTree:
    """Adds up gradients of micro-batches pairwise, in their order: ((0 + 1) + (2 + 3)) + ...

    Autograd adds to ``.grad`` one after the other, in an order that is not the ranks'. With this,
    and with :func:`use_tree_reduce_scatter` where there are several ranks, n micro-batches have the
    same bits on 1, 2, 4, ... ranks, of which rank r of t has micro-batch ``s * t + r`` in step s::

        sums = tiled_mm.distributed.GradientTree(net.parameters())
        for s in range(n // t):
            loss(net(micro_batches[s * t + rank])).mul(t / n).backward()
            sums.add()
        sums.finish()
        optimizer.step()

    n is any multiple of t. Where it is more than t, the factor t / n is a power of two, or 1 / n
    after ``set_gradient_divide_factor(1)``; and parameters are float32 (computed with in 16 bits by
    a MixedPrecisionPolicy) or float64, as the sum of each step is rounded to their dtype.

    Args:
        parameters: tensors, DTensors too, whose ``.grad`` is meant. Up to 1 + log2(n / t) times the
            memory of their gradients is in use.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self._parameters = list(parameters)
        self._waiting: list[tuple[int, list[Tensor | None]]] = []  # their numbers of steps descend

    @torch.no_grad()
    def add(self) -> None:
        """Takes the parameters' gradients, and leaves None there."""
        steps, sums = 1, [p.grad for p in self._parameters]
        for p in self._parameters:
            p.grad = None
        while self._waiting and self._waiting[-1][0] == steps:
            sums = _pair(self._waiting.pop()[1], sums)
            steps *= 2
        self._waiting.append((steps, sums))

    @torch.no_grad()
    def finish(self) -> None:
        """Gives the parameters the sum, and starts again.

        Raises:
            RuntimeError: nothing was added.
        """
        if not self._waiting:
            raise RuntimeError("GradientTree.finish: no gradients were added")
        sums = self._waiting.pop()[1]
        while self._waiting:
            sums = _pair(self._waiting.pop()[1], sums)
        for p, total in zip(self._parameters, sums, strict=True):
            p.grad = total


def _pair(left: list[Tensor | None], right: list[Tensor | None]) -> list[Tensor | None]:
    """The sums, in the left ones' memory. A parameter that took no part has none."""
    return [
        b if a is None else a if b is None else a.add_(b) for a, b in zip(left, right, strict=True)
    ]
