"""The software model of Hopper's sums of fp8: the errors that were measured on an H100, and the
contract's bounds; on a GPU, its own sums within them."""

from __future__ import annotations

import fp8_model
import numpy as np
import pytest
import scaled
import tiled_mm
import torch
from cases import each
from scaled import E4M3, RECIPES

pytestmark = pytest.mark.scaled


def operands(k: int, *, positive: bool = False, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = torch.rand if positive else torch.randn
    generator = torch.Generator().manual_seed(seed)
    a, b = draw(48, k, generator=generator), draw(48, k, generator=generator)
    return a.to(E4M3).double().numpy(), b.to(E4M3).double().numpy().T


def promoted(a: np.ndarray, b: np.ndarray, block: int) -> np.ndarray:
    return sum(
        fp8_model.chain(a[:, k : k + block], b[k : k + block]) for k in range(0, len(b), block)
    )


@each(
    "case",
    # K, promoted every so many of it, the relative error that was measured
    (
        (32, 32, 4.7e-5),
        (128, 128, 1.2e-4),
        (4096, 4096, 1.2e-3),
        (4096, 128, 1.2e-4),
        (4096, 32, 4.4e-5),
    ),
)
def test_the_model_errs_as_the_machine_does(case: tuple[int, int, float]) -> None:
    k, block, measured = case
    a, b = operands(k)
    error = np.linalg.norm(promoted(a, b, block) - a @ b) / np.linalg.norm(a @ b)
    assert measured / 1.25 < error < measured * 1.25


@each("positive", (False, True))
def test_the_bounds_of_the_contract(positive: bool) -> None:
    for k in (32, 100, 128, 1000):
        for seed in range(3):
            a, b = operands(k, positive=positive, seed=seed)
            error = np.abs(promoted(a, b, 128) - a @ b)
            assert (error <= (16 if positive else 4) * 2.0**-13 * (np.abs(a) @ np.abs(b))).all()


def test_a_and_b_may_change_places() -> None:
    a, b = operands(500)
    assert (promoted(a, b, 128) == promoted(b.T, a.T, 128).T).all()


@each("recipe", RECIPES)
def test_scaled_products_of_the_model(recipe: str) -> None:
    o = scaled.make(20, 30, 400, recipe, recipe)
    exact, bound = o.bound(torch.float32, on_tensor_cores=4)
    assert (np.abs(fp8_model.scaled_mm(o) - exact.numpy()) <= bound.numpy()).all()


@pytest.mark.cuda
@each("recipe_a", RECIPES)
@each("recipe_b", RECIPES)
def test_a_gpu_is_within_the_bounds(recipe_a: str, recipe_b: str) -> None:
    """Each element on any data, and ordinary data more closely."""
    for m, n, k in ((1, 64, 512), (16, 300, 257), (200, 129, 4096), (256, 256, 40000)):
        o = scaled.make(m, n, k, recipe_a, recipe_b, device="cuda")
        for dtype in (torch.float32, torch.bfloat16):
            exact, bound = o.bound(dtype, on_tensor_cores=4)
            c = tiled_mm.scaled_mm(*o.all(), out_dtype=dtype)
            assert ((c.double() - exact).abs() <= bound).all()


@pytest.mark.cuda
def test_a_gpu_and_hard_data() -> None:
    """Blocks far apart in size, subnormals, and blocks that cancel: the bound of any data."""
    o = scaled.make(128, 128, 2048, "BlockWise1x128", "BlockWise128x128", device="cuda")
    for factor in (
        torch.exp2(torch.arange(16) * 3.0 - 24),
        torch.tensor([1.0, -1.0]).repeat(8),
        torch.exp2(torch.arange(16) % 2 * 40.0 - 20),
    ):
        hard = scaled.Operands(
            o.a, o.b, o.scale_a * factor.cuda(), o.scale_b, o.recipe_a, o.recipe_b
        )
        exact, bound = hard.bound(torch.float32, on_tensor_cores=136)
        c = tiled_mm.scaled_mm(*hard.all(), out_dtype=torch.float32)
        assert ((c.double() - exact).abs() <= bound).all()
    tiny = scaled.Operands(
        (o.a.float() * 2.0**-8).to(E4M3), o.b, o.scale_a, o.scale_b, o.recipe_a, o.recipe_b
    )
    exact, bound = tiny.bound(torch.float32, on_tensor_cores=136)
    c = tiled_mm.scaled_mm(*tiny.all(), out_dtype=torch.float32)
    assert ((c.double() - exact).abs() <= bound).all()
