"""What the tests of precision='fp16x3' share: how to ask for it, and data that is hard for it."""

from __future__ import annotations

from collections.abc import Callable

import cases
import gates
import tiled_mm
import torch

LEAST_K = 64  # below it everything is computed by fma chains
INF, NAN = float("inf"), float("nan")


def mm(a: torch.Tensor, b: torch.Tensor, **keywords) -> torch.Tensor:
    return tiled_mm.mm(a, b, precision="fp16x3", **keywords)


def ieee(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return tiled_mm.mm(a, b, precision="ieee")


def again(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The bits of elements that the guard computes again: fp64, in chains of 64."""
    total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64, device=a.device)
    for x, y in zip(a.double().split(64, 1), b.double().split(64, 0), strict=True):
        total += tiled_mm.mm(x, y)
    return total.float() + 0.0  # zeros are positive


def recomputed(a: torch.Tensor, b: torch.Tensor) -> int:
    return int(tiled_mm.fp16x3_recomputed(a, b))


def pair(m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    return cases.pair(m, n, k, torch.float32, "cuda")


def normal(*size: int) -> torch.Tensor:
    """Made on the GPU, for large matrices."""
    return torch.randn(*size, device="cuda")


def with_tile(a: torch.Tensor, b: torch.Tensor, *way, cut: bool = False) -> torch.Tensor:
    """`cut`: in time (ops/cuda/plan/stream_k.h)."""
    return torch.ops.tiled_debug.mm_with_tile(a, b, *way, cut, precision="fp16x3")


def drop(x: torch.Tensor, row: int) -> torch.Tensor:
    return torch.cat([x[:row], x[row + 1 :]])


# ---- data ----------------------------------------------------------------------------------------


def huge_in_each_row(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, x.shape[1] // 3] = 1e15
    return x


# name -> a matrix whose rows are hard, of standard normal numbers (fp64). All products of two of
# these are numbers of fp32.
HARD: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "normal": lambda x: x,
    "exp 4": lambda x: x * torch.exp(4 * torch.randn_like(x)),
    "exp 8": lambda x: x * torch.exp(8 * torch.randn_like(x)),
    "softmax": lambda x: torch.softmax(4 * x, -1),
    "sharp softmax": lambda x: torch.softmax(20 * x, -1),
    "gelu": lambda x: torch.nn.functional.gelu(4 * x),
    "one huge": huge_in_each_row,
    "sparse": lambda x: torch.where(torch.rand_like(x) < 0.02, x, 0.0),
    "zeros": lambda x: torch.zeros_like(x),
}
# Those at the ends of the range.
EXTREME = {
    "1e37": lambda x: 1e37 * x,  # the largest about 5e37
    "1e-38": lambda x: 1e-38 * x,
    "subnormal": lambda x: 1e-40 * x,
    "least subnormal": lambda x: 2.0**-149 * torch.sign(x),
}


def hard(name: str, rows: int, k: int) -> torch.Tensor:
    x = (HARD | EXTREME)[name](torch.randn(rows, k, dtype=torch.float64))
    return x.float().cuda()


def check_hard(name_a: str, name_b: str, m: int, n: int, k: int) -> None:
    a, b = hard(name_a, m, k), hard(name_b, n, k).t()
    try:
        gates.check_elements(mm(a, b), a, b, "fp16x3")
    except AssertionError as error:
        raise AssertionError(f"{name_a} x {name_b}, K = {k}: {error}") from error


# Of the second some elements are computed again.
DATA = {"normal": normal, "hard": lambda *size: normal(*size) * torch.exp(6 * normal(*size))}
