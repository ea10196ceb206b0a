"""The plans of rung register_tile: its tiles by device, and what is transposed first."""

from __future__ import annotations

import tiled_mm
import torch
from cases import meta


def test_the_plan_of_register_tile() -> None:
    """fp32 has its own tiles where cp.async exists, and reads best along m and n."""
    a, b = meta(4096, 4096, 4096)

    def found(a: torch.Tensor, b: torch.Tensor, device: str = "h200"):
        return tiled_mm.plan(a, b, algo="register_tile", device=device)

    plan = found(a, b)
    assert plan.tile.name == "AsyncTile128x128"
    assert plan.transposes.a and not plan.transposes.b and plan.workspace_bytes == a.nbytes
    assert plan.access.a == plan.access.b == "along_mn"
    text = tiled_mm.explain(a, b, algo="register_tile", device="h200")
    assert "transposes  A first, to lie along m" in text
    plan = found(a.t(), b)
    assert not plan.transposes.a and plan.workspace_bytes == 0
    plan = found(a, b, "a100")
    assert not plan.transposes.a and (plan.access.a, plan.access.b) == ("elements", "along_mn")
    plan = found(a, b, "t4")
    assert plan.tile.name == "Tile128x256" and plan.access.a == "along_k"
