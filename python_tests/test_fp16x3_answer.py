"""precision='fp16x3', one answer: rows and columns, batches, layouts, sizes, and where C goes."""

from __future__ import annotations

import itertools

import cases
import gates
import pytest
import tiled_mm
import torch
from cases import column_major, each, laid_out
from fp16x3 import (
    DATA,
    INF,
    NAN,
    again,
    mm,
    normal,
    pair,
    recomputed,
)
from golden import assert_equal, assert_same_bits
from rungs import DEEP

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]


# ---- one answer ----------------------------------------------------------------------------------


# (N, K): one chain and several, and K that is not a multiple of 8.
SIZES = ((4096, 4096), (1000, 4096 + 8), (264, DEEP), (72, 32768), (77, 515))
ROWS = (1, 2, 3, 7, 8, 9, 16, 17, 25, 32, 33, 64, 100, 128, 129, 1000)  # up to 32 by FewRows


@each("data", tuple(DATA))
@each("size", SIZES)
def test_rows_of_a_large_batch(size: tuple[int, int], data: str) -> None:
    n, k = size
    a, b = DATA[data](4096, k), DATA[data](k, n)
    c = mm(a, b)
    for rows in ROWS:
        for begin in (0, 1237, 4096 - rows):
            part = slice(begin, begin + rows)
            assert_equal(mm(a[part], b), c[part], (rows, begin))
    assert_equal(mm(a[5::41], b), c[5::41], "every 41st row")


@each("data", tuple(DATA))
@each("size", SIZES)
def test_columns_of_a_large_matrix(size: tuple[int, int], data: str) -> None:
    m, k = size
    a, b = DATA[data](m, k), DATA[data](k, 4096)
    c = mm(a, b)
    for columns in ROWS:
        for begin in (0, 1237, 4096 - columns):
            part = slice(begin, begin + columns)
            assert_equal(mm(a, b[:, part]), c[:, part], (columns, begin))
    assert_equal(mm(a, b[:, 5::41]), c[:, 5::41], "every 41st column")


def test_the_data_of_these_tests_is_computed_again_in_part() -> None:
    a, b = DATA["hard"](1000, 515), DATA["hard"](515, 777)
    assert 0 < recomputed(a, b) < 777_000


@each("size", ((128, 515), (96, 9000), (40, DEEP)))
def test_batches(size: tuple[int, int]) -> None:
    """bmm and vmap, an operand shared or not, in every layout that vmap may meet."""
    n, k = size
    a, b = normal(6, 40, k), normal(6, k, n)
    a[1, 3, 5], b[4, 6, 7] = NAN, INF
    expected = [mm(a[i], b[i]) for i in range(6)]
    shared = [mm(a[i], b[0]) for i in range(6)]
    for x in (a, a.mT.contiguous().mT, a.transpose(0, 1).contiguous().transpose(0, 1)):
        for y in (b, b.mT.contiguous().mT, b.transpose(0, 2).contiguous().transpose(0, 2)):
            c = tiled_mm.bmm(x, y, precision="fp16x3")
            mapped = torch.vmap(mm)(x, y)
            for i in range(6):
                assert_equal(c[i], expected[i], f"entry {i}")
                assert_equal(mapped[i], expected[i], f"entry {i} of vmap")
        c = tiled_mm.bmm(x, b[:1].expand(6, k, n), precision="fp16x3")
        mapped = torch.vmap(mm, (0, None))(x, b[0])
        for i in range(6):
            assert_equal(c[i], shared[i], f"entry {i}, B shared")
            assert_equal(mapped[i], shared[i], f"entry {i} of vmap, B shared")
    mapped = torch.vmap(mm, (None, 0))(a[0], b)
    c = tiled_mm.bmm(a[:1].expand(6, 40, k), b, precision="fp16x3")
    for i in range(6):
        assert_equal(mapped[i], mm(a[0], b[i]), f"entry {i} of vmap, A shared")
        assert_equal(c[i], mapped[i], f"entry {i}, A shared")


LAID_OUT_SIZES = (
    *((67, 45, 131), (64, 128, 256), (200, 136, 4104), (1, 96, 515), (96, 1, 64)),
    *((72, 40, DEEP), (3, 5, DEEP - 4), (67, 45, 21), (16, 40, 4104)),
)


@each("size", LAID_OUT_SIZES)
def test_all_layouts_are_equal(size: tuple) -> None:
    """Of data of which some elements are computed again: what is lost has no order."""
    m, n, k = size
    a, b = DATA["hard"](m, k), DATA["hard"](k, n)
    expected = mm(a, b)
    for (name_a, x), (name_b, y) in itertools.product(laid_out(a), laid_out(b)):
        assert_equal(mm(x, y), expected, (name_a, name_b))


