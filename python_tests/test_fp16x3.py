"""precision='fp16x3': fp32's error bound from fp16 tensor cores, on any data."""

from __future__ import annotations

import itertools

import cases
import gates
import pytest
import rungs
import tiled_mm
import torch
from cases import column_major, each
from fp16x3 import (
    DATA,
    HARD,
    INF,
    again,
    check_hard,
    hard,
    ieee,
    mm,
    normal,
    pair,
    recomputed,
)
from golden import assert_equal, assert_same_bits
from rungs import DEEP

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]


# ---- which arithmetic ----------------------------------------------------------------------------


def test_how_it_is_asked_for() -> None:
    a, b = pair(70, 90, 300)
    c, exact = mm(a, b), ieee(a, b)
    assert not torch.equal(c, exact), "with so many terms they differ"
    assert tiled_mm.plan(a, b, precision="fp16x3").algo == "fp16x3"
    assert tiled_mm.algos(a, b, precision="fp16x3") == ["fp16x3"]
    assert_same_bits(tiled_mm.mm(a, b), exact)
    assert_same_bits(tiled_mm.mm(a, b, algo="fp16x3"), c)
    assert_same_bits(mm(a, b, algo="fp16x3"), c)
    with tiled_mm.float32_precision("fp16x3"):
        assert_same_bits(tiled_mm.mm(a, b), c)
        assert_same_bits(ieee(a, b), exact)
        # A rung of the fma arithmetic is more exact than the setting asks for.
        assert_same_bits(tiled_mm.mm(a, b, algo="register_tile"), exact)
    with tiled_mm.float32_precision("tf32"):
        assert_same_bits(tiled_mm.mm(a, b, algo="fp16x3"), c)
    for algo in (*rungs.RUNGS["cuda"], *rungs.TENSOR_RUNGS):
        with pytest.raises(RuntimeError, match=f"'{algo}' is not for these inputs.*fp16x3"):
            mm(a, b, algo=algo)
    for precision in ("ieee", "tf32"):
        with pytest.raises(RuntimeError, match="'fp16x3' is not for these inputs"):
            tiled_mm.mm(a, b, algo="fp16x3", precision=precision)
    for dtype in (torch.float64, torch.bfloat16, torch.int32):
        x, y = cases.pair(70, 90, 300, dtype, "cuda")
        with pytest.raises(RuntimeError, match="'fp16x3' is not for these inputs"):
            tiled_mm.mm(x, y, algo="fp16x3")
        with pytest.raises(RuntimeError, match="'fp16x3' is for float32 inputs"):
            mm(x, y)


def test_a_short_k_is_computed_in_fp64() -> None:
    for k in (0, 1, 2, 15, 16, 17, 63):
        for m, n in ((1, 1), (67, 45), (130, 200)):
            for name in ("normal", "exp 8", "subnormal"):
                a, b = hard(name, m, k) if k else normal(m, 0), hard("normal", n, k).t()
                assert_same_bits(mm(a, b), again(a, b), f"{m} x {n} x {k}, {name}")
                assert recomputed(a, b) == m * n
    assert recomputed(normal(3, 5, 63), normal(3, 63, 7)) == 3 * 5 * 7
    a, b = pair(67, 45, 64)
    assert not torch.equal(mm(a, b), again(a, b)) and recomputed(a, b) == 0


# ---- the gates -----------------------------------------------------------------------------------


EVERY_K = (
    *(1, 2, 7, 15, 16, 31, 63, 64, 65, 100, 127, 128, 129, 300, 1000, 4096, 4097, 12289),
    *(32767, 32768, DEEP + 1, 131072),
)


@each("k", EVERY_K)
def test_random_data(k: int) -> None:
    a, b = pair(40, 48, k)
    c = mm(a, b)
    gates.check_elements(c, a, b, "fp16x3")
    gates.check_random(c, a, b, "fp16x3")
    x, y = a[:3], b[:, :5]
    gates.check_elements(mm(x, y), x, y, "fp16x3")


