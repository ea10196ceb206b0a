"""The plans of rung register_tile: its tiles by device, and what is transposed first."""

from __future__ import annotations

import tiled_mm
import torch
from cases import each, meta
from rungs import ways_of

SIZE = 512


def test_its_tiles() -> None:
    """fp32 has its own tiles where cp.async exists."""
    for device, prefix in (("h200", "AsyncTile"), ("a100", "AsyncTile"), ("t4", "Tile")):
        tiles = {way[0] for way in ways_of(*meta(SIZE, SIZE, SIZE), "register_tile", device=device)}
        assert len(tiles) >= 2 and all(tile.startswith(prefix) for tile in tiles)


@each("device", ("h200", "a100"))
def test_what_is_transposed_first(device: str) -> None:
    """By cp.async operands are read best along m and n: A, which does not lie so, may be copied
    first, by a kernel of Hopper's, and is read by elements otherwise."""
    a, b = meta(SIZE, SIZE, SIZE)

    def found(a: torch.Tensor, b: torch.Tensor):
        return tiled_mm.plan(a, b, algo="register_tile", device=device)

    plan = found(a, b)
    assert not plan.transposes.b and plan.access.b == "along_mn"
    assert plan.access.a == ("along_mn" if plan.transposes.a else "elements")
    assert plan.workspace_bytes >= a.nbytes * plan.transposes.a
    assert device == "h200" or not plan.transposes.a
    text = tiled_mm.explain(a, b, algo="register_tile", device=device)
    assert ("transposes  A first, to be contiguous along m" in text) == plan.transposes.a
    plan = found(a.t(), b)
    assert not plan.transposes.a and plan.access.a == "along_mn"


def test_vectors_where_there_is_no_cp_async() -> None:
    plan = tiled_mm.plan(*meta(SIZE, SIZE, SIZE), algo="register_tile", device="t4")
    assert (plan.access.a, plan.access.b) == ("along_k", "along_mn")
    assert not plan.transposes.a and plan.workspace_bytes == 0
