"""The plans of rung hopper: its ways, and what is copied first."""

from __future__ import annotations

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
