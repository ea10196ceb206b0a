"""precision='fp16x3' under autograd, autocast and the compiler."""

from __future__ import annotations

import cases
import gates
import pytest
import tiled_mm
import torch
from cases import each
from fp16x3 import (
    ieee,
    mm,
    normal,
    pair,
)
from golden import assert_equal

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]


def leaves(m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    a, b = (x.requires_grad_() for x in pair(m, n, k))
    return a, b, cases.fill(m, n, torch.float32, "cuda")


@each("keywords", ({"precision": "fp16x3"}, {"algo": "fp16x3"}))
def test_gradients_run_the_same_arithmetic(keywords: dict) -> None:
    a, b, g = leaves(130, 140, 300)
    c = tiled_mm.mm(a, b, **keywords)
    grad_a, grad_b = torch.autograd.grad(c, (a, b), g, retain_graph=True)
    ones = torch.ones_like(g)
    sum_a, sum_b = torch.autograd.grad(c.sum(), (a, b))
    with torch.no_grad():
        assert_equal(c, mm(a, b))
        assert_equal(grad_a, mm(g, b.t()))
        assert_equal(grad_b, mm(a.t(), g))
        assert_equal(sum_a, mm(ones, b.t()))  # the expanded gradient of sum()
        assert_equal(sum_b, mm(a.t(), ones))
        assert not torch.equal(grad_a, ieee(g, b.t()))
        gates.check_random(grad_a, g, b.t(), "fp16x3")
        gates.check_random(grad_b, a.t(), g, "fp16x3")


def test_second_and_forward_derivatives() -> None:
    a, b, g = leaves(70, 80, 90)
    g.requires_grad_()
    (grad_a,) = torch.autograd.grad(mm(a, b), a, g, create_graph=True)
    (second,) = torch.autograd.grad(grad_a, g, a)
    with torch.no_grad():
        assert_equal(second, mm(a, b))
    with torch.no_grad(), torch.autograd.forward_ad.dual_level():
        tangent = normal(70, 90)
        dual = torch.autograd.forward_ad.make_dual(a.detach(), tangent)
        found = torch.autograd.forward_ad.unpack_dual(mm(dual, b)).tangent
        assert_equal(found, mm(tangent, b))


def test_autocast_leaves_it_alone() -> None:
    a, b = pair(70, 80, 90)
    expected = mm(a, b)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert_equal(mm(a, b), expected)


@each("backend", ("aot_eager", "inductor"))
def test_compiled(backend: str) -> None:
    def products(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        return [
            mm(a, b),
            tiled_mm.mm(a, b, algo="fp16x3"),
            tiled_mm.bmm(a[None], b[None], precision="fp16x3"),
            torch.ops.tiled.mm(b.t(), a.t(), precision="fp16x3"),
        ]

    def gradients(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return mm(a, b).sum()

    torch._dynamo.reset()
    try:
        compiled = torch.compile(products, fullgraph=True, dynamic=True, backend=backend)
        loss = torch.compile(gradients, fullgraph=True, dynamic=True, backend=backend)
        for i, size in enumerate(((70, 80, 90), (133, 66, 121), (70, 90, 67))):
            a, b, _ = leaves(*size)
            with torch.compiler.set_stance("fail_on_recompile" if i else "default"):
                with torch.no_grad():
                    found = compiled(a, b)
                grads = torch.autograd.grad(loss(a, b), (a, b))
            with torch.no_grad():
                expected = products(a, b)
            for x, y in zip(found, expected, strict=True):
                assert_equal(x, y)
                assert x.stride() == y.stride()
            expected = torch.autograd.grad(gradients(a, b), (a, b))
            for x, y in zip(grads, expected, strict=True):
                assert_equal(x, y)
    finally:
        torch._dynamo.reset()


def test_a_compiled_function_follows_the_setting() -> None:
    a, b = pair(70, 80, 90)
    torch._dynamo.reset()
    compiled = torch.compile(tiled_mm.mm, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        assert_equal(compiled(a, b), ieee(a, b))
        with tiled_mm.float32_precision("fp16x3"):
            assert_equal(compiled(a, b), mm(a, b))
    torch._dynamo.reset()
