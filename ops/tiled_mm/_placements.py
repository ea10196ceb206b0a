"""Which placements of the operands give which placement of the result: the rules of DTensor for the
products, for one dimension of a mesh.

A product whose rows or columns are shared out has the bits of one process. Where K is, each process
has a sum of its own terms, and DTensor adds these (``Partial``). A product is linear in each
operand, so that an operand that is such a part gives a part of the result. Where an activation
follows, operands are gathered first, since the activation of a part of a sum means nothing; and
under a tree, whose order of sums is not the one that DTensor adds parts in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

# (placements of the results, placements of the tensors among the arguments)
Rule = tuple[list, list]


class _Rules:
    """Every rule in which a tensor that is split is split as `shard` says: a placement's class, or
    a function of the dimension as it is. No product is a part of a sum unless it may be."""

    def __init__(self, shard: Callable[[int], Any], may_be_partial: bool) -> None:
        from torch.distributed.tensor import Partial, Replicate

        self.shard, self.all, self.sum = shard, Replicate(), Partial()
        self.may_be_partial = may_be_partial
        self.parts = [Partial("sum"), Partial("avg")] if may_be_partial else []

    def along(self, t: Any, dims: int, c: Any) -> Any:
        """How `t`, which is broadcast to C's `dims` dimensions, is placed where C is placed so."""
        if c.is_partial() or c.is_replicate():
            return c
        own = c.dim - (dims - len(t.shape))
        return self.all if own < 0 or t.shape[own] == 1 else self.shard(own)

    def product(self, dims: int) -> tuple[list, list]:
        """(placement of C, those of A and B), of matrices or, with three dimensions, of batches of
        them: those that give C itself, and those that give a part of it."""
        row, column = self.shard(dims - 2), self.shard(dims - 1)
        whole = [
            (self.all, [self.all, self.all]),
            (row, [row, self.all]),
            (column, [self.all, column]),
        ]
        if dims == 3:
            whole.append((self.shard(0), [self.shard(0), self.shard(0)]))
        return whole, [*self.summed([column, row]), *self.linear_in_each()]

    def summed(self, operands: list) -> list:
        """Both operands are split along K."""
        return [(self.sum, operands)] if self.may_be_partial else []

    def linear_in_each(self) -> list:
        """One operand is a part, and the other is there as a whole."""
        return [(p, o) for p in self.parts for o in ([p, self.all], [self.all, p])]

    def mm(self, a: Any, b: Any, **options: Any) -> list[Rule]:
        """[M, K] x [K, N], or batches of these."""
        whole, parts = self.product(len(a.shape))
        return [([c], operands) for c, operands in [*whole, *parts]]

    def finished(
        self, whole: list, parts: list, activation: str | None, results: int
    ) -> list[Rule]:
        """Of products with an epilogue, whose `results` are alike."""
        is_linear = self.may_be_partial and activation in (None, "none")
        return [([c] * results, t) for c, t in (*whole, *(parts if is_linear else ()))]

    def addmm(
        self,
        input: Any,
        a: Any,
        b: Any,
        *,
        activation: str | None = None,
        results: int = 1,
        **options: Any,
    ) -> list[Rule]:
        """An input that expands to C beside mm's operands."""
        dims = len(a.shape)
        whole, parts = (
            [(c, [self.along(input, dims, c), *operands]) for c, operands in rules]
            for rules in self.product(dims)
        )
        return self.finished(whole, parts, activation, results)

    def linear(
        self,
        x: Any,
        weight: Any,
        bias: Any = None,
        *,
        activation: str | None = None,
        results: int = 1,
        **options: Any,
    ) -> list[Rule]:
        """x [..., K] and weight [N, K] or [K]."""
        last, is_matrix = len(x.shape) - 1, len(weight.shape) == 2
        whole = [(self.all, [self.all, self.all])]
        whole += [(self.shard(dim), [self.shard(dim), self.all]) for dim in range(last)]
        if is_matrix:
            whole.append((self.shard(last), [self.all, self.shard(0)]))
        parts = self.summed([self.shard(last), self.shard(1 if is_matrix else 0)])
        parts += self.linear_in_each()
        if bias is not None:
            whole, parts = (
                [(c, [*operands, self.along(bias, last + 1, c)]) for c, operands in rules]
                for rules in (whole, parts)
            )
        return self.finished(whole, parts, activation, results)

    def linear_weight_grad(self, grad: Any, x: Any, **options: Any) -> list[Rule]:
        """[..., N] and [..., K] -> [N, K], a sum over all leading dimensions. A process that has a
        part of one of these has terms of that sum, whichever it is."""
        last = len(x.shape) - 1
        rules = [
            (self.all, [self.all, self.all]),
            (self.shard(0), [self.shard(last), self.all]),
            (self.shard(1), [self.all, self.shard(last)]),
            *(rule for dim in range(last) for rule in self.summed([self.shard(dim)] * 2)),
            *self.linear_in_each(),
        ]
        return [([c], operands) for c, operands in rules]

    def grouped(
        self,
        a: Any,
        b: Any,
        offs: Any = None,
        bias: Any = None,
        *,
        activation: str | None = None,
        results: int = 1,
        **options: Any,
    ) -> list[Rule]:
        """Products of groups. What groups share out stays whole, since their ends count in it, and
        so do the groups, whose ends every process needs; without offsets a batch of them splits."""
        a_dims, b_dims = len(a.shape), len(b.shape)
        dims = 3 if a_dims == b_dims else 2
        row, column = self.shard(dims - 2), self.shard(dims - 1)
        whole = [(self.all, [self.all, self.all])]
        if a_dims == 3 or b_dims == 2:  # rows are of every group
            whole.append((row, [self.shard(a_dims - 2), self.all]))
        if b_dims == 3 or a_dims == 2:
            whole.append((column, [self.all, self.shard(b_dims - 1)]))
        if offs is None:
            whole.append((self.shard(0), [self.shard(0), self.shard(0)]))
        parts = self.linear_in_each()
        if a_dims == 3 or b_dims == 3:
            parts += self.summed([self.shard(a_dims - 1), self.shard(b_dims - 2)])

        def of_bias(c: Any) -> Any:
            """[E, N], beside C [T, N] or [E, M, N]."""
            if c.is_partial() or c.is_replicate():
                return c
            if c.dim == dims - 1:
                return self.shard(1)
            return self.shard(0) if c.dim == dims - 3 else self.all

        def with_others(rules: list) -> list:
            ends = [] if offs is None else [self.all]
            return [
                (c, [*operands, *ends, *([] if bias is None else [of_bias(c)])])
                for c, operands in rules
            ]

        return self.finished(with_others(whole), with_others(parts), activation, results)

    def grouped_weight_grad(self, left: Any, right: Any, offs: Any, **options: Any) -> list[Rule]:
        """[T, P] and [T, Q] -> [E, P, Q], a sum of every group's rows."""
        rules = [
            (self.all, [self.all, self.all]),
            (self.shard(1), [self.shard(1), self.all]),
            (self.shard(2), [self.all, self.shard(1)]),
            *self.linear_in_each(),
        ]
        return [([c], [*operands, self.all]) for c, operands in rules]

    def scaled(
        self,
        a: Any,
        b: Any,
        scale_a: Any,
        scale_b: Any,
        offs: Any = None,
        bias: Any = None,
        *,
        activation: str | None = None,
        **options: Any,
    ) -> list[Rule]:
        """Products with scales, which go where their operand's rows, or columns, go. A split that
        they do not follow, as of blocks of 128 rows, is none; and no operand is a part of a sum,
        since 8 bits do not hold one."""
        if offs is None and len(a.shape) == 2:
            whole, parts = (
                [(c, [*t, *([] if bias is None else [self.along(bias, 2, c)])]) for c, t in rules]
                for rules in self.product(2)
            )
            rules = self.finished(whole, parts, activation, 1)
        else:
            rules = self.grouped(a, b, offs, bias, activation=activation)
        found = []
        for c, (of_a, of_b, *others) in rules:
            if of_a.is_partial() or of_b.is_partial():
                continue
            scales = [
                self.of_scale(of_a, a, scale_a, len(a.shape) - 1),
                self.of_scale(of_b, b, scale_b, len(b.shape) - 2),
            ]
            if None not in scales:
                found.append((c, [of_a, of_b, *scales, *others]))
        return found

    def of_scale(self, placement: Any, t: Any, scale: Any, k_dim: int) -> Any:
        """Where the scales of `t` are, which is placed so; None where no placement gives them."""
        if placement.is_replicate() or all(size == 1 for size in scale.shape):
            return self.all
        if len(scale.shape) == len(t.shape):
            dim = placement.dim
            if scale.shape[dim] == 1:
                return self.all
            follows = dim != k_dim
        elif len(scale.shape) == 1:  # of rows or columns, or of a batch's entries
            dim = 0
            if placement.dim != (1 - k_dim if len(t.shape) == 2 else 0):
                return self.all
            follows = True
        else:
            return None
        follows &= scale.shape[dim] == t.shape[placement.dim]
        return self.shard(dim) if follows else None

    def quantize_blocks(self, x: Any, square: bool, dtype: Any, transposed: bool) -> list[Rule]:
        """(data, scale, the same of the transpose). Entries split, and so do rows by themselves, of
        which each has scales of its own; blocks may not be cut."""
        rules: list[Rule] = [([self.all] * 4, [self.all])]
        rows = self.shard(len(x.shape) - 2)
        if len(x.shape) == 3:
            rules.append(([self.shard(0)] * 4, [self.shard(0)]))
        if not square and not transposed:
            rules.append(([rows, rows, self.all, self.all], [rows]))
        return rules

    def activation_backward(
        self, grad: Any, before: Any, activation: str | None, *, bias_dtype: Any = None
    ) -> list[Rule]:
        """(grad activation'(before), the column sums); one that is not asked for is empty."""
        last = len(grad.shape) - 1

        def rule(placement: Any, of_sums: Any, of_before: Any) -> Rule:
            passed = self.all if activation in (None, "none") else placement
            sums = self.all if bias_dtype is None else of_sums
            return [passed, sums], [placement, *([] if before is None else [of_before])]

        split = [rule(self.shard(dim), self.sum, self.shard(dim)) for dim in range(last)]
        return [
            rule(self.all, self.all, self.all),
            *split,
            rule(self.shard(last), self.shard(0), self.shard(last)),
            *(rule(part, part, self.all) for part in self.parts),
        ]


