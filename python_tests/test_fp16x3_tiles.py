"""Every way to run precision='fp16x3' gives the same bits."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import cases
import pytest
import tiled_mm
import torch
from cases import column_major, each
from fp16x3 import (
    DATA,
    EXTREME,
    HARD,
    INF,
    NAN,
    mm,
    normal,
    pair,
    with_tile,
)
from golden import assert_equal
from rungs import DEEP

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]


TILED_SIZES = (
    *((264, 520, 200), (333, 259, 515), (1024, 776, 4104), (100, 72, 9000), (1, 300, 64)),
    *((1024, 776, DEEP), (100, 72, DEEP - 3), (16, 300, 4104), (200, 9, DEEP)),
)


@each("size", TILED_SIZES)
def test_every_tile_exchange_and_cluster_is_equal(size: tuple) -> None:
    """And equal to the kernel of few rows, which is the planner's choice for some of the sizes."""
    m, n, k = size
    a, b = DATA["hard"](m, k), DATA["hard"](k, n)
    a[0, 3] = NAN
    expected = mm(a, b)
    for x, y in ((a, b), (column_major(a), column_major(b)), (a, column_major(b))):
        ways = cases.parts_ways(x, y)
        if not m % 4 and not n % 4 and not k % 4:
            every = {*cases.PLANE_TILES, *cases.DIRECT_TILES, *cases.ASYNC_TILES}
            assert {way[0] for way in ways} == every
        for way in ways:
            assert_equal(with_tile(x, y, *way), expected, way)


def one_late(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, -1] = 1e15
    return x


def growing(x: torch.Tensor, binades: float) -> torch.Tensor:
    return x * 2 ** torch.linspace(-binades, 0, x.shape[1], dtype=x.dtype)


