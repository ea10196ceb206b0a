"""Each operator by itself: a call of the reference run once more, on some rows of its operands."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from ._calls import is_random, name_of, results_of, writes
from ._record import Layouts, is_whole
from ._rows import BY_DATA, NO_ROWS, Rows, difference, orders_of, same_bits, size_for

#: Where the right operand of a product stands among its arguments.
RIGHT_OPERAND = {"mm": 1, "bmm": 1, "addmm": 2, "baddbmm": 2}


@dataclass
class Change:
    """How the results of some rows, or columns, differ from the same rows of all."""

    batches: list[int]
    differ: int  # elements with other bits, of the batch where most have
    of: int
    largest: float
    shapes: str


@dataclass(frozen=True)
class Cut:
    """Some rows of a batch: how many, by which of the orders that it may be folded in, and whether
    they are the last ones."""

    rows: int
    order: int
    last: bool

    def of(self, x: Tensor, at: Rows, batch: int) -> Tensor | None:
        orders = orders_of(at)
        chosen = orders[min(self.order, len(orders) - 1)]
        if x.shape[chosen.axis] != chosen.outer * batch * chosen.inner:
            return None
        return chosen.part(x, batch, self._begin(batch), self.rows)

    def along(self, x: Tensor, axis: int) -> Tensor:
        return x.narrow(axis, self._begin(x.shape[axis]), self.rows)

    def _begin(self, size: int) -> int:
        return size - self.rows if self.last else 0


#: The rows that were tried alone, and what they gave.
Replay = tuple[Cut, list[Tensor]]


def copied(x: Tensor) -> Tensor:
    """The values in memory of their own, in the order of ``x``'s; axes that are one element's
    repeated stay so. A program that has these rows alone has fresh memory too."""
    once = [0 if stride == 0 and size > 1 else slice(None) for size, stride in
            zip(x.shape, x.stride(), strict=True)]  # fmt: skip
    if all(isinstance(i, slice) for i in once):
        return x.clone(memory_format=torch.preserve_format)
    small = x
    for axis, i in enumerate(once):
        if i == 0:
            small = small.narrow(axis, 0, 1)
    return small.clone(memory_format=torch.preserve_format).expand(x.shape)


@contextlib.contextmanager
def same_random_numbers(device: torch.device) -> Iterator[None]:
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


def may_point_outside(func: Any, leaves: list[Any], known: Layouts) -> bool:
    """Whether whole numbers or a mask among the arguments may say places in another argument that
    has rows: places of all rows, and some rows alone do not have them. On a GPU an operator that is
    called with such a place ends the process, so such a call is not tried alone.

    Numbers that have rows themselves, beside arguments that have none, are safe (tokens that choose
    among all rows of an embedding), and so are operators of one element at a time.
    """
    if torch.Tag.pointwise in getattr(func, "tags", ()):
        return False
    told = {i for i, x in enumerate(leaves) if isinstance(x, Tensor) and is_whole(x)}
    cut = {i for i, pair in enumerate(zip(known.small, known.large, strict=True))
           if pair[0] != pair[1]}  # fmt: skip
    return any(cut - {i} for i in told)


class Judge:
    """Judges the calls of a reference run of ``batch`` rows, for smaller batches and columns."""

    def __init__(self, batch: int, smaller: list[int], device: torch.device) -> None:
        self.batch, self.smaller, self.device = batch, smaller, device

    # ---- rows ------------------------------------------------------------------------------------

    def replays(self, func: Any, args: tuple, kwargs: dict, known: Layouts) -> list[Replay]:
        """The call on some of its rows, before the call itself: the first ones, and for the least
        batch the last ones too, which have other neighbours."""
        leaves, spec = tree_flatten((args, kwargs))
        if len(leaves) != len(known.arguments) or not self._can_slice(func, leaves, known):
            return []
        has_orders = any(isinstance(x, Rows) and x.inner > 1 for x in known.arguments)
        wanted = [*((rows, False) for rows in self.smaller), (self.smaller[0], True)]
        found = []
        for (rows, last), order in itertools.product(wanted, range(2 if has_orders else 1)):
            cut = Cut(rows, order, last)
            sliced = self._sliced(leaves, known, cut)
            if sliced is None:
                continue
            a, k = tree_unflatten(sliced, spec)
            try:
                with same_random_numbers(self.device):
                    found.append((cut, results_of(func, func(*a, **k), a, k)))
            except (RuntimeError, IndexError, ValueError):
                continue  # these operands have no rows that stand alone
        return found

    def _can_slice(self, func: Any, leaves: list[Any], known: Layouts) -> bool:
        layouts = [at for x, at in zip(leaves, known.arguments, strict=True)
                   if isinstance(x, Tensor)]  # fmt: skip
        if not all(isinstance(at, Rows) or at in (NO_ROWS, BY_DATA) for at in layouts):
            return False
        # Sizes that follow the data are those of one axis, or the rows are not to be told.
        if BY_DATA in layouts and any(isinstance(at, Rows) for at in layouts):
            return False
        if not any(at != NO_ROWS for at in layouts):
            return is_random(func)
        return not may_point_outside(func, leaves, known)

    def _sliced(self, leaves: list[Any], known: Layouts, cut: Cut) -> list[Any] | None:
        sliced = []
        by_data = self._size_by_data(leaves, known)
        if by_data is not None and cut.rows >= by_data:
            return None
        for x, at, small, large in zip(
            leaves, known.arguments, known.small, known.large, strict=True
        ):
            if isinstance(x, Tensor):
                part = self._part(x, at, small, large, cut, by_data)
                if part is None:
                    return None
                sliced.append(copied(part))
                continue
            value = x
            if small != large:
                if not (type(small) is type(large) is type(x) is int):
                    return None
                value = size_for(small, large, cut.rows)
                if value is None or size_for(small, large, self.batch) != x:
                    return None
            sliced.append(value)
        return sliced

    def _part(
        self, x: Tensor, at: Any, small: Any, large: Any, cut: Cut, by_data: int | None
    ) -> Tensor | None:
        if at == NO_ROWS:
            return x
        if at == BY_DATA:
            axes = [
                i for i, pair in enumerate(zip(small, large, strict=True)) if pair[0] != pair[1]
            ]
            if len(axes) != 1 or x.shape[axes[0]] != by_data:
                return None
            return cut.along(x, axes[0])
        return cut.of(x, at, self.batch)

    def _size_by_data(self, leaves: list[Any], known: Layouts) -> int | None:
        for x, at, small, large in zip(
            leaves, known.arguments, known.small, known.large, strict=True
        ):
            if isinstance(x, Tensor) and at == BY_DATA and len(small) == len(large):
                axes = [i for i in range(len(small)) if small[i] != large[i]]
                return x.shape[axes[0]]
        return None

    def rows_changed(
        self, results: list[Tensor], replays: list[Replay], known: Layouts, leaves: Any
    ) -> Change | None:
        """Of the replays, beside the same rows of the call: those that differ in each order that
        could be tried."""
        if len(results) != len(known.results):
            return None
        tried: dict[tuple[int, bool], list[Change | None]] = {}
        for cut, again in replays:
            change = self._beside(cut, results, again, known, leaves)
            tried.setdefault((cut.rows, cut.last), []).append(change)
        changed = [
            min(changes, key=lambda c: c.differ) for changes in tried.values() if all(changes)
        ]
        if not changed:
            return None
        worst = max(changed, key=lambda c: c.differ / max(1, c.of))
        worst.batches = sorted({batch for c in changed for batch in c.batches})
        worst.largest = max(c.largest for c in changed)
        return worst

    def _beside(
        self, cut: Cut, results: list, again: list, known: Layouts, leaves: Any
    ) -> Change | None:
        total: Change | None = None
        by_data = self._size_by_data(leaves, known)
        for y, part, at in zip(results, again, known.results, strict=True):
            if is_whole(y) or not (isinstance(at, Rows) or at == BY_DATA):
                continue
            if at == BY_DATA:
                axes = [a for a, n in enumerate(y.shape) if n == by_data]
                if by_data is None or len(axes) != 1:
                    continue
                whole = cut.along(y, axes[0])
            else:
                whole = cut.of(y, at, self.batch)
            if whole is None or whole.shape != part.shape or same_bits(whole, part):
                continue
            differ, largest = difference(part, whole)
            if total is None or differ > total.differ:
                shapes = " ".join(str(list(x.shape)) for x in leaves if isinstance(x, Tensor))
                total = Change(
                    [cut.rows], differ, part.numel(), largest, f"{shapes} -> {list(y.shape)}"
                )
        return total

    # ---- columns ---------------------------------------------------------------------------------

    def columns_changed(self, func: Any, args: tuple, kwargs: dict, outputs: Any) -> Change | None:
        """Of a product whose right operand is cut in two along its columns."""
        at = RIGHT_OPERAND.get(name_of(func))
        if at is None or args[at].shape[-1] < 2:
            return None
        n = args[at].shape[-1]
        for begin, count in ((0, n // 2), (n // 2, n - n // 2)):
            cut = list(args)
            cut[at] = copied(args[at].narrow(-1, begin, count))
            if at == 2 and args[0].dim() and args[0].shape[-1] == n:
                cut[0] = args[0].narrow(-1, begin, count)
            part, whole = func(*cut, **kwargs), outputs.narrow(-1, begin, count)
            if not same_bits(part, whole.contiguous()):
                differ, largest = difference(part, whole)
                shapes = f"{list(args[at].shape)} cut to {count} columns"
                return Change([], differ, part.numel(), largest, shapes)
        return None


def snapshot(func: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments, copied where the call writes into one."""
    if not writes(func):
        return args, kwargs
    leaves, spec = tree_flatten((args, kwargs))
    return tree_unflatten([copied(x) if isinstance(x, Tensor) else x for x in leaves], spec)
