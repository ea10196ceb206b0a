"""Rows of a tensor: where a batch is in its sizes, and a hash of the bits of each row."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

#: Two batches, of which sizes are compared. Primes: no other size is a multiple of both by chance.
PROBES = (7, 11)


@dataclass(frozen=True)
class Rows:
    """How the rows of a batch are in a tensor.

    Axis ``axis`` has ``inner * batch * outer`` elements, the outermost first: ``outer`` blocks, in
    each the batch, in each row ``inner`` elements.
    """

    axis: int
    outer: int = 1
    inner: int = 1

    def split(self, x: Tensor, batch: int) -> Tensor:
        """A view with the batch as its first axis: [batch, ...]."""
        if x.shape[self.axis] != self.outer * batch * self.inner:
            raise ValueError("the axis is not one of this batch")
        view = x.unflatten(self.axis, (self.outer, batch, self.inner))
        return view.movedim(self.axis + 1, 0)

    def part(self, x: Tensor, batch: int, begin: int, count: int) -> Tensor:
        """``count`` of ``batch`` rows from ``begin`` on, with the axes of ``x``."""
        parts = x.unflatten(self.axis, (self.outer, batch, self.inner))
        return parts.narrow(self.axis + 1, begin, count).flatten(self.axis, self.axis + 2)


#: A tensor that has no batch; one whose batch is seen in no axis, since its sizes follow the data;
#: and one of which a size beside the batch's changes with the batch.
NO_ROWS = "no rows"
BY_DATA = "by data"
OTHER_SIZE = "another size"
MIXED = "mixed"

Layout = Rows | str


def layout_of(small: Sequence[int], large: Sequence[int]) -> Layout:
    """What the sizes of one tensor in batches of ``PROBES`` say."""
    if len(small) != len(large):
        return OTHER_SIZE
    changed = [i for i, pair in enumerate(zip(small, large, strict=True)) if pair[0] != pair[1]]
    if not changed:
        return NO_ROWS

    def is_batch(i: int) -> bool:
        return small[i] % PROBES[0] == 0 and small[i] * PROBES[1] == large[i] * PROBES[0]

    batched = [i for i in changed if is_batch(i)]
    if not batched:
        return BY_DATA
    if len(batched) < len(changed):
        return OTHER_SIZE
    if len(batched) > 1:
        return MIXED
    return Rows(batched[0], inner=small[batched[0]] // PROBES[0])


def orders_of(rows: Rows) -> list[Rows]:
    """The two ways in which a batch can be folded into an axis with another one."""
    if rows.inner == 1:
        return [rows]
    return [rows, Rows(rows.axis, outer=rows.inner, inner=1)]


def size_for(small: int, large: int, batch: int) -> int | None:
    """A size, or another number of a call, that is ``small`` and ``large`` for ``PROBES``: what it
    is for another batch, where it grows by equal steps."""
    steps, rest = divmod(large - small, PROBES[1] - PROBES[0])
    return None if rest else small + steps * (batch - PROBES[0])


# ---- bits ----------------------------------------------------------------------------------------

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_GOLDEN = -7046029254386353131  # 2^64 / the golden ratio, as int64
_PIECE = 1 << 16  # words of a row that are hashed at once


def _as_integers(x: Tensor) -> Tensor:
    """The bits of ``x`` as integers of its width."""
    x = x.resolve_conj().resolve_neg()
    if x.is_complex():
        x = torch.view_as_real(x)
    if x.dtype == torch.bool:
        x = x.to(torch.uint8)
    return x.contiguous().view(_INTEGERS[x.element_size()])


@functools.lru_cache(maxsize=4)
def _factors(count: int, device: torch.device) -> Tensor:
    """Odd random numbers: int64 [count]."""
    generator = torch.Generator().manual_seed(count)
    factors = torch.randint(-(1 << 62), 1 << 62, (count,), generator=generator)
    return (factors * 2 + 1).to(device)


def hashes(rows: Tensor) -> Tensor:
    """64 bits for each row of ``rows`` [batch, ...]: int64 [batch], on its device.

    Equal rows have equal hashes; the sum is of integers, whose order does not matter.
    """
    bits = _as_integers(rows).reshape(rows.shape[0], -1)  # [batch, elements]
    total = torch.zeros(rows.shape[0], dtype=torch.int64, device=rows.device)
    if bits.numel() == 0:
        return total
    if bits.shape[1] * bits.element_size() % 8 == 0:  # several elements a word
        if bits.storage_offset() * bits.element_size() % 8:
            bits = bits.clone()
        bits = bits.view(torch.int64)
    for begin in range(0, bits.shape[1], _PIECE):
        words = bits[:, begin : begin + _PIECE].to(torch.int64) * _GOLDEN
        # The upper half goes into the lower, or sums of upper bits alone would tell signs.
        mixed = words ^ ((words >> 32) & 0xFFFFFFFF)
        factors = _factors(words.shape[1], words.device)
        total = total * 31 + (mixed * factors).sum(1)
    return total


def same_bits(x: Tensor, y: Tensor) -> bool:
    """Whether two tensors have equal shapes and bits: a NaN equals itself, and 0 is not -0."""
    return (
        x.shape == y.shape and x.dtype == y.dtype and torch.equal(_as_integers(x), _as_integers(y))
    )


def difference(x: Tensor, y: Tensor) -> tuple[int, float]:
    """How many elements of two tensors of one shape have other bits, and the largest difference as
    numbers (NaN where one of two is)."""
    differ = int((_as_integers(x) != _as_integers(y)).sum())
    if x.is_complex():
        x, y = torch.view_as_real(x), torch.view_as_real(y)
    wide = torch.float64 if x.is_floating_point() else torch.int64
    apart = (x.to(wide) - y.to(wide)).abs()
    # Equal infinities are no difference, and NaN beside NaN is none.
    apart = torch.where((x == y) | ((x != x) & (y != y)), torch.zeros_like(apart), apart)
    return differ, float(apart.max()) if apart.numel() else 0.0