# Rows for whose scale their first elements tell too little, or none is right at all.
LATE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    **HARD,
    **EXTREME,
    "one late": one_late,
    "first of all": lambda x: one_late(x).flip(1),
    "growing": lambda x: growing(x, 60),
    "growing slowly": lambda x: growing(x, 6),
    "growing fast": lambda x: growing(x, 200),
    "falling": lambda x: growing(x, 60).flip(1),
    "spread": lambda x: x * 2 ** (80 * torch.rand_like(x) - 40),
    "zeros first": lambda x: torch.where(torch.arange(x.shape[1]) < x.shape[1] - 1, 0.0, x),
    "alternating": lambda x: x * torch.where(torch.arange(x.shape[1]) // 64 % 2 == 0, 1.0, 1e-9),
    "tiny": lambda x: 2.0**-95 * x,
    "huge": lambda x: 2.0**75 * x,
    "negative zeros": lambda x: torch.full_like(x, -0.0),
    "infinity": lambda x: torch.where(torch.arange(x.shape[1]) == x.shape[1] // 2, INF, x),
    "nan last": lambda x: torch.where(torch.arange(x.shape[1]) == x.shape[1] - 1, NAN, x),
}
LATE_SIZES = (
    *((200, 72, 300), (64, 64, 64), (132, 136, 1000), (36, 260, 4100), (72, 40, DEEP)),
    *((68, 8, 100), (264, 200, 2048), (300, 64, 32768)),
)


def late(name: str, rows: int, k: int) -> torch.Tensor:
    return LATE[name](torch.randn(rows, k, dtype=torch.float64)).float().cuda()


def assert_all_ways_are_equal(a: torch.Tensor, b: torch.Tensor, what: object) -> None:
    """In all layouts, and the other way round."""
    for x, y in ((a, b), (b.t(), a.t())):
        expected = with_tile(x, y, cases.PLANE_TILES[0], False, 1, 1)
        for u, v in itertools.product((x, column_major(x)), (y, column_major(y))):
            for way in cases.parts_ways(u, v):
                if way[0] not in cases.PLANE_TILES:
                    assert_equal(with_tile(u, v, *way), expected, (what, way, u.stride()))


@each("size", LATE_SIZES)
def test_scales_that_are_known_late(size: tuple) -> None:
    """A row's scale is that of its largest element, however late it comes."""
    rows, columns, k = size
    b = DATA["hard"](k, columns)
    b[:, ::3] = normal(k, columns)[:, ::3]
    every = torch.cat([late(name, 1, k) for name in LATE])
    # All kinds in each tile; and one alone, in the last tile and in the first.
    assert_all_ways_are_equal(every.repeat(rows // len(LATE) + 1, 1)[:rows], b, "all")
    for name, row in zip(LATE, every, strict=True):
        if k >= 32768 and name not in ("one late", "growing", "spread", "nan last"):
            continue  # fewer where each product takes long
        for at in (rows - 1, 9):
            a = normal(rows, k)
            a[at] = row
            assert_all_ways_are_equal(a, b, (name, at))


@each("k", (64, 100, 128, 192, 260, 1000))
def test_small_elements_before_the_largest(k: int) -> None:
    """An element about as far below the largest as a scale may tell, in every step, and the largest
    in every step; the next scales differ by a few binades."""
    b = normal(k, 64)
    steps = range(0, k, 64)
    for growth in (0, 1, 2, 7, 20):
        rows = []
        for at, largest in itertools.product(steps, steps):
            x = (1 + torch.rand(16, k)) * torch.randint(0, 2, (16, k)).mul(2).sub(1)
            x[:, at + 1] *= 2.0 ** (growth - torch.arange(20.0, 36.0))
            x[:, min(largest + 3, k - 1)] = 2.0**growth * 1.5
            rows.append(x)
        assert_all_ways_are_equal(torch.cat(rows).cuda(), b, growth)


def test_many_tiles_a_block() -> None:
    m, n, k = 64 * 132 * 40 + 4, 64, 192
    a, b = normal(m, k), normal(k, n)
    for at in (5, 64 * 132 * 34 + 70, m - 1):
        a[at] = late("one late", 1, k)[0]
    expected = with_tile(a, b, cases.PLANE_TILES[0], False, 1, 1)
    for way in ((cases.DIRECT_TILES[0], False, *cluster) for cluster in ((1, 1), (2, 1), (1, 2))):
        assert_equal(with_tile(a, b, *way), expected, way)


def test_batches_whose_scales_are_known_late() -> None:
    """Each entry by itself, and one that all share."""
    for m, n, k in ((256, 64, 1000), (64, 128, 300), (72, 260, DEEP)):
        a, b = normal(4, m, k), normal(4, k, n)
        a[1] = late("growing", m, k)
        a[2, m - 3] = late("one late", 1, k)[0]
        b[3] = late("spread", n, k).t()
        for x, y in ((a, b), (a.mT.contiguous().mT, b), (a, b.mT.contiguous().mT)):
            c = tiled_mm.bmm(x, y, precision="fp16x3")
            shared = tiled_mm.bmm(x[1:2].expand(4, m, k), y, precision="fp16x3")
            for i in range(4):
                plane = (cases.PLANE_TILES[0], False, 1, 1)
                assert_equal(c[i], with_tile(x[i], y[i], *plane), (m, i))
                assert_equal(shared[i], with_tile(x[1], y[i], *plane), (m, i, "shared"))


def test_a_way_that_does_not_exist_is_refused() -> None:
    a, b = pair(64, 64, 64)
    plane, direct = cases.PLANE_TILES[0], cases.DIRECT_TILES[0]
    for tile, p, q in (("NoSuchTile", 1, 1), (plane, 3, 1), ("Tile128x128", 1, 1)):
        with pytest.raises(RuntimeError, match=f"has no way {tile}"):
            with_tile(a, b, tile, False, p, q)
    with pytest.raises(RuntimeError, match="no way"):
        torch.ops.tiled_debug.mm_with_tile(a, b, plane, False, 1, 1, True, precision="fp16x3")
    # TMA cannot read rows that are 65 elements apart.
    odd = normal(64, 65)[:, :64]
    with pytest.raises(RuntimeError, match=f"has no way {direct}"):
        with_tile(odd, b, direct, False, 1, 1)
    assert_equal(with_tile(odd, b, direct, True, 1, 1), mm(odd, b), "B lies well")
