"""Tiles whose chain of K one block begins and another ends (ops/cuda/plan/stream_k.h): the bits
of whole tiles, in whatever order the blocks start."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass

import cases
import epilogues
import pytest
import rungs
import tiled_mm
import torch
from cases import each, laid_out
from golden import assert_equal
from half_chip import half_of_the_chip_held

pytestmark = pytest.mark.cuda


@dataclass(frozen=True)
class Cut:
    """A tile of stream-K, whichever operands are copied first."""

    algo: str
    dtype: torch.dtype
    tile: str

    def __str__(self) -> str:
        return self.tile

    def ways(self, a: torch.Tensor, b: torch.Tensor) -> list[rungs.Way]:
        if self.algo not in tiled_mm.algos(a, b):
            return []
        name = re.compile(rf"{self.tile} cut( of copied .*)?")
        return [way for way in rungs.ways_of(a, b, self.algo) if name.fullmatch(way[0])]

    def mm(self, a: torch.Tensor, b: torch.Tensor, way: rungs.Way) -> torch.Tensor:
        return torch.ops.tiled_debug.mm_with_tile(a, b, *way, algo=self.algo)

    def normal(self, rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, device="cuda", dtype=self.dtype)

    def size(self, kind: str, least: int = 0) -> tuple[int, int, int]:
        """The first of a kind whose tiles, more than so many, may be cut on this GPU."""
        height, width = (int(x) for x in re.findall(r"\d+", self.tile)[-2:])
        for s in range(640, 6145, 64):
            m, n, k = KINDS[kind](s)
            empty = functools.partial(torch.empty, device="cuda", dtype=self.dtype)
            tiles = math.ceil(m / height) * math.ceil(n / width)
            if tiles > least and self.ways(empty(m, k), empty(k, n)):
                return m, n, k
        pytest.skip(f"{self.tile} has no stream-K on this GPU: {kind}")

    def two_pairs(self, m: int, n: int, k: int) -> list[tuple[torch.Tensor, ...]]:
        """Two problems with their products, run in turn, so that one's accumulators are wrong where
        the other's are missed."""
        pairs = [(self.normal(m, k), self.normal(k, n)) for _ in range(2)]
        return [(a, b, whole(a, b)) for a, b in pairs]


LARGE = Cut("register_tile", torch.float32, "AsyncTile128x128")
SMALL = Cut("register_tile", torch.float32, "AsyncTile64x64")
DOUBLE = Cut("mma_tile", torch.float64, "Fp64Tile128x128")
DOUBLE_SMALL = Cut("mma_tile", torch.float64, "Fp64Tile64x64")
TILES = (LARGE, SMALL, DOUBLE, DOUBLE_SMALL)
# The sizes that are tried, of a number that grows until stream-K is possible.
KINDS = {
    "a short chain": lambda s: (s, s, 776),
    "a long chain": lambda s: (s, s, s + 5),
    "at C's edge": lambda s: (s - 20, s - 20, 1032),
}
each_tile = pytest.mark.parametrize("cut", TILES, ids=str)
CASES = [(cut, kind) for cut in TILES for kind in KINDS]
each_case = pytest.mark.parametrize(("cut", "kind"), CASES, ids=[f"{c} {k}" for c, k in CASES])


