"""scaled_mm of numbers at the edge: zeros, subnormals, the largest, NaN and infinities, in operands
and in scales."""

from __future__ import annotations

import math

import pytest
import tiled_mm
import torch
from epilogues import same_bits
from scaled import E4M3, E5M2

pytestmark = pytest.mark.scaled


def test_scales_as_ieee_has_them(device: str) -> None:
    a = torch.ones(4, 256, device=device).to(E4M3)
    for width in (1, 2):
        scale_a = torch.ones(4, width, device=device)
        scale_a[:, -1] = torch.tensor([0.0, math.inf, math.nan, -1.0], device=device)
        scale_b = torch.ones(width, 4, device=device)
        c = tiled_mm.scaled_mm(a, a.t(), scale_a, scale_b, out_dtype=torch.float32)
        first = 128.0 if width == 2 else 0.0
        assert (c[0] == first).all()
        assert (c[1] == math.inf).all()
        assert c[2].isnan().all()
        assert (c[3] == (first - 128 if width == 2 else -256)).all()
        zero = tiled_mm.scaled_mm(
            torch.zeros_like(a), a.t(), -scale_a.abs(), scale_b, out_dtype=torch.float32
        )
        assert same_bits(zero[0], torch.zeros(4, device=device))  # +0
        assert zero[1].isnan().all()  # infinity times zero


def test_a_total_that_underflows_is_plus_zero(device: str) -> None:
    a = torch.full((3, 256), -0.5, device=device).to(E4M3)
    b = torch.full((256, 5), 2.0**-9, device=device).to(E4M3)
    for width in (1, 2):
        scale_a = torch.full((3, width), 2.0**-149, device=device)
        scale_b = torch.ones(width, 5, device=device)
        for dtype in (torch.float32, torch.bfloat16):
            zero = torch.zeros(3, 5, dtype=dtype, device=device)
            c = tiled_mm.scaled_mm(a, b, scale_a, scale_b, out_dtype=dtype)
            assert same_bits(c, zero)
            offs = torch.tensor([1, 3], dtype=torch.int32, device=device)
            groups = b.expand(2, 256, 5), scale_a, scale_b.expand(2, width, 5)
            assert same_bits(tiled_mm.scaled_mm(a, *groups, offs=offs, out_dtype=dtype), zero)


def test_numbers_at_the_edge(device: str) -> None:
    """The largest, the smallest subnormal, infinities and NaN of both kinds."""
    one = torch.ones(1, device=device)
    for dtype, largest, least in ((E4M3, 448.0, 2.0**-9), (E5M2, 57344.0, 2.0**-16)):
        for value in (largest, -largest, least, -least):
            a = torch.zeros(1, 32, device=device)
            a[0, 7] = value
            unit = torch.zeros(32, 1, device=device)
            unit[7, 0] = 1.0
            c = tiled_mm.scaled_mm(a.to(dtype), unit.to(dtype), one, one, out_dtype=torch.float32)
            assert c.item() == value
        nan = torch.full((1, 32), math.nan, device=device).to(dtype)
        assert tiled_mm.scaled_mm(nan, nan.t(), one, one).isnan().all()
    inf = torch.full((1, 32), math.inf, device=device).to(E5M2)
    assert tiled_mm.scaled_mm(inf, inf.t(), one, one).item() == math.inf
    assert tiled_mm.scaled_mm(inf, torch.zeros_like(inf).t(), one, one).isnan().all()
