"""The plans of rung async_mma: where it is taken, its tiles, and how it reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import rungs
import tiled_mm
import torch
from cases import HALVES, each, meta
from rungs import BYTES

BF16 = torch.bfloat16
SINCE_AMPERE = ("a100", "a10", "l40s", "rtx3090", "rtx4090", "rtx5090", "b200")


@each("device", SINCE_AMPERE)
@each("dtype", HALVES)
def test_it_is_taken_where_there_are_no_kernels_of_hopper(dtype: torch.dtype, device: str) -> None:
    for m, n, k in ((4096, 4096, 4096), (1, 4096, 4096), (64, 64, 64), (1023, 999, 1001)):
        a, b = meta(m, n, k, dtype)
        plan = tiled_mm.plan(a, b, device=device)
        assert (plan.algo, plan.arithmetic) == ("async_mma", "tensor")
        odd = (m, n, k) == (1023, 999, 1001)
        assert (plan.async_mma.copies_a, plan.async_mma.copies_b) == (odd, odd)
        assert len(plan.steps) == 1 + odd and (plan.workspace_bytes > 0) == odd
        assert plan.occupancy.blocks_per_sm >= 1
        chosen = min(plan.async_mma.estimates, key=lambda e: e.cycles)
        assert plan.tile.name == chosen.tile and plan.async_mma.exchanged == chosen.exchanged
        assert chosen.way == chosen.tile + " of copied A and B" * odd
        text = tiled_mm.explain(a, b, device=device)
        assert text.startswith("async_mma on") and ("by 16 bytes" in text or k == 1001)


def test_on_hopper_it_is_taken_by_name() -> None:
    a, b = meta(512, 512, 512, BF16)
    assert tiled_mm.plan(a, b, device="h200").algo != "async_mma"
    plan = tiled_mm.plan(a, b, algo="async_mma", device="h200")
    cycles = [e.cycles for e in plan.async_mma.estimates]
    assert plan.algo == "async_mma" and min(cycles) > 0
    assert plan.tile.name == plan.async_mma.estimates[cycles.index(min(cycles))].tile


def test_the_largest_tile_is_for_those_with_the_memory() -> None:
    a, b = meta(8192, 8192, 8192, BF16)
    for device, largest in (("a100", "Async128x256"), ("a10", "Async128x128")):
        assert tiled_mm.plan(a, b, device=device).tile.name == largest
    tiles = {e.tile for e in tiled_mm.plan(a, b, device="rtx4090").async_mma.estimates}
    assert "Async128x128" in tiles and "Async128x256" not in tiles


@each("device", SINCE_AMPERE)
def test_large_products_take_large_tiles(device: str) -> None:
    """Small ones ask more of shared memory and of L2 for a multiplication: where the tensor cores
    of a large tile set the time, they are not left for a little less at the grid's end."""
    has_most = device in ("a100", "b200")
    for dtype, precision in ((BF16, None), (torch.float32, "tf32"), (torch.int8, None)):
        for size in (4096, 8192):
            a, b = meta(size, size, size, dtype)
            plan = tiled_mm.plan(a, b.t(), algo="async_mma", precision=precision, device=device)
            chosen = min(plan.async_mma.estimates, key=lambda e: e.cycles)
            assert chosen.bound == "tensor cores"
            if device == "rtx5090" and size == 4096 and dtype != torch.int8:
                continue  # 1024 blocks are 6.02 for each of its 170 multiprocessors
            assert chosen.tile == ("Async128x256" if has_most else "Async128x128")


def test_bytes_have_their_own_rate() -> None:
    """GeForce cards have half of their rate where sums are fp32, but not where they are
    integers."""
    for device, ratio in (("a10", 2), ("rtx3090", 4), ("rtx4090", 4), ("rtx5090", 4)):
        cycles = []
        for dtype in (BF16, torch.int8):
            a, b = meta(8192, 8192, 8192, dtype)
            plan = tiled_mm.plan(a, b.t(), algo="async_mma", device=device)
            cycles.append(min(e.cycles for e in plan.async_mma.estimates))
        assert ratio * 0.8 < cycles[0] / cycles[1] < ratio * 1.01


def test_the_model_has_the_measured_times() -> None:
    """Of 16-bit squares and layers on an H200, each with the tile that was taken. Short K, whose
    start and end count for more, is not held to it."""
    path = Path(__file__).parents[1] / "bench/results/h200_mma_sync.json"
    if not path.exists():
        pytest.skip("bench/results is not here")
    for case in json.loads(path.read_text())["cases"]:
        shape, ours = case["shape"], case["candidates"][0]
        assert ours["name"] == "async_mma"
        if shape["dtype"] != "bfloat16" or shape["k"] < 2048:
            continue
        a, b = meta(shape["m"], shape["n"], shape["k"], BF16)
        plan = tiled_mm.plan(a, b, algo="async_mma", device="h200")
        said = min(e.cycles for e in plan.async_mma.estimates) / 1.98e9
        assert 0.85 < said / ours["seconds"]["median"] < 1.1, shape


