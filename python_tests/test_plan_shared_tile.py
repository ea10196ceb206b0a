"""The plans of the textbook's rungs: a phase of shared_tile beside the textbook's figures."""

from __future__ import annotations

import pytest
import tiled_mm
from cases import meta

KIB = 1024


# (device, rung) and the textbook's figures of a phase: loads, flops, flops a load, bytes of shared
# memory, and pending loads of a multiprocessor where it gives them.
PHASES = (
    ("g80", "naive", dict(flops_per_load=1), 0, None),
    ("g80", "shared_tile_16", dict(loads=512, flops=8192, flops_per_load=16), 2 * KIB, None),
    ("fermi", "shared_tile_8", dict(flops_per_load=8), KIB // 2, None),
    ("fermi", "shared_tile_16", dict(loads=512, flops=8192, flops_per_load=16), 2 * KIB, 3072),
    ("fermi", "shared_tile_32", dict(loads=2048, flops=65536, flops_per_load=32), 8 * KIB, 2048),
)


@pytest.mark.parametrize(("device", "algo", "step", "shared_bytes", "pending"), PHASES)
def test_phases(device: str, algo: str, step: dict, shared_bytes: int, pending) -> None:
    plan = tiled_mm.plan(*meta(1024, 1024, 1024), algo=algo, device=device)
    assert plan.algo == algo
    assert {name: plan.step[name] for name in step} == step
    assert plan.shared_bytes == shared_bytes
    if pending is not None:
        assert plan.step.pending_loads == pending


def test_traffic_is_proportional_to_one_over_the_tile() -> None:
    n = 1024
    for width in (8, 16, 32):
        plan = tiled_mm.plan(*meta(n, n, n), algo=f"shared_tile_{width}", device="h200")
        loads = 2 * n**3 / width
        assert plan.traffic.tiles.bytes == 4 * (loads + n * n)
        assert plan.traffic.compulsory.bytes == 4 * 3 * n * n
        assert plan.flops == 2 * n**3
