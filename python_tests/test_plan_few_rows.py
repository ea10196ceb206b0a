"""The plans of rung few_rows: where it is offered, its tiles, and what is copied."""

from __future__ import annotations

import re

import pytest
import tiled_mm
import torch
from cases import each, meta
from rungs import ways_of

BF16, H200 = torch.bfloat16, {"device": "h200"}
FEW = {"algo": "few_rows", **H200}


def weight(n: int, k: int) -> torch.Tensor:
    """[K, N] of a linear layer, whose memory is [N, K]."""
    return torch.empty(n, k, dtype=BF16, device="meta").t()


@each("rows", (1, 8, 16, 32))
def test_few_rows_of_a_layer(rows: int) -> None:
    for n, k in ((4096, 4096), (28672, 4096), (4096, 14336), (1024, 5120), (256, 7168)):
        for b in (weight(n, k), meta(1, n, k, BF16)[1]):
            plan = tiled_mm.plan(meta(rows, n, k, BF16)[0], b, **FEW)
            assert plan.algo == "few_rows" and plan.few_rows.swap_ab
            assert plan.workspace_bytes == 0 and "hopper" not in plan
            assert plan.tile.n in range(8, 65, 8) and plan.tile.m in range(8, 65, 8)
            # It stays, and takes tile after tile.
            assert plan.grid.blocks == min(132, plan.grid.tiles_m * plan.grid.tiles_n)


def test_either_operand_may_be_the_one_of_few_rows() -> None:
    a, b = meta(4096, 7, 4096, BF16)
    b = b.t().contiguous().t()
    sides = {way[1] for way in ways_of(a, b, **FEW)}
    assert False in sides, "B is the one of few rows"
    sides = {way[1] for way in ways_of(b.t(), a.t(), **FEW)}
    assert True in sides


@pytest.mark.parametrize(("n", "k"), [(57344, 8192), (256, 7168), (256, 256)])
def test_its_ways_are_listed(n: int, k: int) -> None:
    a, b = meta(1, n, k, BF16)[0], weight(n, k)
    plan = tiled_mm.plan(a, b, **FEW)
    ways = ways_of(a, b, **FEW)
    assert len(set(ways)) == len(ways) > 1
    assert ways[0][0].split()[0] == plan.tile.name and ways[0][1] == plan.few_rows.swap_ab
    assert f"few_rows {ways[0][0]}, swap_ab" in tiled_mm.explain(a, b, **FEW)


def test_copies() -> None:
    """Of what TMA cannot read, and of few rows that are not contiguous along K."""
    a, b = meta(16, 4096, 4096, BF16)
    along_m = torch.empty(4096, 16, dtype=BF16, device="meta").t()
    for x, y, may_copy in (
        (a, b, (False, False)),
        (along_m, b, (True, False)),
        (a, meta(1, 4099, 4096, BF16)[1][:, 3:], (False, True)),
    ):
        found = tiled_mm.plan(x, y, **FEW).few_rows
        assert found.repack_a <= may_copy[0] and found.repack_b <= may_copy[1]
    tiles = {way[0].split()[0] for way in ways_of(*meta(16, 4096, 4096), **FEW, precision="tf32")}
    assert any(tile.startswith("Regs") for tile in tiles), "tf32 goes through registers"
    assert any(tile.startswith("Few") for tile in tiles), "or is copied"


@each("dtype", (torch.float32, torch.float64))
def test_narrow_tiles_are_listed_where_all_blocks_run_at_once(dtype: torch.dtype) -> None:
    """A long chain is shorter in a warp that has fewer others; and of more tiles than run at once
    each would read its rows again for nothing."""

    def narrowest(m: int, n: int) -> int:
        ways = ways_of(*meta(m, n, 8000, dtype), precision="ieee", **FEW)
        tiles = {way[0].split()[0] for way in ways if not way[1]}
        return min(int(re.findall(r"x(\d+)", tile)[0]) for tile in tiles)

    few, most = (1, 16) if dtype == torch.float32 else (8, 32)
    assert narrowest(64, 64) == few and narrowest(4096, 1024) >= most
