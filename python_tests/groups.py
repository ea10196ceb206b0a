"""Grouped products for the tests: their operands in every form, and what they are beside: the
product of each group by itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import cases
import tiled_mm
import torch
from torch import Tensor

FORMS = ("rows", "columns", "k", "batch")  # what groups share out; nothing
SHARING = FORMS[:3]


@dataclass(frozen=True)
class Groups:
    """Operands of one call. `ends` are those of `offs`, None for a batch."""

    form: str
    a: Tensor
    b: Tensor
    ends: tuple[int, ...] | None
    offs: Tensor | None

    def spans(self) -> list[tuple[int, int]]:
        return list(zip((0, *self.ends[:-1]), self.ends, strict=True)) if self.ends else []

    def each(self) -> Iterator[tuple[Tensor, Tensor]]:
        """(A, B) of every group."""
        if self.form == "batch":
            yield from zip(self.a, self.b, strict=True)
        for g, (begin, end) in enumerate(self.spans()):
            if self.form == "rows":
                yield self.a[begin:end], self.b[g]
            elif self.form == "columns":
                yield self.a[g], self.b[:, begin:end]
            else:
                yield self.a[:, begin:end], self.b[begin:end]

    def parts(self, c: Tensor) -> list[Tensor]:
        """C of every group."""
        if self.form == "rows":
            return [c[begin:end] for begin, end in self.spans()]
        if self.form == "columns":
            return [c[:, begin:end] for begin, end in self.spans()]
        return list(c)

    def beyond(self, c: Tensor) -> Tensor:
        """The part of C that lies outside all groups."""
        end = self.ends[-1] if self.ends else 0
        if self.form == "rows":
            return c[end:]
        return c[:, end:] if self.form == "columns" else c[:0]

    def expected(self, product: Callable[..., Tensor] = tiled_mm.mm, **options) -> list[Tensor]:
        return [product(a, b, **options) for a, b in self.each()]

    def run(self, product: Callable[..., Tensor] = tiled_mm.grouped_mm, **options) -> Tensor:
        return product(self.a, self.b, offs=self.offs, **options)

    def on(self, a: Tensor, b: Tensor) -> Groups:
        return replace(self, a=a, b=b)


def make(
    form: str,
    ends: tuple[int, ...],
    total: int,
    p: int,
    q: int,
    dtype: torch.dtype,
    device: str = "cpu",
    offs_dtype: torch.dtype = torch.int32,
) -> Groups:
    """Groups that share out `total` by `ends`; the other two sizes are p and q, first that of a.
    Of a batch `total` is the middle one."""
    count = len(ends)

    def entries(rows: int, cols: int) -> Tensor:
        return cases.fill(count * rows, cols, dtype, device).view(count, rows, cols)

    offs = torch.tensor(ends, dtype=offs_dtype, device=device)
    if form == "rows":
        return Groups(form, cases.fill(total, p, dtype, device), entries(p, q), ends, offs)
    if form == "columns":
        return Groups(form, entries(p, q), cases.fill(q, total, dtype, device), ends, offs)
    if form == "k":
        a, b = cases.fill(p, total, dtype, device), cases.fill(total, q, dtype, device)
        return Groups(form, a, b, ends, offs)
    return Groups(form, entries(p, total), entries(total, q), None, None)


# Cumulative ends, and the size that they share out: empty groups in front, in the midst and behind,
# one of a single index, one group alone, and ends before that size's.
ENDS = (
    ((0, 5, 5, 6, 38, 38), 38),
    ((17,), 17),
    ((3, 9), 20),
    ((0, 0), 4),
    ((64, 128, 130), 130),
)


def draw(rng: random.Random, largest: int = 300) -> tuple[tuple[int, ...], int]:
    """Ends as a router's, flat or skewed, some groups empty, and the size that they share out."""
    count = rng.choice((1, 2, 3, 5, 8, 17))
    skew = rng.choice((0.0, 1.0, 3.0))
    weights = [rng.random() ** (1 + skew) * (rng.random() > 0.2) for _ in range(count)]
    total = rng.randint(0, largest)
    scale = total / (sum(weights) or 1)
    ends, last = [], 0
    for weight in weights:
        last = min(total, last + round(weight * scale))
        ends.append(last)
    return tuple(ends), total + rng.choice((0, 0, 0, 1, 7, 64))
