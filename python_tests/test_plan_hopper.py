"""The plans of rung hopper: its estimates of each tile, and what is copied first."""

from __future__ import annotations

import tiled_mm
import torch
from cases import meta


def test_the_plan_of_hopper() -> None:
    a, b = meta(4096, 4096, 4096, torch.bfloat16)
    plan = tiled_mm.plan(a, b, device="h200")
    assert plan.algo == "hopper" and plan.workspace_bytes == 0
    assert not plan.hopper.repack_a and not plan.hopper.repack_b and plan.hopper.store == "tma"
    tiles = [e.tile for e in plan.hopper.estimates]
    assert len(tiles) > 10 and len(set(tiles)) == len(tiles), "each tile once"
    cycles = [e.cycles for e in plan.hopper.estimates]
    assert cycles == sorted(cycles) and min(cycles) > 0
    assert "hopper" not in tiled_mm.plan(a, b, algo="register_tile", device="h200")
    # A row of 4095 elements is no multiple of 16 bytes: it is copied to a pitch of 4096.
    plan = tiled_mm.plan(a[:, :4095], b[:4095], device="h200")
    assert not plan.hopper.repack_a and not plan.hopper.repack_b
    plan = tiled_mm.plan(*meta(4096, 4096, 4095, torch.bfloat16), device="h200")
    assert plan.hopper.repack_a and not plan.hopper.repack_b
    assert plan.workspace_bytes == 4096 * 4096 * 2
