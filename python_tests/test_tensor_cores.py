"""The tensor-core rungs: one answer for bf16, fp16 and tf32, whatever stands beside an element, and
however the operands lie."""

from __future__ import annotations

import itertools
from dataclasses import replace

import cases
import gates
import pytest
import rungs
import tiled_mm
import torch
from cases import column_major, each, laid_out
from golden import assert_equal, assert_same_bits
from rungs import DEEP
from tensor_cores import (
    INSTANCES,
    PARTS,
    TF32_RUNGS,
    Instance,
    arithmetic,
    asked,
    each_dtype,
    each_instance,
    hopper_with_totals,
    mm,
    normal,
    rungs_for,
)

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]


# ---- which arithmetic, which rungs ---------------------------------------------------------------


@each_dtype
def test_all_rungs_take_aligned_operands(dtype: torch.dtype) -> None:
    a, b = cases.pair(64, 128, 256, dtype, "cuda")
    b = b.t().contiguous().t() if dtype == torch.float32 else b
    assert tuple(rungs_for(a, b)) == rungs.tensor_rungs(dtype)
    assert tiled_mm.plan(a, b, **asked(dtype)).arithmetic == arithmetic(dtype)


@each_dtype
def test_not_all_rungs_take_any_operands(dtype: torch.dtype) -> None:
    a, b = cases.pair(65, 131, 67, dtype, "cuda")
    fitting = rungs.tensor_rungs(dtype, any_layout=True)
    assert tuple(rungs_for(a, b)) == fitting
    out = cases.hole(65, 131, dtype, "cuda")
    for algo in rungs.NEED_TMA:
        with pytest.raises(
            RuntimeError,
            match=f"'{algo}' is not for these.*{', '.join(fitting)}",
        ):
            mm(a, b, algo, out=out)
    assert out.isnan().all()


def test_tf32_of_the_simple_rungs_must_lie_along_k() -> None:
    a, b = cases.pair(64, 128, 256, torch.float32, "cuda")
    for x, y in itertools.product((a, column_major(a)), (b, column_major(b))):
        along_k = x.stride(1) == 1 and y.stride(0) == 1
        expected = rungs.names("tf32", **({} if along_k else {"any_layout": True}))
        assert tuple(rungs_for(x, y)) == expected


@each("dtype", cases.HALVES)
def test_the_arithmetic_of_16_bit_inputs(dtype: torch.dtype) -> None:
    """Tensor cores by default; the fma chains, which are the CPU's, if asked for, or their rung."""
    a, b = cases.pair(70, 90, 4500, dtype, "cuda")
    chains = tiled_mm.mm(a.cpu(), b.cpu(), precision="ieee", out_dtype=torch.float32).cuda()
    default = tiled_mm.mm(a, b, out_dtype=torch.float32)
    assert not torch.equal(default, chains), "with so many terms they differ"
    for algo in (None, *rungs.RUNGS["cuda"]):
        c = tiled_mm.mm(a, b, algo=algo, precision="ieee", out_dtype=torch.float32)
        assert_same_bits(c, chains, f"{algo}, ieee")
        if algo:
            c = tiled_mm.mm(a, b, algo=algo, out_dtype=torch.float32)
            assert_same_bits(c, chains, algo)
    for algo in rungs.TENSOR_RUNGS:
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
    for algo in rungs.RUNGS["cuda"]:
        with pytest.raises(RuntimeError, match=f"'{algo}' is not for these inputs.*hopper"):
            tiled_mm.mm(a, b, algo=algo, precision="tf32")
    for algo in rungs.TF32_ONLY:
        with pytest.raises(RuntimeError, match=f"'{algo}' is not for these inputs.*register_tile"):
            tiled_mm.mm(a, b, algo=algo)
    chains_too = [algo for algo in rungs.names("tf32") if algo not in rungs.TF32_ONLY]
    assert "few_rows" in chains_too
    for algo in chains_too:
        assert_same_bits(tiled_mm.mm(a, b, algo=algo), chains, algo)
        assert_same_bits(tiled_mm.mm(a, b, algo=algo, precision="tf32"), rounded, algo)
    with tiled_mm.float32_precision("tf32"):
        assert_same_bits(tiled_mm.mm(a, b), rounded)
        assert_same_bits(tiled_mm.mm(a, b, algo="hopper"), rounded)
        assert_same_bits(tiled_mm.mm(a, b, precision="ieee"), chains)
        # A rung of the fma arithmetic is more exact than the setting asks for.
        assert_same_bits(tiled_mm.mm(a, b, algo="register_tile"), chains)
    for precision in ("tf32", "ieee"):
        with pytest.raises(RuntimeError, match=f"'{precision}'|not for these"):
            tiled_mm.mm(a.bfloat16(), b.bfloat16(), algo="hopper", precision=precision)


