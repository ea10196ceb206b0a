"""Every rung, dtype, shape and layout, beside a reference of higher precision and torch.mm."""

from __future__ import annotations

from collections.abc import Iterator

import cases
import gates
import pytest
import tiled_mm
import torch
from cases import arithmetic_of, each, each_rung, each_rung_and

pytestmark = pytest.mark.usefixtures("exact_peer")


@pytest.fixture
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


def torch_mm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch.mm, on the CPU where CUDA has none (integers)."""
    if a.dtype in cases.INTEGERS:
        a, b = a.cpu(), b.cpu()
    return torch.mm(a, b)


@each_rung_and(cases.DTYPES)
def test_shapes(device: str, algo: str | None, dtype: torch.dtype) -> None:
    for m, n, k in cases.SHAPES:
        a, b = cases.pair(m, n, k, dtype, device)
        c = tiled_mm.mm(a, b, algo=algo)
        assert c.is_contiguous() and c.device == a.device
        arithmetic = arithmetic_of(device, dtype, algo)
        gates.check(c, a, b, arithmetic)
        gates.check_agreement(c, torch_mm(a, b), a, b, arithmetic)


@each_rung_and(cases.DTYPES)
def test_garbage_in_the_results_memory(device: str, algo: str | None, dtype: torch.dtype) -> None:
    """The allocator hands out memory that held NaN: every element must be written, none read."""
    met = 0
    for m, n, k in (*cases.SHAPES, (5, 6, 0)):
        a, b = cases.pair(m, n, k, dtype, device)
        addresses = cases.leave_garbage(m, n, dtype, device)
        c = tiled_mm.mm(a, b, algo=algo)
        met += c.data_ptr() in addresses
        gates.check(c, a, b, arithmetic_of(device, dtype, algo))
    assert met > 0, "no result came to lie where the garbage was"


@each_rung_and(cases.DTYPES)
def test_pairs_of_layouts(device: str, algo: str | None, dtype: torch.dtype) -> None:
    layouts = cases.layouts_of(dtype)
    for name_a, make_a in layouts.items():
        for name_b, make_b in layouts.items():
            a, b = make_a(37, 21, dtype, device), make_b(21, 43, dtype, device)
            try:
                gates.check(tiled_mm.mm(a, b, algo=algo), a, b, arithmetic_of(device, dtype, algo))
            except AssertionError as error:
                raise AssertionError(f"layouts {name_a} and {name_b}: {error}") from error


@each("shape", ((1, 40, 30), (40, 1, 30), (40, 30, 1), (1, 1, 5), (1, 1, 1)))
@each_rung_and(cases.DTYPES)
def test_layouts_of_rows_and_columns(device, algo, dtype, shape) -> None:
    m, n, k = shape
    for name, make in cases.layouts_of(dtype).items():
        a, b = make(m, k, dtype, device), make(k, n, dtype, device)
        try:
            gates.check(tiled_mm.mm(a, b, algo=algo), a, b, arithmetic_of(device, dtype, algo))
        except AssertionError as error:
            raise AssertionError(f"layout {name}: {error}") from error


@each("k", (16, 300, 4096, 12289))
@each_rung_and(cases.FLOATS)
def test_random_data(device: str, algo: str | None, dtype: torch.dtype, k: int) -> None:
    check_random_data(device, algo, dtype, k)


# The reference of other dtypes takes long.
@each_rung_and((torch.float32, *cases.HALVES, torch.complex64))
def test_random_data_of_a_k_that_is_cut(device: str, algo: str | None, dtype: torch.dtype) -> None:
    """At multiples of 4096: the last segment is one element."""
    check_random_data(device, algo, dtype, 9 * 4096 + 1)


def check_random_data(device: str, algo: str | None, dtype: torch.dtype, k: int) -> None:
    a, b = cases.pair(40, 33, k, dtype, device)
    c = tiled_mm.mm(a, b, algo=algo)
    arithmetic = arithmetic_of(device, dtype, algo)
    gates.check_elements(c, a, b, arithmetic)
    gates.check_random(c, a, b, arithmetic)


# (M, N, K) that users of other libraries report as slow or wrong.
REPORTED = (
    (1023, 1023, 1023),
    (65, 253, 4096),
    (1, 50257, 768),
    (16, 256, 2048),
    (128, 45, 46),
    (128, 46, 45),
    (12, 64, 12),
    (65536, 16, 16),
    (64, 64, 65536),
)


@each("shape", REPORTED)
@each("dtype", (torch.float32, torch.bfloat16))
def test_reported_shapes(device: str, dtype: torch.dtype, shape: tuple) -> None:
    a, b = cases.pair(*shape, dtype, device)
    c = tiled_mm.mm(a, b)
    arithmetic = arithmetic_of(device, dtype)
    gates.check_elements(c, a, b, arithmetic)
    if c.numel() >= 1024:
        gates.check_random(c, a, b, arithmetic)


@each("rows", (3, 4, 15, 17))
def test_a_deep_transposed_view(device: str, rows: int) -> None:
    a = cases.fill(100000, rows, torch.bfloat16, device).t()
    b = cases.fill(100000, 100, torch.bfloat16, device)
    c = tiled_mm.mm(a, b)
    gates.check_elements(c, a, b, arithmetic_of(device, torch.bfloat16))


@each("k", (300, 4097, 9 * 4096 + 1))
@each_rung_and(cases.HALVES)
def test_fp32_output(device: str, algo: str | None, dtype: torch.dtype, k: int) -> None:
    a, b = cases.pair(40, 33, k, dtype, device)
    c = tiled_mm.mm(a, b, algo=algo, out_dtype=torch.float32)
    assert c.dtype == torch.float32
    arithmetic = arithmetic_of(device, dtype, algo)
    gates.check_elements(c, a, b, arithmetic)
    gates.check_random(c, a, b, arithmetic)
    rounded = tiled_mm.mm(a, b, algo=algo, out_dtype=dtype)
    assert torch.equal(rounded, c.to(dtype)), "one sum, rounded once or not at all"


@each_rung_and(cases.FLOATS)
def test_ill_conditioned_sums(device: str, algo: str | None, dtype: torch.dtype) -> None:
    """Sums that cancel: R is tiny beside |A||B|. The certain bound, since the data is a trap."""
    a = cases.fill(20, 100, dtype, device)
    b = cases.fill(100, 20, dtype, device)
    a = torch.cat([a, -a], 1)
    b = torch.cat([b, b * (1 + 2.0**-6)])
    c = tiled_mm.mm(a, b, algo=algo)
    gates.check_elements(c, a, b, arithmetic_of(device, dtype, algo), worst_case=True)


@each("shape", cases.EMPTY_SHAPES)
@each_rung_and(cases.DTYPES)
def test_empty(device: str, algo: str | None, dtype: torch.dtype, shape: tuple) -> None:
    m, n, k = shape
    a, b = cases.pair(m, n, k, dtype, device)
    zeros = torch.zeros(m, n, dtype=dtype, device=device)
    c = tiled_mm.mm(a, b, algo=algo)
    assert c.shape == (m, n) and torch.equal(c, zeros)
    out = cases.hole(m, n, dtype, device)
    tiled_mm.mm(a, b, algo=algo, out=out)
    assert torch.equal(out, zeros)


def output_layouts(m: int, n: int, dtype: torch.dtype, device: str):
    """(name, all the memory, the view of it to write): everything poisoned."""
    whole = cases.hole(m, n, dtype, device)
    yield "n", whole, whole
    whole = cases.hole(n, m, dtype, device)
    yield "t", whole, whole.t()
    whole = cases.hole(m + 4, n + 6, dtype, device)
    yield "slice", whole, whole[1 : m + 1, 3 : n + 3]
    whole = cases.hole(n + 4, m + 6, dtype, device)
    yield "slice_t", whole, whole[1 : n + 1, 3 : m + 3].t()
    whole = cases.hole(2 * m + 1, 3 * n + 2, dtype, device)
    yield "strided", whole, whole[1::2, 2::3]
    whole = cases.hole(1, m * n + 1, dtype, device)
    yield "misaligned", whole, whole[0, 1:].view(m, n)


@each_rung_and(cases.DTYPES)
def test_out(device: str, algo: str | None, dtype: torch.dtype) -> None:
    for m, n, k in ((37, 43, 21), (1, 43, 21), (37, 1, 21), (129, 66, 5)):
        a, b = cases.pair(m, n, k, dtype, device)
        for name, whole, out in output_layouts(m, n, dtype, device):
            written = torch.zeros_like(whole, dtype=torch.bool)
            written.as_strided(out.shape, out.stride(), out.storage_offset()).fill_(True)
            assert tiled_mm.mm(a, b, algo=algo, out=out) is out
            try:
                gates.check(out, a, b, arithmetic_of(device, dtype, algo))
            except AssertionError as error:
                raise AssertionError(f"out laid out as {name}: {error}") from error
            outside = whole[~written]
            untouched = outside.isnan() if dtype in cases.FLOATS else outside == 0x5A
            assert untouched.all(), f"{name}: written outside of out"


@each_rung_and(cases.HALVES)
def test_fp32_out(device: str, algo: str | None, dtype: torch.dtype) -> None:
    a, b = cases.pair(37, 43, 21, dtype, device)
    out = cases.hole(43, 37, torch.float32, device).t()
    tiled_mm.mm(a, b, algo=algo, out_dtype=torch.float32, out=out)
    gates.check(out, a, b, arithmetic_of(device, dtype, algo))


@each_rung
def test_out_of_no_elements_is_resized(device: str, algo: str | None) -> None:
    a, b = cases.pair(5, 6, 7, torch.float32, device)
    for sizes in ((0,), (0, 6), (3, 0, 2)):
        out = torch.empty(sizes, device=device)
        tiled_mm.mm(a, b, algo=algo, out=out)
        assert out.shape == (5, 6)
        gates.check(out, a, b)


@each_rung
def test_out_that_is_an_input_is_right_or_refused(device: str, algo: str | None) -> None:
    x, y = cases.pair(33, 33, 33, torch.float32, device)
    views = {
        "the first operand": lambda t: (t, t, y),
        "the second operand": lambda t: (t, y, t),
        "both operands": lambda t: (t, t, t),
        "a transposed operand": lambda t: (t, t.t(), y),
        "a shifted view": lambda t: (t[1:, 1:], t[:-1, :-1], y[1:, 1:]),
    }
    for name, view in views.items():
        _, a, b = view(x)
        expected = tiled_mm.mm(a, b, algo=algo)
        memory = x.clone()
        out, a, b = view(memory)
        try:
            tiled_mm.mm(a, b, algo=algo, out=out)
        except RuntimeError:
            assert torch.equal(memory, x), f"{name}: refused, but written"
        else:
            assert torch.equal(out, expected), f"{name}: wrong"


@each_rung_and(cases.FLOATS)
def test_nan_and_infinity(device: str, algo: str | None, dtype: torch.dtype) -> None:
    """Specials stay in their row or column, and 0 times Inf is NaN, also beside zero padding."""
    inf, nan = float("inf"), float("nan")
    for special in (nan, inf, -inf):
        for m, n, k in ((5, 7, 3), (37, 43, 21), (66, 65, 33)):
            a, b = cases.pair(m, n, k, dtype, device)
            a[m - 1, k - 1] = special
            b[0, n - 1] = special
            b[k - 1, 1] = 0
            c = tiled_mm.mm(a, b, algo=algo)
            gates.check_elements(c, a, b, arithmetic_of(device, dtype, algo))
            if not dtype.is_complex:
                assert c[:-1, :-1].isfinite().all() and not c[-1].isfinite().any()
                assert c[m - 1, 1].isnan()
                # In fp64: torch.mm of bf16 has other NaN on CPUs with AVX-512 but no bf16.
                assert torch.equal(c.isnan(), torch.mm(a.double(), b.double()).isnan())


@each_rung
def test_infinities_of_both_signs_give_nan(device: str, algo: str | None) -> None:
    inf = float("inf")
    a = torch.tensor([[inf, -inf], [inf, inf], [-inf, 1]], device=device)
    b = torch.tensor([[1.0], [1.0]], device=device)
    c = tiled_mm.mm(a, b, algo=algo)
    assert c[0].isnan() and c[1] == inf and c[2] == -inf


@each_rung_and(cases.FLOATS)
def test_zero_results_are_positive(device: str, algo: str | None, dtype: torch.dtype) -> None:
    for k in (1, 3, 8, 17):
        a = torch.full((33, k), -0.0, device=device).to(dtype)
        b = torch.ones(k, 35, device=device).to(dtype)
        for c in (tiled_mm.mm(a, b, algo=algo), tiled_mm.mm(a, -b, algo=algo)):
            parts = torch.view_as_real(c) if dtype.is_complex else c
            assert (parts == 0).all() and not parts.signbit().any()


@each_rung_and(cases.REALS, parts=False)
def test_one_hot_rows_pick_exactly(device: str, algo: str | None, dtype: torch.dtype) -> None:
    """Two parts of a number do not promise it."""
    b = cases.fill(70, 33, dtype, device)
    chosen = torch.randperm(70, device="cpu").to(device)
    a = torch.eye(70, device=device)[chosen].to(dtype)
    assert torch.equal(tiled_mm.mm(a, b, algo=algo), b[chosen])


@each_rung_and(cases.FLOATS)
def test_small_integers_are_exact(device: str, algo: str | None, dtype: torch.dtype) -> None:
    """Sums below 2^p (16-bit: in fp32) need no rounding in any order."""
    a = torch.randint(-10, 11, (37, 160)).to(dtype).to(device)
    b = torch.randint(-10, 11, (160, 43)).to(dtype).to(device)
    out_dtype = torch.float32 if dtype in cases.HALVES else None
    c = tiled_mm.mm(a, b, algo=algo, out_dtype=out_dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    assert torch.equal(c.to(wide).cpu(), a.cpu().to(wide) @ b.cpu().to(wide))


@each_rung_and((torch.float16, torch.bfloat16))
def test_16_bit_sums_do_not_overflow_on_the_way(device, algo, dtype) -> None:
    """Partial sums live in fp32: 60000 + 60000 - 60000 is a number of fp16."""
    a = torch.full((9, 3), 60000.0, device=device).to(dtype)
    b = torch.tensor([1.0, 1.0, -1.0], device=device).to(dtype)[:, None].expand(3, 10)
    assert torch.equal(tiled_mm.mm(a, b, algo=algo), a[:, :1].expand(9, 10))


@each("dtype", cases.INTEGERS)
@each_rung
def test_integers_wrap_as_torch_mm_does(device: str, algo: str | None, dtype) -> None:
    info = torch.iinfo(dtype)
    for value in (info.max, info.min, info.max - 1):
        a = torch.full((18, 35), value, dtype=dtype, device=device)
        b = torch.full((35, 17), info.max, dtype=dtype, device=device)
        c = tiled_mm.mm(a, b, algo=algo)
        gates.check_integers(c, a, b)
        assert torch.equal(c.cpu(), torch.mm(a.cpu(), b.cpu()))


@each_rung_and(cases.DTYPES)
def test_bmm(device: str, algo: str | None, dtype: torch.dtype) -> None:
    for batch, m, n, k in ((1, 5, 6, 7), (3, 37, 43, 21), (70, 2, 3, 4), (2, 65, 1, 9)):
        a = torch.stack([cases.fill(m, k, dtype, device) for _ in range(batch)])
        b = torch.stack([cases.fill(k, n, dtype, device) for _ in range(batch)])
        variants = {
            "contiguous": (a, b),
            "transposed": (a.mT.contiguous().mT, b.mT.contiguous().mT),
            "batch in the middle": (
                a.transpose(0, 1).contiguous().transpose(0, 1),
                b.transpose(0, 2).contiguous().transpose(0, 2),
            ),
            "one matrix for all": (a[:1].expand(batch, m, k), b),
        }
        for name, (x, y) in variants.items():
            c = tiled_mm.bmm(x, y, algo=algo)
            assert c.shape == (batch, m, n) and c.is_contiguous(), name
            for i in range(batch):
                gates.check(c[i], x[i], y[i], arithmetic_of(device, dtype, algo))


@each("shape", ((0, 2, 3, 4), (2, 0, 3, 4), (2, 3, 0, 4), (2, 3, 4, 0)))
@each_rung
def test_empty_bmm(device: str, algo: str | None, shape: tuple) -> None:
    batch, m, n, k = shape
    a, b = torch.ones(batch, m, k, device=device), torch.ones(batch, k, n, device=device)
    expected = torch.zeros(batch, m, n, device=device)
    assert torch.equal(tiled_mm.bmm(a, b, algo=algo), expected)
