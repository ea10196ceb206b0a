"""Rung async_mma's kernels of compute capability 7.5, on such a GPU or, from their PTX, on a newer
one that plans as a T4: every tile, whatever the layout and alignment, has the same bits, and they
keep the bounds of their arithmetic."""

from __future__ import annotations

import cases
import gates
import pytest
import rungs
import tiled_mm
import torch
from cases import each
from golden import assert_equal
from test_async_mma import laid, normal, pairs, with_each_tile

pytestmark = pytest.mark.cuda

FP16 = torch.float16


@pytest.fixture(autouse=True)
def needs_them() -> None:
    if not rungs.has_fp16_kernels_of_7_5("cuda"):
        pytest.skip("needs compute capability 7.5, or its PTX and TILED_MM_PLAN_AS=t4")


@each("size", ((136, 264, 584), (131, 261, 203), (5, 7, 1), (72, 136, 9 * 4096 + 264)))
def test_every_tile_has_the_same_bits(size: tuple) -> None:
    m, n, k = size
    a, b = normal(m, k, FP16), normal(k, n, FP16)
    expected = tiled_mm.mm(a, b)
    met = set()
    for (name_a, x), (name_b, y) in pairs(a, b):
        for tile, way, c in with_each_tile(x, y):
            assert_equal(c, expected, (*way, name_a, name_b))
            met.add(tile)
    assert met == {"RegisterStaged128x128", "RegisterStaged64x64"}


def test_the_bounds_of_errors() -> None:
    for m, n, k in ((100, 130, 1000), (64, 64, 8200)):
        a, b = normal(m, k, FP16), normal(k, n, FP16)
        for out_dtype in (FP16, torch.float32):
            c = tiled_mm.mm(a, b, out_dtype=out_dtype)
            gates.check_elements(c, a, b, "tensor")
            gates.check_random(c, a, b, "tensor")


@pytest.mark.parametrize(
    ("places", "sum_"),
    [((0, 1, 15), 2.0**-16), ((0, 1, 7), 0.0), ((8, 9, 0), 0.0), ((8, 9, 16), 2.0**-16)],
)
def test_k_goes_in_steps_of_8(places: tuple[int, int, int], sum_: float) -> None:
    """A small product is lost beside large ones of its own step and before them, though these
    cancel out, but not in a step after theirs."""
    high, low, small = places
    a = torch.zeros(16, 24, device="cuda", dtype=FP16)
    a[:, high], a[:, low], a[:, small] = 2.0**11, -(2.0**11), 2.0**-16
    b = torch.ones(24, 8, device="cuda", dtype=FP16)
    c = tiled_mm.mm(a, b, out_dtype=torch.float32)
    assert_equal(c, torch.full_like(c, sum_))


def test_results_of_any_layout() -> None:
    a, b = normal(133, 80, FP16), normal(80, 261, FP16)
    for out_dtype in (FP16, torch.float32):
        wide = tiled_mm.mm(a, b, out_dtype=out_dtype)
        for name, out in laid(torch.zeros(133, 261, device="cuda", dtype=out_dtype)).items():
            tiled_mm.mm(a, b, out=out, out_dtype=out_dtype)
            assert_equal(out, wide, name)


def test_repeats_beside_another_stream() -> None:
    """The two stages, 100 times."""
    for m, n, k in ((1024, 1024, 1024), (300, 520, 6152), (255, 257, 999)):
        a, b = normal(m, k, FP16), normal(n, k, FP16).t()
        cases.beside_another_stream(tiled_mm.mm, a, b, tiled_mm.mm(a, b), 34)