@pytest.mark.parametrize(
    ("columns", "reads"),
    [
        (64, "by 16 bytes"),
        (68, "by 8 bytes"),
        (66, "by 4 bytes"),
        (65, "through registers, shifted"),
    ],
)
def test_how_it_reads(columns: int, reads: str) -> None:
    a = torch.empty(64, columns, dtype=BF16, device="meta")
    b = torch.empty(columns, 64, dtype=BF16, device="meta")
    plan = tiled_mm.plan(a, b, device="a100")
    assert (plan.async_mma.reads_a, plan.async_mma.reads_b) == (reads, "by 16 bytes")
    apart = torch.empty(128, 2 * columns, dtype=BF16, device="meta")[::2, ::2]
    plan = tiled_mm.plan(apart, b, device="a100")
    assert plan.async_mma.reads_a == "through registers, by elements"


def test_a_copy_is_made_where_it_is_faster() -> None:
    """Of large operands, that are read often; not of small ones. Of the few rows that a weight is
    multiplied with, so that the weight is read 16 bytes at a time."""
    for (m, n, k), copied in (
        ((64, 64, 65), (False, False)),
        ((4, 4096, 4097), (True, False)),
        ((4095, 4095, 4095), (True, True)),
    ):
        plan = tiled_mm.plan(*meta(m, n, k, BF16), device="a100")
        assert (plan.async_mma.copies_a, plan.async_mma.copies_b) == copied, (m, n, k)
        assert [step.work for step in plan.steps] == ["copy"] * any(copied) + ["product"]


@each("device", SINCE_AMPERE)
def test_tf32_and_bytes(device: str) -> None:
    operands = meta(1000, 900, 800, torch.float32)
    plan = tiled_mm.plan(*operands, precision="tf32", device=device)
    assert (plan.algo, plan.arithmetic) == ("async_mma", "tf32")
    assert tiled_mm.plan(*operands, device=device).algo == "register_tile"
    for dtype in BYTES:
        plan = tiled_mm.plan(*meta(1000, 900, 800, dtype), device=device)
        assert (plan.algo, plan.arithmetic) == ("async_mma", "fma")
        assert tiled_mm.plan(*meta(1000, 900, 800, dtype), device="t4").algo == "register_tile"


def test_how_it_reads_tf32_and_bytes() -> None:
    def reads(a: torch.Tensor, b: torch.Tensor, **precision: str) -> tuple[str, str]:
        found = tiled_mm.plan(a, b, algo="async_mma", device="a100", **precision).async_mma
        return found.reads_a, found.reads_b

    def matrix(dtype: torch.dtype, pitch: int = 64) -> torch.Tensor:
        return torch.empty(64, pitch, dtype=dtype, device="meta")[:, :64]

    single = matrix(torch.float32)
    wide, words = "by 16 bytes", "by 4 bytes"
    assert reads(single, single.t(), precision="tf32") == (wide, wide)
    assert reads(single.t(), single, precision="tf32") == (words, words)
    assert reads(matrix(torch.float32, 65), single.t(), precision="tf32") == (words, wide)
    byte, turned = matrix(torch.int8), "through registers, turned"
    assert reads(byte, byte.t()) == (wide, wide)
    assert reads(byte.t(), byte) == (turned, turned)
    assert reads(matrix(torch.int8, 68), matrix(torch.int8, 68)) == (words, turned)


def test_fp16_on_7_5() -> None:
    """By tiles of its own, which hold what they read in registers; bf16 keeps its chains."""
    for m, n, k in ((4096, 4096, 4096), (1, 4096, 4096), (64, 64, 64), (1023, 999, 1001)):
        a, b = meta(m, n, k, torch.float16)
        plan = tiled_mm.plan(a, b, device="t4")
        assert (plan.algo, plan.arithmetic) == ("async_mma", "tensor")
        assert {e.tile for e in plan.async_mma.estimates} == {"Held128x128", "Held64x64"}
        assert [step.work for step in plan.steps] == ["product"]
        assert plan.shared_bytes <= 32 * 1024 and plan.occupancy.blocks_per_sm >= 1
        odd = (m, n, k) == (1023, 999, 1001)
        reads = "through registers, shifted" if odd else "by 16 bytes"
        assert plan.async_mma.reads_a == plan.async_mma.reads_b == reads
        plan = tiled_mm.plan(*meta(m, n, k, BF16), device="t4")
        assert plan.algo in rungs.RUNGS["cuda"] and plan.arithmetic == "fma"
    apart = torch.empty(128, 128, dtype=torch.float16, device="meta")[::2, ::2]
    plan = tiled_mm.plan(apart, apart, device="t4")
    assert plan.async_mma.reads_a == "through registers, by elements"


def test_what_it_is_not_for() -> None:
    for dtype, precision in ((torch.float32, None), (torch.int16, None), (BF16, "ieee")):
        with pytest.raises(RuntimeError, match="'async_mma' is not for these inputs"):
            tiled_mm.plan(
                *meta(64, 64, 64, dtype), algo="async_mma", precision=precision, device="a100"
            )
    with pytest.raises(RuntimeError, match="'async_mma' is not for these inputs"):
        tiled_mm.plan(*meta(64, 64, 64, BF16), algo="async_mma", device="t4")
