"""The tensor-core rungs: one answer for bf16, fp16 and tf32, whatever stands beside an element, and
however the operands and the result lie."""

from __future__ import annotations

import functools
import itertools
import subprocess
import sys
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

# Inputs that run on tensor cores: float32 does where it asks for tf32.
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
each_dtype = each("dtype", DTYPES)
EVERY_RUNG = (None, *cases.TENSOR_RUNGS)
ANY_LAYOUT = (None, *cases.ANY_LAYOUT_TENSOR_RUNGS)


# K that is cut, into nine segments and a short one: from 32768 on, at multiples of 4096. All less
# is one chain, as which 4104, 4608 and 9000 are here.
DEEP = 9 * 4096 + 8


@pytest.fixture(autouse=True)
def free_memory() -> Iterator[None]:
    """Some of these matrices are large, and several processes may run tests side by side."""
    yield
    torch.cuda.empty_cache()


def asked(dtype: torch.dtype) -> dict:
    """The keywords with which inputs of this dtype run on tensor cores."""
    return {"precision": "tf32"} if dtype == torch.float32 else {}


def arithmetic(dtype: torch.dtype) -> str:
    return "tf32" if dtype == torch.float32 else "tensor"


def mm(a: torch.Tensor, b: torch.Tensor, algo: str | None = None, **keywords) -> torch.Tensor:
    return tiled_mm.mm(a, b, algo=algo, **asked(a.dtype), **keywords)


def rungs_for(a: torch.Tensor, b: torch.Tensor) -> list[str]:
    """The tensor-core rungs that take these operands."""
    found = tiled_mm.algos(a, b, **asked(a.dtype))
    return [name for name in found if name in cases.TENSOR_RUNGS]


def hopper_with_totals(a: torch.Tensor, b: torch.Tensor) -> Callable:
    """hopper, its blocks going through all of K: the totals of a deep one in the workspace."""
    tile = tiled_mm.plan(a, b, algo="hopper", **asked(a.dtype)).hopper.estimates[0].tile
    return lambda x, y: torch.ops.tiled_debug.mm_with_tile(
        x, y, tile, False, 1, 1, False, **asked(x.dtype)
    )


def ways(a: torch.Tensor, b: torch.Tensor) -> list[Callable]:
    """The planner's choice, every rung that takes these operands, and the one above."""
    algos = (None, *rungs_for(a, b))
    return [*(functools.partial(mm, algo=algo) for algo in algos), hopper_with_totals(a, b)]


def normal(*size: int, dtype: torch.dtype) -> torch.Tensor:
    """Made on the GPU: these matrices are large."""
    return torch.randn(*size, device="cuda").to(dtype)


# ---- which arithmetic, which rungs --------------------------------------------------------------


@each_dtype
def test_all_rungs_take_aligned_operands(dtype: torch.dtype) -> None:
    a, b = cases.pair(64, 128, 256, dtype, "cuda")
    b = b.t().contiguous().t() if dtype == torch.float32 else b
    assert tuple(rungs_for(a, b)) == cases.TENSOR_RUNGS
    assert tiled_mm.plan(a, b, **asked(dtype)).arithmetic == arithmetic(dtype)


@each_dtype
def test_two_rungs_take_any_operands(dtype: torch.dtype) -> None:
    a, b = cases.pair(65, 131, 67, dtype, "cuda")
    assert tuple(rungs_for(a, b)) == cases.ANY_LAYOUT_TENSOR_RUNGS
    out = cases.hole(65, 131, dtype, "cuda")
    for algo in ("tma_wgmma", "warp_specialized"):
        with pytest.raises(RuntimeError, match=f"'{algo}' is not for these.*mma_tile, hopper"):
            mm(a, b, algo, out=out)
    assert out.isnan().all()


def test_tf32_of_the_simple_rungs_must_lie_along_k() -> None:
    a, b = cases.pair(64, 128, 256, torch.float32, "cuda")
    for x, y in itertools.product((a, column_major(a)), (b, column_major(b))):
        along_k = x.stride(1) == 1 and y.stride(0) == 1
        expected = cases.TENSOR_RUNGS if along_k else cases.ANY_LAYOUT_TENSOR_RUNGS
        assert tuple(rungs_for(x, y)) == expected