@each("name", ("row_expanded", "col_expanded", "all_expanded", "overlapping"))
def test_operands_whose_elements_share_memory(name: str) -> None:
    for m, n, k in ((67, 45, 131), (64, 128, 256), (40, 72, DEEP)):
        make = cases.LAYOUTS[name]
        a, b = make(m, k, torch.float32, "cuda"), make(k, n, torch.float32, "cuda")
        plain_a, plain_b = a.contiguous().clone(), b.contiguous().clone()
        expected = mm(plain_a, plain_b)
        gates.check_elements(expected, a, b, "fp16x3")
        for x, y in ((a, b), (a, plain_b), (plain_a, b)):
            assert_equal(mm(x, y), expected, (m, n, k))


def test_small_and_odd_sizes() -> None:
    sizes = itertools.product((1, 2, 7, 8, 65, 136), (1, 3, 8, 63, 264), (1, 5, 64, 72, 131))
    for m, n, k in sizes:
        a, b = pair(m, n, k)
        c = mm(a, b)
        gates.check_elements(c, a, b, "fp16x3")
        assert_equal(mm(column_major(a), column_major(b)), c, (m, n, k))


@each("shape", cases.EMPTY_SHAPES)
def test_empty(shape: tuple) -> None:
    m, n, k = shape
    a, b = pair(m, n, k)
    zeros = torch.zeros(m, n, device="cuda")
    assert_same_bits(mm(a, b), zeros)
    out = cases.hole(m, n, torch.float32, "cuda")
    mm(a, b, out=out)
    assert_same_bits(out, zeros)
    batch = tiled_mm.bmm(a[None].expand(3, m, k), b[None].expand(3, k, n), precision="fp16x3")
    assert_same_bits(batch, torch.zeros(3, m, n, device="cuda"))


@each("step", (2**30 + 4, 2**30 + 5))
def test_rows_more_than_4_gib_apart(step: int) -> None:
    """The memory between them is never touched."""
    free = torch.cuda.mem_get_info()[0]
    if free < 12 * step:
        pytest.skip(f"needs {12 * step / 2**30:.0f} GiB of memory, {free / 2**30:.0f} are free")
    a, b = pair(3, 40, 72)
    a[1, 5] = NAN
    expected = mm(a, b)
    memory = torch.empty(2 * step + 128, device="cuda")
    far = memory.as_strided((3, 72), (step, 1)).copy_(a)
    assert_equal(mm(far, b), expected)
    assert_equal(mm(b.t(), far.t()), mm(b.t(), a.t()))
    out = memory.as_strided((3, 40), (step, 1))
    out.fill_(NAN)
    mm(a, b, out=out)
    assert_equal(out, expected)


# ---- where the result goes -----------------------------------------------------------------------


@each("size", ((67, 45, 131), (136, 264, 64), (129, 200, DEEP), (1, 264, 64), (264, 1, 72)))
def test_out(size: tuple) -> None:
    m, n, k = size
    a, b = pair(m, n, k)
    a[m // 2, 3] = INF
    expected = mm(a, b)
    for name, whole, out in cases.outputs(m, n, torch.float32):
        mm(a, b, out=out)
        assert_equal(out, expected, name)
        assert cases.is_untouched_outside(whole, out), f"{name}: written outside of out"
        if m == 67:
            mm(a[:, :21], b[:21], out=out)
            assert_equal(out, again(a[:, :21], b[:21]), name)
            assert cases.is_untouched_outside(whole, out), f"{name}: written outside of out"


def test_nothing_around_a_new_result_is_written() -> None:
    """Results in a pool of canaries: each is one of many slices of the same memory."""
    a, b = pair(200, 136, 72)
    expected = mm(a, b)
    memory = cases.hole(16, 200 * 136 + 64, torch.float32, "cuda")
    for i in range(0, 16, 2):
        out = memory[i, 32 : 32 + 200 * 136].view(200, 136)
        mm(a, b, out=out)
        assert_equal(out, expected)
    edges = torch.cat([memory[::2, :32], memory[::2, 32 + 200 * 136 :]], 1)
    assert edges.isnan().all() and memory[1::2].isnan().all()


def test_an_output_that_held_what_it_is_computed_from() -> None:
    a = normal(200, 200)
    expected = mm(a, a)
    mm(a, a, out=a)
    assert_equal(a, expected)
