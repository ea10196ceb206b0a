"""The plans of rung tall: where it is offered, its ways, and what it says of itself."""

from __future__ import annotations

import json

import pytest
import tiled_mm
import torch
from cases import HALVES, each, meta
from rungs import ways_of

from bench import choice
from bench.choice import Case
from bench.shapes import Shape

BF16 = torch.bfloat16
DTYPES = (torch.float32, BF16, torch.float16)
LONG = ((1000000, 16, 16), (1048576, 32, 32), (400000, 4, 4), (1000000, 7, 7), (300000, 24, 40))


@each("device", ("h200", "h100", "a100"))
@each("dtype", DTYPES)
def test_a_long_operand_and_a_short_one(dtype: torch.dtype, device: str) -> None:
    for m, n, k in LONG:
        for swap in (False, True):
            a, b = meta(n, m, k, dtype) if swap else meta(m, n, k, dtype)
            plan = tiled_mm.plan(a, b, algo="tall", device=device)
            assert plan.algo == "tall", (m, n, k, swap)
            assert plan.tall.swap_ab == swap
            assert len(plan.steps) == 1 and plan.workspace_bytes == 0
            assert plan.occupancy.blocks_per_sm >= 1


def test_it_needs_the_kernels_of_8_0() -> None:
    a, b = meta(100000, 16, 16, torch.float32)
    assert "tall" in tiled_mm.algos(a, b, device="a100")
    assert "tall" not in tiled_mm.algos(a, b, device="t4")
    with pytest.raises(RuntimeError, match="'tall' is not for these inputs"):
        tiled_mm.plan(a, b, algo="tall", device="t4")


@each("dtype", (torch.float64, torch.int8, torch.complex64))
def test_dtypes_that_it_does_not_take(dtype: torch.dtype) -> None:
    with pytest.raises(RuntimeError, match="'tall' is not for these inputs"):
        tiled_mm.plan(*meta(100000, 16, 16, dtype), algo="tall", device="h200")


@each("dtype", HALVES)
def test_chains_of_16_bits_are_not_its_own(dtype: torch.dtype) -> None:
    a, b = meta(100000, 16, 16, dtype)
    assert "tall" not in tiled_mm.algos(a, b, precision="ieee", device="h200")


@each("dtype", DTYPES)
def test_its_ways_are_listed_and_the_plan_explained(dtype: torch.dtype) -> None:
    a, b = meta(1000000, 16, 16, dtype)
    plan = tiled_mm.plan(a, b, algo="tall", device="h200")
    assert plan.tall.reads == "by 16 bytes" and plan.tall.panel_k >= 16
    ways = ways_of(a, b, "tall", device="h200")
    assert (plan.tile.name, plan.tall.swap_ab) == ways[0][:2]
    assert len(ways) == 3
    text = tiled_mm.explain(a, b, algo="tall", device="h200")
    assert text.startswith("tall on") and "A by 16 bytes" in text
    found = json.loads(torch.ops.tiled_debug.plan(a, b, algo="tall", device="h200"))["tall"]
    assert found == dict(plan.tall)


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


def demands_of(case: Case) -> dict[str, dict]:
    """What the rung's ways ask of an H200, by their tiles and swap_ab."""
    ways = [way for way in choice.ways_of(case, "h200") if way["algo"] == "tall"]
    return {way["tile"] + " swap" * way["swap_ab"]: way["demand"] for way in ways}


@each(
    ("m", "n", "dtype", "apart"),
    (
        (56136, 43, "float32", ("Chain32x16", "Chain32x32")),  # the widest has all columns
        (56136, 44, "float32", ()),  # whole vectors
        (43, 56136, "float32", ()),  # along the long side whole sectors
        (43, 56137, "float32", ()),
        (966013, 57, "float16", ("Tall32x16", "Tall32x32", "Tall32x48")),
        (966013, 56, "float16", ()),
        (57, 966013, "float16", ("Tall32x16 swap", "Tall32x32 swap", "Tall32x48 swap")),
        (57, 966016, "float16", ()),
    ),
)
def test_what_is_stored_element_by_element(
    m: int, n: int, dtype: str, apart: tuple[str, ...]
) -> None:
    demands = demands_of(Case("tall16", Shape(m, n, 8, "nt", dtype)))
    assert len(demands) == 3
    assert {tile for tile, demand in demands.items() if demand["store_lines"] > 0} == set(apart)


def test_entries_of_fewer_strips_than_warps() -> None:
    """Of 80 rows there are three strips of 32, and a block's other five warps have none."""
    shape = Shape(80, 48, 16, "nt", "float32", batch=395)
    demands = demands_of(Case("batched", shape))
    assert demands["Chain32x16"]["resident"] == 2 * 3
    assert demands["Chain64x48"]["resident"] == 2
    assert (
        demands_of(Case("tall", Shape(80000, 48, 16, "nt", "float32")))["Chain64x48"]["resident"]
        == 8
    )
