"""Gradients: first and second order, backward and forward mode, with the forward's choices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import cases
import pytest
import tiled_mm
import torch
from cases import each
from golden import assert_same_bits
from rungs import each_rung, each_rung_and
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

DOUBLES = (torch.float64, torch.complex128)


def leaves(m: int, n: int, k: int, dtype: torch.dtype, device: str):
    a, b = cases.pair(m, n, k, dtype, device)
    return a.requires_grad_(), b.requires_grad_()


def integers(*size: int, device: str, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """A leaf of small integers: every sum is exact, so ours and torch's must be equal."""
    x = torch.randint(-9, 10, size).to(dtype)
    if dtype.is_complex:
        x = x + 1j * torch.randint(-9, 10, size)
    return x.to(device).requires_grad_()


def batched_leaves(batch: int, m: int, n: int, k: int, dtype: torch.dtype, device: str):
    a = torch.stack([cases.fill(m, k, dtype, device) for _ in range(batch)])
    b = torch.stack([cases.fill(k, n, dtype, device) for _ in range(batch)])
    return a.requires_grad_(), b.requires_grad_()


@each("dtype", DOUBLES)
@each_rung
def test_first_order(device: str, algo: str | None, dtype: torch.dtype) -> None:
    assert gradcheck(
        lambda a, b: tiled_mm.mm(a, b, algo=algo),
        leaves(3, 5, 4, dtype, device),
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )


@each("dtype", DOUBLES)
@each_rung
def test_second_order(device: str, algo: str | None, dtype: torch.dtype) -> None:
    assert gradgradcheck(
        lambda a, b: tiled_mm.mm(a, b, algo=algo),
        leaves(3, 2, 4, dtype, device),
        check_fwd_over_rev=True,
        check_rev_over_rev=True,
        check_batched_grad=True,
    )


@each("dtype", DOUBLES)
def test_bmm_first_and_second_order(device: str, dtype: torch.dtype) -> None:
    inputs = batched_leaves(2, 3, 2, 4, dtype, device)
    assert gradcheck(
        tiled_mm.bmm,
        inputs,
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )
    assert gradgradcheck(tiled_mm.bmm, inputs, check_fwd_over_rev=True, check_batched_grad=True)


