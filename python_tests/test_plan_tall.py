"""The plans of rung tall: where it is taken, and what it says of itself."""

from __future__ import annotations

import json

import pytest
import tiled_mm
import torch
from cases import HALVES, each, meta

BF16 = torch.bfloat16
DTYPES = (torch.float32, BF16, torch.float16)
LONG = ((1000000, 16, 16), (1048576, 32, 32), (400000, 4, 4), (1000000, 7, 7), (300000, 24, 40))


@each("device", ("h200", "h100", "a100"))
@each("dtype", DTYPES)
def test_it_is_taken_for_a_long_operand_and_a_short_one(dtype: torch.dtype, device: str) -> None:
    for m, n, k in LONG:
        for swap in (False, True):
            a, b = meta(n, m, k, dtype) if swap else meta(m, n, k, dtype)
            plan = tiled_mm.plan(a, b, device=device)
            assert plan.algo == "tall", (m, n, k, swap)
            assert plan.tall.exchanged == swap
            assert len(plan.steps) == 1 and plan.workspace_bytes == 0
            assert plan.occupancy.blocks_per_sm >= 1


@each("dtype", DTYPES)
def test_it_is_not_for_others(dtype: torch.dtype) -> None:
    for m, n, k in (
        (4096, 4096, 4096),
        (64, 64, 64),
        (1, 4096, 4096),
        (16, 16, 100000),
        (512, 512, 512),
    ):
        assert tiled_mm.plan(*meta(m, n, k, dtype), device="h200").algo != "tall", (m, n, k)


@each("layout", ("nn", "nt"))
def test_others_are_taken_where_they_were_faster(layout: str) -> None:
    """As measured on an H200: bench/results/h200_tall.txt."""
    for dtype, m, n, k in (
        (torch.float32, 262144, 64, 64),
        (torch.float32, 131072, 128, 128),
        (torch.float32, 4096, 64, 64),
        (torch.float32, 8192, 16, 16),
        (BF16, 131072, 128, 128),
        (BF16, 4096, 64, 64),
        (BF16, 8192, 16, 16),
    ):
        a, b = meta(m, n, k, dtype)
        if layout == "nt":
            b = b.t().contiguous().t()
        assert tiled_mm.plan(a, b, device="h200").algo != "tall", (dtype, m, n, k)


def test_it_needs_the_kernels_of_8_0() -> None:
    a, b = meta(100000, 16, 16, torch.float32)
    assert tiled_mm.plan(a, b, device="t4").algo != "tall"
    with pytest.raises(RuntimeError, match="'tall' is not for these inputs"):
        tiled_mm.plan(a, b, algo="tall", device="t4")


@each("dtype", (torch.float64, torch.int8, torch.complex64))
def test_dtypes_that_it_does_not_take(dtype: torch.dtype) -> None:
    with pytest.raises(RuntimeError, match="'tall' is not for these inputs"):
        tiled_mm.plan(*meta(100000, 16, 16, dtype), algo="tall", device="h200")


@each("dtype", HALVES)
def test_chains_of_16_bits_are_not_its_own(dtype: torch.dtype) -> None:
    a, b = meta(100000, 16, 16, dtype)
    assert tiled_mm.plan(a, b, precision="ieee", device="h200").algo != "tall"


@each("dtype", DTYPES)
def test_the_best_estimate_is_chosen_and_explained(dtype: torch.dtype) -> None:
    a, b = meta(1000000, 16, 16, dtype)
    plan = tiled_mm.plan(a, b, device="h200")
    chosen = min(plan.tall.estimates, key=lambda e: e.cycles)
    assert (plan.tile.name, plan.tall.exchanged) == (chosen.tile, chosen.exchanged)
    assert plan.tall.bound in ("memory", "instructions") and plan.tall.reads == "by 16 bytes"
    assert plan.tall.panel_k >= 16
    assert {e.tile for e in plan.tall.estimates} >= {chosen.tile}
    assert len(plan.tall.estimates) == (3 if dtype == torch.float32 else 4)
    text = tiled_mm.explain(a, b, device="h200")
    assert text.startswith("tall on") and "A by 16 bytes" in text and "rejected" in text
    found = json.loads(torch.ops.tiled_debug.plan(a, b, device="h200"))["tall"]
    assert found["bound"] == plan.tall.bound


def test_how_it_reads() -> None:
    def reads(a: torch.Tensor) -> str:
        b = torch.empty(a.shape[1], 16, dtype=a.dtype, device="meta")
        return tiled_mm.plan(a, b, algo="tall", device="h200").tall.reads

    wide = torch.empty(100000, 64, dtype=BF16, device="meta")
    assert reads(wide) == reads(wide[:, :24]) == "by 16 bytes"
    assert reads(torch.empty(64, 100000, dtype=BF16, device="meta").t()) == "by 16 bytes"
    assert reads(torch.empty(100000, 7, dtype=BF16, device="meta")) == "by 16 bytes, shifted"
    odd = torch.empty(100000, 65, dtype=BF16, device="meta")
    assert reads(odd[:, :24]) == "by 16 bytes, shifted"
    assert reads(wide[:, ::2]) == "by elements"


def test_a_k_that_the_panel_has_in_parts() -> None:
    a, b = meta(100000, 64, 20000, BF16)
    plan = tiled_mm.plan(a, b, algo="tall", device="h200")
    assert 0 < plan.tall.panel_k < 20000 and plan.workspace_bytes == 0
    assert "again and again" in tiled_mm.explain(a, b, algo="tall", device="h200")
    a, b = meta(100000, 64, 40000, BF16)
    plan = tiled_mm.plan(a, b, algo="tall", device="h200")
    assert plan.segments > 1 and plan.workspace_bytes > 0
