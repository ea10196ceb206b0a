"""Activations and their derivatives of every order that torch has, over the whole range: finite
wherever the limit is, at infinity too, and NaN of NaN alone."""

from __future__ import annotations

import math

import tiled_mm
import torch
from cases import HALVES, REALS, each
from torch.nn import functional as F

ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


def whole_range(dtype: torch.dtype) -> torch.Tensor:
    """Both zeros, infinities, NaN, the smallest numbers and the largest, and between them some of
    every size; where the functions bend, more."""
    info = torch.finfo(dtype)
    exponents = torch.arange(math.log2(info.tiny) - 4, math.log2(info.max), 0.75).double()
    ends = [0, info.smallest_normal, info.tiny * info.eps, info.max, math.inf, 1.25e8, 2e13]
    positive = torch.cat([2**exponents, torch.linspace(0, 130, 1041), torch.tensor(ends)])
    positive = torch.cat([positive, torch.linspace(650, 800, 151)])
    return torch.cat([positive, -positive, torch.tensor([math.nan])]).to(dtype)


def orders(activation: str, x: torch.Tensor) -> list[torch.Tensor]:
    """The value and its first three derivatives, by the library."""
    one = torch.ones(1, 1, dtype=x.dtype, device=x.device)
    x = x[:, None].clone().requires_grad_()
    found = [tiled_mm.linear(x, one, activation=activation)]
    while len(found) < 4 and found[-1].requires_grad:
        found += torch.autograd.grad(found[-1].sum(), x, create_graph=True, materialize_grads=True)
    return [y.detach()[:, 0] for y in found]


def limits(x: torch.Tensor, order: int) -> torch.Tensor:
    """What value and derivatives are far from 0."""
    above = {0: x, 1: torch.ones_like(x)}.get(order, torch.zeros_like(x))
    return torch.where(x > 0, above, torch.zeros_like(x))


@each("dtype", REALS)
@each("activation", tuple(ACTIVATIONS))
def test_no_nan_and_the_right_limits(device: str, dtype: torch.dtype, activation: str) -> None:
    x = whole_range(dtype).to(device)
    far = x.double().abs() > (40 if activation.startswith("gelu") else 800)
    assert far.any()
    for order, y in enumerate(orders(activation, x)):
        nan = y.isnan() & ~x.isnan()
        assert not nan.any(), f"order {order}: NaN at {x[nan][:5].tolist()}"
        assert torch.equal(y[far], limits(x, order)[far]), f"order {order}"
        if activation != "relu":
            assert y[-1].isnan() or order > 2, f"order {order} of NaN"


@each("dtype", REALS)
@each("activation", tuple(ACTIVATIONS))
def test_second_derivatives_are_torchs(device: str, dtype: torch.dtype, activation: str) -> None:
    """Of fp64, as far as torch's are no NaN; relu's first of NaN is torch's as well."""
    x = whole_range(dtype).to(device)
    wide = x.double().requires_grad_()
    (slope,) = torch.autograd.grad(ACTIVATIONS[activation](wide).sum(), wide, create_graph=True)
    expected = torch.zeros_like(wide)
    if slope.requires_grad:
        (expected,) = torch.autograd.grad(slope.sum(), wide, materialize_grads=True)
    found = orders(activation, x)[2].double()
    known = ~expected.isnan()
    unit = torch.finfo(torch.float32 if dtype in HALVES else dtype).eps
    # The formulas multiply 1 - tanh^2 and such, off by some units, by what is at most so large.
    terms = {"relu": 0, "gelu": 8, "gelu_tanh": 345, "silu": 38}[activation]
    bound = 8 * terms * unit + (torch.finfo(dtype).eps if dtype in HALVES else 0) * expected.abs()
    if dtype == torch.float16:
        bound = bound + 2**-24
    wrong = known & ~((found - expected).abs() <= bound)
    assert not wrong.any(), x[wrong][:5].tolist()


@each("activation", tuple(ACTIVATIONS))
def test_forward_over_reverse_is_finite(device: str, activation: str) -> None:
    x = torch.tensor([-math.inf, -1e30, -1e9, 1e9, 1e30, math.inf], device=device)[:, None]
    one = torch.ones(1, 1, device=device)

    def slope(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda x: tiled_mm.linear(x, one, activation=activation).sum())(x)

    _, bent = torch.func.jvp(slope, (x,), (torch.ones_like(x),))
    assert torch.equal(bent, torch.zeros_like(bent))