@each("algo", TF32_RUNGS)
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


@each("algo", TF32_RUNGS)
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


# ---- the gates -----------------------------------------------------------------------------------


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


# ---- one answer, of fp16x3 too -------------------------------------------------------------------


# (N, K): one chain and several, and K that is not a multiple of 8.
SIZES = ((4096, 4096), (1000, 4096 + 8), (520, 9000), (264, DEEP), (72, 32768), (77, 515))
ROWS = (1, 2, 3, 7, 8, 9, 16, 17, 25, 32, 33, 64, 100, 128, 129, 1000)  # up to 64 by few_rows
each_data = each("instance", (*INSTANCES, replace(PARTS, name="fp16x3-normal", data="normal")))


@each("size", SIZES)
@each_data
def test_rows_of_a_large_batch(instance: Instance, size: tuple[int, int]) -> None:
    (n, k), mm = size, instance.mm
    a, b = instance.make(4096, k), instance.make(k, n)
    c = mm(a, b)
    for rows in ROWS:
        for begin in (0, 1237, 4096 - rows):
            part = slice(begin, begin + rows)
            assert_equal(mm(a[part], b), c[part], (rows, begin))
    assert_equal(mm(a[5::41], b), c[5::41], "every 41st row")


@each("size", SIZES)
@each_data
def test_columns_of_a_large_matrix(instance: Instance, size: tuple[int, int]) -> None:
    (m, k), mm = size, instance.mm
    a, b = instance.make(m, k), instance.make(k, 4096)
    c = mm(a, b)
    for columns in ROWS:
        for begin in (0, 1237, 4096 - columns):
            part = slice(begin, begin + columns)
            assert_equal(mm(a, b[:, part]), c[:, part], (columns, begin))
    assert_equal(mm(a, b[:, 5::41]), c[:, 5::41], "every 41st column")


@each("size", ((128, 515), (96, 9000), (40, DEEP)))
@each_data
def test_batches(instance: Instance, size: tuple[int, int]) -> None:
    """bmm and vmap, an operand shared or not, in every layout that vmap may meet."""
    (n, k), mm, bmm = size, instance.mm, instance.bmm
    a, b = instance.make(6, 40, k), instance.make(6, k, n)
    a[1, 3, 5], b[4, 6, 7] = torch.nan, torch.inf
    expected = [mm(a[i], b[i]) for i in range(6)]
    shared = [mm(a[i], b[0]) for i in range(6)]
    for x in (a, a.mT.contiguous().mT, a.transpose(0, 1).contiguous().transpose(0, 1)):
        for y in (b, b.mT.contiguous().mT, b.transpose(0, 2).contiguous().transpose(0, 2)):
            c = bmm(x, y)
            mapped = torch.vmap(mm)(x, y)
            for i in range(6):
                assert_equal(c[i], expected[i], f"entry {i}")
                assert_equal(mapped[i], expected[i], f"entry {i} of vmap")
        c = bmm(x, b[:1].expand(6, k, n))
        mapped = torch.vmap(mm, (0, None))(x, b[0])
        for i in range(6):
            assert_equal(c[i], shared[i], f"entry {i}, B shared")
            assert_equal(mapped[i], shared[i], f"entry {i} of vmap, B shared")
    mapped = torch.vmap(mm, (None, 0))(a[0], b)
    c = bmm(a[:1].expand(6, 40, k), b)
    for i in range(6):
        assert_equal(mapped[i], mm(a[0], b[i]), f"entry {i} of vmap, A shared")
        assert_equal(c[i], mapped[i], f"entry {i}, A shared")


LAID_OUT_SIZES = (
    *((67, 45, 131), (64, 128, 256), (200, 136, 4104), (1, 96, 515), (96, 1, 64), (67, 45, 21)),
    *((72, 40, DEEP), (96, 1, DEEP - 4), (3, 5, DEEP - 4), (16, 40, 4104)),
)


@each("size", LAID_OUT_SIZES)
@each_instance
def test_all_layouts_and_rungs_are_equal(instance: Instance, size: tuple) -> None:
    m, n, k = size
    a, b = instance.make(m, k), instance.make(k, n)
    expected = instance.one(a, b)
    met = set()
    for (name_a, x), (name_b, y) in itertools.product(laid_out(a), laid_out(b)):
        for algo in (None, *instance.rungs_for(x, y)):
            assert_equal(instance.mm(x, y, algo), expected, (algo, name_a, name_b))
            met.add(algo)
    assert met >= {None, *instance.rungs(any_layout=True)}
    if k % 8 == 0 and n % 8 == 0:
        assert met == {None, *instance.rungs()}


