"""Parallel styles of linear layers whose bits do not depend on how many processes there are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, parallel

from ._names import Tree
from ._on_rank import on_rank
from ._tree_linear import ColumnLinear, RowLinear
from ._tree_pieces import pieces_of, sum_dtype
from ._tree_precision import precision_of
from ._tree_reduce import check_parts, group_of, tree_reduce


def _unit(precision: str | None) -> int:
    """Of which K / t is a multiple."""
    return 64 if precision == "fp16x3" else 16


class _Parallel:
    """A layer whose weight is a DTensor. Bases of :class:`torch.nn.Linear`'s kind follow."""

    _tree: Any  # its style, and its mesh's group

    def forward(self, input: Tensor) -> Tensor:
        style, mesh, name, count = self._tree
        kind, dtype = input.device.type, input.dtype
        if is_autocast := torch.is_autocast_enabled(kind):
            dtype = torch.get_autocast_dtype(kind)
        # It is read once, since the backward is to have the forward's; and before anything is sent.
        precision = precision_of(dtype, input.device)
        style.check(self, count, _unit(precision), input)
        if not torch.is_grad_enabled():  # products read it as they run, in compiled code too
            precision = None
        with on_rank(type(style).__name__, name):
            x = style.local_input(input, mesh)
            weight, bias = (
                p.to_local() if isinstance(p, DTensor) else p for p in (self.weight, self.bias)
            )
            if is_autocast:
                x, weight = x.to(dtype), weight.to(dtype)
                bias = None if bias is None else bias.to(dtype)
            y = style.product(self, x, weight, bias, name, count, precision)
            return style.local_output(y, mesh)


class _Style(parallel.ParallelStyle):
    """What rows and columns have in common."""

    #: Where x and the result are, unless it is said.
    layouts: tuple[Any, Any]

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        output_layouts: Any = None,
        use_local_output: bool = True,
        sum_order: Tree = "tree",
    ) -> None:
        super().__init__()
        self.input_layout = input_layouts or self.layouts[0]
        self.output_layout = output_layouts or self.layouts[1]
        self.use_local_output = use_local_output
        self.sum_order = sum_order

    def _apply(self, module: torch.nn.Module, device_mesh: Any) -> torch.nn.Module:
        name = type(self).__name__
        if not isinstance(module, torch.nn.Linear):
            raise NotImplementedError(
                f"tiled_mm.distributed.{name} is for torch.nn.Linear and tiled_mm.nn.Linear, got "
                f"{type(module).__name__}"
            )
        if getattr(module, "accumulate_main_grad", False):
            raise NotImplementedError(
                f"tiled_mm.distributed.{name} adds no gradient to main_grad: set "
                "accumulate_main_grad=False, or take torch's style"
            )
        if not self.sum_order.startswith("tree"):
            raise RuntimeError(f"{name}: sum_order={self.sum_order!r} is not shared out")
        group, count = group_of(device_mesh)
        weight = module.weight
        self.check(module, count, _unit(precision_of(weight.dtype, weight.device)))
        distribute_module(module, device_mesh, self.partition)
        kind = type(module)
        module.__class__ = type(kind.__name__, (_Parallel, kind), {})
        module._tree = (self, device_mesh, group, count)
        return module

    def check(
        self, module: torch.nn.Module, count: int, unit: int, input: Tensor | None = None
    ) -> None:
        """Before anything is split, and before anything is sent for an input: its dtype and its
        device, and the precision that is set, may be others than they were."""

    def local_output(self, y: Tensor, mesh: Any) -> Tensor:
        return y if self.use_local_output else DTensor.from_local(y, mesh, [self.output_layout])