@each("dtype", cases.HALVES)
def test_the_arithmetic_of_16_bit_inputs(dtype: torch.dtype) -> None:
    """Tensor cores by default; the fma chains, which are the CPU's, if asked for, or their rung."""
    a, b = cases.pair(70, 90, 4500, dtype, "cuda")
    chains = tiled_mm.mm(a.cpu(), b.cpu(), precision="ieee", out_dtype=torch.float32).cuda()
    default = tiled_mm.mm(a, b, out_dtype=torch.float32)
    assert not torch.equal(default, chains), "with so many terms they differ"
    for algo in (None, *cases.RUNGS["cuda"]):
        c = tiled_mm.mm(a, b, algo=algo, precision="ieee", out_dtype=torch.float32)
        assert_same_bits(c, chains, f"{algo}, ieee")
        if algo:
            c = tiled_mm.mm(a, b, algo=algo, out_dtype=torch.float32)
            assert_same_bits(c, chains, algo)
    for algo in cases.TENSOR_RUNGS:
        with pytest.raises(RuntimeError, match=f"'{algo}' is not for these inputs.*register_tile"):
            tiled_mm.mm(a, b, algo=algo, precision="ieee")
    for setting in ("ieee", "tf32", "fp16x3"):  # it is float32's
        with tiled_mm.float32_precision(setting):
            assert_same_bits(tiled_mm.mm(a, b, out_dtype=torch.float32), default, setting)


def test_the_arithmetic_of_float32_inputs() -> None:
    a, b = cases.pair(70, 90, 300, torch.float32, "cuda")
    chains = tiled_mm.mm(a.cpu(), b.cpu(), precision="ieee").cuda()
    rounded = mm(a, b)
    assert not torch.equal(rounded, chains)
    assert_same_bits(tiled_mm.mm(a, b), chains)
    for algo in cases.RUNGS["cuda"]:
        with pytest.raises(RuntimeError, match=f"'{algo}' is not for these inputs.*hopper"):
            tiled_mm.mm(a, b, algo=algo, precision="tf32")
    for algo in cases.TENSOR_RUNGS:
        with pytest.raises(RuntimeError, match=f"'{algo}' is not for these inputs.*register_tile"):
            tiled_mm.mm(a, b, algo=algo)
    with tiled_mm.float32_precision("tf32"):
        assert_same_bits(tiled_mm.mm(a, b), rounded)
        assert_same_bits(tiled_mm.mm(a, b, algo="hopper"), rounded)
        assert_same_bits(tiled_mm.mm(a, b, precision="ieee"), chains)
        # A rung of the fma arithmetic is more exact than the setting asks for.
        assert_same_bits(tiled_mm.mm(a, b, algo="register_tile"), chains)
    for precision in ("tf32", "ieee"):
        with pytest.raises(RuntimeError, match=f"'{precision}'|not for these"):
            tiled_mm.mm(a.bfloat16(), b.bfloat16(), algo="hopper", precision=precision)


@each("algo", EVERY_RUNG)
def test_operands_are_rounded_to_tf32_to_nearest_even(algo: str | None) -> None:
    """Ties, neighbours of ties, and what is not finite, each picked out by a one."""
    ties = 1 + torch.arange(64) * 2.0**-11  # every other one is a tie
    values = torch.cat([ties, torch.nextafter(ties, torch.tensor(0.0)), 2.0**100 * ties])
    values = torch.cat([values, torch.nextafter(ties, torch.tensor(9.0)), 2.0**-100 * ties])
    values = torch.cat([values, -values]).cuda()
    size = len(values)
    assert size % 64 == 0
    ones = torch.eye(size, device="cuda")
    expected = gates.to_tf32(values).cuda()
    for x in (ones, column_major(ones)):  # a diagonal matrix is its own transpose, exchanged or not
        for a, b in ((torch.diag(values), x), (x, torch.diag(values))):
            for y in (b, column_major(b)):
                if algo is None or algo in rungs_for(a, y):
                    assert_same_bits(mm(a, y, algo).diagonal().contiguous(), expected)
    row = torch.zeros(1, 64, device="cuda")
    row[0, 0] = torch.finfo(torch.float32).max  # rounds to infinity
    row[0, 1] = torch.nan
    column = torch.zeros(64, 8, device="cuda")
    column[0, 0] = column[1, 1] = 1
    c = mm(row, column.t().contiguous().t(), algo)
    assert c.isnan().all(), "0 NaN is NaN, and 0 Inf"
    row[0, 1] = 0
    c = mm(row, column.t().contiguous().t(), algo)
    assert c[0, 0] == torch.inf and c[0, 1:].isnan().all()


@each("algo", EVERY_RUNG)
def test_what_is_above_the_largest_tf32_is_infinite(algo: str | None) -> None:
    """docs/contract.md: from half a unit above the largest tf32 on, an operand is rounded to an
    infinity, and times 0 it is NaN; ieee has the number itself."""
    largest = (2 - 2.0**-10) * 2.0**127
    tie = torch.tensor((2 - 2.0**-11) * 2.0**127)
    below = torch.nextafter(tie, torch.tensor(0.0))
    values = torch.tensor([largest, below, tie, torch.finfo(torch.float32).max])
    values = torch.cat([values, -values])
    factors = torch.tensor([0.0, 0.5, 1.0, 2.0**-100, -0.25, 0.75, 0.0, 1.0])
    x, y = torch.zeros(2, 8, 64, device="cuda")  # one product each, and 63 of zeros
    x[:, 0], y[:, 0] = values.cuda(), factors.cuda()

    def products(rounded: torch.Tensor) -> torch.Tensor:
        return rounded[:, None] * factors + 0.0  # no -0

    rounded = gates.to_tf32(values)
    assert rounded.isinf().tolist() == 2 * [False, False, True, True]
    assert_same_bits(mm(x, y.t(), algo), products(rounded))
    assert_same_bits(mm(y, x.t(), algo), products(rounded).t())
    assert_same_bits(tiled_mm.mm(x, y.t(), precision="ieee"), products(values))


