"""Operands of a problem, random and in several copies.

Never zeros: they cost a chip less power, so it clocks higher, and they hide unwritten results.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from bench.shapes import Shape


@dataclass(frozen=True)
class OperandSet:
    """One copy of a problem's tensors: a [batch,] M, K; b [batch,] K, N; out [batch,] M, N."""

    a: Tensor
    b: Tensor
    out: Tensor


def random_matrix(
    sizes: tuple[int, ...], dtype: torch.dtype, device: torch.device, generator: torch.Generator
) -> Tensor:
    """Standard normal for floating and complex types, else every value of the type (int64: of
    int32) alike."""
    if dtype.is_floating_point and dtype.itemsize == 1:
        return random_matrix(sizes, torch.bfloat16, device, generator).to(dtype)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(sizes, dtype=dtype, device=device, generator=generator)
    limits = torch.iinfo(torch.int32 if dtype == torch.int64 else dtype)
    return torch.randint(
        limits.min, limits.max + 1, sizes, dtype=dtype, device=device, generator=generator
    )


def activations(x: Tensor, data: str, dim: int) -> Tensor:
    """Normal x as the data kind has it, along `dim`. Four times normal, so that the rows of a
    softmax have few large elements, and a GELU its whole tail of tiny negative ones."""
    if data == "softmax":
        return torch.softmax(4 * x, dim)
    if data == "gelu":
        return functional.gelu(4 * x)
    return x


def _operand(
    shape: Shape,
    rows: int,
    cols: int,
    letter: str,
    device: torch.device,
    generator: torch.Generator,
    data: str = "normal",
) -> Tensor:
    sizes = (rows, cols) if letter == "n" else (cols, rows)
    if shape.batch > 1:
        sizes = (shape.batch, *sizes)
    x = random_matrix(sizes, getattr(torch, shape.dtype), device, generator)
    x = activations(x, data, -1 if letter == "n" else -2)  # a row of A is contiguous there
    return x if letter == "n" else x.mT


def make_sets(shape: Shape, device: torch.device, count: int, seed: int) -> list[OperandSet]:
    """`count` independent copies of the problem's tensors, results poisoned."""
    generator = torch.Generator(device).manual_seed(seed)
    sets = []
    for _ in range(count):
        a = _operand(shape, shape.m, shape.k, shape.layout[0], device, generator, shape.data)
        b = _operand(shape, shape.k, shape.n, shape.layout[1], device, generator)
        out = torch.empty(*a.shape[:-1], shape.n, dtype=a.dtype, device=device)
        poison(out)
        sets.append(OperandSet(a, b, out))
    return sets


def poison(x: Tensor) -> None:
    """Fills x with what no product should leave behind: NaN, or 0x55 in every byte."""
    if x.dtype.is_floating_point or x.dtype.is_complex:
        x.fill_(float("nan"))
    else:
        x.fill_(int.from_bytes(b"\x55" * x.element_size(), "little"))