def whole(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The same bits by another rung."""
    return torch.ops.tiled.mm(a, b, algo="shared_tile_16")


@each_case
def test_tiles_cut_in_time_are_equal_to_whole_ones(cut: Cut, kind: str) -> None:
    pairs = cut.two_pairs(*cut.size(kind))
    ways = cut.ways(*pairs[0][:2])
    for way in ways * 3:  # at once after each other
        for a, b, expected in pairs:
            assert_equal(cut.mm(a, b, way), expected, (way, kind))
    count = 0
    for name, _ in laid_out(pairs[0][0]):
        for other, _ in laid_out(pairs[0][1]):
            for a, b, expected in pairs:
                x, y = dict(laid_out(a))[name], dict(laid_out(b))[other]
                for way in cut.ways(x, y):
                    count += 1
                    assert_equal(cut.mm(x, y, way), expected, (name, other, way))
    assert count > 4


@each_tile
def test_what_becomes_of_a_cut_tile(cut: Cut) -> None:
    """A bias and an activation; by the way that the rung takes, everything, and results that lie
    anyhow."""
    m, n, k = cut.size("a long chain")
    normal = cut.normal
    a, b = normal(m, k), normal(k, n)
    op = torch.ops.tiled_debug.mm_with_epilogue
    asked = {"bias": normal(1, n)[0], "activation": "gelu", "pre_activation": True}
    right, right_pre_activation = op(a, b, algo="shared_tile_16", **asked)
    for way in cut.ways(a, b):
        got, pre_activation = torch.ops.tiled_debug.finished_with_tile(
            a, b, *way, algo=cut.algo, **asked
        )
        assert epilogues.same_bits(got, right), way
        assert epilogues.same_bits(pre_activation, right_pre_activation), way
    everything = {"input": normal(m, n), "alpha": 0.7, "beta": -1.3}
    everything |= {"activation": "gelu", "pre_activation": True}
    for asked in (
        {"bias": normal(1, n)[0], "activation": "silu"},
        {"bias": normal(1, m)[0], "bias_along": "m", **everything},
        {"bias": normal(1, n)[0], **everything},
    ):
        right, right_pre_activation = op(a, b, algo="shared_tile_16", **asked)
        got, pre_activation = op(a, b, algo=cut.algo, **asked)
        assert epilogues.same_bits(got, right), asked.keys()
        if "pre_activation" in asked:
            assert epilogues.same_bits(pre_activation, right_pre_activation), asked.keys()
    right = whole(a, b)
    for name, memory, out in cases.outputs(m, n, cut.dtype):
        tiled_mm.mm(a, b, algo=cut.algo, out=out)
        assert_equal(out, right, name)
        assert cases.is_untouched_outside(memory, out), name


@pytest.mark.parametrize(
    ("cut", "resident"),
    [(LARGE, 2), (DOUBLE, 1), (DOUBLE_SMALL, 2)],
    ids=["fp32", "fp64", "fp64 of two a multiprocessor"],
)
def test_tiles_cut_in_time_beside_a_kernel_that_holds_half_of_the_chip(
    cut: Cut, resident: int
) -> None:
    """Half of the blocks start when the others have ended, in an order that nobody promises."""
    chip = torch.cuda.get_device_properties(0).multi_processor_count
    pairs = cut.two_pairs(*cut.size("at C's edge", least=resident * chip))
    way = cut.ways(*pairs[0][:2])[0]
    with half_of_the_chip_held():
        results = [cut.mm(a, b, way) for _ in range(50) for a, b, _ in pairs]
        for i, c in enumerate(results):
            assert_equal(c, pairs[i % 2][2], i)


@each_tile
def test_tiles_cut_in_time_in_a_graph(cut: Cut) -> None:
    """Each replay finds the flags of the one before."""
    m, n, k = cut.size("a short chain")
    a, b = cut.normal(m, k), cut.normal(k, n)
    way = cut.ways(a, b)[0]
    cut.mm(a, b, way)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = cut.mm(a, b, way)
    for _ in range(20):
        a.copy_(cut.normal(m, k))
        c.fill_(torch.nan)
        graph.replay()
        assert_equal(c, whole(a, b), "replay")


# More tiles than multiprocessors or fewer, whole and at C's edge; K of several lengths.
NAMED = ((1600, 1600, 264), (1601, 1537, 333), (2300, 1100, 63), (1000, 1056, 100), (70, 4000, 515))


@each("size", NAMED)
def test_every_way_of_fp64_by_name(size: tuple[int, int, int]) -> None:
    m, n, k = size
    pairs = DOUBLE.two_pairs(m, n, k)
    if "mma_tile" not in tiled_mm.algos(*pairs[0][:2]):
        pytest.skip("no kernel of mma_tile for this GPU")
    for name, _ in laid_out(pairs[0][0]):
        for a, b, expected in pairs:
            x, y = dict(laid_out(a))[name], dict(laid_out(b))[name]
            for way in rungs.ways_of(x, y, "mma_tile"):
                c = torch.ops.tiled_debug.mm_with_tile(x, y, *way, algo="mma_tile")
                assert_equal(c, expected, (name, way))