# ---- the gates ----------------------------------------------------------------------------------


@each("k", (1, 16, 300, 4096, 12289, DEEP + 1))
@each_dtype
def test_random_data(dtype: torch.dtype, k: int) -> None:
    a, b = cases.pair(40, 48, k, dtype, "cuda")
    for out_dtype in {dtype, torch.float32}:
        c = mm(a, b, out_dtype=out_dtype)
        gates.check_elements(c, a, b, arithmetic(dtype))
        gates.check_random(c, a, b, arithmetic(dtype))


@each("k", (300, 24576, 32767, 32768, DEEP + 1))
@each_dtype
def test_positive_data(dtype: torch.dtype, k: int) -> None:
    """Every cut of a positive sum is towards zero. docs/contract.md: the certain bound holds; the
    probable one does not, for all of fp16's and tf32's long chains, as in test_gates.py."""
    a, b = torch.rand(64, k, device="cuda").to(dtype), torch.rand(k, 48, device="cuda").to(dtype)
    c = mm(a, b, out_dtype=torch.float32)
    gates.check_positive(c, a, b, arithmetic(dtype))
    if 24576 <= k < 32768 and dtype != torch.bfloat16:
        with pytest.raises(AssertionError, match="gate 1"):
            gates.check_elements(c, a, b, arithmetic(dtype))
    else:
        gates.check_elements(c, a, b, arithmetic(dtype))


@each("k", (4608, DEEP))
@each_dtype
def test_error_of_every_rung_at_an_aligned_size(dtype: torch.dtype, k: int) -> None:
    a, b = cases.pair(136, 264, k, dtype, "cuda")
    b = b.t().contiguous().t()
    for algo in rungs_for(a, b):
        c = mm(a, b, algo, out_dtype=torch.float32)
        gates.check_elements(c, a, b, arithmetic(dtype))
        gates.check_random(c, a, b, arithmetic(dtype))


@each("k", (4608, DEEP))
@each_dtype
def test_fp32_output_is_the_sum_before_it_is_rounded(dtype: torch.dtype, k: int) -> None:
    a, b = cases.pair(136, 200, k, dtype, "cuda")
    for algo in (None, *rungs_for(a, b)):
        total = mm(a, b, algo, out_dtype=torch.float32)
        assert total.dtype == torch.float32
        assert_same_bits(mm(a, b, algo), total.to(dtype), algo)


# ---- one answer ---------------------------------------------------------------------------------

# (N, K): one chain and several, and K that is not a multiple of 8.
SIZES = ((4096, 4096), (1000, 4096 + 8), (520, 9000), (264, DEEP), (72, 32768), (77, 515))
ROWS = (1, 2, 3, 7, 16, 64, 100, 128, 129, 1000)


@each("size", SIZES)
@each_dtype
def test_rows_of_a_large_batch(dtype: torch.dtype, size: tuple[int, int]) -> None:
    n, k = size
    a, b = normal(4096, k, dtype=dtype), normal(k, n, dtype=dtype)
    c = mm(a, b)
    for rows in ROWS:
        for begin in (0, 1237, 4096 - rows):
            part = slice(begin, begin + rows)
            assert_equal(mm(a[part], b), c[part], (rows, begin))
    assert_equal(mm(a[5::41], b), c[5::41], "every 41st row")


@each("size", SIZES)
@each_dtype
def test_columns_of_a_large_matrix(dtype: torch.dtype, size: tuple[int, int]) -> None:
    m, k = size
    a, b = normal(m, k, dtype=dtype), normal(k, 4096, dtype=dtype)
    c = mm(a, b)
    for columns in ROWS:
        for begin in (0, 1237, 4096 - columns):
            part = slice(begin, begin + columns)
            assert_equal(mm(a, b[:, part]), c[:, part], (columns, begin))
    assert_equal(mm(a, b[:, 5::41]), c[:, 5::41], "every 41st column")


