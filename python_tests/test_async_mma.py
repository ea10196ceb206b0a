"""Rung async_mma: every tile, whatever the layout, alignment and result, has the bits of the other
rungs; and what its ring of stages could get wrong. (The rest is test_rungs.py's.)"""

from __future__ import annotations

import itertools

import cases
import pytest
import tiled_mm
import torch
from cases import HALVES, each
from golden import assert_same_bits

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]

each_half = each("dtype", HALVES)


def normal(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(rows, columns, device="cuda").to(dtype)


def laid(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The same matrix along either dimension, at pitches of every alignment, and apart."""
    found = {}
    for name, y in (("rows", x), ("columns", x.t())):
        for extra in (0, 1, 2, 4):
            memory = torch.empty(y.shape[0], y.shape[1] + extra, dtype=x.dtype, device="cuda")
            part = memory[:, extra:]
            part.copy_(y)
            found[f"{name}+{extra}"] = part if name == "rows" else part.t()
    apart = torch.empty(2 * x.shape[0], 3 * x.shape[1], dtype=x.dtype, device="cuda")[::2, ::3]
    found["apart"] = apart.copy_(x)
    return found


def with_each_tile(a: torch.Tensor, b: torch.Tensor):
    for e in tiled_mm.plan(a, b, algo="async_mma").async_mma.estimates:
        c = torch.ops.tiled_debug.mm_with_tile(
            a, b, e.tile, e.exchanged, 1, 1, False, algo="async_mma"
        )
        yield e.tile, e.exchanged, c


# A little more than every tile, less than one, a long ring, and a deep K.
SIZES = ((136, 264, 584), (131, 261, 203), (5, 7, 1), (72, 136, 9 * 4096 + 264))


@each("size", SIZES)
@each_half
def test_every_tile_has_the_bits_of_the_other_rungs(dtype: torch.dtype, size: tuple) -> None:
    m, n, k = size
    a, b = normal(m, k, dtype), normal(k, n, dtype)
    expected = tiled_mm.mm(a, b, algo="mma_tile")
    met = set()
    for (name_a, x), (name_b, y) in itertools.product(laid(a).items(), laid(b).items()):
        for tile, exchanged, c in with_each_tile(x, y):
            assert_same_bits(c, expected, (tile, exchanged, name_a, name_b))
            met.add(tile)
    assert len(met) == 6 if k % 8 == 0 and n % 8 == 0 and m % 8 == 0 else len(met) >= 2


@each_half
def test_results_of_any_layout(dtype: torch.dtype) -> None:
    a, b = normal(133, 80, dtype), normal(80, 261, dtype)
    expected = tiled_mm.mm(a, b, algo="mma_tile")
    for out_dtype in (dtype, torch.float32):
        wide = tiled_mm.mm(a, b, algo="mma_tile", out_dtype=out_dtype)
        for name, out in laid(torch.zeros(133, 261, device="cuda", dtype=out_dtype)).items():
            tiled_mm.mm(a, b, algo="async_mma", out=out, out_dtype=out_dtype)
            assert_same_bits(out, wide, name)
    hole = cases.in_a_hole(cases.hole(133, 261, dtype, "cuda"))
    tiled_mm.mm(a, b, algo="async_mma", out=hole)
    assert_same_bits(hole, expected)


@each_half
def test_repeats_beside_another_stream(dtype: torch.dtype) -> None:
    """The ring, 100 times, while another stream takes multiprocessors at random."""
    beside = torch.cuda.Stream()
    noise = normal(1536, 1536, torch.bfloat16)
    for m, n, k in ((1024, 1024, 1024), (300, 520, 6152), (255, 257, 999)):
        a, b = normal(m, k, dtype), normal(k, n, dtype)
        expected = tiled_mm.mm(a, b, algo="mma_tile")
        for _ in range(34):
            with torch.cuda.stream(beside):
                noise @ noise
            assert_same_bits(tiled_mm.mm(a, b, algo="async_mma"), expected)
