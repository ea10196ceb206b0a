"""Gradients of grouped_mm: each group's are those of its own product, in every form."""

from __future__ import annotations

import cases
import groups
import pytest
import tiled_mm
import torch
from cases import each
from epilogues import ACTIVATIONS, same_bits
from groups import FORMS
from torch.autograd import gradcheck, gradgradcheck

ENDS = (0, 2, 2, 3, 6)  # behind which there is one more
WITH_BIAS = ("rows", "k", "batch")


def operands(form: str, dtype: torch.dtype = torch.float64, device: str = "cpu") -> tuple:
    g = groups.make(form, ENDS, 7, 3, 4, dtype, device)
    bias = cases.fill(len(ENDS), 4, dtype, device) if form in WITH_BIAS else None
    return g, [t if t is None else t.requires_grad_() for t in (g.a, g.b, bias)]


@each("form", FORMS)
@each("activation", ACTIVATIONS)
def test_every_order_and_mode(device: str, form: str, activation: str) -> None:
    g, inputs = operands(form, device=device)

    def product(a, b, bias=None):
        return tiled_mm.grouped_mm(a, b, offs=g.offs, bias=bias, activation=activation)

    assert gradcheck(product, inputs, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(product, inputs, check_fwd_over_rev=True)


@each("form", FORMS)
def test_complex_numbers(device: str, form: str) -> None:
    g = groups.make(form, ENDS, 7, 3, 4, torch.complex128, device)
    inputs = [t.requires_grad_() for t in (g.a, g.b)]

    def product(a, b):
        return tiled_mm.grouped_mm(a, b, offs=g.offs)

    assert gradcheck(product, inputs, check_forward_ad=True)
    assert gradgradcheck(product, inputs)


@each("form", FORMS)
@each("dtype", cases.REALS)
def test_gradients_have_the_bits_of_each_groups_own(device: str, form: str, dtype) -> None:
    g = groups.make(form, (0, 40, 41, 41, 100), 120, 24, 40, dtype, device)
    g.a.requires_grad_()
    g.b.requires_grad_()
    c = g.run()
    seed = cases.fill(c.numel(), 1, dtype, device).view(c.shape)
    got = torch.autograd.grad(c, (g.a, g.b), seed)
    alone = [
        torch.autograd.grad(one, (g.a, g.b), part)
        for one, part in zip(g.expected(), g.parts(seed), strict=True)
    ]
    # The groups' gradients do not overlap, so that their sum is one of them beside zeros.
    for mine, theirs in zip(got, zip(*alone, strict=True), strict=True):
        assert torch.equal(mine, sum(theirs))


@each("form", FORMS)
def test_gradients_lie_as_their_operands_do(device: str, form: str) -> None:
    g = groups.make(form, (0, 40, 41), 50, 24, 40, torch.float32, device)
    right = None
    for layout_a in (False, True):
        for layout_b in (False, True):
            a, b = (
                (t.mT.contiguous().mT if turned else t.clone()).requires_grad_()
                for t, turned in ((g.a, layout_a), (g.b, layout_b))
            )
            c = g.on(a, b).run()
            got = torch.autograd.grad(c, (a, b), torch.ones_like(c))
            assert got[0].stride() == a.stride() and got[1].stride() == b.stride()
            right = right or got
            assert all(same_bits(x, y) for x, y in zip(got, right, strict=True))


@each("form", WITH_BIAS)
@each("dtype", (torch.float32, torch.bfloat16))
def test_gradient_of_the_bias_is_the_sum_of_its_group(device: str, form: str, dtype) -> None:
    """In float32, rounded once; and whatever the product's precision."""
    g = groups.make(form, (0, 400, 401, 500), 520, 300, 40, dtype, device)
    for of_bias in (torch.float32, dtype):
        bias = cases.fill(4, 40, of_bias, device).requires_grad_()
        c = g.run(bias=bias)
        seed = cases.fill(c.numel(), 1, dtype, device).view(c.shape)
        (got,) = torch.autograd.grad(c, bias, seed)
        for row, part in zip(got, g.parts(seed), strict=True):
            right, size = part.double().sum(0), part.double().abs().sum(0)
            unit = torch.finfo(of_bias).eps / 2
            bound = unit * right.abs() + len(part) * 2.0**-23 * size + 1e-30
            assert bool(((row.double() - right).abs() <= bound).all())


def test_outputs_in_float32_of_16_bits(device: str) -> None:
    g = groups.make("rows", (5, 5, 20), 24, 16, 24, torch.bfloat16, device)
    a, b = g.a.requires_grad_(), g.b.requires_grad_()
    c = g.run(out_dtype=torch.float32)
    seed = torch.randn_like(c)
    got = torch.autograd.grad(c, (a, b), seed)
    right = torch.autograd.grad(g.run(), (a, b), seed.bfloat16())
    assert all(same_bits(x, y) for x, y in zip(got, right, strict=True))


def test_offsets_that_change_before_the_backward_are_noticed(device: str) -> None:
    g, (a, b, _) = operands("rows", device=device)
    loss = g.on(a, b).run().sum()
    g.offs.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@each("form", FORMS)
def test_only_what_is_asked_for(device: str, form: str) -> None:
    g, (a, b, _) = operands(form, device=device)
    whole = torch.autograd.grad(g.on(a, b).run().sum(), (a, b))
    (of_a,) = torch.autograd.grad(g.on(a, b.detach()).run().sum(), a)
    (of_b,) = torch.autograd.grad(g.on(a.detach(), b).run().sum(), b)
    assert torch.equal(of_a, whole[0]) and torch.equal(of_b, whole[1])


@each("precision", ("ieee", "tf32", "fp16x3"))
@pytest.mark.tensor_cores
@pytest.mark.cuda
def test_the_backward_takes_the_precision_of_the_forward(precision: str) -> None:
    g = groups.make("rows", (50, 128), 128, 64, 96, torch.float32, "cuda")
    a, b = g.a.requires_grad_(), g.b.requires_grad_()
    with tiled_mm.float32_precision(precision):
        c = g.run()
    seed = torch.randn_like(c)
    of_a, of_b = torch.autograd.grad(c, (a, b), seed)
    for i, (begin, end) in enumerate(g.spans()):
        options = {"precision": precision}
        right = tiled_mm.mm(seed[begin:end], b[i].mT, **options)
        assert same_bits(of_a[begin:end], right)
        assert same_bits(of_b[i], tiled_mm.mm(a[begin:end].mT, seed[begin:end], **options))


# ---- main_grad ---------------------------------------------------------------------------------

into = torch.ops.tiled._grouped_mm_into_main_grad


@each("dtype", (torch.bfloat16, torch.float32, torch.float64))
@each("activation", (None, "silu"))
def test_main_grad(device: str, dtype: torch.dtype, activation: str | None) -> None:
    g = groups.make("rows", (0, 40, 41, 90), 100, 24, 40, dtype, device)
    type = torch.float32 if dtype == torch.bfloat16 else dtype
    for turned in (False, True):
        x = g.a.clone().requires_grad_()
        weight = (g.b.mT.contiguous() if turned else g.b.clone()).requires_grad_()
        b = weight.mT if turned else weight
        bias = torch.zeros(4, 40, dtype=dtype, device=device, requires_grad=True)
        start = cases.fill(4 * 24, 40, type, device).view(4, 24, 40)
        main_grad = start.mT.contiguous() if turned else start.clone()
        y = into(x, b, g.offs, bias, main_grad.mT if turned else main_grad, activation=activation)
        z = tiled_mm.grouped_mm(x, b, offs=g.offs, bias=bias, activation=activation)
        assert same_bits(y, z)
        seed = cases.fill(*y.shape, dtype, device)
        right = torch.autograd.grad(z, (x, bias), seed)
        y.backward(seed)
        assert weight.grad is None
        assert same_bits(x.grad, right[0]) and same_bits(bias.grad, right[1])
        before = tiled_mm.grouped_mm(x, b, offs=g.offs, bias=bias).detach()
        passed = seed
        if activation:
            before.requires_grad_()
            one = torch.zeros((), dtype=dtype, device=device)
            eye = torch.eye(40, dtype=dtype, device=device)
            # The library's own slope: of 1 * before + 0.
            silu = tiled_mm.addmm(before, one.expand(100, 40), eye, activation=activation)
            (passed,) = torch.autograd.grad(silu, before, seed)
        for i, (begin, end) in enumerate(g.spans()):
            one = tiled_mm.addmm(start[i], g.a[begin:end].mT, passed[begin:end], out_dtype=type)
            assert same_bits(main_grad[i].mT if turned else main_grad[i], one)


def test_a_missing_main_grad_says_what_to_provide(device: str) -> None:
    g = groups.make("rows", (2, 3), 3, 4, 5, torch.bfloat16, device)
    weight = g.b.requires_grad_()
    with pytest.raises(RuntimeError, match="main_grad is missing") as raised:
        into(g.a, weight, g.offs, None, None)
    assert f"[2, 4, 5] and dtype Float on {device}" in str(raised.value)
    with torch.no_grad():
        assert same_bits(into(g.a, weight, g.offs, None, None), g.run())
    for wrong, text in (
        (torch.zeros(2, 5, 4, device=device), "main_grad has shape"),
        (torch.zeros(2, 4, 5, device=device, dtype=torch.float64), "has dtype Double"),
    ):
        with pytest.raises(RuntimeError, match=text):
            into(g.a, weight, g.offs, None, wrong)
