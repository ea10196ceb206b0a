"""What one run of a program called, with the bits of every row: eight bytes a row and tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from ._calls import Calls, Modules, line_of_user, name_of, results_of
from ._program import Program
from ._rows import BY_DATA, NO_ROWS, PROBES, Layout, Rows, hashes, layout_of, orders_of

#: Which call of a program: its module, the user's line, the operator, and which of these it is.
Place = tuple[str, str, str, int]


@dataclass
class Call:
    """One call of an operator in one run."""

    place: Place
    func: Any
    arguments: list[Any]  # a tensor's sizes (torch.Size), or the value itself
    results: list[torch.Size]
    dtype: torch.dtype | None = None
    whole_arguments: list[bool] = field(default_factory=list)  # which are tensors of integers
    whole_numbers: list[bool] = field(default_factory=list)  # the same of the results
    # For each tensor the hash of its rows in each order that the batch may be folded in; None where
    # nothing can be compared. Filled in runs that know the layouts.
    argument_bits: list[tuple[Tensor, ...] | None] = field(default_factory=list)
    result_bits: list[tuple[Tensor, ...] | None] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.place[2]


def leaves_of(args: tuple, kwargs: dict) -> list[Any]:
    return tree_flatten((args, kwargs))[0]


def is_whole(x: Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex())


def described(leaves: list[Any]) -> list[Any]:
    return [x.shape if isinstance(x, Tensor) else x for x in leaves]


class Places:
    """Numbers the calls of one run."""

    def __init__(self, modules: Modules) -> None:
        self.modules, self.counts = modules, Counter()

    def next(self, func: Any) -> Place:
        key = (self.modules.now(), line_of_user(), name_of(func))
        self.counts[key] += 1
        return (*key, self.counts[key] - 1)


@dataclass(frozen=True)
class Layouts:
    """Where the batch is in the tensors of a call, and what its other arguments are in the two
    probes."""

    arguments: list[Layout]  # of each leaf that is a tensor; NO_ROWS for others
    results: list[Layout]
    small: list[Any]
    large: list[Any]
    result_sizes: list[torch.Size]  # in the smaller probe


def groups_unlike(ours: dict[Place, Call], theirs: dict[Place, Call]) -> set[tuple]:
    """The modules' lines and operators that are called so many times in one run, and another number
    of times in the other: which of these is which cannot be told."""
    return {place[:3] for place in set(ours) ^ set(theirs)}


def layouts(small: dict[Place, Call], large: dict[Place, Call]) -> dict[Place, Layouts]:
    """Of the calls that both probes make."""
    found = {}
    unlike = groups_unlike(small, large)
    for place, one in small.items():
        other = large.get(place)
        if other is None or place[:3] in unlike or len(one.arguments) != len(other.arguments):
            continue
        if len(one.results) != len(other.results):
            continue

        def layout(pair: tuple[Any, Any]) -> Layout:
            both = all(isinstance(x, torch.Size) for x in pair)
            return layout_of(*pair) if both else NO_ROWS

        found[place] = Layouts(
            [layout(p) for p in zip(one.arguments, other.arguments, strict=True)],
            [layout(p) for p in zip(one.results, other.results, strict=True)],
            one.arguments,
            other.arguments,
            one.results,
        )
    return found


def fits(layout: Layout, x: Tensor, batch: int) -> bool:
    """Whether the rows are in ``x`` as the probes have it."""
    if not isinstance(layout, Rows):
        return layout == NO_ROWS
    return x.shape[layout.axis] == layout.outer * batch * layout.inner


def bits_of(x: Tensor, layout: Layout, batch: int) -> tuple[Tensor, ...] | None:
    """The hash of every row of ``x``, in each order that the batch may be folded in."""
    if not fits(layout, x, batch) or x.layout != torch.strided:
        return None
    if isinstance(layout, str):
        return (hashes(x.reshape(1, -1)).cpu(),)
    return tuple(hashes(order.split(x, batch)).cpu() for order in orders_of(layout))


#: What is done with a call beside it: given the call, its arguments and what is known of it, it
#: returns what is to be done with the outputs.
Beside = Callable[[Call, tuple, dict, Layouts], Callable[[Any], None]]


def record(
    program: Program,
    batch: int,
    known: dict[Place, Layouts] | None = None,
    beside: Beside | None = None,
) -> tuple[dict[Place, Call], dict[str, Tensor]]:
    """The calls of one run in their order, and what the program gave. With the layouts known, the
    hashes are taken too."""
    calls: dict[Place, Call] = {}
    with Modules(program.model) as modules:
        places = Places(modules)

        def seen(func: Any, args: tuple, kwargs: dict) -> Any:
            place = places.next(func)
            leaves = leaves_of(args, kwargs)
            call = calls[place] = Call(place, func, described(leaves), [])
            call.whole_arguments = [isinstance(x, Tensor) and is_whole(x) for x in leaves]
            layout = (known or {}).get(place)
            if layout is not None and len(layout.arguments) == len(leaves):
                call.argument_bits = [
                    bits_of(x, at, batch) if isinstance(x, Tensor) else None
                    for x, at in zip(leaves, layout.arguments, strict=True)
                ]
            after = beside(call, args, kwargs, layout) if beside and layout else None
            outputs = func(*args, **kwargs)
            if after is not None:
                after(outputs)
            results = results_of(func, outputs, args, kwargs)
            call.results = [y.shape for y in results]
            call.whole_numbers = [is_whole(y) for y in results]
            call.dtype = results[0].dtype if results else None
            if layout is not None and len(layout.results) == len(results):
                call.result_bits = [
                    bits_of(y, at, batch) for y, at in zip(results, layout.results, strict=True)
                ]
            return outputs

        found = program.run(batch, Calls(seen))
    return calls, found


def probe(program: Program) -> tuple[dict[Place, Layouts], dict[str, Layout], set[Place]]:
    """The layouts of all calls, those of what the program gives, and the calls that are made with
    one batch and not with the other."""
    small, large = (record(program, batch) for batch in PROBES)
    given = {
        name: layout_of(small[1][name].shape, large[1][name].shape) if name in large[1] else BY_DATA
        for name in small[1]
    }
    return layouts(small[0], large[0]), given, set(small[0]) ^ set(large[0])


def unchanged(ours: tuple[Tensor, ...] | None, reference: tuple[Tensor, ...] | None) -> bool | None:
    """Whether the rows of a smaller batch have the reference's bits, in one of the orders; None
    where it cannot be said."""
    if ours is None or reference is None:
        return None
    pairs = zip(ours, reference, strict=True)
    return any(torch.equal(x, y[: len(x)]) for x, y in pairs)