class RowwiseParallel(_Style):
    """:class:`torch.distributed.tensor.parallel.RowwiseParallel` of a linear layer, its sum added
    by the tree (:func:`tree_reduce`): the result has the bits of one process under
    ``tiled_mm.sum_order(sum_order)``, and a layer with an activation stays split. A large layer is
    computed in pieces of rows, each of which is exchanged while the next is computed.

    Args:
        input_layouts: ``Shard(-1)`` (None), or another placement of x.
        output_layouts: ``Replicate()`` (None), or ``Shard(d)`` with d in front of the last, as of
            sequence parallelism.
        use_local_output: a tensor (True), or a DTensor.
        sum_order: ``'tree'`` or ``'tree:LEAF'``, of all products of the layer, gradients included.

    Raises:
        RuntimeError: ``in_features`` does not part into as many equal trees as there are
            processes; where the style is applied, and, of fp16x3, where the layer is called.
        NotImplementedError: the module is no linear layer, or adds to ``main_grad``.
    """

    layouts = (Shard(-1), Replicate())
    partition = parallel.RowwiseParallel._partition_linear_fn

    def check(
        self, module: torch.nn.Module, count: int, unit: int, input: Tensor | None = None
    ) -> None:
        check_parts(module.in_features, count, self.sum_order, unit, "RowwiseParallel: in_features")

    def local_input(self, x: Tensor, mesh: Any) -> Tensor:
        if not isinstance(x, DTensor):
            if self.input_layout in (Shard(-1), Shard(x.dim() - 1)):
                return x
            x = DTensor.from_local(x, mesh, [self.input_layout], run_check=False)
        return x.redistribute(mesh, [Shard(x.dim() - 1)]).to_local()

    def product(
        self,
        module: torch.nn.Module,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        name: str,
        count: int,
        precision: str | None,
    ) -> Tensor:
        layout = self.output_layout
        scatter_dim = None if layout.is_replicate() else layout.dim
        activation = getattr(module, "activation", None)
        order = self.sum_order
        if pieces := pieces_of(x, weight.shape[0], name, count, scatter_dim, activation):
            return RowLinear.apply(x, weight, bias, name, pieces, activation, precision, order)
        options = {"precision": precision, "sum_order": order}
        partial = torch.ops.tiled.linear(x, weight, out_dtype=sum_dtype(x.dtype), **options)
        return tree_reduce(
            partial, name, scatter_dim, out_dtype=x.dtype, bias=bias, activation=activation
        )


class ColwiseParallel(_Style):
    """:class:`torch.distributed.tensor.parallel.ColwiseParallel` of a linear layer, the gradient of
    its x added by the tree (:func:`tree_reduce`): it has the bits of one process, as all else has.

    Args:
        input_layouts: ``Replicate()`` (None), or ``Shard(d)`` with d in front of the last, as of
            sequence parallelism.
        output_layouts: ``Shard(-1)`` (None), or ``Replicate()``, which gathers the columns.
        use_local_output, sum_order: as of :class:`RowwiseParallel`.

    Raises:
        RuntimeError: x needs a gradient, and ``out_features`` does not part into as many equal
            trees as there are processes; where the layer is called.
        NotImplementedError: as :class:`RowwiseParallel`.
    """

    layouts = (Replicate(), Shard(-1))
    partition = parallel.ColwiseParallel._partition_linear_fn

    def check(
        self, module: torch.nn.Module, count: int, unit: int, input: Tensor | None = None
    ) -> None:
        if input is not None and input.requires_grad and torch.is_grad_enabled():
            check_parts(
                module.out_features, count, self.sum_order, unit, "ColwiseParallel: out_features"
            )

    def local_input(self, x: Tensor, mesh: Any) -> Tensor:
        if isinstance(x, DTensor):
            x = x.redistribute(mesh, [self.input_layout]).to_local()
        return x

    def product(
        self,
        module: torch.nn.Module,
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        name: str,
        count: int,
        precision: str | None,
    ) -> Tensor:
        layout = self.input_layout
        return ColumnLinear.apply(
            x,
            weight,
            bias,
            name,
            count,
            None if layout.is_replicate() else layout.dim,
            getattr(module, "activation", None),
            precision,
            self.sum_order,
        )

    def local_output(self, y: Tensor, mesh: Any) -> Tensor:
        if self.output_layout.is_replicate():
            y = DTensor.from_local(y, mesh, [Shard(y.dim() - 1)], run_check=False)
            y = y.redistribute(mesh, [Replicate()])
            return y.to_local() if self.use_local_output else y
        return super().local_output(y, mesh)
