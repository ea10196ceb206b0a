"""The plans of rung fp16x3: which of its kernels and tiles, and the workspace."""

from __future__ import annotations

import pytest
import tiled_mm
import torch
from cases import meta


def test_the_plan_of_fp16x3() -> None:
    for size, tile in ((4096, "X3Tile128x128"), (1024, "X3Tile64x64")):
        plan = tiled_mm.plan(*meta(size, size, size), precision="fp16x3", device="h200")
        assert plan.algo == plan.arithmetic == "fp16x3" and plan.tile.name == tile
        assert plan.kernel.startswith(f"fp16x3<{tile}, ") and "hopper" not in plan
        assert plan.step["count"] == size // 64 and plan.grid.blocks >= 1
        # Two planes of fp16 of each operand, and more.
        assert plan.workspace_bytes > 2 * size * size * 4
        assert plan.peak_flops == pytest.approx(
            tiled_mm.plan(*meta(8, 8, 8, torch.bfloat16), device="h200").peak_flops / 3
        )
    # Planes of the other operand alone.
    for size, tile in ((4096, "X3Direct64x64"), (256, "X3Direct64x32")):
        plan = tiled_mm.plan(*meta(size, 128, 4096), precision="fp16x3", device="h200")
        assert plan.kernel.startswith(f"fp16x3_direct<{tile}, ")
        assert 128 * 4096 * 4 < plan.workspace_bytes < 2 * 128 * 4096 * 4
    text = tiled_mm.explain(*meta(4096, 4096, 4096), precision="fp16x3", device="h200")
    for part in ("fp16x3 on NVIDIA H200", "two planes of fp16", "for every 64 of K", "2.4e-05 of"):
        assert part in text, part
    for few in (meta(16, 4096, 4096), meta(4096, 1, 4096)):
        plan = tiled_mm.plan(*few, precision="fp16x3", device="h200")
        assert plan.tile.name == "FewRows512" and plan.workspace_bytes < 2**20
        assert plan.kernel.startswith("fp16x3_few_rows<")
    # All of a short K is the guard's work, which needs no planes.
    short = meta(100, 200, 63)
    assert tiled_mm.plan(*short, precision="fp16x3", device="h200").workspace_bytes == 0
    text = tiled_mm.explain(*short, precision="fp16x3", device="h200")
    assert "computes all elements in fp64" in text and "planes" not in text


# Where three products in fp16 are faster than one in fp32; and where sums in fp32 are slow.
FAST = ("a100", "a10", "l40s", "b200")
SLOW = ("rtx3090", "rtx4090", "rtx5090")


@pytest.mark.parametrize("device", FAST + SLOW)
def test_the_plan_of_fp16x3_without_hoppers_kernels(device: str) -> None:
    large = device in ("a100", "b200")
    for size in ((8192, 8192, 4096), (512, 512, 512), (4096, 16, 4096), (9, 5000, 40000)):
        plan = tiled_mm.plan(*meta(*size), precision="fp16x3", device=device)
        assert plan.algo == "fp16x3" and plan.kernel == f"fp16x3_async<{plan.tile.name}>"
        assert [step.work for step in plan.steps][-2:] == ["product", "guard"]
        assert plan.occupancy.blocks_per_sm is None or plan.occupancy.blocks_per_sm > 0
        if size[0] == size[1] == 8192:
            assert plan.tile.name == ("X3Async128x128" if large else "X3Async128x64")
    text = tiled_mm.explain(*meta(4096, 4096, 4096), precision="fp16x3", device=device)
    assert ("taken only where a call asks for it" in text) == (device in SLOW)
    # Steps of eight and fewer bits: a stricter guard, and more of a short K is its own.
    short = tiled_mm.explain(*meta(100, 200, 159), precision="fp16x3", device=device)
    assert "computes all elements in fp64, since K is below 160" in short
    with tiled_mm.float32_precision("fp16x3"):
        arithmetic = tiled_mm.plan(*meta(64, 64, 200), device=device).arithmetic
        assert arithmetic == ("fp16x3" if device in FAST else "fma")