@each("size", ((128, 515), (96, 9000), (40, DEEP)))
@each_dtype
def test_batches(dtype: torch.dtype, size: tuple[int, int]) -> None:
    """bmm and vmap, an operand shared or not, in every layout that vmap may meet."""
    n, k = size
    a, b = normal(6, 40, k, dtype=dtype), normal(6, k, n, dtype=dtype)
    expected = [mm(a[i], b[i]) for i in range(6)]
    shared = [mm(a[i], b[0]) for i in range(6)]
    for x in (a, a.mT.contiguous().mT, a.transpose(0, 1).contiguous().transpose(0, 1)):
        for y in (b, b.mT.contiguous().mT, b.transpose(0, 2).contiguous().transpose(0, 2)):
            c = tiled_mm.bmm(x, y, **asked(dtype))
            mapped = torch.vmap(mm)(x, y)
            for i in range(6):
                assert_equal(c[i], expected[i], f"entry {i}")
                assert_equal(mapped[i], expected[i], f"entry {i} of vmap")
        c = tiled_mm.bmm(x, b[:1].expand(6, k, n), **asked(dtype))
        mapped = torch.vmap(mm, (0, None))(x, b[0])
        for i in range(6):
            assert_equal(c[i], shared[i], f"entry {i}, B shared")
            assert_equal(mapped[i], shared[i], f"entry {i} of vmap, B shared")
    mapped = torch.vmap(mm, (None, 0))(a[0], b)
    for i in range(6):
        assert_equal(mapped[i], mm(a[0], b[i]), f"entry {i} of vmap, A shared")


LAID_OUT_SIZES = (
    *((67, 45, 131), (64, 128, 256), (200, 136, 4104), (1, 96, 515)),
    *((72, 40, DEEP), (96, 1, DEEP - 4)),
)


@each("size", LAID_OUT_SIZES)
@each_dtype
def test_all_layouts_and_rungs_are_equal(dtype: torch.dtype, size: tuple) -> None:
    m, n, k = size
    a, b = cases.pair(m, n, k, dtype, "cuda")
    expected = mm(a, b, "mma_tile")
    met = set()
    for (name_a, x), (name_b, y) in itertools.product(laid_out(a), laid_out(b)):
        for algo in (None, *rungs_for(x, y)):
            assert_equal(mm(x, y, algo), expected, (algo, name_a, name_b))
            met.add(algo)
    assert met >= {None, *cases.ANY_LAYOUT_TENSOR_RUNGS}
    if k % 8 == 0 and n % 8 == 0:
        assert met == set(EVERY_RUNG)


@each("name", ("row_expanded", "col_expanded", "all_expanded", "overlapping"))
@each_dtype
def test_operands_whose_elements_share_memory(dtype: torch.dtype, name: str) -> None:
    for m, n, k in ((67, 45, 131), (64, 128, 256), (40, 72, DEEP)):
        make = cases.LAYOUTS[name]
        a, b = make(m, k, dtype, "cuda"), make(k, n, dtype, "cuda")
        plain_a, plain_b = a.contiguous().clone(), b.contiguous().clone()
        expected = mm(plain_a, plain_b, "mma_tile")
        for x, y in ((a, b), (a, plain_b), (plain_a, b)):
            for algo in (None, *rungs_for(x, y)):
                assert_equal(mm(x, y, algo), expected, (algo, m, n, k))


@each("algo", EVERY_RUNG)
@each_dtype
def test_small_and_odd_sizes(dtype: torch.dtype, algo: str | None) -> None:
    """Each size of 1 beside 8, which TMA can read, and beside odd ones, which it cannot."""
    compared = 0
    for m, n, k in itertools.product((1, 2, 7, 8, 65, 136), (1, 3, 8, 63, 264), (1, 5, 8, 64, 72)):
        a, b = cases.pair(m, n, k, dtype, "cuda")
        b = column_major(b) if dtype == torch.float32 else b
        if algo is None or algo in rungs_for(a, b):
            assert_equal(mm(a, b, algo), mm(a, b, "mma_tile"), (m, n, k))
            compared += 1
    assert compared >= 20


@each("step", (2**31 + 8, 2**31 + 5))
@each("dtype", cases.HALVES)
def test_rows_more_than_2_31_elements_apart(dtype: torch.dtype, step: int) -> None:
    """The memory between them is never touched."""
    free = torch.cuda.mem_get_info()[0]
    if free < 6 * step:
        pytest.skip(f"needs {6 * step / 2**30:.0f} GiB of memory, {free / 2**30:.0f} are free")
    a, b = cases.pair(3, 40, 72, dtype, "cuda")
    expected = mm(a, b, "mma_tile")
    memory = torch.empty(2 * step + 128, dtype=dtype, device="cuda")
    far = memory.as_strided((3, 72), (step, 1)).copy_(a)
    for algo in (None, *rungs_for(far, b)):
        assert_equal(mm(far, b, algo), expected, algo)
        assert_equal(mm(b.t(), far.t(), algo).t(), expected, algo)
    out = memory.as_strided((3, 40), (step, 1))
    for algo in (None, *rungs_for(a, b)):
        out.fill_(torch.nan)
        mm(a, b, algo, out=out)
        assert_equal(out, expected, algo)


