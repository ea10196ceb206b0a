"""What runs: ours, every rung of it, and the peers that are the real rivals for a problem.

A candidate is called with (a, b, out) and returns its result, which is `out` unless it allocates.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from bench.shapes import DTYPES, FLOATS, INTEGERS, Shape

Call = Callable[[Tensor, Tensor, Tensor], Tensor]

PRECISIONS = ("ieee", "tf32", "fp16x3")  # ours, of float32

# 16 bytes of a 16-bit type: below this alignment cuBLAS leaves its fast kernels.
_ALIGNED = 8  # elements


@dataclass(frozen=True)
class Candidate:
    name: str
    call: Call
    ours: bool = False
    algo: str | None = None  # the rung, if one was asked for by name
    tf32: bool = False  # operands rounded to TF32, as far as the error gate is concerned
    note: str = ""


class Operator(Protocol):
    """What the benchmark asks of the library under test."""

    def algos(self, a: Tensor, b: Tensor) -> list[str]:
        """The rungs that support these inputs, in the order of the ladder."""

    def rungs(self, device: torch.device) -> list[str]:
        """The rungs that compute anything on this device."""

    def call(self, algo: str | None, precision: str | None) -> Call:
        """A product with this rung (None: the planner's choice)."""

    def intensity(self, a: Tensor, b: Tensor, algo: str) -> float | None:
        """Planned operations per byte of global-memory traffic, None where not known."""

    def recomputed(self, a: Tensor, b: Tensor) -> float | None:
        """The share of C's elements that fp16x3 computes again, None where it has no kernel."""


class TiledOperator:
    """`torch.ops.tiled.mm`."""

    def __init__(self) -> None:
        import tiled_mm

        self._library = tiled_mm

    def algos(self, a: Tensor, b: Tensor) -> list[str]:
        return list(self._library.algos(a, b))

    def rungs(self, device: torch.device) -> list[str]:
        found: dict[str, None] = {}
        for dtype in DTYPES:
            x = torch.empty(256, 256, dtype=getattr(torch, dtype), device=device)
            for precision in PRECISIONS if dtype == "float32" else (None,):
                with contextlib.suppress(NotImplementedError):  # this device has no kernel for it
                    found |= dict.fromkeys(self._library.algos(x, x, precision=precision))
        return list(found)

    def call(self, algo: str | None, precision: str | None) -> Call:
        out_of_place = torch.ops.tiled.bmm
        in_place = torch.ops.tiled.mm.out

        def run(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
            if a.dim() == 3:
                return out_of_place(a, b, algo=algo, precision=precision)
            in_place(a, b, algo=algo, precision=precision, out=out)
            return out

        return run

    def intensity(self, a: Tensor, b: Tensor, algo: str) -> float | None:
        # A number for a plot: a plan without this figure must not cost the measurement.
        try:
            return self._library.plan(a, b, algo=algo).traffic.tiles.intensity
        except (AttributeError, RuntimeError):
            return None

    def recomputed(self, a: Tensor, b: Tensor) -> float | None:
        try:
            count = int(self._library.fp16x3_recomputed(a, b))
        except NotImplementedError:
            return None
        return count / (a.shape[:-1].numel() * b.shape[-1])


@contextlib.contextmanager
def fp32_precision(name: str) -> Iterator[None]:
    """torch's own setting for fp32 products on CUDA: "ieee" or "tf32"."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = name
    try:
        yield
    finally:
        matmul.fp32_precision = before


def torch_mm(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    if a.dim() == 3:
        return torch.bmm(a, b)
    return torch.mm(a, b, out=out)


def torch_mm_tf32(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    with fp32_precision("tf32"):
        return torch_mm(a, b, out)


def torch_int_mm(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    return torch._int_mm(a, b)


def _pad(x: Tensor, rows: int, cols: int, letter: str) -> Tensor:
    """x with zeros appended up to rows x cols, its layout kept."""
    if x.shape == (rows, cols):
        return x
    below, right = rows - x.shape[0], cols - x.shape[1]
    if letter == "n":
        return functional.pad(x, (0, right, 0, below))
    return functional.pad(x.mT, (0, below, 0, right)).mT


def padded_sizes(shape: Shape) -> tuple[int, int, int]:
    """m, n, k with those rounded up that are the length of a row in memory."""

    def up(size: int) -> int:
        return -(-size // _ALIGNED) * _ALIGNED

    m = up(shape.m) if shape.layout[0] == "t" else shape.m
    k = up(shape.k) if shape.layout[0] == "n" or shape.layout[1] == "t" else shape.k
    return m, up(shape.n), k


def torch_mm_padded(shape: Shape) -> Call:
    """torch.mm on padded copies, the padding timed. The result stays a view of the padded product,
    which spares this peer a copy."""
    m, n, k = padded_sizes(shape)

    def run(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        a, b = _pad(a, m, k, shape.layout[0]), _pad(b, k, n, shape.layout[1])
        return torch.mm(a, b)[: shape.m, : shape.n]

    return run


def peers(shape: Shape, device_type: str, precision: str | None) -> list[Candidate]:
    """The peers of a problem; ratios are against the first. Empty where torch has none."""
    if device_type == "cuda" and shape.dtype in INTEGERS:
        fits = shape.m > 16 and shape.n % 8 == 0 and shape.k % 8 == 0 and shape.batch == 1
        if shape.dtype == "int8" and shape.layout[0] == "n" and fits:
            return [Candidate("torch._int_mm", torch_int_mm, note="result in int32")]
        return []
    found = [Candidate("torch.mm" if shape.batch == 1 else "torch.bmm", torch_mm)]
    if device_type == "cuda" and shape.dtype == "float32" and precision == "tf32":
        # The rival first: ratios are against it.
        return [Candidate("torch.mm tf32", torch_mm_tf32, tf32=True), *found]
    if device_type == "cuda" and shape.dtype == "float32" and precision == "fp16x3":
        # What it replaces first, and beside it what gives up accuracy for speed.
        return [*found, Candidate("torch.mm tf32", torch_mm_tf32, tf32=True)]
    if device_type != "cuda":
        return found
    unaligned = padded_sizes(shape) != (shape.m, shape.n, shape.k)
    if shape.dtype in ("float16", "bfloat16") and shape.batch == 1 and unaligned:
        found.append(Candidate("torch.mm padded", torch_mm_padded(shape), note="padding timed"))
    return found


def no_peer_reason(shape: Shape, device_type: str) -> str:
    return f"torch.mm has no {shape.dtype} product on {device_type.upper()}"


def ours(
    operator: Operator, algos: Sequence[str], precision: str | None, a: Tensor, b: Tensor
) -> list[Candidate]:
    """Candidates of the library under test. In `algos`, "auto" is the planner's choice, "all"
    every rung that supports the inputs, anything else a rung by name."""
    asked = precision if a.dtype == torch.float32 else None
    suffix = f" {asked}" if asked else ""
    names: list[str] = []
    for algo in algos:
        names.extend(operator.algos(a, b) if algo == "all" else [algo])
    return [
        Candidate(
            ("tiled.mm" if name == "auto" else name) + suffix,
            operator.call(None if name == "auto" else name, asked),
            ours=True,
            algo=None if name == "auto" else name,
            tf32=asked == "tf32",
        )
        for name in dict.fromkeys(names)  # each once, in order
    ]


def uses_tensor_cores(shape: Shape, device_type: str) -> bool:
    """Whether a candidate may sum with truncation, which the error gate then allows for."""
    return device_type == "cuda" and shape.dtype in FLOATS and shape.dtype.endswith("float16")
