"""Rung tall: every tile, whatever the layout, alignment and result, has the bits of the other
rungs, over thousands of strips too. (The rest is test_rungs.py's.)"""

from __future__ import annotations

import cases
import pytest
import rungs
import tiled_mm
import torch
from cases import HALVES, each
from golden import assert_same_bits
from test_few_rows import normal

pytestmark = [pytest.mark.cuda, pytest.mark.mma]

each_dtype = each("dtype", (*HALVES, torch.float32))


def reference(a: torch.Tensor, b: torch.Tensor, **asked) -> torch.Tensor:
    """The same bits by a rung that knows no strips."""
    if a.dtype == torch.float32:
        return tiled_mm.mm(a, b, algo="naive", **asked)
    algo = "mma_tile" if rungs.has_tensor_core_kernels("cuda") else "async_mma"
    return tiled_mm.mm(a, b, algo=algo, **asked)


def check_each_tile(a: torch.Tensor, b: torch.Tensor, what: object) -> None:
    expected = reference(a, b)
    ways = rungs.ways_of(a, b, "tall")
    assert len(ways) >= 3
    for way in ways:
        c = torch.ops.tiled_debug.mm_with_tile(a, b, *way, algo="tall")
        assert_same_bits(c, expected, f"{what} by {way}")


@each(
    "size", ((150001, 16, 16), (60001, 48, 96), (40000, 64, 64), (9001, 256, 32), (9000, 100, 260))
)
@each_dtype
def test_many_strips(dtype: torch.dtype, size: tuple) -> None:
    m, n, k = size
    a, b = normal(m, k, dtype), normal(k, n, dtype)
    for name, x, y in (("nn", a, b), ("nt", a, cases.column_major(b))):
        check_each_tile(x, y, (name, size))
    check_each_tile(cases.column_major(a), b, ("tn", size))
    check_each_tile(b.t(), a.t(), ("swap_ab", size))


@each("k", (1, 4, 7, 16, 20, 33, 130))
@each_dtype
def test_rows_that_begin_anywhere(dtype: torch.dtype, k: int) -> None:
    for n in (1, 4, 7, 24, 33):
        for name, a in cases.laid_out(normal(2001, k, dtype)):
            check_each_tile(a, normal(k, n, dtype), (name, n, k))
        for name, b in cases.laid_out(normal(k, n, dtype)):
            check_each_tile(normal(999, k, dtype), b, (name, n, k))


@each_dtype
def test_where_the_result_goes(dtype: torch.dtype) -> None:
    for m, n, k in ((3001, 16, 24), (3000, 7, 9), (2001, 136, 40), (24, 3000, 16), (7, 3001, 16)):
        a, b = normal(m, k, dtype), normal(k, n, dtype)
        for out_dtype in {dtype, torch.float32}:
            expected = reference(a, b, out_dtype=out_dtype)
            for name, whole, out in cases.outputs(m, n, out_dtype, "cuda"):
                tiled_mm.mm(a, b, algo="tall", out_dtype=out_dtype, out=out)
                assert_same_bits(out, expected, f"{m} x {n} x {k}, {name}")
                assert cases.is_untouched_outside(whole, out), f"{name}: written outside of out"


@each_dtype
def test_a_panel_of_a_part_of_k(dtype: torch.dtype) -> None:
    """K so deep that the short operand does not fit, and so deep that it has segments."""
    for m, n, k in ((3000, 100, 3000), (300, 20, 9 * 4096 + 8)):
        check_each_tile(normal(m, k, dtype), normal(k, n, dtype), (m, n, k))


@each_dtype
def test_batches(dtype: torch.dtype) -> None:
    """Of matrices, of one short operand for all, and more entries than a grid has blocks."""
    for batch, m, n, k in ((5, 3001, 7, 9), (3, 700, 40, 24), (400, 65, 8, 8)):
        a = torch.randn(batch, m, k, device="cuda").to(dtype)
        b = torch.randn(batch, k, n, device="cuda").to(dtype)
        for y in (b, b[:1].expand(batch, k, n)):
            c = tiled_mm.bmm(a, y, algo="tall")
            for i in range(0, batch, 37 if batch > 37 else 1):
                assert_same_bits(c[i], reference(a[i], y[i]), f"{(batch, m, n, k)}, entry {i}")
