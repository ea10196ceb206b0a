"""precision='fp16x3': fp32's error bound from fp16 tensor cores, on any data, and one answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import cases
import gates
import pytest
import tiled_mm
import torch
from cases import column_major, each, laid_out
from golden import assert_equal, assert_same_bits

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]

LEAST_K = 64  # below it everything is computed by fma chains
DEEP = 9 * 4096 + 8  # K that is cut, into nine segments and a short one
INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def free_memory() -> Iterator[None]:
    """Some of these matrices are large, and several processes may run tests side by side."""
    yield
    torch.cuda.empty_cache()


def mm(a: torch.Tensor, b: torch.Tensor, **keywords) -> torch.Tensor:
    return tiled_mm.mm(a, b, precision="fp16x3", **keywords)


def ieee(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return tiled_mm.mm(a, b, precision="ieee")


def again(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The bits of elements that the guard computes again: fp64, in chains of 64."""
    total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64, device=a.device)
    for x, y in zip(a.double().split(64, 1), b.double().split(64, 0), strict=True):
        total += tiled_mm.mm(x, y)
    return total.float() + 0.0  # zeros are positive


def recomputed(a: torch.Tensor, b: torch.Tensor) -> int:
    return int(tiled_mm.fp16x3_recomputed(a, b))