@each("size", ((136, 264, 4608), (1000, 520, 1000), (300, 200, 8192)))
def test_random_data_of_many_tiles(size: tuple) -> None:
    a, b = pair(*size)
    for x, y in ((a, b), (column_major(a), column_major(b))):
        c = mm(x, y)
        gates.check_elements(c, a, b, "fp16x3")
        gates.check_random(c, a, b, "fp16x3")


@each("name", tuple(HARD))
def test_hard_data(name: str) -> None:
    for other in HARD:
        for m, n, k in ((70, 90, 300), (5, 7, 64), (33, 40, 2049)):
            check_hard(name, other, m, n, k)
    check_hard(name, "normal", 9, 11, DEEP + 1)
    check_hard(name, name, 9, 11, 16384)


# Pairs whose products are numbers of fp32, some of them subnormal, and some too small for that.
EXTREME_PAIRS = (
    *(("1e37", other) for other in ("1e-38", "subnormal", "least subnormal", "softmax", "zeros")),
    *(("1e-38", other) for other in ("normal", "exp 4", "exp 8", "softmax", "gelu", "1e-38")),
    *(("subnormal", other) for other in ("normal", "exp 8", "one huge", "sparse", "subnormal")),
    *(("least subnormal", other) for other in ("normal", "exp 8", "softmax", "least subnormal")),
)


@each("names", EXTREME_PAIRS)
def test_the_ends_of_the_range(names: tuple[str, str]) -> None:
    for m, n, k in ((70, 90, 300), (5, 7, 64), (33, 40, 2049)):
        check_hard(*names, m, n, k)
        check_hard(*reversed(names), m, n, k)


@each("k", (2, 40, 63, 64, 300, DEEP + 1))
def test_sums_up_to_the_largest_number_do_not_overflow_on_the_way(k: int) -> None:
    """Only what is beyond the largest number, 3.4e38, in the end is infinite; however short K."""
    half = k // 2
    for m, n in ((70, 90), (5, 90), (90, 5)):
        a = torch.full((m, k), 1e38, device="cuda")
        b = torch.full((k, n), 2.0, device="cuda")
        if k > 2:
            assert (mm(a, b) == INF).all() and (mm(-a, b) == -INF).all()
        b[half : 2 * half], b[2 * half :] = -2, 0
        c = mm(a, b)  # 0, from 1e38 k
        gates.check_elements(c, a, b, "fp16x3")
        b[0], b[1:half], b[half:] = 2, 1 / k, 0
        c = mm(a, b)  # 2e38 and, at most, half as much
        gates.check_elements(c, a, b, "fp16x3")
        assert c.isfinite().all()


def test_results_at_the_largest_number() -> None:
    """An element is infinite only where the product's value rounds to that."""
    largest = torch.finfo(torch.float32).max
    a, b = torch.zeros(70, 64, device="cuda"), torch.zeros(64, 90, device="cuda")
    a[:, :2], b[:2] = 2.0**127, 1
    b[2] = 1
    # The largest number; what rounds to it; and what does not, but for the error that is allowed.
    for size, found in ((104, {largest}), (103.1, {largest}), (102, {largest, INF})):
        a[:, 2] = -(2.0**size)
        for x, y in ((a, b), (a[:5], b), (b.t(), a.t())):
            assert set(mm(x, y).unique().tolist()) <= found, size
            assert set(mm(-x, y).unique().tolist()) <= {-value for value in found}, size
    a[:, 2] = 2.0**109  # beyond any doubt
    for x, y in ((a, b), (a[:5], b), (b.t(), a.t())):
        assert (mm(x, y) == INF).all() and (mm(-x, y) == -INF).all()


