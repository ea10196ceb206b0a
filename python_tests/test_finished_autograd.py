"""Derivatives of addmm, baddbmm and linear: both orders, backward and forward, through activations,
with the forward's choices."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import cases
import pytest
import tiled_mm
import torch
from cases import each
from epilogues import ACTIVATIONS, same_bits
from test_autograd import Recorder
from torch.autograd import gradcheck, gradgradcheck

SIZES = {
    "addmm": ((3, 5), (3, 4), (4, 5)),
    "addmm of a row": ((5,), (3, 4), (4, 5)),
    "baddbmm": ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
    "baddbmm of a column": ((3, 1), (2, 3, 4), (2, 4, 5)),
    "linear": ((3, 4), (5, 4), (5,)),
    "linear of a row": ((4,), (5, 4), (5,)),
    "linear of a batch": ((2, 3, 4), (5, 4), (5,)),
    "linear without bias": ((2, 2, 4), (5, 4)),
}


def function(name: str, library=tiled_mm) -> Callable:
    operator = name.split()[0]
    theirs = torch.nn.functional if operator == "linear" else torch
    return getattr(library if library is tiled_mm else theirs, operator)


def leaves(name: str, dtype: torch.dtype, device: str) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(*s, dtype=dtype, device=device).requires_grad_() for s in SIZES[name])


def asked_of(name: str, dtype: torch.dtype) -> dict:
    if name.startswith("linear"):
        return {}
    return {"alpha": 0.5 - 2j, "beta": 3j} if dtype.is_complex else {"alpha": -0.5, "beta": 3}


@each("activation", ACTIVATIONS)
@each("name", tuple(SIZES))
def test_both_orders(device: str, name: str, activation: str) -> None:
    asked = asked_of(name, torch.float64) | {"activation": activation}
    inputs = leaves(name, torch.float64, device)

    def product(*operands: torch.Tensor) -> torch.Tensor:
        return function(name)(*operands, **asked)

    checks = {"check_batched_grad": True, "fast_mode": True}
    assert gradcheck(
        product, inputs, check_forward_ad=True, check_batched_forward_grad=True, **checks
    )
    assert gradgradcheck(
        product, inputs, check_fwd_over_rev=True, check_rev_over_rev=True, **checks
    )


@each("name", tuple(SIZES))
def test_both_orders_of_complex(device: str, name: str) -> None:
    inputs, asked = leaves(name, torch.complex128, device), asked_of(name, torch.complex128)

    def product(*operands: torch.Tensor) -> torch.Tensor:
        return function(name)(*operands, **asked)

    assert gradcheck(product, inputs, check_forward_ad=True, fast_mode=True)
    assert gradgradcheck(product, inputs, check_fwd_over_rev=True, fast_mode=True)


@each("name", tuple(SIZES))
def test_only_the_gradients_that_are_asked_for(device: str, name: str) -> None:
    count = len(SIZES[name])
    for needs in itertools.product((False, True), repeat=count):
        x = [
            t.detach().requires_grad_(need)
            for t, need in zip(leaves(name, torch.float32, device), needs, strict=True)
        ]
        with Recorder() as recorder:
            c = function(name)(*x, activation="relu")
            assert c.requires_grad == any(needs)
            if any(needs):
                c.sum().backward()
        assert [t.grad is not None for t in x] == list(needs)
        products = needs[:2] if name.startswith("linear") else needs[1:]
        assert len(recorder.calls) >= 1 + sum(products)


def test_what_is_kept_for_the_gradient() -> None:
    """A product keeps its operands, each for the other's gradient; relu its result, and other
    activations the value before them."""
    x, weight = torch.randn(3, 4), torch.randn(5, 4).requires_grad_()
    for activation, count in (("none", 1), ("relu", 2), ("gelu", 2), ("silu", 2)):
        saved: list[torch.Tensor] = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t, s=saved: s.append(t) or t, lambda t: t
        ):
            y = tiled_mm.linear(x, weight, activation=activation)
        assert len(saved) == count, activation
        assert sum(t.data_ptr() == y.data_ptr() for t in saved) == (activation == "relu")
    with torch.no_grad(), Recorder() as recorder:
        tiled_mm.linear(x, weight, activation="gelu")
    assert len(recorder.calls) == 1


@each("dtype", cases.HALVES)
@each("name", ("addmm", "baddbmm", "linear", "linear of a batch"))
def test_gradients_of_16_bit_products_are_those_of_the_formulas(device, name, dtype) -> None:
    """The same products that a user would write, bit for bit."""
    x = leaves(name, dtype, device)
    c = function(name)(*x)
    seed = torch.randn_like(c)
    grads = torch.autograd.grad(c, x, seed)
    with torch.no_grad():
        if name.startswith("linear"):
            rows, flat = x[0].reshape(-1, 4), seed.reshape(-1, 5)
            assert same_bits(grads[0].reshape(-1, 4), tiled_mm.mm(flat, x[1]))
            assert same_bits(grads[1], tiled_mm.mm(flat.t(), rows))
        else:
            product = tiled_mm.mm if name == "addmm" else tiled_mm.bmm
            assert same_bits(grads[0], seed)
            assert same_bits(grads[1], product(seed, x[2].mT))
            assert same_bits(grads[2], product(x[1].mT, seed))
    assert [g.dtype for g in grads] == [dtype] * 3


def test_an_fp32_input_of_a_16_bit_product_has_an_fp32_gradient(device: str) -> None:
    a, b = (t.requires_grad_() for t in cases.pair(6, 5, 7, torch.bfloat16, device))
    input = torch.randn(6, 5, device=device).requires_grad_()
    c = tiled_mm.addmm(input, a, b, out_dtype=torch.float32)
    seed = torch.randn(6, 5, device=device)
    grads = torch.autograd.grad(c, (input, a, b), seed)
    assert same_bits(grads[0], seed)
    with torch.no_grad():
        assert same_bits(grads[1], tiled_mm.mm(seed.bfloat16(), b.t()))
    assert grads[2].dtype == torch.bfloat16


def test_strides_of_gradients(device: str) -> None:
    x = torch.randn(4, 3, device=device).t().requires_grad_()
    weight = torch.randn(4, 5, device=device).t().requires_grad_()
    grads = torch.autograd.grad(tiled_mm.linear(x, weight).sum(), (x, weight))
    assert [g.stride() for g in grads] == [(1, 3), (1, 5)]


@each("name", tuple(SIZES))
def test_every_derivative_runs_the_same_rung(device: str, name: str) -> None:
    inputs = leaves(name, torch.float64, device)
    with Recorder() as recorder:
        c = function(name)(*inputs, algo="naive", activation="silu")
        grads = torch.autograd.grad(c.sum(), inputs, create_graph=True)
        torch.autograd.grad(sum(g.square().sum() for g in grads), inputs)
        with torch.autograd.forward_ad.dual_level():
            dual = [torch.autograd.forward_ad.make_dual(t.detach(), t.detach()) for t in inputs]
            function(name)(*dual, algo="naive", activation="silu")
    assert len(recorder.calls) > 6
    assert {call["algo"] for call in recorder.calls if "algo" in call} == {"naive"}


def test_changed_operands_are_found(device: str) -> None:
    for changed in (0, 1):
        x = [t.detach() * 1 for t in leaves("linear", torch.float32, device)]
        for t in x:
            t.requires_grad_()
        c = tiled_mm.linear(*x, activation="gelu")
        with torch.no_grad():
            x[changed].zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            c.sum().backward()
    c = tiled_mm.linear(*leaves("linear", torch.float32, device), activation="relu")
    c.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        c.sum().backward()