def rules_of(
    name: str, given: Iterable[Any], may_be_partial: bool, *args: Any, **options: Any
) -> list[Rule]:
    """The rules `name` for these arguments, of which tensors have the placements `given`: with
    Shard, and with each kind of _StridedShard among these, which FSDP2 makes of a tensor that
    another dimension of the mesh splits along the same dimension."""
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    factors = {p.split_factor: None for p in given if isinstance(p, _StridedShard)}
    kinds = [Shard, *(partial(_StridedShard, split_factor=factor) for factor in factors)]
    found = {}
    for kind in kinds:
        for rule in getattr(_Rules(kind, may_be_partial), name)(*args, **options):
            found.setdefault(str(rule), rule)
    return list(found.values())


def is_reachable(given: list, wanted: Any) -> bool:
    """Whether DTensor can bring tensors there: it makes a part of a sum of what is whole alone."""
    return all(
        not target.is_partial() or source.is_replicate() or source == target
        for have, need in zip(given, wanted, strict=True)
        for source, target in zip(have.placements, need.placements, strict=True)
    )


def options_of(operator: Any) -> list[str]:
    """The names of keyword arguments that a rule or a result's dtype may depend on."""
    return [
        argument.name
        for argument in operator._schema.arguments
        if argument.kwarg_only and argument.name not in ("alpha", "beta", "out")
    ]
