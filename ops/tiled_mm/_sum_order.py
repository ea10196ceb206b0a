"""The library-wide order of sums."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ._arguments import with_types_checked
from ._names import SumOrder
from ._precision import refuse_in_compiled_code


@with_types_checked
def set_sum_order(order: SumOrder) -> None:
    """Set the order in which products that ask for none sum K: ``'chain'`` (the state at start),
    ``'tree'`` or ``'tree:LEAF'`` (see :func:`mm` and docs/contract.md).

    It holds for all threads, and for torch's own products under :class:`override`. A product whose
    gradients are wanted reads it once, and they are summed in the same order; so a function
    compiled with gradients keeps what was set when it was compiled. The backward of torch's own
    products reads it again: leave it on until then.

    Raises:
        RuntimeError: the name is unknown, or the call stands inside a compiled function, where it
            would run once, at compile time.
    """
    refuse_in_compiled_code("order of sums")
    torch.ops.tiled.set_sum_order(order)


def get_sum_order() -> SumOrder:
    """The library-wide setting; ``'tree'`` for ``'tree:1024'``."""
    return torch.ops.tiled.get_sum_order()


@contextmanager
def sum_order(order: SumOrder) -> Iterator[None]:
    """Set the library-wide order for a block of code, for all threads; blocks of several threads
    interleave as those of :func:`float32_precision` do.

    Raises:
        RuntimeError: as :func:`set_sum_order`.
    """
    refuse_in_compiled_code("order of sums")
    block = torch.ops.tiled._enter_sum_order(order)
    try:
        yield
    finally:
        torch.ops.tiled._leave_sum_order(block)


#: Without the look-up that a call by torch.ops takes: DTensor asks for it at every product.
_library_order = torch.ops.tiled.get_sum_order.op


def sums_in_one_chain(order: str | None = None) -> bool:
    """Whether a product of this ``sum_order`` may leave parts of a sum, which DTensor adds in the
    order of its collective. A tree's parts would have to be added in the order of ranks, and
    rounded after that, so there operands are gathered instead."""
    return (order or _library_order()) == "chain"
