"""Autocast: the dtype of its state, as torch.mm follows it."""

from __future__ import annotations

import cases
import pytest
import rungs
import tiled_mm
import torch
from cases import each
from golden import assert_same_bits


@each("dtype", cases.HALVES)
def test_the_dtype_of_the_state(device: str, dtype: torch.dtype) -> None:
    a, b = cases.pair(5, 6, 7, torch.float32, device)
    expected = tiled_mm.mm(a.to(dtype), b.to(dtype))
    with torch.autocast(device, dtype=dtype):
        assert_same_bits(tiled_mm.mm(a, b), expected)
        assert_same_bits(tiled_mm.mm(a.to(dtype), b), expected)
        assert_same_bits(torch.ops.tiled.mm(a, b), expected)
        assert_same_bits(tiled_mm.bmm(a[None], b[None])[0], expected)
        other = cases.HALVES[1 - cases.HALVES.index(dtype)]
        assert tiled_mm.mm(a.to(other), b.to(other)).dtype == dtype


def test_the_default_dtype(device: str) -> None:
    a, b = cases.pair(5, 6, 7, torch.float32, device)
    with torch.autocast(device):
        assert tiled_mm.mm(a, b).dtype == torch.mm(a, b).dtype == torch.get_autocast_dtype(device)


@each("dtype", (torch.float64, torch.complex64, torch.complex128, *cases.INTEGERS))
def test_what_autocast_does_not_touch(device: str, dtype: torch.dtype) -> None:
    a, b = cases.pair(5, 6, 7, dtype, device)
    expected = tiled_mm.mm(a, b)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert_same_bits(tiled_mm.mm(a, b), expected)


def test_mixed_with_double_is_an_error_as_for_torch_mm(device: str) -> None:
    a, b = cases.pair(5, 6, 7, torch.float32, device)
    with torch.autocast(device, dtype=torch.bfloat16):
        for mm in (torch.mm, tiled_mm.mm):
            with pytest.raises(RuntimeError, match="same dtype"):
                mm(a, b.double())


def test_nested(device: str) -> None:
    a, b = cases.pair(5, 6, 7, torch.float32, device)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert tiled_mm.mm(a, b).dtype == torch.bfloat16
        with torch.autocast(device, dtype=torch.float16):
            assert tiled_mm.mm(a, b).dtype == torch.float16
        with torch.autocast(device, enabled=False):
            assert_same_bits(tiled_mm.mm(a, b), tiled_mm.mm(a, b, precision="ieee"))
            assert tiled_mm.mm(a, b).dtype == torch.float32
        assert tiled_mm.mm(a, b).dtype == torch.bfloat16
    assert tiled_mm.mm(a, b).dtype == torch.float32


def test_another_devices_autocast_does_nothing(device: str) -> None:
    a, b = cases.pair(5, 6, 7, torch.float32, device)
    other = "cuda" if device == "cpu" else "cpu"
    if other == "cuda" and not torch.cuda.is_available():
        other = "xpu"
    with torch.autocast(other, dtype=torch.bfloat16):
        assert tiled_mm.mm(a, b).dtype == torch.float32


def test_keywords(device: str) -> None:
    a, b = cases.pair(5, 6, 7, torch.float32, device)
    half_a, half_b = a.bfloat16(), b.bfloat16()
    with torch.autocast(device, dtype=torch.bfloat16):
        for algo in rungs.RUNGS[device]:
            c = tiled_mm.mm(a, b, algo=algo, out_dtype=torch.float32)
            assert c.dtype == torch.float32
            assert_same_bits(c, tiled_mm.mm(half_a, half_b, algo=algo, out_dtype=torch.float32))


def test_a_float32_product_that_asks_for_a_precision_is_not_cast(device: str) -> None:
    a, b = cases.pair(5, 6, 7, torch.float32, device)
    with torch.autocast(device, dtype=torch.bfloat16):
        c = tiled_mm.mm(a, b, precision="ieee")
        mixed = tiled_mm.mm(a.bfloat16(), b, precision="ieee")
    assert_same_bits(c, tiled_mm.mm(a, b))
    assert_same_bits(mixed, tiled_mm.mm(a.bfloat16(), b.bfloat16(), precision="ieee"))


def test_out_is_left_alone_as_torch_mms_is(device: str) -> None:
    a, b = cases.pair(5, 6, 7, torch.float32, device)
    expected = tiled_mm.mm(a, b)
    out = cases.hole(5, 6, torch.float32, device)
    with torch.autocast(device, dtype=torch.bfloat16):
        tiled_mm.mm(a, b, out=out)
    assert_same_bits(out, expected)


def test_gradients_have_the_weights_dtype(device: str) -> None:
    a, b = (x.requires_grad_() for x in cases.pair(5, 6, 7, torch.float32, device))
    with torch.autocast(device, dtype=torch.bfloat16):
        c = tiled_mm.mm(a, b)
    grads = torch.autograd.grad(c, (a, b), torch.ones_like(c))
    with torch.no_grad():
        ones = torch.ones_like(c)
        assert_same_bits(grads[0], tiled_mm.mm(ones, b.bfloat16().t()).float())
        assert_same_bits(grads[1], tiled_mm.mm(a.bfloat16().t(), ones).float())


def test_the_cast_of_a_weight_is_cached(device: str) -> None:
    x = cases.fill(5, 7, torch.float32, device)
    weight = cases.fill(7, 6, torch.float32, device).requires_grad_()
    with torch.autocast(device, dtype=torch.bfloat16):
        first, second = tiled_mm.mm(x, weight), tiled_mm.mm(x, weight)
        # torch.mm's cast of the same weight is the same tensor, so one node of the graph.
        third = torch.mm(x, weight)
    casts = [c.grad_fn.next_functions[1][0] for c in (first, second, third)]
    assert casts[0] is casts[1] is casts[2]
    with torch.autocast(device, dtype=torch.bfloat16, cache_enabled=False):
        fourth = tiled_mm.mm(x, weight)
    assert fourth.grad_fn.next_functions[1][0] is not casts[0]
