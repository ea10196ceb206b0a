"""Measuring the choice among ways: :func:`tuning`, :func:`tune`, and rules files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._bar import Bar
from ._names import Layout, Precision
from ._ops import bmm, mm


class Tuned(NamedTuple):
    """What was measured of one class of products."""

    product: str  #: dtypes, sizes and the operands' layouts, as a rules file has them
    way: str  #: the fastest: rung, and of rungs with several ways its tile
    seconds: float  #: that it takes, with cold caches
    estimated_seconds: float  #: that the way takes which estimates alone would have chosen
    date: str

    @property
    def gain(self) -> float:
        """How much longer the estimates' way takes: 0.05 for 5 %."""
        return self.estimated_seconds / self.seconds - 1


@contextmanager
def tuning() -> Iterator[None]:
    """Within this block, every product on a GPU whose class has not been measured measures the two
    dozen ways that are estimated to be the fastest, and the fastest is taken from then on, here and
    after the block, by all threads of the process.

    A new class of products takes some hundredths of a second, where a product is short, and some
    hundred times its own time where it is long. A class is: M exactly up to 64 and in coarse steps
    above, N, K, the batch, layouts, alignment, dtypes, precision, scales and epilogue. Candidates
    read the operands and write to scratch memory, of which short products take the most: 150 µs of
    launches are timed together, each on copies of both operands, at most 48. Then the product
    itself runs once, as ever. No choice changes a bit of a result. It holds for backward passes,
    for torch's own products under :func:`override`, and for calls of compiled functions; a product
    that asks for ``algo=`` is not tuned, and while a CUDA graph is captured nothing is measured. A
    way for which there is no memory is left out; without memory for the copies and the scratch
    result nothing is measured. On the CPU nothing happens.

    Outside of such blocks nothing is ever measured. :func:`save_rules` keeps what was.

    Raises:
        RuntimeError: inside a function that is compiled as one graph, where it would hold at
            compile time.
    """
    if torch.compiler.is_compiling():
        raise RuntimeError("tiled_mm: begin tuning outside of the compiled function")
    torch.ops.tiled._enter_tuning()
    try:
        yield
    finally:
        torch.ops.tiled._leave_tuning()


Shape = tuple[int, int, int] | tuple[int, int, int, int]


def tune(
    work: Iterable[Shape] | Callable[[], object],
    *,
    dtype: torch.dtype = torch.bfloat16,
    layout: Layout = "nt",
    precision: Precision | None = None,
    out_dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> list[Tuned]:
    """Tune products of given sizes, or all that a function meets.

    Args:
        work: sizes ``(M, N, K)`` or ``(B, M, N, K)``; or a function without arguments, such as a
            step of training, that is called once within :func:`tuning`.
        dtype, precision, out_dtype: of the products of given sizes, as in :func:`mm`.
        layout: of their operands, a letter each: ``n`` for rows without gaps, ``t`` for a
            transposed view of such. ``'nt'`` is a linear layer's forward pass.
        device: the GPU; the current one if None.
        progress: a line that shows how far it is; by default where stderr is a terminal.

    Returns:
        what was measured now; classes that had been measured before are not in it.

    Raises:
        ValueError: sizes or layout are none.
        RuntimeError: there is no GPU, or as :func:`mm`.
    """
    where = _gpu(device)
    known = set(_rows(where))
    with torch.cuda.device(where), tuning():
        if callable(work):
            work()
        else:
            options = {"precision": precision, "out_dtype": out_dtype}
            _run_all([_checked(shape) for shape in work], dtype, layout, options, where, progress)
    return [_tuned(row) for row in _rows(where) if row not in known]


def save_rules(path: str | os.PathLike, *, device: torch.device | str | None = None) -> None:
    """Write what is known of a GPU's choices to a file, for :func:`load_rules` and for the
    environment variable ``TILED_MM_RULES``, which is read at a program's first product.

    The file is written whole and then renamed, so that other processes read the old or the new one.
    Rows that it has already are kept; of a class that this process knows too, its own counts.
    Threads and processes of one host that save at once wait for each other: a lock of the file's
    folder (flock) keeps every one's rows. Where a folder cannot be locked, the last writer's stay.

    Args:
        path: of the file.
        device: the GPU, or the name of one of :func:`devices`; the current GPU if None.

    Raises:
        RuntimeError: there is no such GPU, the file cannot be written, or there is one that is not
            of this GPU and version, which is left as it is.
    """
    torch.ops.tiled.save_rules(os.fspath(path), None if device is None else str(device))


def load_rules(path: str | os.PathLike) -> int:
    """Take the choices of a file that :func:`save_rules` or ``bench.choice_fit`` wrote, beside
    those that are known; where both have one, the file's counts.

    Returns:
        how many classes of products the file has ways for. A way that this version or a product
        does not have is passed over, and estimates choose.

    Raises:
        RuntimeError: the file cannot be read, is damaged, or was made by another version or on
            another GPU (name, compute capability, number of multiprocessors); nothing changes.
    """
    return torch.ops.tiled.load_rules(os.fspath(path))


def _gpu(device: torch.device | str | None) -> torch.device:
    where = torch.device("cuda" if device is None else device)
    if where.type != "cuda":
        raise ValueError(f"tiled_mm: ways are tuned on a GPU, got device '{where}'")
    if not torch.cuda.is_available():
        raise RuntimeError("tiled_mm: ways are tuned on a GPU, and torch sees none")
    return torch.device("cuda", torch.cuda.current_device()) if where.index is None else where


def _rows(device: torch.device) -> list[str]:
    text = torch.ops.tiled_debug.rules(str(device))
    return [line for line in text.splitlines() if line.startswith("row ")]


def _tuned(row: str) -> Tuned:
    _, product, seconds, estimated, date, algo, *rest = row.split(" ")
    return Tuned(product, " ".join([algo, *rest[4:]]), float(seconds), float(estimated), date)


def _checked(shape: Shape) -> Shape:
    sizes = tuple(shape)
    if len(sizes) not in (3, 4) or not all(isinstance(s, int) and s > 0 for s in sizes):
        raise ValueError(f"tiled_mm: expected sizes (M, N, K) or (B, M, N, K) above 0, got {shape}")
    return sizes


def _run_all(
    shapes: list[Shape],
    dtype: torch.dtype,
    layout: str,
    options: dict[str, Any],
    device: torch.device,
    progress: bool | None,
) -> None:
    if len(layout) != 2 or set(layout) - set("nt"):
        raise ValueError(f"tiled_mm: expected layout 'nn', 'nt', 'tn' or 'tt', got {layout!r}")
    bar = Bar(progress, len(shapes))
    for *batch, m, n, k in shapes:
        bar.step("x".join(map(str, (*batch, m, n, k))))
        a = _operand(batch, m, k, layout[0], dtype, device)
        b = _operand(batch, k, n, layout[1], dtype, device)
        (bmm if batch else mm)(a, b, **options)
    bar.end()


def _operand(
    batch: list[int], rows: int, columns: int, letter: str, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Of random numbers, since a GPU multiplies zeros faster than it would a model's numbers."""
    sizes = (*batch, rows, columns) if letter == "n" else (*batch, columns, rows)
    if dtype.is_floating_point or dtype.is_complex:
        x = torch.randn(sizes, dtype=dtype, device=device)
    else:
        x = torch.randint(0, 100, sizes, dtype=dtype, device=device)
    return x if letter == "n" else x.mT
