"""What every rung keeps, on every dtype it runs: the matrix that a row of rungs.py is given.

Results beside a reference of higher precision and torch.mm; then out=, special values and exact
ones; then bits: of parts of a product, of every layout, of batches, and of the other rungs that run
the same arithmetic.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import cases
import gates
import pytest
import torch
from cases import HALVES, each
from golden import assert_same_bits
from rungs import DEEP, PARTS_RUNG, Run, each_run

INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def exact_peer() -> Iterator[None]:
    """torch.mm with 32-bit partial sums of 16-bit types (by default cuBLAS may round them)."""
    settings = torch.backends.cuda.matmul
    names = ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")
    before = [getattr(settings, name) for name in names]
    for name in names:
        setattr(settings, name, False)
    yield
    for name, value in zip(names, before, strict=True):
        setattr(settings, name, value)


def torch_mm(a: torch.Tensor, b: torch.Tensor, run: Run) -> torch.Tensor:
    """torch.mm, of the operands that are multiplied; on the CPU where CUDA has none (integers)."""
    if run.arithmetic == "tf32":
        a, b = gates.to_tf32(a), gates.to_tf32(b)
    if a.dtype in cases.INTEGERS:
        a, b = a.cpu(), b.cpu()
    return torch.mm(a, b)


def check(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, run: Run, what: str = "") -> None:
    try:
        gates.check(c, a, b, run.arithmetic)
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from error


# ---- shapes, layouts and data, beside the gates -------------------------------------------------


@each_run()
def test_shapes(run: Run) -> None:
    for size in (*cases.SHAPES, *run.edges):
        a, b = run.pair(*size)
        c = run.mm(a, b)
        assert c.is_contiguous() and c.device == a.device
        check(c, a, b, run, f"{size}")
        gates.check_agreement(c, torch_mm(a, b, run), a, b, run.arithmetic)


@each_run()
def test_garbage_in_the_results_memory(run: Run) -> None:
    """The allocator hands out memory that held NaN: every element must be written, none read."""
    met = 0
    for size in (*cases.SHAPES, (5, 6, 0)):
        a, b = run.pair(*size)
        if not run.takes(a, b):  # no elements, which lie in no direction
            continue
        addresses = cases.leave_garbage(a.shape[0], b.shape[1], run.dtype, run.device)
        c = run.mm(a, b)
        met += c.data_ptr() in addresses
        check(c, a, b, run, f"{size}")
    assert met > 0, "no result came to lie where the garbage was"


@each_run()
def test_pairs_of_layouts(run: Run) -> None:
    layouts = cases.layouts_of(run.dtype)
    m, n, k = (37, 43, 21) if run.any_layout else (40, 48, 24)
    taken = 0
    for name_a, make_a in layouts.items():
        for name_b, make_b in layouts.items():
            a, b = make_a(m, k, run.dtype, run.device), make_b(k, n, run.dtype, run.device)
            if run.takes(a, b):
                check(run.mm(a, b), a, b, run, f"layouts {name_a} and {name_b}")
                taken += 1
    assert taken > 0


@each("shape", ((1, 40, 30), (40, 1, 30), (40, 30, 1), (1, 1, 5), (1, 1, 1)))
@each_run()
def test_layouts_of_rows_and_columns(run: Run, shape: tuple) -> None:
    m, n, k = run.size(*shape)
    taken = 0
    for name, make in cases.layouts_of(run.dtype).items():
        a, b = make(m, k, run.dtype, run.device), make(k, n, run.dtype, run.device)
        for x, y in ((a, b), (a, run.as_b(b))):
            if run.takes(x, y):
                check(run.mm(x, y), x, y, run, f"layout {name}")
                taken += 1
    assert taken > 0


@each("k", (1, 16, 300, 4096, 12289))
@each_run(cases.FLOATS)
def test_random_data(run: Run, k: int) -> None:
    check_random_data(run, k)


# The reference of other dtypes takes long.
@each_run((torch.float32, *HALVES, torch.complex64))
def test_random_data_of_a_k_that_is_cut(run: Run) -> None:
    """At multiples of 4096: the last segment is one element."""
    check_random_data(run, 9 * 4096 + 1)


def check_random_data(run: Run, k: int) -> None:
    a, b = run.pair(40, 33, k)
    c = run.mm(a, b)
    gates.check_elements(c, a, b, run.arithmetic)
    # Gate 2 does not know subnormal results, which a single product of fp16 may well be.
    if (k, run.dtype) != (1, torch.float16):
        gates.check_random(c, a, b, run.arithmetic)


@each("k", (1, 16, 300, 4097, 12289, 9 * 4096 + 1))
@each_run(HALVES)
def test_fp32_output(run: Run, k: int) -> None:
    a, b = run.pair(40, 33, k)
    c = run.mm(a, b, out_dtype=torch.float32)
    assert c.dtype == torch.float32
    gates.check_elements(c, a, b, run.arithmetic)
    gates.check_random(c, a, b, run.arithmetic)
    for x, y in ((a, b), *(run.pair(*size) for size in run.edges)):
        total, rounded = run.mm(x, y, out_dtype=torch.float32), run.mm(x, y)
        assert_same_bits(rounded, total.to(run.dtype), "one sum, rounded once or not at all")


@each_run(cases.FLOATS)
def test_ill_conditioned_sums(run: Run) -> None:
    """Sums that cancel: R is tiny beside |A||B|. The certain bound, since the data is a trap."""
    a, b = run.pair(20, 20, 100)
    a = torch.cat([a, -a], 1)
    b = run.as_b(torch.cat([b, b * (1 + 2.0**-6)]))
    gates.check_elements(run.mm(a, b), a, b, run.arithmetic, worst_case=True)


@each("shape", cases.EMPTY_SHAPES)
@each_run()
def test_empty(run: Run, shape: tuple) -> None:
    a, b = run.pair(*shape)
    m, n = a.shape[0], b.shape[1]
    if not run.takes(a, b):
        pytest.skip(f"{run.algo} is not offered for these")
    for out_dtype in {run.dtype, torch.float32 if run.dtype in HALVES else run.dtype}:
        zeros = torch.zeros(m, n, dtype=out_dtype, device=run.device)
        assert_same_bits(run.mm(a, b, out_dtype=out_dtype), zeros)
        out = cases.hole(m, n, out_dtype, run.device)
        run.mm(a, b, out_dtype=out_dtype, out=out)
        assert_same_bits(out, zeros)
        batch = run.bmm(a.expand(3, *a.shape), b.expand(3, *b.shape), out_dtype=out_dtype)
        assert_same_bits(batch, zeros.expand(3, m, n))


# ---- where the result goes ----------------------------------------------------------------------


@each_run()
def test_out(run: Run) -> None:
    """However it lies: the bits of a new tensor, and nothing written beside it."""
    for size in ((37, 43, 21), (67, 45, 131), (1, 43, 21), (37, 1, 21), (129, 66, 5), *run.edges):
        a, b = run.pair(*size)
        for out_dtype in {run.dtype, torch.float32 if run.dtype in HALVES else run.dtype}:
            expected = run.mm(a, b, out_dtype=out_dtype)
            check(expected, a, b, run, f"{size}")
            for name, whole, out in cases.outputs(*expected.shape, out_dtype, run.device):
                assert run.mm(a, b, out_dtype=out_dtype, out=out) is out
                assert_same_bits(out, expected, f"{size}, out laid out as {name}")
                assert cases.is_untouched_outside(whole, out), f"{name}: written outside of out"


# ---- special values and exact ones --------------------------------------------------------------


@each_run(cases.FLOATS)
def test_nan_and_infinity(run: Run) -> None:
    """Specials stay in their row or column, and 0 times Inf is NaN, also beside zero padding."""
    for special in (NAN, INF, -INF):
        for size in ((5, 7, 3), (37, 43, 21), (66, 65, 33), *run.edges):
            a, b = run.pair(*size)
            (m, k), n = a.shape, b.shape[1]
            if min(m, n) < 2 or m * n * k > 2**27:  # the reference of NaN and Inf takes long
                continue
            a[m - 1, k - 1] = special
            b[0, n - 1] = special
            b[k - 1, 1] = 0
            c = run.mm(a, b)
            gates.check_elements(c, a, b, run.arithmetic)
            if not run.dtype.is_complex:
                assert c[:-1, :-1].isfinite().all() and not c[-1].isfinite().any()
                assert not c[:, -1].isfinite().any() and c[m - 1, 1].isnan()
                # In fp64: torch.mm of bf16 has other NaN on CPUs with AVX-512 but no bf16.
                assert torch.equal(c.isnan(), torch.mm(a.double(), b.double()).isnan())


@each_run(cases.REALS)
def test_infinities_of_both_signs_give_nan(run: Run) -> None:
    for m, n, k in ((3, 1, 2), (64, 64, 64)):
        m, n, k = run.size(m, n, k)
        a = torch.zeros(m, k, dtype=run.dtype, device=run.device)
        a[0, 0], a[0, 1], a[1, 0], a[2, 1] = INF, -INF, INF, -INF
        c = run.mm(a, run.as_b(torch.ones(k, n, dtype=run.dtype, device=run.device)))
        assert c[0].isnan().all() and (c[1] == INF).all() and (c[2] == -INF).all()
        assert (c[3:] == 0).all()


@each_run(cases.FLOATS)
def test_zero_results_are_positive(run: Run) -> None:
    deep = (24, 4104, DEEP) if run.edges else ()
    for k in (1, 3, 8, 17, *deep):
        m, n, k = run.size(33, 35, k) if k not in deep else (136, 136, k)
        a = torch.full((m, k), -0.0, device=run.device).to(run.dtype)
        b = run.as_b(torch.ones(k, n, device=run.device).to(run.dtype))
        for c in (run.mm(a, b), run.mm(a, -b)):
            parts = torch.view_as_real(c) if run.dtype.is_complex else c
            assert (parts == 0).all() and not parts.signbit().any()


@each_run(cases.REALS, where=lambda run: run.algo != PARTS_RUNG)
def test_one_hot_rows_pick_exactly(run: Run) -> None:
    """Two parts of a number do not promise it; tf32 picks the rounded number."""
    _, b = run.pair(1, 33, 70)
    k = b.shape[0]
    chosen = torch.randperm(k, device="cpu").to(run.device)
    a = torch.eye(k, device=run.device)[chosen].to(run.dtype)
    picked = gates.to_tf32(b).to(run.device) if run.arithmetic == "tf32" else b
    assert torch.equal(run.mm(a, b), picked[chosen])


@each_run(cases.FLOATS)
def test_small_integers_are_exact(run: Run) -> None:
    """Sums below 2^p (16-bit: in fp32) need no rounding in any order."""
    m, n, k = run.size(37, 43, 160)
    a = torch.randint(-10, 11, (m, k)).to(run.dtype).to(run.device)
    b = torch.randint(-10, 11, (k, n)).to(run.dtype).to(run.device)
    out_dtype = torch.float32 if run.dtype in HALVES else None
    c = run.mm(a, run.as_b(b), out_dtype=out_dtype)
    wide = torch.complex128 if run.dtype.is_complex else torch.float64
    assert torch.equal(c.to(wide).cpu(), a.cpu().to(wide) @ b.cpu().to(wide))


@each_run(HALVES)
def test_16_bit_sums_do_not_overflow_on_the_way(run: Run) -> None:
    """Partial sums live in fp32: 60000 + 60000 - 60000 is a number of fp16."""
    m, n, k = run.size(9, 10, 3)
    a = torch.full((m, k), 60000.0, device=run.device).to(run.dtype)
    b = torch.zeros(k, n, device=run.device).to(run.dtype)
    b[0], b[1], b[2] = 1, 1, -1
    assert torch.equal(run.mm(a, b), a[:, :1].expand(m, n))


# ---- bits: parts, layouts, batches, and the other rungs -----------------------------------------

SOME = (1, 2, 3, 7, 8, 16, 31, 64, 65, 100, 128, 149)


@each_run()
def test_slices_of_rows(run: Run) -> None:
    a, b = run.pair(150, 67, 131)
    c = run.mm(a, b)
    for rows in SOME:
        for begin in {0, 1, 150 - rows}:
            part = slice(begin, begin + rows)
            assert_same_bits(run.mm(a[part], b), c[part], f"rows {part}")
    assert_same_bits(run.mm(a[::3], b), c[::3], "every third row")


@each_run()
def test_slices_of_columns(run: Run) -> None:
    a, b = run.pair(67, 150, 131)
    c = run.mm(a, b)
    columns = b.shape[1]
    parts = [slice(0, columns, 3)]
    parts += [slice(i, i + few) for few in SOME for i in sorted({0, 1, columns - few})]
    compared = 0
    for part in parts:
        if run.takes(a, b[:, part]):
            assert_same_bits(run.mm(a, b[:, part]), c[:, part], f"columns {part}")
            compared += 1
    assert compared >= len(SOME)


@each("k", (8192 + 3, 32768 + 3))
@each_run(cases.FLOATS)
def test_slices_of_a_deep_product(run: Run, k: int) -> None:
    a, b = run.pair(70, 33, k)
    c = run.mm(a, b)
    for part in (slice(0, 1), slice(5, 12), slice(3, 67)):
        assert_same_bits(run.mm(a[part], b), c[part], f"rows {part}")
    for part in (slice(0, 1), slice(5, 12), slice(1, 33), slice(8, 24)):
        if run.takes(a, b[:, part]):
            assert_same_bits(run.mm(a, b[:, part]), c[:, part], f"columns {part}")


def laid_out(x: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    yield from cases.laid_out(x)
    if x.dtype not in cases.INTEGERS:
        yield "neg", torch._neg_view(-x)
    if x.dtype.is_complex:
        yield "conj", x.conj().resolve_conj().conj()
        yield "conj_t", x.mH.contiguous().mH


@each_run()
def test_layouts_of_the_same_matrix(run: Run) -> None:
    a, b = run.pair(67, 45, 131)
    expected = run.mm(a, b)
    for name_a, x in laid_out(a):
        for name_b, y in laid_out(b):
            if run.takes(x, y):
                assert_same_bits(run.mm(x, y), expected, f"{name_a}, {name_b}")


@each_run(cases.FLOATS)
def test_expanded_and_copied_operands(run: Run) -> None:
    deep = ((64, 128, 256), (40, 72, DEEP)) if run.edges else ()
    names = ("row_expanded", "col_expanded", "all_expanded", "overlapping")
    for name, size in itertools.product(names, ((67, 45, 131), *deep)):
        m, n, k = run.size(*size)
        make = cases.LAYOUTS[name]
        a, b = make(m, k, run.dtype, run.device), make(k, n, run.dtype, run.device)
        plain_a, plain_b = a.contiguous().clone(), run.as_b(b.contiguous().clone())
        expected = run.mm(plain_a, plain_b)
        for x, y in ((a, b), (a, plain_b), (plain_a, b)):
            if run.takes(x, y):
                assert_same_bits(run.mm(x, y), expected, f"{name}, {size}")


@each_run()
def test_entries_of_a_batch(run: Run) -> None:
    for batch, *size in ((1, 5, 6, 7), (3, 37, 43, 21), (70, 2, 3, 4), (2, 65, 1, 9)):
        m, n, k = run.size(*size)
        a = torch.stack([run.fill(m, k) for _ in range(batch)])
        b = torch.stack([run.fill(k, n) for _ in range(batch)])
        along_k = b.mT.contiguous().mT
        variants = {
            "contiguous": (a, b),
            "B by columns": (a, along_k),
            "transposed": (a.mT.contiguous().mT, along_k),
            "batch in the middle": (
                a.transpose(0, 1).contiguous().transpose(0, 1),
                b.transpose(0, 2).contiguous().transpose(0, 2),
            ),
            "one matrix for all": (a[:1].expand(batch, m, k), along_k),
        }
        compared = 0
        for name, (x, y) in variants.items():
            if not run.takes(x, y):
                continue
            c = run.bmm(x, y)
            assert c.shape == (batch, m, n) and c.is_contiguous(), name
            for i in range(batch):
                check(c[i], x[i], y[i], run, name)
                assert_same_bits(c[i], run.mm(x[i], y[i]), f"{name}, entry {i}")
            compared += 1
        assert compared >= 2


@each_run(cases.FLOATS)
def test_repeated_runs(run: Run) -> None:
    a, b = run.pair(130, 131, 300)
    expected = run.mm(a, b)
    for _ in range(20):
        assert_same_bits(run.mm(a, b), expected)


@each_run(where=lambda run: run.algo != PARTS_RUNG)
def test_every_rung_of_an_arithmetic_is_equal(run: Run) -> None:
    sizes = ((67, 45, 131), (1, 257, 64), (130, 1, 4100), (64, 128, 32), (13, 9, 36868))
    for size in (*sizes, *run.edges):
        a, b = run.pair(*size)
        asked = {"out_dtype": torch.float32} if run.dtype in HALVES else {}
        assert_same_bits(run.mm(a, b, **asked), run.reference(a, b, **asked), f"{size}")


@each_run(where=lambda run: run.algo != PARTS_RUNG)
def test_small_and_odd_sizes(run: Run) -> None:
    """Each size of 1 beside 8, which TMA can read, and beside odd ones, which it cannot."""
    compared = 0
    for m, n, k in itertools.product((1, 2, 7, 8, 65, 136), (1, 3, 8, 63, 264), (1, 5, 8, 64, 72)):
        a, b = run.fill(m, k), run.as_b(run.fill(k, n))
        if run.takes(a, b):
            assert_same_bits(run.mm(a, b), run.reference(a, b), f"{m} x {n} x {k}")
            compared += 1
    assert compared >= 20
