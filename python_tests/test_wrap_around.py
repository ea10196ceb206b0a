"""Tiles whose chain of K one block begins and another ends (ops/cuda/parts/wrap_around.h): the bits
of whole tiles, in whatever order the blocks start."""

from __future__ import annotations

import pytest
import tiled_mm
import torch
from cases import each, laid_out
from golden import assert_equal

# Tiles of 128 x 128 are 1.5 times as many as an H200 runs at once, two on a multiprocessor; 6.1
# times, some at C's edge; and a few more than it has multiprocessors.
SIZES = ((2560, 2560, 264), (5100, 5100, 520), (1536, 1536, 1541))


def cut(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the planner has tiles cut in time."""
    return tiled_mm.plan(a, b, algo="register_tile").wraps_around


def mm(a: torch.Tensor, b: torch.Tensor, algo: str = "register_tile") -> torch.Tensor:
    return torch.ops.tiled.mm(a, b, algo=algo)


def normal(rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, columns, device="cuda")


@pytest.mark.cuda
@each("size", SIZES)
def test_tiles_cut_in_time_are_equal_to_whole_ones(size: tuple) -> None:
    """Two problems in turn, so that one's accumulators are wrong where the other's are missed."""
    m, n, k = size
    pairs = []
    for _ in range(2):
        a, b = normal(m, k), normal(k, n)
        pairs.append((a, b, mm(a, b, "shared_tile_16")))
    some = 0
    for name, _ in laid_out(pairs[0][0]):
        for other, _ in laid_out(pairs[0][1]):
            for a, b, expected in pairs:
                x, y = dict(laid_out(a))[name], dict(laid_out(b))[other]
                some += cut(x, y)
                assert_equal(mm(x, y), expected, (name, other))
    assert some > 4


@pytest.mark.cuda
def test_an_epilogue_behind_a_cut_tile() -> None:
    m, n, k = SIZES[1]
    a, b, bias = normal(m, k), normal(k, n), normal(1, n)[0]
    keywords = {"bias": bias, "activation": "gelu"}
    op = torch.ops.tiled_debug.mm_with_epilogue
    assert cut(a, b)
    expected, _ = op(a, b, algo="shared_tile_16", **keywords)
    assert_equal(op(a, b, algo="register_tile", **keywords)[0], expected, "gelu")


@pytest.mark.cuda
def test_tiles_cut_in_time_beside_a_kernel_that_holds_half_of_the_chip() -> None:
    """Half of the blocks start when the others have ended, in an order that nobody promises."""
    m, n, k = SIZES[0]
    pairs = [(normal(m, k), normal(k, n)) for _ in range(2)]
    expected = [mm(a, b, "shared_tile_16") for a, b in pairs]
    assert cut(*pairs[0])
    half = torch.cuda.get_device_properties(0).multi_processor_count // 2
    x, y = normal(64 * half, 20000), normal(20000, 64)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(100):
            mm(x, y)
    results = [mm(*pairs[i % 2]) for i in range(200)]
    for i, c in enumerate(results):
        assert_equal(c, expected[i % 2], i)
    side.synchronize()


@pytest.mark.cuda
def test_tiles_cut_in_time_in_a_graph() -> None:
    """Each replay finds the flags of the one before."""
    m, n, k = SIZES[1]
    a, b = normal(m, k), normal(k, n)
    assert cut(a, b)
    mm(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = mm(a, b)
    for _ in range(20):
        a.copy_(normal(m, k))
        c.fill_(torch.nan)
        graph.replay()
        assert_equal(c, mm(a, b, "shared_tile_16"), "replay")
