"""One answer of scaled_mm: rows, columns, layouts, groups and places of drawn products, compared
with the whole bit by bit."""

from __future__ import annotations

import random

import pytest
import scaled
import tiled_mm
import torch
from epilogues import same_bits
from scaled import E4M3, E5M2, RECIPES

pytestmark = pytest.mark.scaled

DRAWS = {"cpu": 40, "cuda": 600}  # of nine comparisons each


def aligned(rng: random.Random, size: int) -> slice:
    """A part of rows or columns that begins where blocks do."""
    begin = rng.randrange(0, size, 128)
    return slice(begin, rng.randint(begin + 1, size))


def part_of(scale: torch.Tensor, recipe: str, part: slice) -> torch.Tensor:
    if recipe == "TensorWise":
        return scale
    if recipe == "BlockWise128x128":
        return scale[part.start // 128 : scaled.blocks(part.stop)]
    return scale[part]


def test_drawn_products(device: str) -> None:
    rng = random.Random(46)
    for draw in range(DRAWS[device]):
        m, n, k = (rng.choice((rng.randint(1, 40), rng.randint(1, 600))) for _ in range(3))
        recipes = rng.choice(RECIPES), rng.choice(RECIPES)
        dtypes = rng.choice((E4M3, E5M2)), rng.choice((E4M3, E5M2))
        o = scaled.make(m, n, k, *recipes, dtypes, seed=draw, device=device)
        a, b, scale_a, scale_b = o.all()
        options = {"out_dtype": rng.choice((torch.float32, torch.bfloat16))}

        def product(*operands: torch.Tensor, options: dict = options, **more) -> torch.Tensor:
            return tiled_mm.scaled_mm(*operands, **options, **more)

        c = product(a, b, scale_a, scale_b)
        for _ in range(2):
            part = aligned(rng, m)
            some = product(a[part], b, part_of(scale_a, recipes[0], part), scale_b)
            assert same_bits(some, c[part]), (m, n, k, recipes, part)
            part = aligned(rng, n)
            some = product(a, b[:, part], scale_a, part_of(scale_b.t(), recipes[1], part).t())
            assert same_bits(some, c[:, part].contiguous()), (m, n, k, recipes, part)
        row = slice(rng.randrange(m), m)
        if recipes[0] != "BlockWise128x128":
            some = product(a[row], b, part_of(scale_a, recipes[0], row), scale_b)
            assert same_bits(some, c[row])
        assert same_bits(product(a, b.contiguous(), scale_a, scale_b), c)
        columns = a.t().contiguous().t()
        assert same_bits(product(columns, b, scale_a.clone(), scale_b), c)
        turned = product(b.t(), a.t(), scale_b.t(), scale_a.t())
        assert same_bits(turned.t().contiguous(), c)
        if recipes[0] == "BlockWise128x128":
            continue
        ends = sorted(rng.randint(0, m) for _ in range(3))
        offs = torch.tensor([*ends, m], dtype=torch.int32, device=device)
        own = scale_b.reshape(-1) if scale_b.dim() == 1 else scale_b.expand(4, *scale_b.shape)
        grouped = product(a, b.expand(4, k, n), scale_a, own, offs=offs)
        assert same_bits(grouped, c), (m, n, k, recipes, ends)
