"""Tiles of precision='fp16x3' whose sums one cluster of blocks begins and another ends
(ops/cuda/plan/stream_k.h): the bits of whole tiles, in whatever order the blocks start."""

from __future__ import annotations

import functools
import itertools
import math

import cases
import epilogues
import fp16x3
import pytest
import tiled_mm
import torch
from cases import each, laid_out
from fp16x3 import DATA, NAN, mm, normal, with_tile
from golden import assert_equal
from half_chip import half_of_the_chip_held
from rungs import DEEP

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]

WHOLE = (cases.PLANE_TILES[0], False, 1, 1)


def is_cut(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(tiled_mm.plan(a, b, precision="fp16x3").get("stream_k"))


@functools.cache
def cut_size() -> int:
    """Where every tile is cut by name, in every cluster."""
    return cases.parts_cut_size()


@functools.cache
def planned_size(k: int) -> int:
    """Where the planner cuts by itself."""
    for s in range(640, 6145, 64):
        if is_cut(torch.empty(s, k, device="cuda"), torch.empty(k, s, device="cuda")):
            return s
    pytest.skip("no product is by stream-K on this GPU")


def two_pairs(m: int, n: int, k: int, data: str = "normal") -> list[tuple[torch.Tensor, ...]]:
    """Two problems with their products, run in turn, so that one's sums are wrong where the other's
    are missed."""
    pairs = [(DATA[data](m, k), DATA[data](k, n)) for _ in range(2)]
    return [(a, b, with_tile(a, b, *WHOLE)) for a, b in pairs]


# A short K and a long one, C's edge on every side of a tile, and a K of no whole number of steps.
@each("data", tuple(DATA))
@each("size", ((0, 0, 256), (0, 0, 1029), (-20, -44, 515), (-127, -1, 4104)))
def test_cut_tiles_are_equal_to_whole_ones(data: str, size: tuple) -> None:
    m, n, k = cut_size() + size[0], cut_size() + size[1], size[2]
    ways = cases.parts_cut_ways(m, n)
    assert {way[0] for way in ways} == set(cases.PLANE_TILES)
    assert {way[2:] for way in ways} == {(1, 1), (2, 1), (1, 2)}
    pairs = two_pairs(m, n, k, data)
    for way in ways:
        for a, b, expected in (*pairs, *pairs):
            assert_equal(with_tile(a, b, *way, cut=True), expected, way)


def test_the_least_that_is_cut() -> None:
    """Steps of 64 of K from one on, most of them too few to be worth handing over."""
    s = cut_size()
    for k in (64, 65, 128, 192, 250, 320, 384):
        pairs = two_pairs(s, s, k)
        for way in cases.parts_cut_ways(s, s):
            for a, b, expected in pairs:
                assert_equal(with_tile(a, b, *way, cut=True), expected, (k, way))


def test_operands_that_lie_anyhow() -> None:
    m, n, k = cut_size(), cut_size() - 60, 331
    a, b, expected = two_pairs(m, n, k)[0]
    ways = itertools.cycle(cases.parts_cut_ways(m, n))
    others = dict(laid_out(b))
    for name, x in laid_out(a):
        for other, y in others.items():
            way = next(ways)
            assert_equal(with_tile(x, y, *way, cut=True), expected, (name, other, way))


def test_elements_that_the_guard_computes_again() -> None:
    """In whole tiles, in cut ones, and in first parts: rows and columns all over C, of which the
    parts lose all but one element; and NaN, which stays in its row."""
    s, k = cut_size(), 700
    a, b = normal(s, k), normal(k, s)
    lost_rows, lost_columns = slice(3, s, 97), slice(5, s, 89)
    a[lost_rows, 9], b[9] = 1e20, 0
    b[650, lost_columns], a[:, 650] = 1e20, 0
    a[7, 11] = NAN
    again = fp16x3.again(a, b)
    for way in cases.parts_cut_ways(s, s):
        c = with_tile(a, b, *way, cut=True)
        assert_equal(c, with_tile(a, b, *WHOLE), way)
        assert_equal(c[lost_rows], again[lost_rows], way)
        assert_equal(c[8:, lost_columns], again[8:, lost_columns], way)
        assert c[7].isnan().all() and c.isnan().sum() == s
    assert fp16x3.recomputed(a, b) > s * len(range(s)[lost_rows])


def test_what_the_planner_cuts() -> None:
    """Its own choice, by itself: C anywhere in memory, and beside rows, which are few of it."""
    for k in (520, 1536):
        s = planned_size(k)
        a, b, expected = two_pairs(s, s, k)[0]
        assert_equal(mm(a, b), expected, "planned")
        assert_equal(mm(a[:20], b), expected[:20], "few rows")
        for name, memory, out in cases.outputs(s, s, torch.float32):
            mm(a, b, out=out)
            assert_equal(out, expected, name)
            assert cases.is_untouched_outside(memory, out), name


def test_what_becomes_of_a_cut_tile() -> None:
    """Everything that an epilogue has, beside the same of a few rows."""
    k = 1029
    s = planned_size(k)
    a, b = normal(s, k), normal(k, s)
    a[5, 9] = 1e20  # a row that the guard computes again
    op = torch.ops.tiled_debug.mm_with_epilogue
    everything = {"alpha": 0.7, "beta": -1.3, "activation": "gelu", "pre_activation": True}
    whole = {"bias": normal(s), "input": normal(s, s), **everything}
    assert is_cut(a, b)
    got, pre_activation = op(a, b, precision="fp16x3", **whole)
    for rows in (slice(0, 9), slice(700, 732), slice(s - 16, s)):
        few = {**whole, "input": whole["input"][rows]}
        right, right_pre_activation = op(a[rows], b, precision="fp16x3", **few)
        assert epilogues.same_bits(got[rows], right), rows
        assert epilogues.same_bits(pre_activation[rows], right_pre_activation), rows


def test_batches() -> None:
    """Tiles of all entries are laid end to end: a cut lies in any of them."""
    k = 600
    chip = torch.cuda.get_device_properties(0).multi_processor_count
    side = 128 * 3
    entries = next(n for n in range(chip // 9, chip) if chip < 9 * n < chip * 3 // 2)
    a, b = normal(entries, side, k), normal(entries, k, side)
    a[1] *= 1e10
    ways = cases.parts_cut_ways(side, side, entries)
    assert ways
    for x, y in ((a, b), (a.mT.contiguous().mT, b), (a, b[1:2].expand_as(b))):
        expected = [with_tile(x[i], y[i], *WHOLE) for i in range(entries)]
        for way in ways:
            c = with_tile(x, y, *way, cut=True)
            for i in range(entries):
                assert_equal(c[i], expected[i], (i, way))


def test_cut_tiles_beside_a_kernel_that_holds_half_of_the_chip() -> None:
    """Half of the clusters start when the others have ended, in an order that nobody promises."""
    s = cut_size()
    pairs = two_pairs(s, s, 515)
    ways = cases.parts_cut_ways(s, s)
    results = []
    with half_of_the_chip_held():
        for way in ways * math.ceil(60 / len(ways)):
            for a, b, expected in pairs:
                results.append((way, with_tile(a, b, *way, cut=True), expected))
        for way, c, expected in results:
            assert_equal(c, expected, way)


def test_cut_tiles_in_a_graph() -> None:
    """Each replay finds the flags of the one before."""
    s = cut_size()
    ways = cases.parts_cut_ways(s, s)
    a, b = normal(s, 515), normal(515, s)
    with_tile(a, b, *WHOLE, cut=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [with_tile(a, b, *way, cut=True) for way in ways]
    for _ in range(20):
        a.copy_(torch.randn_like(a))
        b[7] *= -3
        for c in results:
            c.fill_(NAN)
        graph.replay()
        expected = with_tile(a, b, *WHOLE)
        for way, c in zip(ways, results, strict=True):
            assert_equal(c, expected, way)


def test_what_is_not_cut() -> None:
    """Tiles that divide among the clusters, and a K of several segments."""
    a, b = normal(128, 200), normal(200, 128)
    deep = normal(cut_size(), DEEP), normal(DEEP, cut_size())
    for x, y in ((a, b), deep):
        with pytest.raises(RuntimeError, match="has no way"):
            with_tile(x, y, *WHOLE, cut=True)
