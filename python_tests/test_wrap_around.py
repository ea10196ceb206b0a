"""Tiles whose chain of K one block begins and another ends (ops/cuda/parts/wrap_around.h): the bits
of whole tiles, in whatever order the blocks start."""

from __future__ import annotations

import functools

import cases
import epilogues
import pytest
import tiled_mm
import torch
from cases import each, laid_out
from golden import assert_equal

pytestmark = pytest.mark.cuda

LARGE, SMALL = "AsyncTile128x128", "AsyncTile64x64"
# The sizes that are tried, of a number that grows until the planner has tiles cut in time. The
# smaller tile is not cut where some lie at C's edge.
KINDS = {
    "a short chain": lambda s: (s, s, 264),
    "a long chain": lambda s: (s, s, s + 5),
    "at C's edge": lambda s: (s - 20, s - 20, 520),
}
CASES = [(tile, kind) for tile in (LARGE, SMALL) for kind in KINDS][:-1]
each_case = pytest.mark.parametrize(("tile", "kind"), CASES, ids=[" ".join(c) for c in CASES])


def plan(a: torch.Tensor, b: torch.Tensor):
    return tiled_mm.plan(a, b, algo="register_tile")


def is_cut(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(plan(a, b).get("wraps_around"))


@functools.cache
def cut_size(tile: str, kind: str, blocks: int = 0) -> tuple[int, int, int]:
    """The first of a kind whose tiles, such ones, this GPU's planner has cut; among so many blocks,
    if they matter."""
    for s in range(640, 6145, 64):
        m, n, k = KINDS[kind](s)
        found = plan(torch.empty(m, k, device="cuda"), torch.empty(k, n, device="cuda"))
        is_such = found.get("wraps_around") and found.tile.name == tile
        if is_such and blocks in (0, found.grid.x):
            return m, n, k
    pytest.skip(f"no {tile} is cut in time on this GPU: {kind}")


def mm(a: torch.Tensor, b: torch.Tensor, algo: str = "register_tile") -> torch.Tensor:
    return torch.ops.tiled.mm(a, b, algo=algo)


def normal(rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, columns, device="cuda")


def two_pairs(m: int, n: int, k: int) -> list[tuple[torch.Tensor, ...]]:
    """Two problems with their products, run in turn, so that one's accumulators are wrong where the
    other's are missed."""
    pairs = [(normal(m, k), normal(k, n)) for _ in range(2)]
    return [(a, b, mm(a, b, "shared_tile_16")) for a, b in pairs]


@each_case
def test_tiles_cut_in_time_are_equal_to_whole_ones(tile: str, kind: str) -> None:
    pairs = two_pairs(*cut_size(tile, kind))
    for _ in range(3):  # at once after each other
        for a, b, expected in pairs:
            assert_equal(mm(a, b), expected, (tile, kind))
    cut = 0
    for name, _ in laid_out(pairs[0][0]):
        for other, _ in laid_out(pairs[0][1]):
            for a, b, expected in pairs:
                x, y = dict(laid_out(a))[name], dict(laid_out(b))[other]
                cut += is_cut(x, y)
                assert_equal(mm(x, y), expected, (name, other))
    assert cut > 4


@each("tile", (LARGE, SMALL))
def test_what_becomes_of_a_cut_tile(tile: str) -> None:
    """Everything that an epilogue has, and results that lie anyhow."""
    m, n, k = cut_size(tile, "a long chain")
    a, b = normal(m, k), normal(k, n)
    assert is_cut(a, b)
    op = torch.ops.tiled_debug.mm_with_epilogue
    everything = {"input": normal(m, n), "alpha": 0.7, "beta": -1.3}
    everything |= {"activation": "gelu", "before": True}
    for asked in (
        {"bias": normal(1, n)[0], "activation": "silu"},
        {"bias": normal(1, m)[0], "bias_along": "m", **everything},
        {"bias": normal(1, n)[0], **everything},
    ):
        right, right_before = op(a, b, algo="shared_tile_16", **asked)
        got, before = op(a, b, algo="register_tile", **asked)
        assert epilogues.same_bits(got, right), asked.keys()
        if "before" in asked:
            assert epilogues.same_bits(before, right_before), asked.keys()
    right = mm(a, b, "shared_tile_16")
    for name, memory, out in cases.outputs(m, n, torch.float32):
        tiled_mm.mm(a, b, algo="register_tile", out=out)
        assert_equal(out, right, name)
        assert cases.is_untouched_outside(memory, out), name


def test_tiles_cut_in_time_beside_a_kernel_that_holds_half_of_the_chip() -> None:
    """Half of the blocks start when the others have ended, in an order that nobody promises."""
    chip = torch.cuda.get_device_properties(0).multi_processor_count
    half = chip // 2
    # Blocks of 1024 threads, one for each of so many multiprocessors.
    held = normal(32 * half, 20000), normal(20000, 32)
    holding = "shared_tile_32"
    assert tiled_mm.plan(*held, algo=holding).grid.x == half
    size = cut_size(LARGE, "at C's edge", blocks=2 * chip)
    pairs = two_pairs(*size)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(100):
            mm(*held, holding)
    results = [mm(a, b) for _ in range(50) for a, b, _ in pairs]
    for i, c in enumerate(results):
        assert_equal(c, pairs[i % 2][2], i)
    side.synchronize()


@each("tile", (LARGE, SMALL))
def test_tiles_cut_in_time_in_a_graph(tile: str) -> None:
    """Each replay finds the flags of the one before."""
    m, n, k = cut_size(tile, "a short chain")
    a, b = normal(m, k), normal(k, n)
    assert is_cut(a, b)
    mm(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = mm(a, b)
    for _ in range(20):
        a.copy_(normal(m, k))
        c.fill_(torch.nan)
        graph.replay()
        assert_equal(c, mm(a, b, "shared_tile_16"), "replay")