@each("shape", cases.EMPTY_SHAPES)
@each_dtype
def test_empty(dtype: torch.dtype, shape: tuple) -> None:
    m, n, k = shape
    a, b = cases.pair(m, n, k, dtype, "cuda")
    for algo in (None, *rungs_for(a, b)):
        for out_dtype in {dtype, torch.float32}:
            zeros = torch.zeros(m, n, dtype=out_dtype, device="cuda")
            assert_same_bits(mm(a, b, algo, out_dtype=out_dtype), zeros)
            out = cases.hole(m, n, out_dtype, "cuda")
            mm(a, b, algo, out_dtype=out_dtype, out=out)
            assert_same_bits(out, zeros)
            batch = tiled_mm.bmm(a[None].expand(3, m, k), b[None].expand(3, k, n), **asked(dtype))
            assert_same_bits(batch, torch.zeros(3, m, n, dtype=dtype, device="cuda"))


@each("algo", EVERY_RUNG)
@each_dtype
def test_zero_results_are_positive(dtype: torch.dtype, algo: str | None) -> None:
    for k in (8, 24, 4104, DEEP):
        a = torch.full((136, k), -0.0, device="cuda").to(dtype)
        b = torch.ones(136, k, device="cuda").to(dtype).t()
        for y in (b, -b):
            c = mm(a, y, algo)
            assert (c == 0).all() and not c.signbit().any()


@each("algo", EVERY_RUNG)
@each_dtype
def test_nan_and_infinity(dtype: torch.dtype, algo: str | None) -> None:
    """Specials stay in their row or column, 0 Inf is NaN, and no padding meets one: the sizes end
    inside of every tile, box and step."""
    for special in (torch.nan, torch.inf, -torch.inf):
        for m, n, k in ((136, 72, 40), (72, 264, 24), (24, 16, DEEP), (9, 8, 8)):
            a = cases.fill(m, k, dtype, "cuda")
            b = cases.fill(n, k, dtype, "cuda").t()
            a[m - 1, k - 1] = special
            b[0, n - 1] = special
            b[k - 1, 1] = 0
            c = mm(a, b, algo)
            gates.check_elements(c, a, b, arithmetic(dtype))
            assert c[:-1, :-1].isfinite().all() and not c[-1].isfinite().any()
            assert not c[:, -1].isfinite().any() and c[m - 1, 1].isnan()
    a = torch.zeros(64, 64, device="cuda").to(dtype)
    a[0, 0], a[0, 1], a[1, 0], a[2, 1] = torch.inf, -torch.inf, torch.inf, -torch.inf
    ones = torch.ones(64, 64, device="cuda").to(dtype)
    c = mm(a, ones, algo if algo in (None, *rungs_for(a, ones)) else None)
    assert c[0].isnan().all() and (c[1] == torch.inf).all() and (c[2] == -torch.inf).all()
    assert (c[3:] == 0).all()


@each("dtype", cases.HALVES)
def test_sums_beyond_the_largest_number(dtype: torch.dtype) -> None:
    """Partial sums live in fp32, and only what is beyond the format in the end is infinite."""
    largest = torch.finfo(dtype).max if dtype == torch.float16 else 1e38
    a = torch.full((64, 64), largest, device="cuda").to(dtype)
    b = torch.zeros(64, 64, device="cuda").to(dtype)
    b[0], b[1] = 1, 1
    b[2, ::2] = -1
    for algo in (None, *rungs_for(a, b)):
        c = mm(a, b, algo)
        assert torch.equal(c[:, ::2], a[:, ::2])
        if dtype == torch.float16:
            assert (c[:, 1::2] == torch.inf).all()


@each("k", (4104, 32760, 32768, 9 * 4096 + 256))
@each_dtype
def test_where_k_is_cut(dtype: torch.dtype, k: int) -> None:
    """Below 32768 nowhere, from there on at multiples of 4096."""
    a, b, expected = cases.swallowed_ones(72, 40, k, dtype, "cuda")
    b = column_major(b)
    for algo in (None, *rungs_for(a, b)):
        assert (mm(a, b, algo, out_dtype=torch.float32) == expected).all(), algo
    assert_equal(hopper_with_totals(a, b)(a, b), mm(a, b, "mma_tile"))


# ---- every way to run hopper --------------------------------------------------------------------

# One chain and several; a C of less than a tile, and of several.
TILED_SIZES = (
    *((264, 520, 200), (333, 259, 515), (1024, 776, 4104), (100, 72, 9000)),
    *((1024, 776, DEEP), (100, 72, DEEP - 3)),
)


@each("size", TILED_SIZES)
@each_dtype
def test_every_tile_and_cluster_is_equal(dtype: torch.dtype, size: tuple) -> None:
    m, n, k = size
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    expected = mm(a, b, "mma_tile", out_dtype=torch.float32)
    for x, y in ((a, b), (column_major(a), column_major(b))):
        tiles = {
            e.tile for e in tiled_mm.plan(x, y, algo="hopper", **asked(dtype)).hopper.estimates
        }
        assert len(tiles) > 1
        ways = itertools.product(sorted(tiles), (False, True), CLUSTERS, SHARES[k >= 32768])
        for tile, exchanged, (p, q), share in ways:
            for out_dtype in {dtype, torch.float32}:
                c = torch.ops.tiled_debug.mm_with_tile(
                    x, y, tile, exchanged, p, q, share, out_dtype=out_dtype, **asked(dtype)
                )
                assert_equal(c, expected.to(out_dtype), (tile, exchanged, p, q, share))


