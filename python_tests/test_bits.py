"""One answer: the bits of C[i, j] depend on row i of A and column j of B, and on nothing else."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import cases
import golden
import pytest
import tiled_mm
import torch
from cases import each, each_rung, each_rung_and
from golden import assert_same_bits

# K of one chain, among them where the CPU's blocks of K end; and K that is cut, from 32768 on, at
# multiples of 4096.
SHALLOW_K = (1, 7, 4095, 4096, 4097, 8192 + 3, 32767)
DEEP_K = (32768 + 3,)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@functools.cache
def modelled(dtype: torch.dtype, k: int) -> tuple[torch.Tensor, ...]:
    """A, B, and their product by a model that shares nothing with the library but the rule. The
    model is slow, and every rung asks for the same."""
    a, b = cases.pair(3, 5, k, dtype)
    return a, b, golden.golden_mm(a, b)


@each("k", SHALLOW_K + DEEP_K)
@each("dtype", cases.FLOATS)
@each_rung
def test_the_stated_order_of_sums(device: str, algo: str | None, dtype, k: int) -> None:
    a, b, expected = modelled(dtype, k)
    c = tiled_mm.mm(a.to(device), b.to(device), algo=algo, precision="ieee")
    assert_same_bits(c.cpu(), expected)


@each("k", (4096, 4097, 32767, 32768, 9 * 4096 + 256))
@each("dtype", cases.FLOATS)
@each_rung
def test_where_k_is_cut(device: str, algo: str | None, dtype: torch.dtype, k: int) -> None:
    """Below 32768 nowhere, from there on at multiples of 4096."""
    a, b, expected = cases.swallowed_ones(3, 5, k, dtype, device)
    out_dtype = torch.float32 if dtype in cases.HALVES else None
    c = tiled_mm.mm(a, b, algo=algo, precision="ieee", out_dtype=out_dtype)
    assert (c == expected).all()


@each("k", (5, 4097))
@each("dtype", cases.HALVES)
@each_rung
def test_the_stated_order_with_fp32_output(device: str, algo: str | None, dtype, k: int) -> None:
    a, b = cases.pair(3, 5, k, dtype, device)
    c = tiled_mm.mm(a, b, algo=algo, precision="ieee", out_dtype=torch.float32)
    assert_same_bits(c.cpu(), golden.golden_mm(a, b, torch.float32))


@each("dtype", cases.REALS)
@each_rung
def test_subnormals_are_kept(device: str, algo: str | None, dtype: torch.dtype) -> None:
    """Inputs, products and sums below the smallest normal number, rounded as IEEE says."""
    tiny = torch.finfo(torch.float32 if dtype == torch.bfloat16 else dtype).tiny
    a, b = (torch.randn(*size, dtype=torch.float64) for size in ((6, 9), (9, 7)))
    for scale_a, scale_b in ((tiny, 1), (tiny / 4, 1), (tiny**0.5, tiny**0.5), (1, tiny / 100)):
        x, y = (a * scale_a).to(dtype), (b * scale_b).to(dtype)
        if dtype == torch.float64:
            # The model's fp64 products are exact only far from underflow, so here the exact sum
            # of products with a power of two.
            y = torch.eye(9, dtype=dtype) / 2
        expected = x / 2 if dtype == torch.float64 else golden.golden_mm(x, y)
        c = tiled_mm.mm(x.to(device), y.to(device), algo=algo, precision="ieee")
        assert_same_bits(c.cpu(), expected, f"scales {scale_a:.3g} and {scale_b:.3g}")


@each_rung_and(cases.DTYPES)
def test_slices_of_rows(device: str, algo: str | None, dtype: torch.dtype) -> None:
    a, b = cases.pair(150, 67, 131, dtype, device)
    c = tiled_mm.mm(a, b, algo=algo)
    for rows in (1, 2, 3, 7, 8, 16, 31, 64, 65, 100, 128, 149):
        for begin in {0, 1, 150 - rows}:
            part = slice(begin, begin + rows)
            assert_same_bits(tiled_mm.mm(a[part], b, algo=algo), c[part], f"rows {part}")
    every_third = tiled_mm.mm(a[::3], b, algo=algo)
    assert_same_bits(every_third, c[::3], "every third row")


@each_rung_and(cases.DTYPES)
def test_slices_of_columns(device: str, algo: str | None, dtype: torch.dtype) -> None:
    a, b = cases.pair(67, 150, 131, dtype, device)
    c = tiled_mm.mm(a, b, algo=algo)
    for cols in (1, 2, 3, 7, 8, 16, 31, 64, 65, 100, 128, 149):
        for begin in {0, 1, 150 - cols}:
            part = slice(begin, begin + cols)
            assert_same_bits(tiled_mm.mm(a, b[:, part], algo=algo), c[:, part], f"columns {part}")
    every_third = tiled_mm.mm(a, b[:, ::3], algo=algo)
    assert_same_bits(every_third, c[:, ::3], "every third column")


@each("k", (8192 + 3, 32768 + 3))
@each_rung_and(cases.FLOATS)
def test_slices_of_a_deep_product(device: str, algo: str | None, dtype, k: int) -> None:
    a, b = cases.pair(70, 33, k, dtype, device)
    c = tiled_mm.mm(a, b, algo=algo)
    for part in (slice(0, 1), slice(5, 12), slice(3, 67)):
        assert_same_bits(tiled_mm.mm(a[part], b, algo=algo), c[part], f"rows {part}")
    for part in (slice(0, 1), slice(5, 12), slice(1, 33)):
        assert_same_bits(tiled_mm.mm(a, b[:, part], algo=algo), c[:, part], f"columns {part}")


@each_rung_and(cases.DTYPES)
def test_layouts_of_the_same_matrix(device: str, algo: str | None, dtype: torch.dtype) -> None:
    m, n, k = 67, 45, 131

    def laid_out(x: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        rows, cols = x.shape
        yield "n", x
        yield "t", x.t().contiguous().t()
        yield "slice", cases.in_a_hole(x)
        yield "slice_t", cases.in_a_hole(x.t()).t()
        yield "strided", cases.in_a_hole(x, 2, 3)
        yield "strided_t", cases.in_a_hole(x.t(), 2, 3).t()
        for offset in (1, 2, 3):
            memory = cases.hole(1, rows * cols + offset, dtype, device)[0, offset:]
            yield f"misaligned by {offset}", memory.view(rows, cols).copy_(x)
        if dtype not in cases.INTEGERS:
            yield "neg", torch._neg_view(-x)
        if dtype.is_complex:
            yield "conj", x.conj().resolve_conj().conj()
            yield "conj_t", x.mH.contiguous().mH

    a, b = cases.pair(m, n, k, dtype, device)
    expected = tiled_mm.mm(a, b, algo=algo)
    for name_a, x in laid_out(a):
        for name_b, y in laid_out(b):
            assert_same_bits(tiled_mm.mm(x, y, algo=algo), expected, f"{name_a}, {name_b}")


@each_rung_and(cases.FLOATS)
def test_expanded_and_copied_operands(device: str, algo: str | None, dtype: torch.dtype) -> None:
    for name in ("row_expanded", "col_expanded", "all_expanded", "overlapping"):
        make = cases.LAYOUTS[name]
        a, b = make(67, 131, dtype, device), make(131, 45, dtype, device)
        expected = tiled_mm.mm(a.contiguous(), b.contiguous(), algo=algo)
        assert_same_bits(tiled_mm.mm(a, b, algo=algo), expected, name)


@each_rung_and(cases.DTYPES)
def test_out_has_the_bits_of_a_new_tensor(device: str, algo: str | None, dtype) -> None:
    a, b = cases.pair(67, 45, 131, dtype, device)
    expected = tiled_mm.mm(a, b, algo=algo)
    for out in (
        cases.hole(67, 45, dtype, device),
        cases.hole(45, 67, dtype, device).t(),
        cases.hole(140, 100, dtype, device)[3:137:2, 5:50],
    ):
        tiled_mm.mm(a, b, algo=algo, out=out)
        assert_same_bits(out, expected)


@each("dtype", cases.DTYPES)
def test_every_rung_is_equal(device: str, dtype: torch.dtype) -> None:
    """Those of the fma arithmetic; test_tensor_cores.py has the others."""
    for m, n, k in ((67, 45, 131), (1, 257, 64), (130, 1, 4100), (64, 128, 32), (13, 9, 36868)):
        a, b = cases.pair(m, n, k, dtype, device)
        expected = tiled_mm.mm(a, b, precision="ieee")
        for algo in cases.fma_rungs(device, dtype):
            assert_same_bits(tiled_mm.mm(a, b, algo=algo), expected, algo)


@each_rung_and(cases.DTYPES)
def test_entries_of_a_batch(device: str, algo: str | None, dtype: torch.dtype) -> None:
    a = torch.stack([cases.fill(34, 131, dtype, device) for _ in range(5)])
    b = torch.stack([cases.fill(131, 21, dtype, device) for _ in range(5)])
    c = tiled_mm.bmm(a, b, algo=algo)
    t = tiled_mm.bmm(a.mT.contiguous().mT, b.mT.contiguous().mT, algo=algo)
    for i in range(5):
        expected = tiled_mm.mm(a[i], b[i], algo=algo)
        assert_same_bits(c[i], expected, f"entry {i}")
        assert_same_bits(t[i], expected, f"entry {i}, transposed")


@each("in_dims", ((0, None), (None, 0), (0, 0), (1, None), (None, 2), (2, 1)))
@each_rung
def test_vmap(device: str, algo: str | None, in_dims: tuple) -> None:
    batch, m, n, k = 6, 17, 19, 131
    operands = []
    for (rows, cols), dim in zip(((m, k), (k, n)), in_dims, strict=True):
        count = 1 if dim is None else batch
        stack = torch.stack([cases.fill(rows, cols, torch.float32, device) for _ in range(count)])
        operands.append(stack[0] if dim is None else stack.movedim(0, dim))
    a, b = operands
    mapped = torch.vmap(lambda x, y: tiled_mm.mm(x, y, algo=algo), in_dims)(a, b)
    for i in range(batch):
        x, y = (
            t if dim is None else t.select(dim, i) for t, dim in zip((a, b), in_dims, strict=True)
        )
        assert_same_bits(mapped[i], tiled_mm.mm(x, y, algo=algo), f"entry {i}")


@each("dtype", cases.DTYPES)
@each("algo", (None, *cases.RUNGS["cpu"]))
def test_thread_counts(threads: None, algo: str | None, dtype: torch.dtype) -> None:
    for m, n, k in ((257, 130, 65), (1, 1000, 300), (1000, 1, 300), (4, 4, 9000), (4, 4, 36868)):
        a, b = cases.pair(m, n, k, dtype)
        results = []
        for count in (1, 2, 3, 7):
            torch.set_num_threads(count)
            results.append(tiled_mm.mm(a, b, algo=algo))
        for count, c in zip((2, 3, 7), results[1:], strict=True):
            assert_same_bits(c, results[0], f"{count} threads")


@each("algo", (None, *cases.RUNGS["cpu"]))
def test_calls_from_several_threads(algo: str | None) -> None:
    pairs = [cases.pair(130, 131, 300 + i, torch.float32) for i in range(4)]
    expected = [tiled_mm.mm(a, b, algo=algo) for a, b in pairs]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: tiled_mm.mm(*pairs[i % 4], algo=algo), range(200)))
    for i, c in enumerate(found):
        assert_same_bits(c, expected[i % 4], f"call {i}")


@each_rung_and(cases.FLOATS)
def test_repeated_runs(device: str, algo: str | None, dtype: torch.dtype) -> None:
    a, b = cases.pair(130, 131, 300, dtype, device)
    expected = tiled_mm.mm(a, b, algo=algo)
    for _ in range(20):
        assert_same_bits(tiled_mm.mm(a, b, algo=algo), expected)


@pytest.mark.cuda
@each("dtype", cases.DTYPES)
def test_cpu_and_gpu_are_equal(dtype: torch.dtype) -> None:
    for m, n, k in ((67, 45, 131), (1, 257, 64), (33, 5, 4097), (9, 11, 9 * 4096 + 1)):
        a, b = cases.pair(m, n, k, dtype)
        on_gpu, on_cpu = (
            tiled_mm.mm(x, y, precision="ieee") for x, y in ((a.cuda(), b.cuda()), (a, b))
        )
        assert_same_bits(on_gpu.cpu(), on_cpu, f"{m} x {n} x {k}")


@pytest.mark.cuda
@each("dtype", cases.HALVES)
def test_cpu_and_gpu_are_equal_with_fp32_output(dtype: torch.dtype) -> None:
    for k in (4097, 9 * 4096 + 1):
        a, b = cases.pair(33, 45, k, dtype)
        on_gpu, on_cpu = (
            tiled_mm.mm(x, y, precision="ieee", out_dtype=torch.float32)
            for x, y in ((a.cuda(), b.cuda()), (a, b))
        )
        assert_same_bits(on_gpu.cpu(), on_cpu, f"K = {k}")
