"""What would run on given inputs, and what bounds it. Nothing here computes a product."""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from ._arguments import with_types_checked
from ._names import Algo, Peak, Precision, SumOrder


class Plan(dict[str, Any]):
    """The planner's answer: a dictionary whose keys can be read as attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the plan has no {name!r}; it has {', '.join(self)}") from None


def _plan_from(text: str) -> Plan:
    return json.loads(text, object_hook=Plan)


@with_types_checked
def algos(
    a: Tensor,
    b: Tensor,
    *,
    precision: Precision | None = None,
    out_dtype: torch.dtype | None = None,
    sum_order: SumOrder | None = None,
    device: str | None = None,
) -> list[str]:
    """The rungs that compute ``a`` [M, K] times ``b`` [K, N], from the simplest to the fastest, on
    the tensors' device or on one of :func:`devices` (meta tensors must name one)."""
    return torch.ops.tiled.algos(
        a, b, precision=precision, out_dtype=out_dtype, sum_order=sum_order, device=device
    )


@with_types_checked
def explain(
    a: Tensor,
    b: Tensor,
    *,
    algo: Algo | None = None,
    precision: Precision | None = None,
    out_dtype: torch.dtype | None = None,
    sum_order: SumOrder | None = None,
    device: str | None = None,
    verbose: bool = False,
    scale_a: Tensor | None = None,
    scale_b: Tensor | None = None,
) -> str:
    """The plan for ``a`` [M, K] times ``b`` [K, N] as text: rung, tile, the chosen way and the next
    best, occupancy and what limits it, traffic, and the roofline bound. On the CPU: the arithmetic,
    the instruction level that runs these dtypes, the blocking, and the least traffic.

    With ``device`` naming one of :func:`devices` it works on any tensors, meta ones too, and needs
    no GPU; without it, the plan is for the tensors' own device. ``verbose`` lists every way that
    the rung has for the problem. Of a complex product that a real one of twice the rows and columns
    computes it is that one's. Of a ``sum_order`` with several leaves it is the plan of the
    first of them, behind a list of all. With ``scale_a`` and ``scale_b`` it is that of
    :func:`scaled_mm`, which takes neither ``algo`` nor ``precision``.

    Raises:
        RuntimeError: as :func:`mm` or :func:`scaled_mm`, or the device is unknown or missing.
        NotImplementedError: the device has no kernel for a product with scales.
    """
    return torch.ops.tiled.explain(
        a,
        b,
        algo=algo,
        precision=precision,
        out_dtype=out_dtype,
        sum_order=sum_order,
        device=device,
        verbose=verbose,
        scale_a=scale_a,
        scale_b=scale_b,
    )


@with_types_checked
def plan(
    a: Tensor,
    b: Tensor,
    *,
    algo: Algo | None = None,
    precision: Precision | None = None,
    out_dtype: torch.dtype | None = None,
    sum_order: SumOrder | None = None,
    device: str | None = None,
    scale_a: Tensor | None = None,
    scale_b: Tensor | None = None,
) -> Plan:
    """What :func:`explain` says, as a structure."""
    return _plan_from(
        torch.ops.tiled_debug.plan(
            a,
            b,
            algo=algo,
            precision=precision,
            out_dtype=out_dtype,
            sum_order=sum_order,
            device=device,
            scale_a=scale_a,
            scale_b=scale_b,
        )
    )


def devices() -> list[str]:
    """The GPUs that can be planned for by name."""
    return torch.ops.tiled.devices()


@with_types_checked
def occupancy(device: str, *, threads: int, registers: int = 0, shared_bytes: int = 0) -> Plan:
    """How many blocks of ``threads`` threads a multiprocessor of ``device`` holds.

    Args:
        device: one of :func:`devices`.
        threads: of one block.
        registers: 32-bit, of one thread; 0 if not known.
        shared_bytes: of one block.

    Returns:
        blocks and threads per multiprocessor, the fraction of its threads, and what limits it.
    """
    return _plan_from(
        torch.ops.tiled_debug.occupancy(
            device, threads=threads, registers=registers, shared_bytes=shared_bytes
        )
    )


@with_types_checked
def roofline(device: str, *, bytes: float, flops: float, peak: Peak = "float32") -> Plan:
    """The roofline bound (Williams, Waterman and Patterson, CACM 52(4), 2009) of a computation.

    Args:
        device: one of :func:`devices`.
        bytes: moved to and from global memory.
        flops: floating-point operations, a multiply-add counted as two.
        peak: ``'float32'`` or ``'float64'``, the rate without tensor cores.

    Returns:
        intensity (flop per byte), the bound in flop/s and in seconds, and whether memory or
        arithmetic sets it.
    """
    return _plan_from(
        torch.ops.tiled_debug.roofline(device, bytes=float(bytes), flops=float(flops), peak=peak)
    )
