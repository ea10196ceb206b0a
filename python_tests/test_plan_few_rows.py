"""The plans of rung few_rows: when it is taken, its tiles, what bounds it, and what is copied."""

from __future__ import annotations

import re

import pytest
import tiled_mm
import torch
from cases import each, meta

BF16, H200 = torch.bfloat16, {"device": "h200"}


def weight(n: int, k: int) -> torch.Tensor:
    """[K, N] of a linear layer, whose memory is [N, K]."""
    return torch.empty(n, k, dtype=BF16, device="meta").t()


@each("rows", (1, 8, 16, 32))
def test_it_is_taken_for_few_rows_of_a_layer(rows: int) -> None:
    for n, k in ((4096, 4096), (28672, 4096), (4096, 14336), (1024, 5120), (256, 7168)):
        for b in (weight(n, k), meta(1, n, k, BF16)[1]):
            plan = tiled_mm.plan(meta(rows, n, k, BF16)[0], b, **H200)
            assert plan.algo == "few_rows" and plan.few_rows.exchanged
            assert plan.workspace_bytes == 0 and "hopper" not in plan
            # The narrowest tile that holds the rows; narrower ones beside each other only where the
            # weight's rows are not enough for all multiprocessors.
            assert plan.tile.m == max(8, rows) or (n < 4096 and plan.tile.m in (8, 16, 32))
            assert plan.tile.n in range(8, 65, 8)
            # It stays, and takes tile after tile.
            assert plan.grid.blocks == min(132, plan.grid.tiles_m * plan.grid.tiles_n)
    assert tiled_mm.plan(*meta(4096, 4096, 4096, BF16), **H200).algo == "hopper"


def test_either_operand_may_be_the_one_of_few_rows() -> None:
    a, b = meta(4096, 7, 4096, BF16)
    plan = tiled_mm.plan(a, b.t().contiguous().t(), **H200)
    assert plan.algo == "few_rows" and not plan.few_rows.exchanged
    assert plan.tile.m in range(8, 65, 8) and plan.tile.n == 8


@pytest.mark.parametrize(
    ("n", "k", "bound"),
    [(57344, 8192, "memory"), (256, 7168, "chain"), (256, 256, "start and end")],
)
def test_what_bounds_it(n: int, k: int, bound: str) -> None:
    a, b = meta(1, n, k, BF16)[0], weight(n, k)
    plan = tiled_mm.plan(a, b, algo="few_rows", **H200)
    assert plan.few_rows.bound == bound
    text = tiled_mm.explain(a, b, algo="few_rows", **H200)
    best = min(plan.few_rows.estimates, key=lambda e: e.cycles)
    assert best.tile == plan.tile.name
    assert bound in text and re.search(rf"estimate +{best.way}, exchanged: ", text)


def test_copies() -> None:
    """Of what TMA cannot read, and of few rows that do not lie along K."""
    a, b = meta(16, 4096, 4096, BF16)
    along_m = torch.empty(4096, 16, dtype=BF16, device="meta").t()
    for x, y, copied in (
        (a, b, (False, False)),
        (along_m, b, (True, False)),
        (a, meta(1, 4099, 4096, BF16)[1][:, 3:], (False, True)),
    ):
        found = tiled_mm.plan(x, y, algo="few_rows", **H200).few_rows
        assert (found.repack_a, found.repack_b) == copied
    single = meta(16, 4096, 4096)
    plan = tiled_mm.plan(*single, algo="few_rows", precision="tf32", **H200)
    found = plan.few_rows
    assert (found.repack_a, found.repack_b) == (False, False), "tf32 goes through registers"
    assert plan.tile.name.startswith("Regs") and "FewRowsByRegisters<" in plan.kernel
    copied = [e for e in found.estimates if e.tile.startswith("Few")]
    read = [e for e in found.estimates if e.tile.startswith("Regs")]
    assert min(e.start for e in copied) > max(e.start for e in read), "the copy is counted"
