"""Gradients of the tensor-core rungs, and torch's own setting of float32's precision."""

from __future__ import annotations

import itertools
import subprocess
import sys

import cases
import pytest
import rungs
import tiled_mm
import torch
from cases import each
from golden import assert_equal
from tensor_cores import (
    EVERY_RUNG,
    Instance,
    each_dtype,
    each_instance,
    mm,
)

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]


# ---- gradients -----------------------------------------------------------------------------------


@each_instance
def test_a_linear_layer_of_any_batch(instance: Instance) -> None:
    """Forward, and the gradient of the input, of slices of a batch; the weight's of its columns."""
    x, weight, gradient = map(instance.make, (1000, 1032, 1000), (1032, 776, 776))

    def layer(rows: slice, columns: slice = slice(None)) -> tuple[torch.Tensor, ...]:
        part, w = x[rows].clone().requires_grad_(), weight[:, columns].clone().requires_grad_()
        y = instance.mm(part, w)
        return y.detach(), *torch.autograd.grad(y, (part, w), gradient[rows, columns])

    every = slice(None)
    y, grad_x, grad_w = layer(every)
    for rows in (1, 2, 3, 7, 16, 64, 100, 129, 999):
        for begin in (0, 1000 - rows):
            part = slice(begin, begin + rows)
            found_y, found_x, _ = layer(part)
            assert_equal(found_y, y[part], part)
            assert_equal(found_x, grad_x[part], part)
    for columns in (1, 3, 64, 100, 775):
        part = slice(776 - columns, 776)
        found_y, _, found_w = layer(every, part)
        assert_equal(found_y, y[:, part], part)
        assert_equal(found_w, grad_w[:, part], part)


@each("algo", EVERY_RUNG)
@each("dtype", cases.HALVES)
def test_gradients_run_the_same_arithmetic(dtype: torch.dtype, algo: str | None) -> None:
    a, b = cases.pair(64, 128, 256, dtype, "cuda")
    x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
    g = cases.fill(64, 128, dtype, "cuda")
    grad_a, grad_b = torch.autograd.grad(tiled_mm.mm(x, y, algo=algo), (x, y), g)
    assert_equal(grad_a, mm(g, b.t(), "mma_tile"))
    assert_equal(grad_b, mm(a.t(), g, "mma_tile"))
    # sum()'s gradient is one number, expanded: it is laid out first where a rung cannot read that.
    grad_a, grad_b = torch.autograd.grad(tiled_mm.mm(x, y, algo=algo).sum(), (x, y))
    ones = torch.ones_like(g)
    assert_equal(grad_a, mm(ones, b.t(), "mma_tile"))
    assert_equal(grad_b, mm(a.t(), ones, "mma_tile"))


def gradient_layouts(m: int, n: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    return {
        "row-major": cases.fill(m, n, dtype, "cuda"),
        "column-major": cases.fill(n, m, dtype, "cuda").t(),
        "expanded": cases.fill(m, 1, dtype, "cuda").expand(m, n),
        "one number": cases.fill(1, 1, dtype, "cuda").expand(m, n),
        "off by one": cases.fill(m, n + 1, dtype, "cuda")[:, 1:],
    }


@each("algo", rungs.NEED_TMA)
@each("size", ((64, 128, 256), (72, 40, 136), (64, 132, 264), (72, 45, 136)))
@each_dtype
def test_gradients_of_any_layout(dtype: torch.dtype, size: tuple, algo: str) -> None:
    """A gradient lies as its consumer left it, and the rungs that read by TMA must not care: nor in
    the second order, where the gradient of the gradient is such an operand again."""
    m, n, k = size
    a, b = cases.fill(m, k, dtype, "cuda"), cases.fill(n, k, dtype, "cuda").t()
    for name, g in gradient_layouts(m, n, dtype).items():
        x, y, seed = (t.detach().requires_grad_() for t in (a, b, g))
        c = mm(x, y, algo)
        grad_x, grad_y = torch.autograd.grad(c, (x, y), seed, create_graph=True)
        assert_equal(grad_x, mm(g, b.t(), "mma_tile"), name)
        assert_equal(grad_y, mm(a.t(), g, "mma_tile"), name)
        for h in gradient_layouts(m, k, dtype).values():
            of_y, of_seed = torch.autograd.grad(grad_x, (y, seed), h, retain_graph=True)
            # of grad_x = g b^T
            assert_equal(of_y, mm(h.t(), g, "mma_tile"), name)
            assert_equal(of_seed, mm(h, b, "mma_tile"), name)


@each("precisions", tuple(itertools.permutations(("ieee", "tf32", "fp16x3"), 2)))
def test_gradients_keep_the_precision_of_the_forward(precisions: tuple[str, str]) -> None:
    forward, backward = precisions
    a, b = (x.requires_grad_() for x in cases.pair(130, 140, 300, torch.float32, "cuda"))
    g = cases.fill(130, 140, torch.float32, "cuda")
    with tiled_mm.float32_precision(forward):
        c = tiled_mm.mm(a, b)
    with tiled_mm.float32_precision(backward):
        grad_a, grad_b = torch.autograd.grad(c, (a, b), g)
    with torch.no_grad():
        assert_equal(grad_a, tiled_mm.mm(g, b.t(), precision=forward))
        assert_equal(grad_b, tiled_mm.mm(a.t(), g, precision=forward))
        assert not torch.equal(grad_a, tiled_mm.mm(g, b.t(), precision=backward))


def test_gradients_of_an_fma_rung_under_tf32() -> None:
    """The rung's arithmetic is the forward's, and the backward's too."""
    a, b = (x.requires_grad_() for x in cases.pair(67, 45, 131, torch.float32, "cuda"))
    g = cases.fill(67, 45, torch.float32, "cuda")
    with tiled_mm.float32_precision("tf32"):
        c = tiled_mm.mm(a, b, algo="register_tile")
        grad_a, grad_b = torch.autograd.grad(c, (a, b), g)
    with torch.no_grad():
        assert_equal(c, tiled_mm.mm(a, b, precision="ieee"))
        assert_equal(grad_a, tiled_mm.mm(g, b.t(), precision="ieee"))
        assert_equal(grad_b, tiled_mm.mm(a.t(), g, precision="ieee"))


# ---- torch's own setting -------------------------------------------------------------------------


# torch 2.11 aborts now and then as a process ends that ran a backward (with torch.mm too).
SETTING = """
import os, torch, tiled_mm
{setting}
a = torch.full((2, 1), 1 + 2.0**-20, device="cuda")  # tf32 loses the last bits
b = torch.ones(1, 3, device="cuda")
rounded = tiled_mm.mm(a, b)
print(bool((rounded == 1).all()), bool((tiled_mm.mm(a, b, precision="ieee") == a).all()))
x = a.clone().requires_grad_()
g = torch.full((2, 3), 1 + 2.0**-20, device="cuda")
(grad,) = torch.autograd.grad(tiled_mm.mm(x, b), x, g)
print(bool((grad == 3).all()), flush=True)
os._exit(0)
"""


@each(
    "setting",
    (
        "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
        "torch.backends.cuda.matmul.allow_tf32 = True",
        "tiled_mm.set_float32_precision('tf32')",
    ),
)
def test_the_setting_of_torch_or_the_library_makes_float32_products_tf32(setting: str) -> None:
    script = SETTING.format(setting=setting)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["True True", "True", ""]
