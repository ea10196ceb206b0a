"""scaled_mm of numbers at the edge: zeros, subnormals, the largest, NaN and infinities, in operands
and in scales."""

from __future__ import annotations

import itertools
import math
import os
import random

import pytest
import scaled
import tiled_mm
import torch
from epilogues import same_bits
from scaled import E4M3, E5M2, FP8, RECIPES

pytestmark = pytest.mark.scaled


def test_scales_as_ieee_has_them(device: str) -> None:
    a = torch.ones(4, 256, device=device).to(E4M3)
    for width in (1, 2):
        scale_a = torch.ones(4, width, device=device)
        scale_a[:, -1] = torch.tensor([0.0, math.inf, math.nan, -1.0], device=device)
        scale_b = torch.ones(width, 4, device=device)
        c = tiled_mm.scaled_mm(a, a.t(), scale_a, scale_b, out_dtype=torch.float32)
        first = 128.0 if width == 2 else 0.0
        assert (c[0] == first).all()
        assert (c[1] == math.inf).all()
        assert c[2].isnan().all()
        assert (c[3] == (first - 128 if width == 2 else -256)).all()
        zero = tiled_mm.scaled_mm(
            torch.zeros_like(a), a.t(), -scale_a.abs(), scale_b, out_dtype=torch.float32
        )
        assert same_bits(zero[0], torch.zeros(4, device=device))  # +0
        assert zero[1].isnan().all()  # infinity times zero


def test_a_total_that_underflows_is_plus_zero(device: str) -> None:
    a = torch.full((3, 256), -0.5, device=device).to(E4M3)
    b = torch.full((256, 5), 2.0**-9, device=device).to(E4M3)
    for width in (1, 2):
        scale_a = torch.full((3, width), 2.0**-149, device=device)
        scale_b = torch.ones(width, 5, device=device)
        for dtype in (torch.float32, torch.bfloat16):
            zero = torch.zeros(3, 5, dtype=dtype, device=device)
            c = tiled_mm.scaled_mm(a, b, scale_a, scale_b, out_dtype=dtype)
            assert same_bits(c, zero)
            offs = torch.tensor([1, 3], dtype=torch.int32, device=device)
            groups = b.expand(2, 256, 5), scale_a, scale_b.expand(2, width, 5)
            assert same_bits(tiled_mm.scaled_mm(a, *groups, offs=offs, out_dtype=dtype), zero)


def test_numbers_at_the_edge(device: str) -> None:
    """The largest, the smallest subnormal, infinities and NaN of both kinds."""
    one = torch.ones(1, device=device)
    for dtype, largest, least in ((E4M3, 448.0, 2.0**-9), (E5M2, 57344.0, 2.0**-16)):
        for value in (largest, -largest, least, -least):
            a = torch.zeros(1, 32, device=device)
            a[0, 7] = value
            unit = torch.zeros(32, 1, device=device)
            unit[7, 0] = 1.0
            c = tiled_mm.scaled_mm(a.to(dtype), unit.to(dtype), one, one, out_dtype=torch.float32)
            assert c.item() == value
        nan = torch.full((1, 32), math.nan, device=device).to(dtype)
        assert tiled_mm.scaled_mm(nan, nan.t(), one, one).isnan().all()
    inf = torch.full((1, 32), math.inf, device=device).to(E5M2)
    assert tiled_mm.scaled_mm(inf, inf.t(), one, one).item() == math.inf
    assert tiled_mm.scaled_mm(inf, torch.zeros_like(inf).t(), one, one).isnan().all()


LARGEST = 448.0  # of e4m3, beyond which is NaN


def _built(kind: str, rows: int, k: int, generator: torch.Generator) -> torch.Tensor:
    x = torch.randn(rows, k, generator=generator)
    if kind == "one sign":
        return x.abs() + 0.1
    if kind == "subnormal":
        return x * 2.0**-9
    if kind == "saturated":
        return (x * 1e5).clamp(-LARGEST, LARGEST)
    if kind == "large beside small":  # whole blocks of K, and single elements
        exponents = torch.randint(-8, 9, (rows, -(-k // scaled.BLOCK)), generator=generator)
        x = x * torch.exp2(exponents.float()).repeat_interleave(scaled.BLOCK, 1)[:, :k]
        x = torch.where(torch.rand(rows, k, generator=generator) < 0.02, 300.0, x)
        return x.clamp(-LARGEST, LARGEST)
    return x


KINDS = ("normal", "one sign", "subnormal", "saturated", "large beside small")


def test_products_of_built_data_are_within_the_bound(device: str) -> None:
    """Drawn sizes, recipes, dtypes and data; so many that each pair of data has some.
    TILED_MM_PRODUCTS=20000 for many."""
    rng, generator = random.Random(9), torch.Generator().manual_seed(9)
    pairs = itertools.cycle(itertools.product(KINDS, KINDS))
    for _ in range(int(os.environ.get("TILED_MM_PRODUCTS", "100"))):
        m, n, k = rng.randint(1, 70), rng.randint(1, 90), rng.choice((31, 128, 200, 700))
        recipes, dtypes = rng.choices(RECIPES, k=2), tuple(rng.choices(FP8, k=2))
        kinds = next(pairs)
        o = scaled.make(m, n, k, *recipes, dtypes, seed=rng.randrange(2**31), device=device)
        a, b = (
            _built(kind, rows, k, generator).to(dtype).to(device)
            for kind, rows, dtype in zip(kinds, (m, n), dtypes, strict=True)
        )
        o = scaled.Operands(a, b.t(), o.scale_a, o.scale_b, *recipes)
        dtype = rng.choice((torch.float32, torch.bfloat16, torch.float16))
        c = tiled_mm.scaled_mm(*o.all(), out_dtype=dtype)
        exact, bound = o.bound(dtype, on_tensor_cores=136 if device != "cpu" else None)
        fits = exact.abs() + bound < torch.finfo(dtype).max
        assert ((c.double() - exact).abs() <= bound)[fits].all(), (m, n, k, recipes, dtypes, kinds)
        assert not c.isnan().any()  # nor where it may be infinite
