"""Every tile of rung hopper with an epilogue: each has code of its own for it, and the bits are
those of rung mma_tile, which finishes its elements one by one."""

from __future__ import annotations

import itertools

import cases
import pytest
import tiled_mm
import torch

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]

CLUSTERS = ((1, 1), (2, 1), (1, 2))
# Whole slices of C, rows of C that TMA cannot write, a C of few elements, several tiles a block.
SIZES = ((264, 520, 200), (333, 259, 520), (24, 40, 72), (2200, 2056, 64))
ASKED = (
    {"activation": None},
    {"activation": "gelu"},
    {"activation": "gelu", "before": True},
    {"activation": "silu", "before": True, "out_dtype": torch.float32},
)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("layout", ["nt", "tn"])
def test_every_tile_finishes_alike(layout: str, dtype: torch.dtype, size: tuple) -> None:
    m, n, k = size
    a = cases.fill(m, k, dtype, "cuda") if layout == "nt" else cases.fill(k, m, dtype, "cuda").t()
    b = cases.fill(n, k, dtype, "cuda").t() if layout == "nt" else cases.fill(k, n, dtype, "cuda")
    precision = {"precision": "tf32"} if dtype == torch.float32 else {}
    tiles = [e.tile for e in tiled_mm.plan(a, b, algo="hopper", **precision).hopper.estimates]
    assert len(tiles) > 1
    for asked, bias_dtype in itertools.product(ASKED, {dtype, torch.float32}):
        wanted = {**asked, **precision, "bias": cases.fill(1, n, bias_dtype, "cuda")[0]}
        right, right_before = torch.ops.tiled_debug.mm_with_epilogue(
            a, b, algo="mma_tile", **wanted
        )
        ran = set()
        for tile, exchanged, (p, q) in itertools.product(tiles, (False, True), CLUSTERS):
            before = torch.full_like(right, torch.nan) if asked.get("before") else None
            try:
                c = torch.ops.tiled_debug.mm_with_tile(
                    a, b, tile, exchanged, p, q, False, **{**wanted, "before": before}
                )
            except RuntimeError as refusal:
                assert "no way" in str(refusal)  # a tile that cannot share such a Q
                continue
            ran.add(tile)
            assert torch.equal(c, right), (tile, exchanged, p, q, asked)
            if before is not None:
                assert torch.equal(before, right_before), (tile, exchanged, p, q, asked)
        assert ran == set(tiles)


@pytest.mark.parametrize("off", ["c", "before"])
def test_one_output_by_tma_and_one_by_rows(off: str) -> None:
    """They take the same two slices of shared memory in turn, and K is short: what waits for one of
    them to be copied out must not count on the other's path."""
    m, n, k = 4096, 4096, 64
    a = cases.fill(m, k, torch.bfloat16, "cuda")
    b = cases.fill(n, k, torch.bfloat16, "cuda").t()
    asked = {"bias": cases.fill(1, n, torch.bfloat16, "cuda")[0], "activation": "relu"}
    right, right_before = torch.ops.tiled_debug.mm_with_epilogue(
        a, b, algo="mma_tile", before=True, **asked
    )
    # TMA writes rows whose begins are multiples of 16 bytes.
    at = torch.full((m, n + 1), torch.nan, dtype=torch.bfloat16, device="cuda")[:, 1:]
    if off == "c":  # mm_with_tile makes its own
        c, before = torch.ops.tiled_debug.mm_with_epilogue(
            a, b, algo="hopper", before=True, out=at, **asked
        )
        assert torch.equal(c, right) and torch.equal(before, right_before)
        return
    for tile in [e.tile for e in tiled_mm.plan(a, b, algo="hopper").hopper.estimates]:
        at.fill_(torch.nan)
        c = torch.ops.tiled_debug.mm_with_tile(a, b, tile, False, 1, 1, False, before=at, **asked)
        assert torch.equal(c, right) and torch.equal(at, right_before), tile
