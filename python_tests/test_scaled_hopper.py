"""Scaled products on Hopper: one answer by every tile and cluster, the bits of the model in
software, and errors within the contract's bound."""

from __future__ import annotations

import itertools

import fp8_model
import pytest
import scaled
import tiled_mm
import torch
from cases import each
from epilogues import same_bits
from scaled import E4M3, E5M2, RECIPES, TILES

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]

KINDS = ((E4M3, E4M3), (E5M2, E4M3), (E4M3, E5M2), (E5M2, E5M2))
ANY_DATA = 136  # docs/contract.md, "fp8": g
OF_BOTH_SIGNS = 4


def check(o: scaled.Operands, c: torch.Tensor, g: float) -> None:
    exact, magnitude = o.exact()
    blocks = scaled.blocks(o.a.shape[1])
    most = (scaled.UNIT[c.dtype] * exact.abs()) + (g * 2.0**-13 + (blocks + 3) * 2.0**-24) * (
        magnitude
    )
    assert ((c.double() - exact).abs() <= most + scaled.SMALLEST[c.dtype]).all()  # NaN fails


@each("kinds", KINDS)
@each("size", ((130, 257, 300), (16, 512, 1000), (1, 1, 1), (300, 200, 4096), (7, 96, 40000)))
def test_every_way_has_the_same_bits(size: tuple[int, int, int], kinds: tuple) -> None:
    for recipes in itertools.product(RECIPES, RECIPES):
        o = scaled.make(*size, *recipes, kinds, device="cuda")
        c = tiled_mm.scaled_mm(*o.all(), out_dtype=torch.float32)
        check(o, c, OF_BOTH_SIGNS)
        count = 0
        for way, other in scaled.by_every_way(o, torch.float32):
            count += 1
            assert same_bits(other, c), (way, recipes)
        assert count >= len(TILES)
        for dtype in (torch.bfloat16, torch.float16):
            assert same_bits(tiled_mm.scaled_mm(*o.all(), out_dtype=dtype), c.to(dtype))


@each("recipes", (("RowWise", "RowWise"), ("BlockWise1x128", "BlockWise128x128")))
def test_the_model_has_the_same_bits(recipes: tuple[str, str]) -> None:
    model = fp8_model.scaled_mm(scaled.make(64, 48, 640, *recipes))
    o = scaled.make(64, 48, 640, *recipes, device="cuda")
    c = tiled_mm.scaled_mm(*o.all(), out_dtype=torch.float32).cpu()
    assert same_bits(c, torch.from_numpy(model))


def test_drawn_products_are_within_the_bound() -> None:
    """Subnormals, the largest numbers and blocks far from each other among them."""
    generator = torch.Generator().manual_seed(11)
    for seed in range(2000):
        m, n, k = (int(2 ** (7 * torch.rand(1, generator=generator))) for _ in range(3))
        first, second = torch.randint(0, 4, (2,), generator=generator).tolist()
        o = scaled.make(
            m, n, 12 * k, RECIPES[first], RECIPES[second], KINDS[seed // 4 % 4], device="cuda"
        )
        a, b, scale_a, scale_b = o.all()
        kind = seed % 4
        if kind == 1:
            small = torch.rand(a.shape, device="cuda") < 0.5
            a = torch.where(small, a.float() * 2.0**-9, a.float()).to(a.dtype)
        if kind == 2:
            a = torch.full(a.shape, 448.0, device="cuda").to(a.dtype)
        if kind == 3:
            powers = torch.randint(-40, 40, scale_a.shape, device="cuda")
            scale_a = scale_a * torch.exp2(powers.float())
        o = scaled.Operands(a, b, scale_a, scale_b, o.recipe_a, o.recipe_b)
        check(o, tiled_mm.scaled_mm(*o.all(), out_dtype=torch.float32), ANY_DATA)
