"""Tuning of scaled products, of compiled calls and of functions, and where memory is short: on a
GPU, with the bits that there are without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import tiled_mm
import torch
from cases import each
from scaled import E4M3, make
from test_tune import normal, rows
from torch import Tensor, nn

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("shipped_rules")]


# ---- scaled --------------------------------------------------------------------------------------


@each("recipes", (("TensorWise",) * 2, ("RowWise",) * 2, ("BlockWise1x128", "BlockWise128x128")))
@each("size", ((16, 256, 512), (520, 264, 1040)))
def test_scaled_products(recipes: tuple[str, str], size: tuple[int, int, int]) -> None:
    operands = make(*size, *recipes, device="cuda").all()
    before = [x.clone() for x in operands]
    expected = tiled_mm.scaled_mm(*operands)
    with tiled_mm.tuning():
        assert torch.equal(tiled_mm.scaled_mm(*operands), expected)
        assert len(rows()) == 1
        assert torch.equal(tiled_mm.scaled_mm(*operands), expected)
        assert len(rows()) == 1
    assert torch.equal(tiled_mm.scaled_mm(*operands), expected)
    for x, y in zip(operands, before, strict=True):
        assert torch.equal(x.float(), y.float())


def test_scales_of_another_recipe_are_another_class() -> None:
    for recipe in ("TensorWise", "RowWise"):
        with tiled_mm.tuning():
            tiled_mm.scaled_mm(*make(64, 128, 256, recipe, recipe, device="cuda").all())
    assert len(rows()) == 2


def test_scaled_groups() -> None:
    """Experts' rows in fp8, by their weights."""
    ends = torch.tensor([40, 40, 170, 256], dtype=torch.int32, device="cuda")
    a = normal(256, 512).to(E4M3)
    b = normal(4, 128, 512).to(E4M3).transpose(1, 2)
    scale_a = torch.rand(256, 1, device="cuda") + 0.5
    scale_b = torch.rand(4, 1, 128, device="cuda") + 0.5
    expected = tiled_mm.scaled_mm(a, b, scale_a, scale_b, offs=ends)
    with tiled_mm.tuning():
        assert torch.equal(tiled_mm.scaled_mm(a, b, scale_a, scale_b, offs=ends), expected)
    assert len(rows()) == 1
    assert torch.equal(tiled_mm.scaled_mm(a, b, scale_a, scale_b, offs=ends), expected)


# ---- compiled calls, and functions ---------------------------------------------------------------


@each("backend", ("aot_eager", "inductor"))
def test_compiled_calls(backend: str) -> None:
    """Products of the forward and of the backward pass, also in code that was compiled before."""
    weight = normal(96, 72).requires_grad_()

    def step(x: Tensor) -> Tensor:
        return tiled_mm.linear(x, weight, activation="gelu").float().square().sum()

    compiled = torch.compile(step, backend=backend)

    def gradients(x: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(compiled(x), (x, weight))

    x = normal(130, 72).requires_grad_()
    expected = gradients(x)
    assert not rows()
    with tiled_mm.tuning():
        found = gradients(x)
    assert len(rows()) >= 3  # the layer, and the gradients of both operands
    for y, z in zip(found, expected, strict=True):
        assert torch.equal(y, z)
    known = rows()
    for y, z in zip(gradients(x), expected, strict=True):
        assert torch.equal(y, z)
    assert rows() == known  # outside of the block nothing is measured


def test_a_block_in_a_compiled_function() -> None:
    """It is no part of a graph: a function that must be one graph is refused, another breaks there,
    and its block tunes at every call, not when it is compiled."""

    def product(x: Tensor) -> Tensor:
        with tiled_mm.tuning():
            return tiled_mm.mm(x, x)

    with pytest.raises(Exception, match="begin tuning outside of the compiled function"):
        torch.compile(product, backend="eager", fullgraph=True)(normal(64, 64))
    assert not rows()
    broken = torch.compile(product, backend="eager")
    for size in (64, 72):
        broken(normal(size, size))
    assert len(rows()) == 2
    tiled_mm.mm(normal(80, 80), normal(80, 80))
    assert len(rows()) == 2  # no block was left open


def test_tune_of_a_step_of_training() -> None:
    model = nn.Sequential(nn.Linear(72, 96), nn.ReLU(), nn.Linear(96, 40)).cuda().bfloat16()
    x = normal(130, 72)

    def step() -> None:
        with tiled_mm.override():
            model(x).float().sum().backward()

    found = tiled_mm.tune(step)
    assert len(found) == len(rows()) >= 5  # two layers, their weights' gradients, one input's
    assert all(row.seconds > 0 and row.gain >= 0 for row in found)
    assert tiled_mm.tune(step) == []


def test_an_error_of_the_function_ends_tuning() -> None:
    def broken() -> None:
        tiled_mm.mm(normal(64, 32), normal(33, 64))

    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        tiled_mm.tune(broken)
    tiled_mm.mm(normal(64, 32), normal(32, 64))
    assert not rows()


def test_the_bar(capfd: pytest.CaptureFixture[str]) -> None:
    sizes = [(64, 64, 64), (2, 64, 64, 72)]
    tiled_mm.tune(sizes, progress=True)
    shown = capfd.readouterr().err
    assert "64x64x64" in shown and "2x64x64x72" in shown and "#" * 30 in shown
    tiled_mm.tune(sizes)  # stderr is no terminal
    assert capfd.readouterr().err == ""


# ---- where memory is short -----------------------------------------------------------------------


def refused_allocations() -> int:
    return torch.cuda.memory_stats()["num_ooms"]


@contextmanager
def memory_left(more: int) -> Iterator[None]:
    """Leaves so many bytes to torch's allocator."""
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + more) / total)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@each("measures", (True, False))
def test_a_way_without_memory_is_left_out(measures: bool) -> None:
    """Some ways of an fp32 product copy operands to other layouts: there is memory for what is
    timed, but not for copies. Or, of a product whose ways copy nothing, not even for the result
    that is written meanwhile: nothing is measured, and the product runs by estimates."""
    dtype = torch.float32 if measures else torch.bfloat16
    a, b = normal(2048, 2048, dtype=dtype), normal(2048, 2048, dtype=dtype)
    out = torch.empty(2048, 2048, dtype=dtype, device="cuda")
    expected = tiled_mm.mm(a, b.t())
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    before = refused_allocations()
    with memory_left(out.nbytes + 2 * l2_bytes + (8 << 20) if measures else 4 << 20):
        with tiled_mm.tuning():
            torch.ops.tiled.mm.out(a, b.t(), out=out)
        assert refused_allocations() > before
    assert len(rows()) == measures
    assert torch.equal(out, expected)
