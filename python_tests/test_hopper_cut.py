"""Rung hopper's tiles whose chain of K one cluster of blocks begins and another ends
(ops/cuda/parts/wrap_around.h): the bits of whole tiles, in whatever order the blocks start."""

from __future__ import annotations

import math

import pytest
import torch
from cases import column_major, each, laid_out
from golden import assert_equal
from half_chip import half_of_the_chip_held
from tensor_cores import cut_ways, each_dtype, mm, mm_cut, normal

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]

# Tiles of 128 x 128 are one more than an H200's multiprocessors, or 1.5 or 2.7 times as many; a K
# of a few steps, and of no whole number of them.
SIZES = ((896, 2432, 1544), (1800, 1790, 520), (2304, 2560, 264))
# Likewise of larger tiles; K beyond a few rounds of any ring.
LARGER_SIZES = ((896, 4864, 1032), (4104, 4104, 2056))


def two_pairs(m: int, n: int, k: int, dtype: torch.dtype) -> list[tuple[torch.Tensor, ...]]:
    """Two problems with their products, run in turn, so that one's accumulators are wrong where the
    other's are missed."""
    pairs = [(normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)) for _ in range(2)]
    return [(a, b, mm(a, b, "mma_tile", out_dtype=torch.float32)) for a, b in pairs]


@each("size", SIZES + LARGER_SIZES)
@each_dtype
def test_cut_tiles_are_equal_to_whole_ones(dtype: torch.dtype, size: tuple) -> None:
    pairs = two_pairs(*size, dtype)
    tiles = set()
    for turn in (lambda x: x, column_major):
        for way in cut_ways(turn(pairs[0][0]), turn(pairs[0][1])):
            tiles.add(way[0])
            for out_dtype in {dtype, torch.float32}:
                for a, b, expected in pairs:
                    c = mm_cut(turn(a), turn(b), way, out_dtype=out_dtype)
                    assert_equal(c, expected.to(out_dtype), way)
    assert len(tiles) >= 5, tiles


@each_dtype
def test_the_least_that_is_cut(dtype: torch.dtype) -> None:
    """Steps of 64 of K from one on, most of them too few to be worth handing over."""
    for k in (64, 65, 128, 320, 512, 576):
        pairs = two_pairs(1800, 1790, k, dtype)
        ways = cut_ways(*pairs[0][:2])
        assert ways
        for way in ways:
            for a, b, expected in pairs:
                assert_equal(mm_cut(a, b, way), expected.to(dtype), (k, way))


def test_operands_and_results_that_lie_anyhow() -> None:
    m, n, k = SIZES[0]
    a, b, expected = two_pairs(m, n, k - 3, torch.bfloat16)[0]
    others = dict(laid_out(b))
    count = 0
    for name, x in laid_out(a):
        for other, y in others.items():
            ways = cut_ways(x, y)
            way = ways[count % len(ways)]
            count += 1
            assert_equal(mm_cut(x, y, way), expected.bfloat16(), (name, other, way))
    assert count > 4


@each_dtype
def test_cut_tiles_beside_a_kernel_that_holds_half_of_the_chip(dtype: torch.dtype) -> None:
    """Half of the clusters start when the others have ended, in an order that nobody promises."""
    pairs = two_pairs(*SIZES[0], dtype)
    ways = cut_ways(*pairs[0][:2])
    results = []
    with half_of_the_chip_held():
        for way in ways * math.ceil(500 / len(ways)):
            results += [(way, mm_cut(a, b, way), expected) for a, b, expected in pairs]
        for way, c, expected in results:
            assert_equal(c, expected.to(dtype), way)


@each_dtype
def test_cut_tiles_in_a_graph(dtype: torch.dtype) -> None:
    """Each replay finds the flags of the one before."""
    m, n, k = SIZES[1]
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    ways = cut_ways(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [mm_cut(a, b, way) for way in ways]
    for _ in range(5):
        a.copy_(normal(m, k, dtype=dtype))
        for c in results:
            c.fill_(torch.nan)
        graph.replay()
        expected = mm(a, b, "mma_tile")
        for way, c in zip(ways, results, strict=True):
            assert_equal(c, expected, way)


def test_what_is_not_cut() -> None:
    """Tiles of which there are no more than clusters."""
    a, b = normal(256, 512, dtype=torch.bfloat16), normal(512, 256, dtype=torch.bfloat16)
    with pytest.raises(RuntimeError, match="no way Coop128x128"):
        mm_cut(a, b, ("Coop128x128", False, 1, 1, True))
