"""Products larger than a GPU's memory: streamed from host memory, tile by tile."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._arguments import with_types_checked
from ._bar import Bar
from ._inspect import Plan, _plan_from
from ._names import Precision

Devices = Iterable["torch.device | str | int"]

_SECONDS_BETWEEN_CALLS = 0.1  # of the progress; how long Ctrl-C may take to be seen


class Progress(NamedTuple):
    """How far a product of :func:`out_of_core` is."""

    tiles_done: int  #: a tile that is not done has not been touched
    tiles: int
    bytes_in: int  #: moved to the devices
    bytes_out: int  #: and back
    seconds: float  #: since the begin
    flops_done: float  #: of the tiles that are done

    @property
    def seconds_left(self) -> float | None:
        """At the rate so far; None before the first tile is done."""
        if not self.tiles_done:
            return None
        return self.seconds * (self.tiles - self.tiles_done) / self.tiles_done


@with_types_checked
def out_of_core(
    a: Tensor,
    b: Tensor,
    out: Tensor | None = None,
    *,
    precision: Precision | None = None,
    out_dtype: torch.dtype | None = None,
    devices: Devices | None = None,
    memory: int | None = None,
    progress: bool | Callable[[Progress], object] | None = None,
    copy: bool = True,
) -> Tensor:
    """Matrix product of ``a`` [M, K] and ``b`` [K, N] on the CPU, computed on GPUs that need not
    have room for them: tiles are copied there and back while others are computed.

    The bits are those of :func:`mm` on such a GPU, whatever ``memory``, the tiles and the number of
    devices are. The tiles, and the order of least traffic, are what :func:`explain_out_of_core`
    says: with room for S elements, the rows of ``a`` (or the columns of ``b``) stay in groups of
    R, about S / K, while the other operand goes by once a group, which moves
    M K + ceil(M / R) K N elements; or, for K that is large beside that, tiles of C stay, which
    comes near the 2 M N K / sqrt(S) that no order can be far below (Hong and Kung, 1981; Irony,
    Toledo and Tiskin, 2004).

    Args:
        a: [M, K] on the CPU, any dtype of :func:`mm` and any strides: pinned memory is copied as it
            is, ordinary memory and memory-mapped files through a small pinned buffer.
        b: [K, N], dtype of ``a``.
        out: [M, N] on the CPU, of the result's dtype, sharing no memory with ``a`` and ``b``.
        precision: as of :func:`mm`; what holds at the begin holds to the end.
        out_dtype: as of :func:`mm`.
        devices: CUDA devices, which share out the tiles as they become free; the current one if
            None.
        memory: bytes that may be used on each; what is free, less a margin, if None.
        progress: None shows a bar where stderr is a terminal; True always, False never. A function
            is called now and then with a :class:`Progress`.
        copy: False lets kernels read ``a`` and ``b``, which must be pinned, where they are. That
            is for operands of which each element is read about once: few rows or few columns.

    Returns:
        [M, N] on the CPU: ``out``, or a new tensor of ordinary memory.

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit, in torch.mm's words; not even small
            tiles fit into ``memory``; an operand requires grad; a device failed; the system has no
            thread left.
        NotImplementedError: no kernel for this dtype or precision, a build without CUDA, or a
            tensor without memory of its own, as torch.func and tracing have.
        TypeError: ``devices`` or ``progress`` is of another kind.
        torch.OutOfMemoryError: the memory was not there, nor that for smaller tiles.

    Ctrl-C and an exception in ``progress`` end the product, and are raised when threads and memory
    are cleaned up. Every tile of ``out`` is then as it was, or done; the exception says how many.
    """
    if isinstance(devices, int):  # explain_out_of_core() takes their number
        raise TypeError(f"out_of_core(): devices must be CUDA devices, not {devices!r}")
    if not (progress is None or callable(progress) or isinstance(progress, bool)):
        raise TypeError(f"out_of_core(): progress must be a bool or a function, not {progress!r}")
    names = _names(devices)
    job = torch.classes.tiled.OutOfCore(a, b, out, precision, out_dtype, names, memory, copy)
    return _wait_for(job, progress)


@with_types_checked
def explain_out_of_core(
    a: Tensor,
    b: Tensor,
    *,
    precision: Precision | None = None,
    out_dtype: torch.dtype | None = None,
    devices: Devices | int | None = None,
    memory: int | None = None,
    copy: bool = True,
    device: str | None = None,
) -> str:
    """What :func:`out_of_core` would do with ``a`` [M, K] and ``b`` [K, N], as text: tiles and
    their order, bytes over the link each way, the time of these at the link's rate and of the
    products at the arithmetic's, and which of them bounds the whole. The link's rate is that of the
    standard which such cards have; the arithmetic's is the device's peak.

    With ``device`` naming one of :func:`devices` it needs no GPU. ``devices`` may say how many GPUs
    there are, at least one. ``a`` and ``b`` may be meta tensors.

    Raises:
        RuntimeError: as :func:`out_of_core`, or the device is unknown.
    """
    return torch.ops.tiled.explain_out_of_core(
        a,
        b,
        precision=precision,
        out_dtype=out_dtype,
        devices=_names(devices),
        memory=memory,
        copy=copy,
        device=device,
    )


def plan_out_of_core(a: Tensor, b: Tensor, **options: Any) -> Plan:
    """What :func:`explain_out_of_core` says, as a structure (ops/scale/report.h)."""
    options["devices"] = _names(options.get("devices"))
    return _plan_from(torch.ops.tiled_debug.plan_out_of_core(a, b, **options))


def _names(devices: Devices | int | None) -> list[str]:
    """The devices as torch spells them, none for the current one; a number stands for so many."""
    if devices is None:
        return []
    if isinstance(devices, bool) or not isinstance(devices, (int, torch.device, Iterable)):
        raise TypeError(f"devices must be CUDA devices or how many there are, not {devices!r}")
    if isinstance(devices, int):
        devices = range(devices)
    elif isinstance(devices, (str, torch.device)):
        devices = [devices]
    names = [str(torch.device("cuda", d) if isinstance(d, int) else d) for d in devices]
    if not names:
        raise RuntimeError("tiled_mm: out_of_core computes on GPUs, and devices names none")
    return names


def _wait_for(job: Any, progress: bool | Callable[[Progress], object] | None) -> Tensor:
    """The job's result. Whatever ends the waiting ends the job too, before it is raised."""
    bar = Bar(False if callable(progress) else progress)
    show = progress if callable(progress) else functools.partial(_draw, bar)
    try:
        while not job.wait(_SECONDS_BETWEEN_CALLS):
            show(Progress(*job.progress()))
        show(Progress(*job.progress()))
    except BaseException as error:
        job.stop()
        done = Progress(*job.progress())
        count = f"{done.tiles_done} of {done.tiles} tiles of out are done"
        said = f"tiled_mm: {count}, the others untouched"
        # As add_note(), which Python 3.10 does not have.
        error.__notes__ = [*getattr(error, "__notes__", []), said]
        raise
    finally:
        bar.end(keep=True)
    return job.result()


def _draw(bar: Bar, now: Progress) -> None:
    """The tiles that are done, the rate, and the time left."""
    rate = now.flops_done / now.seconds / 1e12 if now.seconds else 0.0
    left = "?" if now.seconds_left is None else f"{now.seconds_left:.0f}"
    words = f"{now.tiles_done}/{now.tiles} tiles, {rate:.1f} TF/s, {left} s left"
    bar.draw(now.tiles_done / now.tiles if now.tiles else 1.0, f"{words:<45}")
