"""Sharding rules of DTensor for the products, so that `parallelize_module` splits a
:class:`tiled_mm.nn.Linear` as it splits torch's.

A product whose rows or columns are shared out has the bits of one process. Where K is, each process
has a sum of its own terms, and DTensor adds these: where an activation follows, operands are
gathered first, since the activation of a part of a sum means nothing.

The rules are registered when `torch.distributed.tensor` is imported, before or after this package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ._after_import import when_imported


class _Rules:
    """What torch.distributed.tensor.experimental.register_sharding takes, for every operator. A
    rule gives pairs (placements of the results, placements of the tensors among the arguments), for
    one dimension of the mesh. Where `may_be_partial` is false, a call without an activation cannot
    be told from one with it, and neither has rules that share out K."""

    def __init__(self, may_be_partial: bool) -> None:
        from torch.distributed.tensor import Partial, Replicate, Shard

        self.shard, self.all, self.part = Shard, Replicate(), Partial()
        self.may_be_partial = may_be_partial

    def along(self, t: Any, dims: int, c: Any) -> Any:
        """How `t`, which is broadcast to C's `dims` dimensions, is placed where C is placed so."""
        if c == self.all:
            return c
        own = c.dim - (dims - len(t.shape))
        return self.all if own < 0 or t.shape[own] == 1 else self.shard(own)

    def product(self, dims: int) -> tuple[list, list]:
        """(placement of C, those of A and B) without a sum that is shared out; and A's and B's with
        one. They are matrices, or, with three dimensions, batches of them."""
        row, column = self.shard(dims - 2), self.shard(dims - 1)
        whole = [
            (self.all, [self.all, self.all]),
            (row, [row, self.all]),
            (column, [self.all, column]),
        ]
        if dims == 3:
            whole.append((self.shard(0), [self.shard(0), self.shard(0)]))
        return whole, [column, row]

    def mm(self, a: Any, b: Any, **options: Any) -> list:
        """[M, K] x [K, N], or batches of these."""
        whole, summed = self.product(len(a.shape))
        return [([c], operands) for c, operands in [*whole, (self.part, summed)]]

    def finished(self, whole: list, summed: list, activation: str | None, results: int) -> list:
        """Of products with an epilogue, whose `results` are alike."""
        if self.may_be_partial and activation in (None, "none"):
            whole = [*whole, (self.part, summed)]
        return [([c] * results, tensors) for c, tensors in whole]

    def addmm(self, results: int) -> Callable:
        """An input that expands to C beside mm's operands."""

        def rule(
            input: Any, a: Any, b: Any, *, activation: str | None = None, **options: Any
        ) -> list:
            dims = len(a.shape)
            whole, summed = self.product(dims)
            whole = [(c, [self.along(input, dims, c), *operands]) for c, operands in whole]
            return self.finished(whole, [self.part, *summed], activation, results)

        return rule

    def linear(self, results: int) -> Callable:
        """x [..., K] and weight [N, K] or [K]."""

        def rule(
            x: Any, weight: Any, bias: Any = None, *, activation: str | None = None, **options: Any
        ) -> list:
            last, is_matrix = len(x.shape) - 1, len(weight.shape) == 2
            # A gradient that is split along a dimension in the middle cannot be flattened: so no
            # result is, unless x is.
            leading = [
                self.shard(dim)
                for dim in range(last)
                if dim == 0 or self.shard(dim) in x.placements
            ]
            whole = [(self.all, [self.all, self.all])]
            whole += [(placement, [placement, self.all]) for placement in leading]
            if is_matrix:
                whole.append((self.shard(last), [self.all, self.shard(0)]))
            summed = [self.shard(last), self.shard(1 if is_matrix else 0)]
            if bias is not None:
                whole = [(c, [*xw, self.along(bias, last + 1, c)]) for c, xw in whole]
                summed.append(self.part)
            return self.finished(whole, summed, activation, results)

        return rule

    def activation_backward(
        self, grad: Any, before: Any, activation: str | None, *, bias_dtype: Any = None
    ) -> list:
        """(grad activation'(before), the column sums); one that is not asked for is empty."""
        last = len(grad.shape) - 1

        def rule(placement: Any, of_sums: Any) -> tuple:
            passed = self.all if activation in (None, "none") else placement
            sums = self.all if bias_dtype is None else of_sums
            return [passed, sums], [placement] * (1 if before is None else 2)

        rules = [rule(self.shard(dim), self.part) for dim in range(last)]
        return [rule(self.all, self.all), *rules, rule(self.shard(last), self.shard(0))]


def _tell_activations_apart(operators: list) -> bool:
    """DTensor keeps what it has chosen for arguments of the same kind, and tells calls apart by
    tensors and numbers alone: here by the activation too. False where this torch does not say how
    it does so."""
    from torch.distributed.tensor import DTensor

    try:
        known = DTensor._op_dispatcher.sharding_propagator.op_to_schema_info
        for operator in operators:
            arguments = [a.name for a in operator._schema.arguments]
            info = known[operator]
            if operator._schema.arguments[arguments.index("activation")].kwarg_only:
                info.static_kwargkey = [*(info.static_kwargkey or ()), "activation"]
            else:
                info.static_argnum = min(info.static_argnum, arguments.index("activation"))
    except (AttributeError, KeyError, TypeError):
        return False
    return True


def register_sharding_rules() -> None:
    """Register the rules above, once torch.distributed.tensor is imported, in place of any that are
    there."""
    try:
        from torch.distributed.tensor.experimental import register_sharding
    except ImportError:  # an experimental function of torch's, which may move
        return
    tiled = torch.ops.tiled
    finished = [
        *(tiled.addmm.default, tiled.baddbmm.default, tiled._addmm_with_before.default),
        *(tiled.linear.default, tiled._linear_with_before.default),
        tiled.activation_backward.default,
    ]
    rules = _Rules(may_be_partial=False)
    for operator, rule in {
        tiled.mm.default: rules.mm,
        tiled.bmm.default: rules.mm,
        tiled.addmm.default: rules.addmm(1),
        tiled.baddbmm.default: rules.addmm(1),
        tiled._addmm_with_before.default: rules.addmm(2),
        tiled.linear.default: rules.linear(1),
        tiled._linear_with_before.default: rules.linear(2),
        tiled.activation_backward.default: rules.activation_backward,
    }.items():
        register_sharding(operator)(rule)
    rules.may_be_partial = _tell_activations_apart(finished)


def register_when_imported() -> None:
    """Register the rules now if torch.distributed.tensor is there, else when it comes."""
    if torch.distributed.is_available():
        when_imported("torch.distributed.tensor", register_sharding_rules)
