"""The plans of rung fp16x3: which of its kernels and tiles, and the workspace."""

from __future__ import annotations

import cases
import pytest
import tiled_mm
import torch
from cases import meta
from rungs import ways_of

H200 = {"algo": "fp16x3", "device": "h200"}


def test_the_plan_of_fp16x3() -> None:
    for size in (4096, 1024):
        plan = tiled_mm.plan(*meta(size, size, size), precision="fp16x3", device="h200")
        assert plan.algo == plan.arithmetic == "fp16x3" and "hopper" not in plan
        assert plan.kernel.startswith("fp16x3") and f"<{plan.tile.name}" in plan.kernel
        assert plan.step["count"] == size // 64 and plan.grid.blocks >= 1
        # Two planes of fp16 of an operand, and more.
        assert plan.workspace_bytes > size * size * 4
        assert plan.peak_flops == pytest.approx(
            tiled_mm.plan(*meta(8, 8, 8, torch.bfloat16), device="h200").peak_flops / 3
        )
        text = tiled_mm.explain(*meta(size, size, size), **H200)
        for part in ("fp16x3 on NVIDIA H200", "two planes of fp16", "for every 64 of K"):
            assert part in text, part
    # All of a short K is the guard's work, which needs no planes.
    short = meta(100, 200, 63)
    assert tiled_mm.plan(*short, precision="fp16x3", device="h200").workspace_bytes == 0
    text = tiled_mm.explain(*short, precision="fp16x3", device="h200")
    assert "computes all elements in fp64" in text and "planes" not in text


def test_its_kernels() -> None:
    """Its ways have planes of both operands or of one, by mma.sync too; few rows have others."""

    def tiles(*size: int) -> set[str]:
        return {way[0] for way in ways_of(*meta(*size), **H200)}

    large = tiles(4096, 4096, 4096)
    assert large == {*cases.PLANE_TILES, *cases.DIRECT_TILES, *cases.ASYNC_TILES}
    for few in ((16, 4096, 4096), (4096, 1, 4096)):
        assert any(tile.startswith("FewRows") for tile in tiles(*few) - large)
    assert not any(tile.startswith("FewRows") for tile in tiles(33, 4096, 4096))


# Where three products in fp16 are faster than one in fp32; and where sums in fp32 are slow.
FAST = ("a100", "a10", "l40s", "b200")
SLOW = ("rtx3090", "rtx4090", "rtx5090")


@pytest.mark.parametrize("device", FAST + SLOW)
def test_the_plan_of_fp16x3_without_hoppers_kernels(device: str) -> None:
    large = device in ("a100", "b200")
    tiles = {way[0] for way in ways_of(*meta(8192, 8192, 4096), algo="fp16x3", device=device)}
    assert "X3Async128x64" in tiles and ("X3Async128x128" in tiles) == large
    for size in ((8192, 8192, 4096), (512, 512, 512), (4096, 16, 4096), (9, 5000, 40000)):
        plan = tiled_mm.plan(*meta(*size), precision="fp16x3", device=device)
        assert plan.algo == "fp16x3" and plan.kernel == f"fp16x3_async<{plan.tile.name}>"
        assert [step.work for step in plan.steps][-2:] == ["product", "guard"]
        assert plan.occupancy.blocks_per_sm is None or plan.occupancy.blocks_per_sm > 0
    text = tiled_mm.explain(*meta(4096, 4096, 4096), precision="fp16x3", device=device)
    assert ("taken only where a call asks for it" in text) == (device in SLOW)
    # Steps of eight and fewer bits: a stricter guard, and more of a short K is its own.
    short = tiled_mm.explain(*meta(100, 200, 159), precision="fp16x3", device=device)
    assert "computes all elements in fp64, since K is below 160" in short
    with tiled_mm.float32_precision("fp16x3"):
        arithmetic = tiled_mm.plan(*meta(64, 64, 200), device=device).arithmetic
        assert arithmetic == ("fp16x3" if device in FAST else "fma")
