"""The gradient of linear's weight as an operator of its own, which keeps leading dimensions: the
bits of mm of the flattened tensors, and every derivative."""

from __future__ import annotations

import pytest
import tiled_mm
import torch
from cases import each
from epilogues import same_bits
from torch.autograd import gradcheck, gradgradcheck

weight_grad = torch.ops.tiled._linear_weight_grad
add_weight_grad = torch.ops.tiled._add_linear_weight_grad


@each("lead", ((), (5,), (2, 3), (2, 0), (2, 1, 3)))
@each("dtype", (torch.float32, torch.bfloat16, torch.complex64))
def test_bits_are_those_of_mm(device: str, lead: tuple, dtype: torch.dtype) -> None:
    grad = torch.randn(*lead, 4, device=device, dtype=dtype)
    x = torch.randn(*lead, 6, device=device, dtype=dtype)
    rows = grad.numel() // 4
    right = tiled_mm.mm(grad.reshape(rows, 4).mT, x.reshape(rows, 6))
    assert same_bits(weight_grad(grad, x), right)
    assert same_bits(
        weight_grad(grad.conj(), x), tiled_mm.mm(grad.reshape(rows, 4).mH, x.reshape(rows, 6))
    )
    sum = torch.ones(4, 6, device=device, dtype=torch.float32 if dtype == torch.bfloat16 else dtype)
    expected = tiled_mm.addmm(
        sum, grad.reshape(rows, 4).mT, x.reshape(rows, 6), out_dtype=sum.dtype
    )
    version = sum._version
    assert add_weight_grad(sum, grad, x) is None
    assert same_bits(sum, expected) and sum._version > version


@each("dtype", (torch.float64, torch.complex128))
def test_every_derivative(device: str, dtype: torch.dtype) -> None:
    for lead in ((), (3,), (2, 3)):
        grad = torch.randn(*lead, 2, device=device, dtype=dtype, requires_grad=True)
        x = torch.randn(*lead, 4, device=device, dtype=dtype, requires_grad=True)
        gradcheck(weight_grad, (grad, x), check_forward_ad=True, check_batched_grad=True)
        gradgradcheck(weight_grad, (grad, x), check_fwd_over_rev=True)


def test_the_dispatcher_knows_all_of_it(device: str) -> None:
    grad = torch.randn(2, 3, 4, device=device, requires_grad=True)
    x = torch.randn(2, 3, 5, device=device, requires_grad=True)
    torch.library.opcheck(weight_grad, (grad, x))
    for dims in ((0, 0), (0, None), (None, 0)):
        args = [
            t.detach().expand(2, *t.shape) if d == 0 else t.detach()
            for t, d in zip((grad, x), dims, strict=True)
        ]
        found = torch.vmap(weight_grad, dims)(*args)
        assert same_bits(found, weight_grad(grad, x).detach().expand(2, 4, 5))


def test_what_does_not_fit_is_refused(device: str) -> None:
    x = torch.randn(2, 3, 5, device=device)
    for grad, text in (
        (torch.randn(6, 4, device=device), "2D and 3D"),
        (torch.randn(2, 4, 4, device=device), "same leading dimensions"),
        (torch.randn((), device=device), "0D and 3D"),
    ):
        with pytest.raises(RuntimeError, match=text):
            weight_grad(grad, x)
    sum = torch.zeros(4, 5, device=device, requires_grad=True)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        add_weight_grad(sum, torch.randn(2, 3, 4, device=device), x)