def test_one_huge_element_that_meets_a_zero() -> None:
    """The scale of a row is its largest element's, here one that adds nothing to any sum: all else
    of the row is lost beside it."""
    for huge in (1e6, 1e10, 1e20, 1e38):
        a, b = pair(70, 90, 300)
        a[:, 7] = huge
        b[7] = 0
        c = mm(a, b)
        gates.check_elements(c, a, b, "fp16x3")
        gates.check_elements(mm(b.t(), a.t()), b.t(), a.t(), "fp16x3")
        if huge >= 1e20:
            assert recomputed(a, b) == c.numel()
            assert_same_bits(c, again(a, b), f"{huge}")


def test_huge_against_tiny_so_that_every_product_is_lost() -> None:
    """A's row is huge where B's column is tiny, and the other way round: each product counts alike,
    and of each one factor is far below its row's largest."""
    for ratio in (1e3, 1e6, 1e9, 1e12, 1e18):
        a, b = pair(70, 90, 512)
        a[:, ::2] *= ratio
        b[1::2] *= ratio
        c = mm(a, b)
        gates.check_elements(c, a, b, "fp16x3")
        if ratio >= 1e12:
            assert recomputed(a, b) == c.numel()
        # And where all that is large in A meets zeros: its small elements alone make the result.
        b[::2] = 0
        gates.check_elements(mm(a, b), a, b, "fp16x3")


def test_integers_up_to_2_11_are_exact() -> None:
    """One part holds 11 bits; sums below 2^24 need no rounding in any order."""
    for m, n, k in ((70, 90, 64), (130, 200, 1000), (33, 40, 4096), (9, 11, 4000)):
        a = torch.randint(-(2**11), 2**11 + 1, (m, k), device="cuda").float()
        b = torch.randint(-1, 2, (k, n), device="cuda").float()
        b[:, ::7] = 0
        for x, y in ((a, b), (b.t(), a.t())):
            exact = x.double() @ y.double()
            assert exact.abs().max() < 2**24
            assert torch.equal(mm(x, y).double(), exact)
            assert torch.equal(mm(x * 2.0**40, y * 2.0**-70).double(), exact * 2.0**-30)


def test_zero_results_are_positive() -> None:
    for k in (64, 72, 4104, DEEP):
        zeros = torch.full((136, k), -0.0, device="cuda")
        ones = torch.ones(k, 136, device="cuda")
        for a, b in ((zeros, ones), (zeros, -ones), (-ones.t(), -zeros.t()), (zeros, zeros.t())):
            assert_same_bits(mm(a, b), torch.zeros(136, 136, device="cuda"))
    # Results too small for a number, of either sign; also beside larger ones that meet zeros.
    for size in (2.0**-76, 2.0**-80, 2.0**-100, 2.0**-149):
        for larger in (0, 2.0**-46, 1):
            a, b = torch.zeros(70, 64, device="cuda"), torch.zeros(64, 90, device="cuda")
            a[:, 3], b[3] = size, -size
            a[:, 4], b[5] = larger, larger
            for x, y in ((a, b), (-a, b), (b.t(), a.t())):
                zeros = torch.zeros(x.shape[0], y.shape[1], device="cuda")
                assert_same_bits(mm(x, y), zeros, f"{size} beside {larger}")


# ---- sizes, and where C goes; test_tensor_cores.py has the rest of one answer --------------------


def test_the_data_of_these_tests_is_computed_again_in_part() -> None:
    a, b = DATA["hard"](1000, 515), DATA["hard"](515, 777)
    assert 0 < recomputed(a, b) < 777_000


def test_small_and_odd_sizes() -> None:
    sizes = itertools.product((1, 2, 7, 8, 65, 136), (1, 3, 8, 63, 264), (1, 5, 64, 72, 131))
    for m, n, k in sizes:
        a, b = pair(m, n, k)
        c = mm(a, b)
        gates.check_elements(c, a, b, "fp16x3")
        assert_equal(mm(column_major(a), column_major(b)), c, (m, n, k))


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


def test_an_output_that_held_what_it_is_computed_from() -> None:
    a = normal(200, 200)
    expected = mm(a, a)
    mm(a, a, out=a)
    assert_equal(a, expected)