CLUSTERS = ((1, 1), (2, 1), (1, 2))
SHARES = {False: (False,), True: (False, True)}  # whether K has segments to share out


def test_a_way_that_does_not_exist_is_refused() -> None:
    a, b = cases.pair(64, 64, 64, torch.bfloat16, "cuda")
    known = tiled_mm.plan(a, b, algo="hopper").hopper.estimates[0].tile
    for tile, p, q, share in (
        ("NoSuchTile", 1, 1, False),
        (known, 3, 1, False),
        (known, 1, 1, True),  # K is one segment
    ):
        with pytest.raises(RuntimeError, match=f"no way {tile}"):
            torch.ops.tiled_debug.mm_with_tile(a, b, tile, False, p, q, share)


# ---- where the result goes ----------------------------------------------------------------------


@each("size", ((67, 45, 131), (136, 264, 64), (129, 200, DEEP), (1, 264, 64), (264, 1, 64)))
@each_dtype
def test_out(dtype: torch.dtype, size: tuple) -> None:
    m, n, k = size
    a, b = cases.pair(m, n, k, dtype, "cuda")
    b = column_major(b)
    for out_dtype in {dtype, torch.float32}:
        expected = mm(a, b, "mma_tile", out_dtype=out_dtype)
        for algo in (None, *rungs_for(a, b)):
            for name, whole, out in cases.outputs(m, n, out_dtype):
                mm(a, b, algo, out_dtype=out_dtype, out=out)
                assert_equal(out, expected, (algo, name))
                assert cases.is_untouched_outside(whole, out), f"{algo}, {name}"


@each_dtype
def test_nothing_around_a_new_result_is_written(dtype: torch.dtype) -> None:
    """Results in a pool of canaries: each is one of many slices of the same memory."""
    a, b = cases.pair(200, 136, 72, dtype, "cuda")
    expected = mm(a, b)
    memory = cases.hole(16, 200 * 136 + 64, dtype, "cuda")
    for i in range(0, 16, 2):
        out = memory[i, 32 : 32 + 200 * 136].view(200, 136)
        mm(a, b, out=out)
        assert_equal(out, expected)
    edges = torch.cat([memory[::2, :32], memory[::2, 32 + 200 * 136 :]], 1)
    assert edges.isnan().all() and memory[1::2].isnan().all()


# ---- streams, graphs, threads -------------------------------------------------------------------


@each("size", ((1000, 776, 4608), (333, 515, 1029), (64, 264, DEEP), (1000, 776, DEEP)))
@each_dtype
def test_100_repeats_under_load_from_another_stream(dtype: torch.dtype, size: tuple) -> None:
    m, n, k = size
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    expected = mm(a, b)
    calls = ways(a, b)
    load = normal(4096, 4096, dtype=torch.bfloat16)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(60):
            torch.mm(load, load)
    results = [calls[i % len(calls)](a, b) for i in range(100)]
    for c in results:
        assert_equal(c, expected)


@each_dtype
def test_graphs(dtype: torch.dtype) -> None:
    """Aligned, repacked, and with segments shared out or totals in the workspace."""
    sizes = ((136, 264, 64), (67, 45, 131), (64, 72, DEEP), (600, 1100, 4608))
    pairs = [cases.pair(*size, dtype, "cuda") for size in sizes]
    calls = [ways(a, b) for a, b in pairs]
    for (a, b), called in zip(pairs, calls, strict=True):
        for call in called:  # as torch asks: once before it is captured
            call(a, b)
    graph = torch.cuda.CUDAGraph()
    results = []
    with torch.cuda.graph(graph):
        for (a, b), called in zip(pairs, calls, strict=True):
            results.append([call(a, b) for call in called])
    for _ in range(3):
        for a, b in pairs:
            a.copy_(torch.randn_like(a))
            b.copy_(torch.randn_like(b))
        for c in itertools.chain(*results):
            c.fill_(torch.nan)
        graph.replay()
        for (a, b), found in zip(pairs, results, strict=True):
            for c in found:
                assert_equal(c, mm(a, b, "mma_tile"))


