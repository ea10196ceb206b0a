"""Tiles whose chain of K one cluster of blocks begins and another ends (plan/wrap_around.h): the
bits of whole tiles, in whatever order the blocks start."""

from __future__ import annotations

import itertools

import pytest
import tiled_mm
import torch
from cases import column_major, each
from golden import assert_equal
from tensor_cores import asked, each_dtype, mm, normal

CLUSTERS = ((1, 1), (2, 1), (1, 2))

# Tiles of 128 x 128 are one more than an H200's multiprocessors, or 1.5 or 2.7 times as many.
SIZES = ((896, 2432, 1544), (1800, 1790, 520), (2304, 2560, 264))
# Likewise of 128 x 256, and of both in a batch's place: K beyond a few rounds of any ring.
LARGER_SIZES = ((896, 4864, 1032), (4104, 4104, 2056))


def cut_ways(a: torch.Tensor, b: torch.Tensor) -> list[tuple]:
    """Those of hopper's ways that cut tiles in time."""
    estimates = tiled_mm.plan(a, b, algo="hopper", **asked(a.dtype)).hopper.estimates
    ways = itertools.product(sorted(e.tile for e in estimates), (False, True), CLUSTERS)
    return [(tile, *way) for tile, *way in ways if call(a, b, (tile, *way)) is not None]


def call(a: torch.Tensor, b: torch.Tensor, way: tuple, **keywords) -> torch.Tensor | None:
    """The product in this way, tiles cut in time; None if there is none such."""
    tile, exchanged, (p, q) = way
    try:
        return torch.ops.tiled_debug.mm_with_tile(
            a, b, tile, exchanged, p, q, False, wraps_around=True, **asked(a.dtype), **keywords
        )
    except RuntimeError as error:
        if f"no way {tile}" in str(error):
            return None
        raise


@pytest.mark.cuda
@pytest.mark.tensor_cores
@each("size", SIZES + LARGER_SIZES)
@each_dtype
def test_tiles_cut_in_time_are_equal_to_whole_ones(dtype: torch.dtype, size: tuple) -> None:
    """Two problems in turn, so that one's accumulators are wrong where the other's are missed."""
    m, n, k = size
    pairs = []
    for _ in range(2):
        a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
        pairs.append((a, b, mm(a, b, "mma_tile", out_dtype=torch.float32)))
    for turn in (lambda x: x, column_major):
        ways = cut_ways(turn(pairs[0][0]), turn(pairs[0][1]))
        assert len(ways) > 10
        for way in ways:
            for out_dtype in {dtype, torch.float32}:
                for a, b, expected in pairs:
                    c = call(turn(a), turn(b), way, out_dtype=out_dtype)
                    assert_equal(c, expected.to(out_dtype), way)


@pytest.mark.cuda
@pytest.mark.tensor_cores
@each_dtype
def test_tiles_cut_in_time_beside_a_kernel_that_holds_half_of_the_chip(dtype: torch.dtype) -> None:
    """Half of the blocks start when the others have ended, in an order that nobody promises."""
    m, n, k = SIZES[0]
    pairs = [(normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)) for _ in range(2)]
    expected = [mm(a, b, "mma_tile") for a, b in pairs]
    ways = cut_ways(*pairs[0])
    half = torch.cuda.get_device_properties(0).multi_processor_count // 2
    # As many tiles of 128 x 256, each for a few hundred microseconds.
    x = normal(128 * half, 30000, dtype=torch.bfloat16)
    y = normal(30000, 256, dtype=torch.bfloat16)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(60):
            torch.ops.tiled_debug.mm_with_tile(x, y, "Coop128x256", False, 1, 1, False)
    results = [call(*pairs[i % 2], ways[i % len(ways)]) for i in range(300)]
    for i, c in enumerate(results):
        assert_equal(c, expected[i % 2], ways[i % len(ways)])
    side.synchronize()


@pytest.mark.cuda
@pytest.mark.tensor_cores
@each_dtype
def test_tiles_cut_in_time_in_a_graph(dtype: torch.dtype) -> None:
    """Each replay finds the flags of the one before."""
    m, n, k = SIZES[1]
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    ways = cut_ways(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [call(a, b, way) for way in ways]
    for _ in range(5):
        a.copy_(normal(m, k, dtype=dtype))
        for c in results:
            c.fill_(torch.nan)
        graph.replay()
        expected = mm(a, b, "mma_tile")
        for way, c in zip(ways, results, strict=True):
            assert_equal(c, expected, way)
