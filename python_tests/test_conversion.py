"""16-bit products that a product in fp32 computes (cuda/plan/conversion.h): the bits of the kernels
of 16 bits, whatever the layouts, the result and what is behind the sum."""

from __future__ import annotations

import itertools

import cases
import pytest
import tiled_mm
import torch
from cases import HALVES, each
from golden import assert_same_bits

pytestmark = pytest.mark.cuda

SIZES = ((37, 43, 300), (1, 150, 4097), (150, 1, 600), (130, 67, 700), (9, 20, 33000))
LAYOUTS = ("n", "t", "misaligned", "strided")


def pair(size: tuple, layouts: tuple, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    m, n, k = size
    a = cases.LAYOUTS[layouts[0]](m, k, dtype, "cuda")
    b = cases.LAYOUTS[layouts[1]](k, n, dtype, "cuda")
    plan = tiled_mm.plan(a, b, precision="ieee", device="h200")
    assert plan.converted == str(dtype).removeprefix("torch.")
    return a, b


def both(function, *operands, **asked) -> tuple:
    """By the product in fp32, and by the kernels of 16 bits."""
    asked["precision"] = "ieee"
    return function(*operands, **asked), function(*operands, algo="register_tile", **asked)


@each("dtype", HALVES)
@each("size", SIZES)
def test_layouts(dtype: torch.dtype, size: tuple) -> None:
    m, n, _ = size
    for layouts in itertools.product(LAYOUTS, LAYOUTS):
        a, b = pair(size, layouts, dtype)
        found, expected = both(tiled_mm.mm, a, b)
        assert_same_bits(found, expected, str(layouts))
        for out in (
            torch.empty(n, m, dtype=dtype, device="cuda").t(),
            cases.in_a_hole(cases.hole(m, n, dtype, "cuda"), 2, 3),
        ):
            tiled_mm.mm(a, b, precision="ieee", out=out)
            assert_same_bits(out, expected, f"{layouts}, out of strides {out.stride()}")
        found, expected = both(tiled_mm.mm, a, b, out_dtype=torch.float32)
        assert_same_bits(found, expected, f"{layouts}, sums")
        found, expected = both(tiled_mm.bmm, a.expand(3, *a.shape), torch.stack([b, 2 * b, b]))
        assert_same_bits(found, expected, f"{layouts}, a batch")


@each("dtype", HALVES)
@each("size", SIZES)
@each("activation", (None, "relu", "gelu", "silu"))
def test_epilogues(dtype: torch.dtype, size: tuple, activation: str | None) -> None:
    m, n, _ = size
    a, b = pair(size, ("n", "t"), dtype)
    bias = cases.fill(1, n, dtype, "cuda")[0]
    found, expected = both(tiled_mm.linear, a, b.t(), bias, activation=activation)
    assert_same_bits(found, expected, "a bias")
    asked = {"beta": 0.5, "alpha": 2, "activation": activation}
    for c in (cases.fill(m, n, dtype, "cuda"), cases.fill(n, m, dtype, "cuda").t()):
        found, expected = both(tiled_mm.addmm, c, a, b, **asked)
        assert_same_bits(found, expected, "an input")
        tiled_mm.addmm(c, a, b, precision="ieee", out=c, **asked)
        assert_same_bits(c, expected, "an input that is the result")


@each("dtype", HALVES)
def test_gradients(dtype: torch.dtype) -> None:
    found = []
    for algo in (None, "register_tile"):
        torch.manual_seed(0)
        a, b = (x.detach().requires_grad_() for x in pair((300, 310, 320), ("n", "t"), dtype))
        c = tiled_mm.linear(a, b.t(), activation="gelu", precision="ieee", algo=algo)
        found.append(torch.autograd.grad(c, (a, b), torch.ones_like(c)))
    for x, y in zip(*found, strict=True):
        assert_same_bits(x, y)


@each("dtype", HALVES)
@each("size", ((37, 43, 300), (130, 67, 700)))
def test_trees(dtype: torch.dtype, size: tuple) -> None:
    a, b = pair(size, ("n", "t"), dtype)
    for order in ("tree:64", "tree"):
        asked = {"precision": "ieee", "sum_order": order}
        expected = tiled_mm.mm(a.cpu(), b.cpu(), **asked)
        assert_same_bits(tiled_mm.mm(a, b, **asked).cpu(), expected, order)