@each("shape", ((0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (1, 5, 3)))
def test_gradients_of_small_shapes(device: str, shape: tuple) -> None:
    m, n, k = shape
    a, b = integers(m, k, device=device), integers(k, n, device=device)
    grads = torch.autograd.grad(tiled_mm.mm(a, b).sum(), (a, b))
    for ours, theirs in zip(grads, torch.autograd.grad(torch.mm(a, b).sum(), (a, b)), strict=True):
        assert torch.equal(ours, theirs)


@each_rung_and(cases.FLOATS)
def test_gradients_are_the_products_of_torch_mms_formulas(device, algo, dtype) -> None:
    """dA = dC B^H and dB = A^H dC, and these exactly: the same kernel on the same operands."""
    a, b = leaves(37, 43, 21, dtype, device)
    g = cases.fill(37, 43, dtype, device)
    grad_a, grad_b = torch.autograd.grad(tiled_mm.mm(a, b, algo=algo), (a, b), g)
    with torch.no_grad():
        assert_same_bits(grad_a, tiled_mm.mm(g, b.mH, algo=algo))
        assert_same_bits(grad_b, tiled_mm.mm(a.mH, g, algo=algo))


@each("dtype", DOUBLES)
def test_gradients_equal_torch_mms(device: str, dtype: torch.dtype) -> None:
    a, b, g = (
        integers(*size, device=device, dtype=dtype) for size in ((37, 21), (21, 43), (37, 43))
    )
    ours = torch.autograd.grad(tiled_mm.mm(a, b), (a, b), g)
    theirs = torch.autograd.grad(torch.mm(a, b), (a, b), g)
    for x, y in zip(ours, theirs, strict=True):
        assert torch.equal(x, y)


def test_gradients_of_lazy_views(device: str) -> None:
    x, y, g = (
        integers(*size, device=device, dtype=torch.complex128) for size in ((5, 7), (7, 6), (5, 6))
    )
    views = {
        "conj": lambda t: t.conj(),
        "mH": lambda t: t.mH.contiguous().mH,
        "imag of conj": lambda t: t.conj().imag,
        "real": lambda t: t.real,
        "neg": lambda t: torch._neg_view(t),
    }
    for (name_x, view_x), (name_y, view_y) in itertools.product(views.items(), repeat=2):
        u, v = view_x(x), view_y(y)
        if u.dtype != v.dtype:
            continue
        seed = g if u.is_complex() else g.real
        ours = torch.autograd.grad(tiled_mm.mm(u, v), (x, y), seed, retain_graph=True)
        theirs = torch.autograd.grad(torch.mm(u, v), (x, y), seed)
        for one, other in zip(ours, theirs, strict=True):
            assert torch.equal(one, other), f"{name_x}, {name_y}"


def test_only_the_gradients_that_are_asked_for(device: str) -> None:
    for need_a, need_b in itertools.product((False, True), repeat=2):
        a, b = cases.pair(5, 6, 7, torch.float32, device)
        a.requires_grad_(need_a), b.requires_grad_(need_b)
        with Recorder() as recorder:
            c = tiled_mm.mm(a, b)
            assert c.requires_grad == (need_a or need_b)
            if c.requires_grad:
                c.backward(torch.ones_like(c))
        assert (a.grad is not None) == need_a and (b.grad is not None) == need_b
        assert len(recorder.calls) == 1 + need_a + need_b
    a, b = leaves(5, 6, 7, torch.float32, device)
    c = tiled_mm.mm(a, b)
    with Recorder() as recorder:
        torch.autograd.grad(c.sum(), b)
    assert len(recorder.calls) == 1


def test_an_operand_is_saved_only_for_the_others_gradient() -> None:
    a, b = cases.pair(5, 6, 7, torch.float32)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        tiled_mm.mm(a.requires_grad_(), b)
    assert len(saved) == 1 and saved[0].shape == b.shape


def test_a_column_major_input_gets_a_column_major_gradient(device: str) -> None:
    a = cases.fill(7, 5, torch.float32, device).t().requires_grad_()
    b = cases.fill(6, 7, torch.float32, device).t().requires_grad_()
    row_a, row_b = (x.detach().contiguous().requires_grad_() for x in (a, b))
    g = cases.fill(5, 6, torch.float32, device)
    for x, y, strides in (
        (a, b, ((1, 5), (1, 7))),
        (a, row_b, ((1, 5), (6, 1))),
        (row_a, b, ((7, 1), (1, 7))),
        (row_a, row_b, ((7, 1), (6, 1))),
    ):
        grads = torch.autograd.grad(tiled_mm.mm(x, y), (x, y), g)
        theirs = torch.autograd.grad(torch.mm(x, y), (x, y), g)
        assert tuple(grad.stride() for grad in grads) == strides
        assert tuple(grad.stride() for grad in theirs) == strides


@each_rung_and(cases.FLOATS)
def test_the_expanded_gradient_of_sum(device: str, algo: str | None, dtype) -> None:
    a, b = leaves(67, 45, 131, dtype, device)
    c = tiled_mm.mm(a, b, algo=algo)
    expanded = torch.autograd.grad(c.sum().real, (a, b), retain_graph=True)
    contiguous = torch.autograd.grad(c, (a, b), torch.ones_like(c))
    for x, y in zip(expanded, contiguous, strict=True):
        assert_same_bits(x, y)


class Recorder(TorchDispatchMode):
    """Notes the products that are computed, with their keywords."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[dict] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "tiled":
            self.calls.append(kwargs or {})
        return func(*args, **(kwargs or {}))


@each("dtype", DOUBLES)
@each_rung
def test_every_derivative_runs_the_same_rung(device, algo, dtype) -> None:
    a, b = leaves(3, 4, 5, dtype, device)
    with Recorder() as recorder:
        c = tiled_mm.mm(a, b, algo=algo)
        grads = torch.autograd.grad(c.abs().sum(), (a, b), create_graph=True)
        torch.autograd.grad(sum(g.abs().sum() for g in grads), (a, b))
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(a.detach(), torch.ones_like(a))
            tiled_mm.mm(dual, b.detach(), algo=algo)
    assert len(recorder.calls) >= 1 + 2 + 4 + 2
    assert {call.get("algo") for call in recorder.calls} == {algo}


@pytest.fixture
def library_precision() -> Iterator[None]:
    before = tiled_mm.get_float32_precision()
    yield
    tiled_mm.set_float32_precision(before)


def test_precision_is_resolved_in_the_forward(library_precision: None, device: str) -> None:
    a, b = leaves(3, 4, 5, torch.float32, device)
    tiled_mm.set_float32_precision("ieee")
    c = tiled_mm.mm(a, b)
    tiled_mm.set_float32_precision("tf32")
    with Recorder() as recorder:
        torch.autograd.grad(c.sum(), (a, b))
    assert [call.get("precision") for call in recorder.calls] == ["ieee", "ieee"]


def test_precision_is_read_once(library_precision: None, device: str) -> None:
    """Another thread may change the setting at any time: here, while the forward is on its way from
    autograd to its kernel. Every product of the call is asked for what it was when the call began.
    """

    class Changed(Recorder):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            tiled_mm.set_float32_precision("tf32")
            return super().__torch_dispatch__(func, types, args, kwargs)

    a, b = leaves(37, 43, 131, torch.float32, device)
    g = cases.fill(37, 43, torch.float32, device)
    tiled_mm.set_float32_precision("ieee")
    with Changed() as recorder:
        c = tiled_mm.mm(a, b)
        grad_a, grad_b = torch.autograd.grad(c, (a, b), g)
    assert [call.get("precision") for call in recorder.calls] == ["ieee"] * 3
    with torch.no_grad():
        assert_same_bits(c, tiled_mm.mm(a, b, precision="ieee"))
        assert_same_bits(grad_a, tiled_mm.mm(g, b.t(), precision="ieee"))
        assert_same_bits(grad_b, tiled_mm.mm(a.t(), g, precision="ieee"))
    # What else is dispatched, a detach() say, would change the setting before the call begins.
    tangent, plain = cases.fill(37, 131, torch.float32, device), b.detach()
    tiled_mm.set_float32_precision("ieee")
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(a.detach(), tangent)
        with Changed() as recorder:
            tiled_mm.mm(dual, plain)
    assert [call.get("precision") for call in recorder.calls] == ["ieee"] * 2


def lies_for_tma(x: torch.Tensor) -> bool:
    """Along the last dimension, and every row begins on a multiple of 16 bytes."""
    *long, short = x.stride()
    return short == 1 and all(stride * x.element_size() % 16 == 0 for stride in long)


@each("algo", ("tma_wgmma", "warp_specialized"))
@each("dtype", (*cases.HALVES, torch.float32))
@each("size", ((64, 128, 256), (67, 45, 131), (64, 45, 8), (1, 8, 16)))
def test_gradients_are_laid_out_for_rungs_that_read_them_as_they_lie(algo, dtype, size) -> None:
    """Both operands along K, tf32's included: on meta tensors, since only the strides matter."""
    m, n, k = size
    a, b = (torch.empty(*s, dtype=dtype, device="meta") for s in ((m, k), (k, n)))
    rows = torch.empty(m, n, dtype=dtype, device="meta")
    laid_out = {
        "row-major": rows,
        "column-major": torch.empty(n, m, dtype=dtype, device="meta").t(),
        "expanded": rows[:1, :1].expand(m, n),
        "every second": torch.empty(m, 2 * n, dtype=dtype, device="meta")[:, ::2],
    }
    for name, g in laid_out.items():
        for x, y in itertools.product((a, a.t().contiguous().t()), (b, b.t().contiguous().t())):
            x, y = (t.detach().requires_grad_() for t in (x, y))
            operands: list[torch.Tensor] = []

            class Operands(TorchDispatchMode):
                def __torch_dispatch__(self, func, types, args=(), kwargs=None, seen=operands):
                    if func.namespace == "tiled":
                        seen.extend((args[0], args[1].mT))
                    return func(*args, **(kwargs or {}))

            c = tiled_mm.mm(x, y, algo=algo)
            seed = g.detach().requires_grad_()
            with Operands():
                grads = torch.autograd.grad(c, (x, y), seed, create_graph=True)
                torch.autograd.grad(grads, (x, y, seed), [torch.ones_like(t) for t in grads])
            assert len(operands) == 2 * (2 + 4)
            assert [t.stride() for t in operands if not lies_for_tma(t)] == [], name


def test_overwriting_a_saved_tensor_by_out_is_caught(device: str) -> None:
    a, b = cases.pair(5, 5, 5, torch.float32, device)
    saved = cases.fill(5, 5, torch.float32, device)
    weight = cases.fill(5, 5, torch.float32, device).requires_grad_()
    loss = torch.mm(saved, weight).sum()
    version = saved._version
    tiled_mm.mm(a, b, out=saved)
    assert saved._version == version + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_an_operand_changed_in_place_is_caught(device: str) -> None:
    a, b = leaves(5, 6, 7, torch.float32, device)
    c = tiled_mm.mm(a, b)
    with torch.no_grad():
        b.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        c.sum().backward()


@each_rung_and(cases.HALVES)
def test_gradient_of_fp32_output(device: str, algo: str | None, dtype: torch.dtype) -> None:
    """The fp32 gradient is rounded to the inputs' dtype; then the ordinary products."""
    a, b = leaves(37, 43, 21, dtype, device)
    g = cases.fill(37, 43, torch.float32, device)
    c = tiled_mm.mm(a, b, algo=algo, out_dtype=torch.float32)
    grad_a, grad_b = torch.autograd.grad(c, (a, b), g)
    rounded = g.to(dtype)
    with torch.no_grad():
        assert_same_bits(grad_a, tiled_mm.mm(rounded, b.t(), algo=algo))
        assert_same_bits(grad_b, tiled_mm.mm(a.t(), rounded, algo=algo))


@each("dtype", cases.HALVES)
def test_second_gradient_of_fp32_output(device: str, dtype: torch.dtype) -> None:
    """Small integers, so that every rounding is exact and torch's own fp64 is the reference."""
    small = [torch.randint(-3, 4, size).to(dtype).to(device) for size in ((6, 5), (5, 7), (6, 7))]

    def second(product, *operands: torch.Tensor):
        a, b, g = (x.clone().requires_grad_() for x in operands)
        first = torch.autograd.grad(product(a, b), (a, b), g, create_graph=True)
        return torch.autograd.grad(sum((x * x).sum() for x in first), (a, b, g))

    ours = second(
        lambda a, b: tiled_mm.mm(a, b, out_dtype=torch.float32), *small[:2], small[2].float()
    )
    theirs = second(torch.mm, *(x.double() for x in small))
    assert [x.dtype for x in ours] == [dtype, dtype, torch.float32]
    for x, y in zip(ours, theirs, strict=True):
        assert torch.equal(x.double(), y.to(x.dtype).double())


@each("dtype", cases.HALVES)
def test_forward_mode_of_fp32_output(device: str, dtype: torch.dtype) -> None:
    a, b = cases.pair(6, 7, 5, dtype, device)
    ta, tb = cases.pair(6, 7, 5, dtype, device)
    with torch.autograd.forward_ad.dual_level():
        dual = [torch.autograd.forward_ad.make_dual(x, t) for x, t in ((a, ta), (b, tb))]
        c = tiled_mm.mm(*dual, out_dtype=torch.float32)
        tangent = torch.autograd.forward_ad.unpack_dual(c).tangent
    parts = [tiled_mm.mm(x, y, out_dtype=torch.float32) for x, y in ((ta, b), (a, tb))]
    assert torch.equal(tangent, parts[0] + parts[1])


def test_integers_have_no_gradient(device: str) -> None:
    a, b = cases.pair(3, 4, 5, torch.int32, device)
    assert not tiled_mm.mm(a, b).requires_grad


def test_modes_without_gradients(device: str) -> None:
    a, b = leaves(3, 4, 5, torch.float32, device)
    with torch.no_grad():
        assert not tiled_mm.mm(a, b).requires_grad
        out = torch.empty(3, 4, device=device)
        tiled_mm.mm(a, b, out=out)  # torch refuses out= only where gradients are wanted
    with torch.inference_mode():
        assert tiled_mm.mm(a, b).is_inference()