def pair(m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    return cases.pair(m, n, k, torch.float32, "cuda")


def normal(*size: int) -> torch.Tensor:
    """Made on the GPU, for large matrices."""
    return torch.randn(*size, device="cuda")


# ---- data ---------------------------------------------------------------------------------------


def huge_in_each_row(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, x.shape[1] // 3] = 1e15
    return x


# name -> a matrix whose rows are hard, of standard normal numbers (fp64). All products of two of
# these are numbers of fp32.
HARD: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "normal": lambda x: x,
    "exp 4": lambda x: x * torch.exp(4 * torch.randn_like(x)),
    "exp 8": lambda x: x * torch.exp(8 * torch.randn_like(x)),
    "softmax": lambda x: torch.softmax(4 * x, -1),
    "sharp softmax": lambda x: torch.softmax(20 * x, -1),
    "gelu": lambda x: torch.nn.functional.gelu(4 * x),
    "one huge": huge_in_each_row,
    "sparse": lambda x: torch.where(torch.rand_like(x) < 0.02, x, 0.0),
    "zeros": lambda x: torch.zeros_like(x),
}
# Those at the ends of the range.
EXTREME = {
    "1e37": lambda x: 1e37 * x,  # the largest about 5e37
    "1e-38": lambda x: 1e-38 * x,
    "subnormal": lambda x: 1e-40 * x,
    "least subnormal": lambda x: 2.0**-149 * torch.sign(x),
}


def hard(name: str, rows: int, k: int) -> torch.Tensor:
    x = (HARD | EXTREME)[name](torch.randn(rows, k, dtype=torch.float64))
    return x.float().cuda()


def check_hard(name_a: str, name_b: str, m: int, n: int, k: int) -> None:
    a, b = hard(name_a, m, k), hard(name_b, n, k).t()
    try:
        gates.check_elements(mm(a, b), a, b, "fp16x3")
    except AssertionError as error:
        raise AssertionError(f"{name_a} x {name_b}, K = {k}: {error}") from error


# ---- which arithmetic ---------------------------------------------------------------------------


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
    for algo in (*cases.RUNGS["cuda"], *cases.TENSOR_RUNGS):
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


# ---- the gates ----------------------------------------------------------------------------------

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


# ---- NaN and Inf, and what else is computed again -----------------------------------------------


@each("size", ((136, 72, 100), (72, 264, 64), (300, 333, 515), (24, 16, DEEP), (5, 72, 4200)))
def test_nan_and_infinity(size: tuple) -> None:
    """As IEEE has them; other rows and columns keep their bits."""
    m, n, k = size
    a, b = pair(m, n, k)
    b[k - 1, 1] = 0
    clean = mm(a, b)
    for special in (NAN, INF, -INF):
        x, y = a.clone(), b.clone()
        x[m - 1, k - 1] = special
        y[0, n - 1] = special
        c = mm(x, y)
        gates.check_elements(c, x, y, "fp16x3")
        assert c[m - 1, 1].isnan(), "0 Inf"
        exact = again(x, y)
        assert_equal(c[:-1, :-1], clean[:-1, :-1])
        assert_same_bits(c[-1], exact[-1])
        assert_same_bits(c[:, -1], exact[:, -1])
        assert recomputed(x, y) == m + n - 1
        # One row of many.
        x, row = a.clone(), m // 2
        x[row, k // 2] = special
        c = mm(x, b)
        assert_equal(drop(c, row), drop(clean, row))
        assert_same_bits(c[row], again(x, b)[row])
        assert recomputed(x, b) == n
    x = a.clone()
    x[:, 0] = INF
    x[:, 1] = -INF
    assert_same_bits(mm(x, b), again(x, b))
    assert recomputed(x, b) == m * n


def drop(x: torch.Tensor, row: int) -> torch.Tensor:
    return torch.cat([x[:row], x[row + 1 :]])


def test_infinite_and_nan_everywhere() -> None:
    for special in (NAN, INF):
        a, b = pair(70, 90, 100)
        a[:, 17] = special
        c = mm(a, b)
        assert_same_bits(c, again(a, b))
    a, b = torch.full((70, 64), INF, device="cuda"), torch.ones(64, 90, device="cuda")
    assert (mm(a, b) == INF).all() and (mm(-a, b) == -INF).all()
    assert mm(a, 0 * b).isnan().all()


def test_elements_computed_again_have_the_bits_of_fp64_and_their_neighbours_keep_theirs() -> None:
    """Rows and columns of every tile and square that lose all beside one huge element."""
    for m, n, k in ((136, 72, 300), (300, 333, 515), (257, 130, DEEP), (300, 9, 515)):
        a, b = pair(m, n, k)
        b[5] = 0
        rows = torch.arange(m, device="cuda") % 37 == 11
        without = mm(a, b)
        x = torch.where(rows[:, None] & (torch.arange(k, device="cuda") == 5), 1e30, a)
        c = mm(x, b)
        assert_same_bits(c[rows], again(x, b)[rows])
        assert_same_bits(c[~rows], without[~rows])
        assert recomputed(x, b) == int(rows.sum()) * n
        # The other way round: columns, computed again for all rows.
        c = mm(b.t(), x.t())
        assert_same_bits(c[:, rows], again(b.t(), x.t())[:, rows])
        assert_same_bits(c[:, ~rows], mm(b.t(), a.t())[:, ~rows])


def test_an_element_that_cancels_is_computed_again_alone() -> None:
    """Lost parts are measured by the element itself: they are seen where it is small."""
    m, n, k = 130, 140, 256
    a, b = pair(m, n, k)
    a[:, 0] = 2.0**12  # so that the elements below 2^-16 lose something
    a[3, 1:] *= 2.0**-19
    c = mm(a, b)
    assert recomputed(a, b) == 0
    # Column 8 makes a zero of row 3's large element.
    b[0, 8] = 0
    found = mm(a, b)
    assert recomputed(a, b) == 1
    assert_same_bits(found[3, 8], again(a, b)[3, 8])
    assert_same_bits(drop(found.t(), 8), drop(c.t(), 8))
    gates.check_elements(found, a, b, "fp16x3")


def test_the_share_that_is_computed_again() -> None:
    """None of normal data, and next to none of what networks have; the host does not wait for the
    count."""
    a, b = normal(4096, 4096), normal(4096, 4096)
    assert recomputed(a, b) == 0
    for name in ("softmax", "gelu"):
        x, y = hard(name, 1024, 1024), hard("normal", 512, 1024).t()
        assert recomputed(x, y) < 1e-5 * 1024 * 512, name
    count = tiled_mm.fp16x3_recomputed(a, b)
    assert count.dtype == torch.int64 and count.shape == () and count.device == a.device
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        counts = [tiled_mm.fp16x3_recomputed(a[:i], b) for i in (1, 100, 1000)]
        counts.append(tiled_mm.fp16x3_recomputed(a[:, :5], b[:5]))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert [int(count) for count in counts] == [0, 0, 0, 4096**2]


def test_the_count_of_a_batch_and_of_nothing() -> None:
    a, b = normal(5, 70, 100), normal(5, 100, 90)
    a[2, 3, 4] = NAN
    b[4, 0] = INF
    assert recomputed(a, b) == 90 + 70 * 90
    assert recomputed(a[:0], b[:0]) == 0
    assert recomputed(a[0, :0], b[0]) == 0
    with pytest.raises(RuntimeError, match="for float32 inputs"):
        tiled_mm.fp16x3_recomputed(a.double(), b.double())
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        tiled_mm.fp16x3_recomputed(a[0], b[0, 1:])


# ---- one answer ---------------------------------------------------------------------------------

# (N, K): one chain and several, and K that is not a multiple of 8.
SIZES = ((4096, 4096), (1000, 4096 + 8), (264, DEEP), (72, 32768), (77, 515))
ROWS = (1, 2, 3, 7, 8, 9, 16, 17, 25, 32, 33, 64, 100, 128, 129, 1000)  # up to 32 by FewRows
# Of the second some elements are computed again.
DATA = {"normal": normal, "hard": lambda *size: normal(*size) * torch.exp(6 * normal(*size))}


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


# ---- every way to run it ------------------------------------------------------------------------

TILED_SIZES = (
    *((264, 520, 200), (333, 259, 515), (1024, 776, 4104), (100, 72, 9000), (1, 300, 64)),
    *((1024, 776, DEEP), (100, 72, DEEP - 3), (16, 300, 4104), (200, 9, DEEP)),
)


def with_tile(a: torch.Tensor, b: torch.Tensor, *way) -> torch.Tensor:
    return torch.ops.tiled.mm_with_tile(a, b, *way, False, precision="fp16x3")


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
            assert {way[0] for way in ways} == {*cases.PLANE_TILES, *cases.DIRECT_TILES}
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
                if way[0] in cases.DIRECT_TILES:
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
        with pytest.raises(RuntimeError, match=f"fp16x3 has no way {tile}"):
            with_tile(a, b, tile, False, p, q)
    with pytest.raises(RuntimeError, match="no way"):
        torch.ops.tiled.mm_with_tile(a, b, plane, False, 1, 1, True, precision="fp16x3")
    # TMA cannot read rows that are 65 elements apart.
    odd = normal(64, 65)[:, :64]
    with pytest.raises(RuntimeError, match=f"fp16x3 has no way {direct}"):
        with_tile(odd, b, direct, False, 1, 1)
    assert_equal(with_tile(odd, b, direct, True, 1, 1), mm(odd, b), "B lies well")


# ---- where the result goes ----------------------------------------------------------------------


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


# ---- streams, graphs, threads -------------------------------------------------------------------


@each(
    "size",
    ((1000, 776, 4608), (333, 515, 1029), (64, 264, DEEP), (1000, 776, DEEP), (5, 1100, 4608)),
)
def test_100_repeats_under_load_from_another_stream(size: tuple) -> None:
    m, n, k = size
    a, b = DATA["hard"](m, k), DATA["hard"](k, n)
    expected = mm(a, b)
    load = normal(4096, 4096).bfloat16()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(60):
            torch.mm(load, load)
    for c in [mm(a, b) for _ in range(100)]:
        assert_equal(c, expected)


def test_graphs() -> None:
    sizes = ((136, 264, 64), (67, 45, 131), (64, 72, DEEP), (600, 1100, 4608), (67, 45, 21))
    sizes += ((5, 264, 515), (264, 16, DEEP))
    pairs = [pair(*size) for size in sizes]
    for a, b in pairs:  # as torch asks: once before it is captured
        mm(a, b)
        tiled_mm.fp16x3_recomputed(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [(mm(a, b), tiled_mm.fp16x3_recomputed(a, b)) for a, b in pairs]
    for special in (0.5, NAN, INF):
        for a, b in pairs:
            a.copy_(torch.randn_like(a))
            b.copy_(torch.randn_like(b))
            a[1, 2] = special
        for c, _ in results:
            c.fill_(NAN)
        graph.replay()
        for (a, b), (c, count) in zip(pairs, results, strict=True):
            assert_equal(c, mm(a, b))
            again = c.shape[1] if special != 0.5 else 0
            assert int(count) == (again if a.shape[1] >= LEAST_K else c.numel())


@each("size", ((136, 264, DEEP), (300, 200, 512), (67, 45, 21), (7, 264, 4608), (264, 1, DEEP)))
def test_the_current_stream_is_used(size: tuple) -> None:
    """Operands that are written late on a side stream: kernels that start early, in the shadow of
    the one before, must wait for it before they read or write."""
    a, b = pair(*size)
    expected = mm(a, b)
    late_a, late_b = a.clone(), b.clone()
    out = torch.zeros_like(expected)
    a.fill_(NAN)
    b.fill_(NAN)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(cases.SLEEP // 10)
        a.copy_(late_a)
        b.copy_(late_b)
        c = mm(a, b)
        mm(a, b, out=out)
    side.synchronize()
    assert_equal(c, expected)
    assert_equal(out, expected)


# (rows, K of one product and N of the other, the other way round)
@each("size", ((136, 136, 136), (131, 131, 131), (500, 4608, 2048), (72, DEEP, 72), (7, 300, 500)))
def test_a_chain_of_products(size: tuple) -> None:
    """Each reads what the one before wrote, and writes what the one before read. Workspaces are
    handed on from call to call."""
    rows, k, n = size
    x = normal(rows, k) / k**0.5
    x[3, 5] = 1e20  # a row that is computed again, with all that follow from it
    there, back = normal(k, n) / k**0.5, normal(n, k) / n**0.5
    expected = x
    for _ in range(3):
        for weight in (there, back):
            expected = mm(expected, weight)
            torch.cuda.synchronize()
    for _ in range(5):
        y, z = x.clone(), torch.empty(rows, n, device="cuda")
        for _ in range(3):
            mm(y, there, out=z)
            mm(z, back, out=y)
        assert_equal(y, expected)


def test_several_streams_and_threads_at_once() -> None:
    sizes = ((200, 152, 300), (5, 450, 131), (64, 72, DEEP), (600, 1100, 4608))
    pairs = [(DATA["hard"](m, k), DATA["hard"](k, n)) for m, n, k in sizes]
    expected = [mm(a, b) for a, b in pairs]
    torch.cuda.synchronize()
    cases.in_threads_and_streams(lambda i: mm(*pairs[i]), expected)


HOLD = r"""
extern "C" __global__ void hold(int milliseconds) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (now - begin < 1000000ull * milliseconds);
}"""


def test_blocks_that_share_rows_do_not_wait_for_ever_where_a_third_kernel_holds_the_gpu() -> None:
    """Rows beside each other are split by teams of up to 32 blocks. Two streams do so at once while
    a third one's kernel has the shared memory of all multiprocessors but four, which hold 16
    blocks; and both end long before that kernel."""
    a, b = normal(2048, 1000).t(), normal(2048, 776)  # both by teams
    a[3, 5] = 1e20
    # Clusters would wait for multiprocessors beside each other.
    way = (cases.PLANE_TILES[0], False, 1, 1)
    expected = with_tile(a, b, *way)
    hold = torch.cuda._compile_kernel(HOLD, "hold")
    shared = 200 * 1024
    hold.set_shared_memory_config(shared)
    held_by = torch.cuda.get_device_properties(0).multi_processor_count - 4
    torch.cuda.synchronize()
    holder, *streams = (torch.cuda.Stream() for _ in range(3))
    with torch.cuda.stream(holder):
        hold(grid=(held_by, 1, 1), block=(32, 1, 1), args=[1000], shared_mem=shared)
        held = torch.cuda.Event()
        held.record()
    results, ends = [], []
    for stream in streams:
        with torch.cuda.stream(stream):
            results.append([with_tile(a, b, *way) for _ in range(3)])
            ends.append(torch.cuda.Event())
            ends[-1].record()
    for end in ends:
        end.synchronize()
    assert not held.query(), "they waited for the kernel that held the GPU"
    torch.cuda.synchronize()
    for c in itertools.chain(*results):
        assert_equal(c, expected)


def test_threads_that_have_not_used_the_gpu_before() -> None:
    """They have no CUDA context yet, which the encoding of a tensor map asks for."""
    a, b = pair(136, 264, 64)
    expected = mm(a, b)
    out = torch.empty_like(expected)
    torch.cuda.synchronize()
    with ThreadPoolExecutor(1) as fresh:
        fresh.submit(lambda: mm(a, b, out=out)).result()
    torch.cuda.synchronize()
    assert_equal(out, expected)


def test_the_host_does_not_wait() -> None:
    a, b = (x.requires_grad_() for x in pair(67, 72, DEEP - 4))
    out = torch.empty(67, 72, device="cuda")

    def calls() -> None:
        mm(a, b).sum().backward()
        with torch.no_grad():
            mm(a, b, out=out)
            tiled_mm.bmm(a[None], b[None], precision="fp16x3")
            tiled_mm.fp16x3_recomputed(a, b)

    cases.assert_the_host_does_not_wait(calls)


def test_no_memory_but_the_result_and_the_workspace() -> None:
    def asked_for(call) -> tuple[int, int]:
        """How often memory was asked for, and bytes of it."""
        names = ("allocation.all.allocated", "requested_bytes.all.allocated")
        before = torch.cuda.memory_stats()
        kept = call()
        after = torch.cuda.memory_stats()
        del kept
        return tuple(after[name] - before[name] for name in names)

    for m, n, k in ((67, 45, 131), (300, 200, 512), (67, 45, DEEP), (67, 45, 21), (5, 200, 512)):
        a, b = pair(m, n, k)
        a[3, 4] = NAN
        for x, y in ((a, b), (column_major(a), b), (cases.in_a_hole(a, 2, 3), column_major(b))):
            workspace = tiled_mm.plan(x, y, precision="fp16x3").workspace_bytes
            assert (workspace > 0) == (k >= LEAST_K)
            times = 1 if workspace else 0
            out = torch.empty(m, n, device="cuda")
            found = asked_for(lambda x=x, y=y: mm(x, y))
            assert found == (1 + times, out.nbytes + workspace)
            found = asked_for(lambda x=x, y=y, out=out: mm(x, y, out=out))
            assert found == (times, workspace)


# ---- gradients, the compiler --------------------------------------------------------------------


def leaves(m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    a, b = (x.requires_grad_() for x in pair(m, n, k))
    return a, b, cases.fill(m, n, torch.float32, "cuda")


@each("keywords", ({"precision": "fp16x3"}, {"algo": "fp16x3"}))
def test_gradients_run_the_same_arithmetic(keywords: dict) -> None:
    a, b, g = leaves(130, 140, 300)
    c = tiled_mm.mm(a, b, **keywords)
    grad_a, grad_b = torch.autograd.grad(c, (a, b), g, retain_graph=True)
    ones = torch.ones_like(g)
    sum_a, sum_b = torch.autograd.grad(c.sum(), (a, b))
    with torch.no_grad():
        assert_equal(c, mm(a, b))
        assert_equal(grad_a, mm(g, b.t()))
        assert_equal(grad_b, mm(a.t(), g))
        assert_equal(sum_a, mm(ones, b.t()))  # the expanded gradient of sum()
        assert_equal(sum_b, mm(a.t(), ones))
        assert not torch.equal(grad_a, ieee(g, b.t()))
        gates.check_random(grad_a, g, b.t(), "fp16x3")
        gates.check_random(grad_b, a.t(), g, "fp16x3")


def test_gradients_keep_the_precision_of_the_forward() -> None:
    a, b, g = leaves(130, 140, 300)
    with tiled_mm.float32_precision("fp16x3"):
        c = tiled_mm.mm(a, b)
    exact = tiled_mm.mm(a, b)
    grads = torch.autograd.grad(c, (a, b), g)
    with tiled_mm.float32_precision("fp16x3"):
        exact_grads = torch.autograd.grad(exact, (a, b), g)
    with torch.no_grad():
        for found, exact_found, x, y in zip(
            grads, exact_grads, (g, a.t()), (b.t(), g), strict=True
        ):
            assert_equal(found, mm(x, y))
            assert_equal(exact_found, ieee(x, y))


def test_second_and_forward_derivatives() -> None:
    a, b, g = leaves(70, 80, 90)
    g.requires_grad_()
    (grad_a,) = torch.autograd.grad(mm(a, b), a, g, create_graph=True)
    (second,) = torch.autograd.grad(grad_a, g, a)
    with torch.no_grad():
        assert_equal(second, mm(a, b))
    with torch.no_grad(), torch.autograd.forward_ad.dual_level():
        tangent = normal(70, 90)
        dual = torch.autograd.forward_ad.make_dual(a.detach(), tangent)
        found = torch.autograd.forward_ad.unpack_dual(mm(dual, b)).tangent
        assert_equal(found, mm(tangent, b))


def test_a_linear_layer_of_any_batch() -> None:
    """Forward, and the gradient of the input, of slices of a batch."""
    x, weight, gradient = normal(1000, 1032), normal(1032, 776), normal(1000, 776)

    def layer(rows: slice) -> tuple[torch.Tensor, torch.Tensor]:
        part = x[rows].clone().requires_grad_()
        y = mm(part, weight)
        return y.detach(), *torch.autograd.grad(y, part, gradient[rows])

    y, grad_x = layer(slice(None))
    for rows in (1, 2, 3, 7, 16, 64, 100, 129, 999):
        for begin in (0, 1000 - rows):
            part = slice(begin, begin + rows)
            found_y, found_x = layer(part)
            assert_equal(found_y, y[part], part)
            assert_equal(found_x, grad_x[part], part)


def test_autocast_leaves_it_alone() -> None:
    a, b = pair(70, 80, 90)
    expected = mm(a, b)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert_equal(mm(a, b), expected)


@each("backend", ("aot_eager", "inductor"))
def test_compiled(backend: str) -> None:
    def products(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        return [
            mm(a, b),
            tiled_mm.mm(a, b, algo="fp16x3"),
            tiled_mm.bmm(a[None], b[None], precision="fp16x3"),
            torch.ops.tiled.mm(b.t(), a.t(), precision="fp16x3"),
        ]

    def gradients(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return mm(a, b).sum()

    torch._dynamo.reset()
    try:
        compiled = torch.compile(products, fullgraph=True, dynamic=True, backend=backend)
        loss = torch.compile(gradients, fullgraph=True, dynamic=True, backend=backend)
        for i, size in enumerate(((70, 80, 90), (133, 66, 121), (70, 90, 67))):
            a, b, _ = leaves(*size)
            with torch.compiler.set_stance("fail_on_recompile" if i else "default"):
                with torch.no_grad():
                    found = compiled(a, b)
                grads = torch.autograd.grad(loss(a, b), (a, b))
            with torch.no_grad():
                expected = products(a, b)
            for x, y in zip(found, expected, strict=True):
                assert_equal(x, y)
                assert x.stride() == y.stride()
            expected = torch.autograd.grad(gradients(a, b), (a, b))
            for x, y in zip(grads, expected, strict=True):
                assert_equal(x, y)
    finally:
        torch._dynamo.reset()


def test_a_compiled_function_follows_the_setting() -> None:
    a, b = pair(70, 80, 90)
    torch._dynamo.reset()
    compiled = torch.compile(tiled_mm.mm, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        assert_equal(compiled(a, b), ieee(a, b))
        with tiled_mm.float32_precision("fp16x3"):
            assert_equal(compiled(a, b), mm(a, b))
    torch._dynamo.reset()