@each("step", (2**31 + 8, 2**31 + 5))
@each_instance
def test_rows_more_than_2_31_elements_apart(instance: Instance, step: int) -> None:
    """The memory between them is never touched."""
    mm, needed = instance.mm, 3 * step * instance.dtype.itemsize
    free = torch.cuda.mem_get_info()[0]
    if free < needed:
        pytest.skip(f"needs {needed / 2**30:.0f} GiB of memory, {free / 2**30:.0f} are free")
    a, b = instance.make(3, 72), instance.make(72, 40)
    a[1, 5] = torch.nan
    expected, swapped = instance.one(a, b), instance.one(b.t(), a.t())
    if instance is not PARTS:
        assert_equal(swapped.t(), expected)
    memory = torch.empty(2 * step + 128, dtype=instance.dtype, device="cuda")
    far = memory.as_strided((3, 72), (step, 1)).copy_(a)
    for algo in (None, *instance.rungs_for(far, b)):
        assert_equal(mm(far, b, algo), expected, algo)
        assert_equal(mm(b.t(), far.t(), algo), swapped, algo)
    out = memory.as_strided((3, 40), (step, 1))
    for algo in (None, *instance.rungs_for(a, b)):
        out.fill_(torch.nan)
        mm(a, b, algo, out=out)
        assert_equal(out, expected, algo)


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


@each("size", ((1, 1, 1), (17, 33, 5), (64, 32, 64), (65, 95, 130), (100, 72, 9000), (5, 9, DEEP)))
@each_dtype
def test_every_tile_of_mma_tile_is_equal(dtype: torch.dtype, size: tuple) -> None:
    m, n, k = size
    a, b = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype)
    expected = mm(a, b, "hopper")
    for x, y in itertools.product((a, column_major(a)), (b, column_major(b))):
        ways = rungs.ways_of(x, y, "mma_tile", **asked(dtype))
        assert {way[0] for way in ways} == {"MmaTile64x64", "MmaTile32x32"}
        for way in ways:
            c = torch.ops.tiled_debug.mm_with_tile(x, y, *way, algo="mma_tile", **asked(dtype))
            assert_equal(c, expected, way)


# ---- every way to run hopper ---------------------------------------------------------------------


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
        ways = rungs.ways_of(x, y, "hopper", **asked(dtype))
        assert len({way[0] for way in ways}) > 1 and len({way[2:4] for way in ways}) == 5
        assert k < 32768 or len({way[4] for way in ways}) == 2, "split-K or not"
        for way in ways:
            for out_dtype in {dtype, torch.float32}:
                c = torch.ops.tiled_debug.mm_with_tile(
                    x, y, *way, out_dtype=out_dtype, **asked(dtype)
                )
                assert_equal(c, expected.to(out_dtype), way)


@each("dtype", cases.HALVES)
def test_slices_wait_until_memory_has_them(dtype: torch.dtype) -> None:
    """A slice of C in shared memory may not be filled again before it has been copied out. With one
    step of K a block does little but store, and memory is slower than what fills the slices."""
    a, b = normal(12288, 64, dtype=dtype), normal(64, 12288, dtype=dtype)
    expected = mm(a, b, "mma_tile")
    wrong = {}
    for way in rungs.ways_of(a, b, "hopper", **asked(dtype)):
        wrong[way] = torch.zeros((), dtype=torch.bool, device="cuda")
        for _ in range(4 if way[2:4] == (1, 1) else 1):
            torch.full_like(expected, torch.nan)  # what the allocator hands out next
            c = torch.ops.tiled_debug.mm_with_tile(a, b, *way, **asked(dtype))
            wrong[way] |= (c != expected).any()
            del c
    assert not [way for way, found in wrong.items() if found.item()]


def test_a_way_that_does_not_exist_is_refused() -> None:
    a, b = cases.pair(64, 64, 64, torch.bfloat16, "cuda")
    known = rungs.ways_of(a, b, "hopper")[0][0]
    for tile, p, q, share in (
        ("NoSuchTile", 1, 1, False),
        (known, 3, 1, False),
        (known, 1, 1, True),  # K is one segment
    ):
        with pytest.raises(RuntimeError, match=f"no way {tile}"):
            torch.ops.tiled_debug.mm_with_tile(a, b, tile, False, p, q, share)
