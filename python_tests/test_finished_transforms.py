"""addmm, baddbmm and linear under torch.func, vmap, autocast, opcheck and torch.compile."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import tiled_mm
import torch
from cases import HALVES, each
from epilogues import same_bits
from test_compile import opcheck
from test_finished_autograd import SIZES, asked_of, function, leaves
from torch.func import grad, hessian, jvp, vmap


@each("activation", ("none", "relu", "silu"))
@each("name", tuple(SIZES))
def test_transforms(device: str, name: str, activation: str) -> None:
    torchs = {
        "none": lambda x: x,
        "relu": torch.relu,
        "silu": lambda x: x * torch.sigmoid(x),
    }[activation]
    inputs = tuple(t.detach() for t in leaves(name, torch.float64, device))
    numbers = tuple(range(len(inputs)))

    def ours(*x: torch.Tensor) -> torch.Tensor:
        return (function(name)(*x, activation=activation) ** 3).sum()

    def theirs(*x: torch.Tensor) -> torch.Tensor:
        return (torchs(function(name, torch)(*x)) ** 3).sum()

    def tangent(f: Callable) -> Callable:
        return lambda *x: jvp(f, x, tuple(t + 1 for t in x))[1]

    for transform in (
        lambda f: grad(f, numbers),
        lambda f: grad(lambda *x: sum(g.square().sum() for g in grad(f, numbers)(*x)), numbers),
        tangent,
        lambda f: grad(tangent(f), numbers),
        lambda f: tangent(lambda *x: sum(g.square().sum() for g in grad(f, numbers)(*x))),
        lambda f: hessian(f, 1),
    ):
        torch.testing.assert_close(transform(ours)(*inputs), transform(theirs)(*inputs))
        stacked = tuple(torch.stack([t, t / 2]) for t in inputs)
        got, right = (vmap(transform(f))(*stacked) for f in (ours, theirs))
        torch.testing.assert_close(got, right)


@pytest.mark.usefixtures("no_fallback")
@each("name", (*SIZES, "linear of two vectors", "linear with a wide bias"))
def test_vmap_over_every_dimension(device: str, name: str) -> None:
    """Every entry has the bits of its own call."""
    more = {
        "linear of two vectors": ((4,), (4,)),
        "linear with a wide bias": ((2, 3, 4), (5, 4), (3, 5)),
    }
    sizes = (SIZES | more)[name]
    choices = [(None, *range(len(s) + 1)) for s in sizes]
    for dims in itertools.product(*choices):
        if all(d is None for d in dims):
            continue
        whole = [
            torch.randn(*s[: (d or 0)], *([] if d is None else [3]), *s[(d or 0) :], device=device)
            for s, d in zip(sizes, dims, strict=True)
        ]
        got = vmap(lambda *x: function(name)(*x, activation="silu"), dims)(*whole)
        for i in range(3):
            entry = [t if d is None else t.select(d, i) for t, d in zip(whole, dims, strict=True)]
            assert same_bits(got[i], function(name)(*entry, activation="silu")), dims


EMPTY = [size for size in itertools.product((0, 2), (0, 3), (0, 5), (0, 4)) if 0 in size]
BATCHED = [dims for dims in itertools.product((None, 0), repeat=3) if dims != (None, None, None)]


@pytest.mark.usefixtures("no_fallback")
@each("name", ("addmm", "baddbmm", "linear"))
@each("activation", (None, "gelu"))
def test_vmap_over_nothing(device: str, activation: str | None, name: str) -> None:
    """Where a size is 0 an entry has what torch gives: nothing, or an activation of the bias."""
    activate = torch.nn.functional.gelu if activation else lambda x: x

    def ours(*x: torch.Tensor) -> torch.Tensor:
        return function(name)(*x, activation=activation)

    def theirs(*x: torch.Tensor) -> torch.Tensor:
        return activate(function(name, torch)(*x))

    def gradients(f: Callable) -> Callable:
        return grad(lambda *x: f(*x).sum(), (0, 1, 2))

    for (batch, m, n, k), dims in itertools.product(EMPTY, BATCHED):
        sizes = {
            "addmm": ((n,), (m, k), (k, n)),
            "baddbmm": ((n,), (2, m, k), (2, k, n)),
            "linear": ((m, k), (n, k), (n,)),
        }[name]
        x = [
            torch.ones(*([] if dim is None else [batch]), *size, device=device)
            for size, dim in zip(sizes, dims, strict=True)
        ]
        torch.testing.assert_close(vmap(ours, dims)(*x), vmap(theirs, dims)(*x))
        torch.testing.assert_close(
            vmap(gradients(ours), dims)(*x), vmap(gradients(theirs), dims)(*x)
        )
        if name == "linear" and dims[:2] != (None, None):  # without a bias
            torch.testing.assert_close(vmap(ours, dims[:2])(*x[:2]), vmap(theirs, dims[:2])(*x[:2]))


@pytest.mark.usefixtures("no_fallback")
def test_vmap_refuses_a_bias_beside_a_vector_as_an_entry_does(device: str) -> None:
    x, weight, bias = (torch.ones(*s, device=device) for s in ((6, 1, 4), (6, 4), (6, 1)))
    for call in (
        lambda: tiled_mm.linear(x[0], weight[0], bias[0]),
        lambda: vmap(tiled_mm.linear)(x, weight, bias),
    ):
        with pytest.raises(RuntimeError, match="mat2 must be a matrix, got 1-D tensor"):
            call()


@pytest.mark.usefixtures("no_fallback")
def test_vmap_refuses_in_torchs_words(device: str) -> None:
    x, weight, bias = (torch.ones(*s, device=device) for s in ((6, 2, 3), (6, 5, 4), (5,)))
    with pytest.raises(RuntimeError, match=r"cannot be multiplied \(2x3 and 4x5\)"):
        vmap(tiled_mm.linear, (0, 0, None))(x, weight, bias)
    with pytest.raises(RuntimeError, match="mat1 must be a matrix, got 1-D tensor"):
        vmap(tiled_mm.addmm, (None, 0, 0))(bias, x[:, 0], weight.mT)
    with pytest.raises(RuntimeError, match="must match the existing size"):
        vmap(tiled_mm.addmm, (None, 0, None))(x[0, 0], x, weight[0, :3])
    with pytest.raises(RuntimeError, match="batch1 must be a 3D tensor"):
        vmap(tiled_mm.baddbmm, (None, 0, 0))(bias, x, weight)


# ---- autocast, opcheck, torch.compile ------------------------------------------------------------


@each("dtype", HALVES)
@each("name", tuple(SIZES))
def test_autocast(device: str, name: str, dtype: torch.dtype) -> None:
    x = [t.detach() for t in leaves(name, torch.float32, device)]
    right = function(name)(*(t.to(dtype) for t in x))
    with torch.autocast(device, dtype=dtype):
        assert function(name, torch)(*x).dtype == dtype
        assert same_bits(function(name)(*x), right)
        assert same_bits(function(name)(*x, precision="ieee"), function(name)(*x, precision="ieee"))
        assert function(name)(*x, precision="ieee").dtype == torch.float32
        double = [t.double() for t in x]
        assert function(name)(*double).dtype == torch.float64
        grads = [t.detach().requires_grad_() for t in x]
        function(name)(*grads, activation="gelu").sum().backward()
    assert [t.grad.dtype for t in grads] == [torch.float32] * len(x)


def test_autocast_leaves_what_is_added_to_fp32_sums(device: str) -> None:
    total, a, b = (torch.randn(*s, device=device) for s in ((3, 5), (3, 4), (4, 5)))
    half = a.bfloat16(), b.bfloat16()
    right = tiled_mm.addmm(total, *half, out_dtype=torch.float32)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert same_bits(tiled_mm.addmm(total, a, b, out_dtype=torch.float32), right)


@each("activation", ("none", "relu", "gelu"))
@each("name", tuple(SIZES))
def test_opcheck(device: str, name: str, activation: str) -> None:
    operator = getattr(torch.ops.tiled, name.split()[0]).default
    inputs = leaves(name, torch.float32, device)
    asked = asked_of(name, torch.float32) | {"activation": activation}
    opcheck(operator, tuple(t.detach() for t in inputs), asked)
    opcheck(operator, inputs, asked)
    asked["out"] = torch.empty(function(name)(*inputs).shape, device=device)
    overload = getattr(torch.ops.tiled, name.split()[0]).out
    opcheck(overload, tuple(t.detach() for t in inputs), asked)


@each("activation", ("gelu", "silu"))
@each("name", tuple(SIZES))
def test_opcheck_of_what_autograd_runs(device: str, name: str, activation: str) -> None:
    """Where a gradient needs the pre-activation too."""
    kind = "linear" if name.startswith("linear") else "addmm"
    operator = getattr(torch.ops.tiled, f"_{kind}_with_pre_activation").default
    inputs = leaves(name, torch.float32, device)
    asked = asked_of(name, torch.float32) | {"activation": activation}
    opcheck(operator, tuple(t.detach() for t in inputs), asked)
    opcheck(operator, inputs, asked)


def test_compiled(device: str) -> None:
    def layers(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        hidden = tiled_mm.linear(x, w, b, activation="gelu")
        hidden = tiled_mm.addmm(b, hidden.flatten(0, 1), w, beta=2, activation="relu")
        return tiled_mm.baddbmm(b, hidden[None], w[None], activation="silu")

    torch._dynamo.reset()
    compiled = torch.compile(layers, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (3, 7):
        x, w, b = (torch.randn(*s, device=device) for s in ((2, rows, 5), (5, 5), (5,)))
        results = []
        for f in (layers, compiled):
            inputs = [t.clone().requires_grad_() for t in (x, w, b)]
            y = f(*inputs)
            results.append((y.detach(), *torch.autograd.grad(y.sum(), inputs)))
        assert same_bits(results[0][0], results[1][0])
        for ours, theirs in zip(*results, strict=True):
            torch.testing.assert_close(ours, theirs)


def test_exported(device: str) -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return tiled_mm.linear(x, w, b, activation="gelu")

    inputs = tuple(torch.randn(*s, device=device) for s in ((2, 3, 4), (5, 4), (5,)))
    program = torch.export.export(Layer(), inputs)
    assert same_bits(program.module()(*inputs), Layer()(*inputs))
