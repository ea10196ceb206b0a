"""The plans of rung hopper: its ways, and what is copied first."""

from __future__ import annotations

import math

import tiled_mm
import torch
from cases import meta
from rungs import ways_of


def test_the_plan_of_hopper() -> None:
    a, b = meta(512, 512, 512, torch.bfloat16)
    plan = tiled_mm.plan(a, b, algo="hopper", device="h200")
    assert plan.algo == "hopper" and plan.workspace_bytes == 0
    assert not plan.hopper.repack_a and not plan.hopper.repack_b and plan.hopper.store == "tma"
    assert "hopper" not in tiled_mm.plan(a, b, algo="register_tile", device="h200")
    # A row of 511 elements is no multiple of 16 bytes: it is copied to a pitch of 512.
    plan = tiled_mm.plan(a[:, :511], b[:511], algo="hopper", device="h200")
    assert not plan.hopper.repack_a and not plan.hopper.repack_b
    plan = tiled_mm.plan(*meta(512, 512, 511, torch.bfloat16), algo="hopper", device="h200")
    assert plan.hopper.repack_a and not plan.hopper.repack_b
    assert plan.workspace_bytes == 512 * 512 * 2


def test_its_ways() -> None:
    ways = ways_of(*meta(2304, 2304, 2304, torch.bfloat16), "hopper", device="h200")
    tiles = {way[0] for way in ways}
    assert len(tiles) > 4 and len(set(ways)) == len(ways)
    assert {way[1] for way in ways} == {False, True}, "either operand on either side"
    assert {way[2:4] for way in ways} >= {(1, 1), (2, 1), (1, 2)}
    assert {way[4] for way in ways} == {False}, "no segments to share out"


def test_bytes() -> None:
    """From where they lie if that is along K; the kernel's name has the sign, which the sum alone
    depends on."""
    int32 = {"out_dtype": torch.int32}
    for dtype, sign in ((torch.int8, "signed char"), (torch.uint8, "unsigned char")):
        a, b = meta(4096, 4096, 4096, dtype)
        for y, copies in ((b.t(), False), (b, True)):
            plan = tiled_mm.plan(a, y, device="h100", **int32)
            assert plan.algo == "hopper" and f", {sign}, " in plan.kernel
            assert (plan.hopper.repack_a, plan.hopper.repack_b) == (False, copies)
            assert plan.hopper.store == "tma"
            assert "hopper" in tiled_mm.explain(a, y, device="h100", **int32).splitlines()[0]
        low = tiled_mm.plan(a, b.t(), algo="hopper", device="h100")
        assert "unsigned char" in low.kernel
    a, b = meta(4096, 4096, 4096, torch.int8)
    scales = {name: torch.empty(1, device="meta") for name in ("scale_a", "scale_b")}
    plan = tiled_mm.plan(a, b.t(), device="h100", **scales)
    assert plan.algo == "hopper" and "Int8Scaled<__nv_bfloat16>" in plan.kernel


def test_ways_of_bytes() -> None:
    """Every tile, those too that are for operands of 8 bits alone."""
    a, b = meta(2304, 2304, 2304, torch.int8)
    ways = ways_of(a, b.t(), "hopper", device="h100", out_dtype=torch.int32)
    halves = ways_of(*meta(2304, 2304, 2304, torch.bfloat16), "hopper", device="h100")
    assert len(set(ways)) == len(ways)
    assert {way[0] for way in ways} - {way[0] for way in halves} == {"Coop256x128", "Solo64x32"}
    assert {way[0] for way in ways} > {way[0] for way in halves}


def test_nothing_to_compute() -> None:
    for m, n, k in ((0, 16, 512), (16, 0, 512), (0, 0, 0)):
        plan = tiled_mm.plan(*meta(m, n, k, torch.bfloat16), device="h100", algo="hopper")
        assert plan.grid.tiles_m * plan.grid.tiles_n == 0


def test_no_more_clusters_than_their_waves_need() -> None:
    """512 tiles of 128 x 256 take four waves on an H100's 132 multiprocessors, and on 128."""
    plan = tiled_mm.plan(*meta(4096, 4096, 7168, torch.bfloat16), device="h100")
    assert (plan.grid.tiles_m * plan.grid.tiles_n, plan.grid.blocks) == (512, 128)
    for m, n in ((4096, 7168), (3000, 5000), (640, 9000), (8192, 8192), (129, 70000)):
        plan = tiled_mm.plan(*meta(m, n, 512, torch.bfloat16), algo="hopper", device="h100")
        assert plan.occupancy.blocks_per_sm == 1
        tiles = [plan.grid.tiles_m, plan.grid.tiles_n]
        cluster = plan.hopper.cluster_p, plan.hopper.cluster_q
        along_p, along_q = tiles[::-1] if plan.hopper.swap_ab else tiles
        units = -(-along_p // cluster[0]) * -(-along_q // cluster[1])
        clusters = plan.grid.blocks // math.prod(cluster)
        waves = -(-units // clusters)
        assert clusters == 1 or -(-units // (clusters - 1)) > waves
        if math.prod(cluster) <= 2:  # larger ones do not find places on every multiprocessor
            assert waves == -(-units // (132 // math.prod(cluster)))
    # Where a multiprocessor holds two blocks, there are as many of them as it has places for.
    plan = tiled_mm.plan(*meta(8, 28672, 512, torch.bfloat16), algo="hopper", device="h100")
    assert (plan.tile.name, plan.occupancy.blocks_per_sm) == ("Solo64x16", 2)
    assert (plan.grid.tiles_m * plan.grid.tiles_n, plan.grid.blocks) == (448, 264)
