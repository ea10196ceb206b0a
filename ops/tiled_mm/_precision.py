"""The library-wide precision of float32 products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ._arguments import with_types_checked
from ._names import Precision


@with_types_checked
def set_float32_precision(precision: Precision | None) -> None:
    """Set the precision of float32 products that do not ask for one: ``'ieee'``, ``'tf32'``,
    ``'fp16x3'`` (see :func:`mm`), or ``None`` to follow torch's own setting (the state at start).

    It holds for all threads. Where a device has no kernel for it, ``'ieee'`` runs. A product whose
    gradients are wanted reads it once, and they are computed by the same; so a function compiled
    with gradients keeps what was set when it was compiled.

    Raises:
        RuntimeError: the name is unknown, or the call stands inside a compiled function, where it
            would run once, at compile time.
    """
    refuse_in_compiled_code("float32 precision")
    torch.ops.tiled.set_float32_precision(precision)


def get_float32_precision() -> Precision | None:
    """The library-wide setting, or ``None`` where torch's own is followed."""
    return torch.ops.tiled.get_float32_precision()


@contextmanager
def float32_precision(precision: Precision | None) -> Iterator[None]:
    """Set the library-wide precision for a block of code, for all threads.

    Blocks of several threads may interleave: of those that are open the one entered last decides,
    and when all are left, what was set outside of them holds again. :func:`set_float32_precision`
    inside a block counts until that block is left.

    Raises:
        RuntimeError: as :func:`set_float32_precision`.
    """
    refuse_in_compiled_code("float32 precision")
    block = torch.ops.tiled._enter_float32_precision(precision)
    try:
        yield
    finally:
        torch.ops.tiled._leave_float32_precision(block)


def refuse_in_compiled_code(setting: str) -> None:
    """Where a setting would be made once, at compile time."""
    if torch.compiler.is_compiling():
        raise RuntimeError(f"tiled_mm: set the {setting} outside of the compiled function")
