"""One answer: the bits of C[i, j] depend on row i of A and column j of B, and on nothing else."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import cases
import golden
import pytest
import rungs
import tiled_mm
import torch
from cases import each
from golden import assert_same_bits
from rungs import each_rung

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


@each("k", (1, 67, 4097, 32768 + 3))
@rungs.each_rung_and(cases.DTYPES)
def test_swapped_operands(device: str, algo: str | None, dtype: torch.dtype, k: int) -> None:
    """B' A' is (A B)', of complex numbers too (test_complex.py has more of them)."""
    if algo == "fp16x3":
        pytest.skip("fp16x3 does not promise it (docs/fp16x3.md)")
    a, b = cases.pair(33, 20, k, dtype, device)
    swapped = tiled_mm.mm(b.t(), a.t(), algo=algo).t()
    assert_same_bits(swapped, tiled_mm.mm(a, b, algo=algo))


@each("dtype", cases.DTYPES)
@each("algo", (None, *rungs.RUNGS["cpu"]))
def test_thread_counts(threads: None, algo: str | None, dtype: torch.dtype) -> None:
    for m, n, k in ((257, 130, 65), (1, 1000, 300), (1000, 1, 300), (4, 4, 9000), (4, 4, 36868)):
        a, b = cases.pair(m, n, k, dtype)
        results = []
        for count in (1, 2, 3, 7):
            torch.set_num_threads(count)
            results.append(tiled_mm.mm(a, b, algo=algo))
        for count, c in zip((2, 3, 7), results[1:], strict=True):
            assert_same_bits(c, results[0], f"{count} threads")


@each("algo", (None, *rungs.RUNGS["cpu"]))
def test_calls_from_several_threads(algo: str | None) -> None:
    pairs = [cases.pair(130, 131, 300 + i, torch.float32) for i in range(4)]
    expected = [tiled_mm.mm(a, b, algo=algo) for a, b in pairs]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: tiled_mm.mm(*pairs[i % 4], algo=algo), range(200)))
    for i, c in enumerate(found):
        assert_same_bits(c, expected[i % 4], f"call {i}")


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