@each("algo", EVERY_RUNG)
@each_dtype
def test_the_current_stream_is_used(dtype: torch.dtype, algo: str | None) -> None:
    """Operands that are written late on a side stream: kernels that start early, in the shadow of
    the one before, must wait for it before they read or write."""
    a, b = cases.pair(136, 264, DEEP, dtype, "cuda")
    b = column_major(b)
    expected = mm(a, b, algo)
    late_a, late_b = a.clone(), b.clone()
    out = torch.zeros_like(expected)
    a.fill_(torch.nan)
    b.fill_(torch.nan)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(cases.SLEEP // 10)
        a.copy_(late_a)
        b.copy_(late_b)
        c = mm(a, b, algo)
        mm(a, b, algo, out=out)
    side.synchronize()
    assert_equal(c, expected)
    assert_equal(out, expected)


@each("size", ((136, 136), (131, 131), (4608, 4608), (DEEP, 72)))
@each_dtype
def test_a_chain_of_products(dtype: torch.dtype, size: tuple[int, int]) -> None:
    """Each reads what the one before wrote, and writes what the one before read."""
    k, n = size
    x = normal(n, k, dtype=dtype) / k**0.5
    there, back = normal(k, n, dtype=dtype) / k**0.5, normal(n, k, dtype=dtype) / n**0.5
    expected = x
    for _ in range(3):
        for weight in (there, back):
            expected = mm(expected, weight)
            torch.cuda.synchronize()
    for _ in range(5):
        y, z = x.clone(), torch.empty(n, n, dtype=dtype, device="cuda")
        for _ in range(3):
            mm(y, there, out=z)
            mm(z, back, out=y)
        assert_equal(y, expected)


@each_dtype
def test_several_streams_and_threads_at_once(dtype: torch.dtype) -> None:
    sizes = ((200, 152, 300), (67, 45, 131), (64, 72, DEEP), (600, 1100, 4608))
    pairs = [cases.pair(*size, dtype, "cuda") for size in sizes]
    expected = [mm(a, b) for a, b in pairs]
    torch.cuda.synchronize()
    cases.in_threads_and_streams(lambda i: mm(*pairs[i]), expected)


@each_dtype
def test_threads_that_have_not_used_the_gpu_before(dtype: torch.dtype) -> None:
    """They have no CUDA context yet, which the encoding of a tensor map asks for."""
    a, b = cases.pair(136, 264, 64, dtype, "cuda")
    b = column_major(b)
    expected = mm(a, b)
    for algo in (None, *rungs_for(a, b)):
        out = torch.empty_like(expected)
        torch.cuda.synchronize()
        with ThreadPoolExecutor(1) as fresh:
            fresh.submit(lambda algo=algo, out=out: mm(a, b, algo, out=out)).result()
        torch.cuda.synchronize()
        assert_equal(out, expected, algo)


def test_the_host_does_not_wait() -> None:
    a, b = (x.requires_grad_() for x in cases.pair(67, 45, DEEP - 4, torch.bfloat16, "cuda"))
    out = torch.empty(67, 45, device="cuda", dtype=torch.bfloat16)

    def calls() -> None:
        for algo in ANY_LAYOUT:
            tiled_mm.mm(a, b, algo=algo).sum().backward()
            with torch.no_grad():
                tiled_mm.mm(a, b, algo=algo, out=out)
                tiled_mm.bmm(a[None], b[None], algo=algo)

    cases.assert_the_host_does_not_wait(calls)


# ---- gradients ----------------------------------------------------------------------------------


@each("dtype", cases.HALVES)
def test_a_linear_layer_of_any_batch(dtype: torch.dtype) -> None:
    """Forward, and the gradient of the input, of slices of a batch; the weight's of its columns."""
    x = normal(1000, 1032, dtype=dtype)
    weight = normal(1032, 776, dtype=dtype)
    gradient = normal(1000, 776, dtype=dtype)

    def layer(rows: slice, columns: slice = slice(None)) -> tuple[torch.Tensor, ...]:
        part, w = x[rows].clone().requires_grad_(), weight[:, columns].clone().requires_grad_()
        y = tiled_mm.mm(part, w)
        return y.detach(), *torch.autograd.grad(y, (part, w), gradient[rows, columns])

    every = slice(None)
    y, grad_x, grad_w = layer(every)
    for rows in (1, 2, 3, 7, 16, 64, 100, 129, 999):
        for begin in (0, 1000 - rows):
            part = slice(begin, begin + rows)
            found_y, found_x, _ = layer(part)
            assert_equal(found_y, y[part], part)
            assert_equal(found_x, grad_x[part], part)
    for columns in (1, 3, 64, 100, 775):
        part = slice(776 - columns, 776)
        found_y, _, found_w = layer(every, part)
        assert_equal(found_y, y[:, part], part)
        assert_equal(found_w, grad_w[:, part], part)


@each("algo", EVERY_RUNG)
@each("dtype", cases.HALVES)
def test_gradients_run_the_same_arithmetic(dtype: torch.dtype, algo: str | None) -> None:
    a, b = cases.pair(64, 128, 256, dtype, "cuda")
    x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
    g = cases.fill(64, 128, dtype, "cuda")
    grad_a, grad_b = torch.autograd.grad(tiled_mm.mm(x, y, algo=algo), (x, y), g)
    assert_equal(grad_a, mm(g, b.t(), "mma_tile"))
    assert_equal(grad_b, mm(a.t(), g, "mma_tile"))
    # sum()'s gradient is one number, expanded: it is laid out first where a rung cannot read that.
    grad_a, grad_b = torch.autograd.grad(tiled_mm.mm(x, y, algo=algo).sum(), (x, y))
    ones = torch.ones_like(g)
    assert_equal(grad_a, mm(ones, b.t(), "mma_tile"))
    assert_equal(grad_b, mm(a.t(), ones, "mma_tile"))


def gradient_layouts(m: int, n: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    return {
        "row-major": cases.fill(m, n, dtype, "cuda"),
        "column-major": cases.fill(n, m, dtype, "cuda").t(),
        "expanded": cases.fill(m, 1, dtype, "cuda").expand(m, n),
        "one number": cases.fill(1, 1, dtype, "cuda").expand(m, n),
        "off by one": cases.fill(m, n + 1, dtype, "cuda")[:, 1:],
    }


@each("algo", ("tma_wgmma", "warp_specialized"))
@each("size", ((64, 128, 256), (72, 40, 136), (64, 132, 264), (72, 45, 136)))
@each_dtype
def test_gradients_of_any_layout(dtype: torch.dtype, size: tuple, algo: str) -> None:
    """A gradient lies as its consumer left it, and the rungs that read by TMA must not care: nor in
    the second order, where the gradient of the gradient is such an operand again."""
    m, n, k = size
    a, b = cases.fill(m, k, dtype, "cuda"), cases.fill(n, k, dtype, "cuda").t()
    for name, g in gradient_layouts(m, n, dtype).items():
        x, y, seed = (t.detach().requires_grad_() for t in (a, b, g))
        c = mm(x, y, algo)
        grad_x, grad_y = torch.autograd.grad(c, (x, y), seed, create_graph=True)
        assert_equal(grad_x, mm(g, b.t(), "mma_tile"), name)
        assert_equal(grad_y, mm(a.t(), g, "mma_tile"), name)
        for h in gradient_layouts(m, k, dtype).values():
            of_y, of_seed = torch.autograd.grad(grad_x, (y, seed), h, retain_graph=True)
            # of grad_x = g b^T
            assert_equal(of_y, mm(h.t(), g, "mma_tile"), name)
            assert_equal(of_seed, mm(h, b, "mma_tile"), name)


def test_gradients_keep_the_tf32_of_the_forward() -> None:
    a, b = (x.requires_grad_() for x in cases.pair(67, 45, 131, torch.float32, "cuda"))
    g = cases.fill(67, 45, torch.float32, "cuda")
    with tiled_mm.float32_precision("tf32"):
        c = tiled_mm.mm(a, b)
    with tiled_mm.float32_precision("ieee"):
        grad_a, grad_b = torch.autograd.grad(c, (a, b), g)
    with torch.no_grad():
        assert_equal(grad_a, mm(g, b.t()))
        assert_equal(grad_b, mm(a.t(), g))


def test_gradients_of_an_fma_rung_under_tf32() -> None:
    """The rung's arithmetic is the forward's, and the backward's too."""
    a, b = (x.requires_grad_() for x in cases.pair(67, 45, 131, torch.float32, "cuda"))
    g = cases.fill(67, 45, torch.float32, "cuda")
    with tiled_mm.float32_precision("tf32"):
        c = tiled_mm.mm(a, b, algo="register_tile")
        grad_a, grad_b = torch.autograd.grad(c, (a, b), g)
    with torch.no_grad():
        assert_equal(c, tiled_mm.mm(a, b, precision="ieee"))
        assert_equal(grad_a, tiled_mm.mm(g, b.t(), precision="ieee"))
        assert_equal(grad_b, tiled_mm.mm(a.t(), g, precision="ieee"))


# ---- torch's own setting ------------------------------------------------------------------------

# torch 2.11 aborts now and then as a process ends that ran a backward (with torch.mm too).
SETTING = """
import os, torch, tiled_mm
{setting}
a = torch.full((2, 1), 1 + 2.0**-20, device="cuda")  # tf32 loses the last bits
b = torch.ones(1, 3, device="cuda")
rounded = tiled_mm.mm(a, b)
print(bool((rounded == 1).all()), bool((tiled_mm.mm(a, b, precision="ieee") == a).all()))
x = a.clone().requires_grad_()
g = torch.full((2, 3), 1 + 2.0**-20, device="cuda")
(grad,) = torch.autograd.grad(tiled_mm.mm(x, b), x, g)
print(bool((grad == 3).all()), flush=True)
os._exit(0)
"""


@each(
    "setting",
    (
        "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
        "torch.backends.cuda.matmul.allow_tf32 = True",
        "tiled_mm.set_float32_precision('tf32')",
    ),
)
def test_the_setting_of_torch_or_the_library_makes_float32_products_tf32(setting: str) -> None:
    script = SETTING.format(setting=setting)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["True True", "True", ""]
