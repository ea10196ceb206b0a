"""Segments of a deep K that blocks share out, and the kernel that adds their sums: the bits of the
rungs whose blocks go through all of K, by every way there is, whatever C is and whatever finishes
it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import rungs
import tiled_mm
import torch
from cases import each
from golden import assert_same_bits

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]

# Inputs, the precision they ask for, and a rung that shares nothing out.
KINDS = {
    "float32": (torch.float32, "ieee", "naive"),
    "float64": (torch.float64, None, "naive"),
    "bfloat16": (torch.bfloat16, None, "mma_tile"),
    "float16": (torch.float16, None, "mma_tile"),
    "tf32": (torch.float32, "tf32", "mma_tile"),
}
each_kind = each("kind", tuple(KINDS))
RUNGS = {
    "float32": ("register_tile", "few_rows"),
    "float64": ("register_tile", "mma_tile", "few_rows"),
    **dict.fromkeys(("bfloat16", "float16", "tf32"), ("hopper", "few_rows", "async_mma")),
}
# Eight whole segments; a ninth of one k; nine and a tenth of seven.
DEPTHS = (32768, 32769, 9 * 4096 + 7)


def operand(rows: int, columns: int, layout: str, dtype: torch.dtype) -> torch.Tensor:
    """n, t: rows or columns together; u: rows one element more apart, from an odd address."""
    if layout == "t":
        return operand(columns, rows, "n", dtype).mT
    if layout == "u":
        return operand(rows, columns + 1, "n", dtype)[:, 1:]
    return torch.randn(rows, columns, device="cuda").to(dtype)


def pair(m: int, n: int, k: int, layout: str, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    return operand(m, k, layout[0], dtype), operand(k, n, layout[1], dtype)


def leave_nan() -> None:
    """In memory that the next workspace may get."""
    for size in (1 << 22, 1 << 17, 1 << 14):
        torch.full((size,), torch.nan, device="cuda")


def ways(kind: str, a: torch.Tensor, b: torch.Tensor) -> Iterator[tuple[rungs.Way, str]]:
    """Every rung's ways by split-K, and the rung."""
    asked = {"precision": KINDS[kind][1]}
    for algo in RUNGS[kind]:
        shared = [way for way in rungs.ways_of(a, b, algo, **asked) if way[-1]]
        for way in rungs.of_each_tile(shared) if algo == "hopper" else shared:
            yield way, algo


@each("k", DEPTHS)
@each_kind
def test_every_way_has_the_bits_of_one_that_shares_nothing(kind: str, k: int) -> None:
    dtype, precision, other = KINDS[kind]
    asked = {"precision": precision}
    met = set()
    sizes = ((1, 1), (7, 33), (64, 64), (65, 130))
    for (m, n), layout in itertools.product(sizes, ("nn", "nt", "tn", "ut")):
        a, b = pair(m, n, k, layout, dtype)
        expected = tiled_mm.mm(a, b, algo=other, **asked)
        assert expected.isfinite().all()
        assert_same_bits(tiled_mm.mm(a, b, **asked), expected, f"{m} x {n}, {layout}")
        for way, algo in ways(kind, a, b):
            leave_nan()
            c = torch.ops.tiled_debug.mm_with_tile(a, b, *way, algo=algo, **asked)
            assert_same_bits(c, expected, f"{m} x {n}, {layout}, {algo} {way}")
            met.add(algo)
    assert met == set(RUNGS[kind])


@each_kind
def test_where_c_lies_and_what_it_is(kind: str) -> None:
    """By columns, every third element of a row, a batch, a B for all of it, and fp32."""
    dtype, precision, other = KINDS[kind]
    asked = {"precision": precision}
    for m, n, k in ((40, 72, 36900), (5, 131, 32769)):
        a, b = pair(m, n, k, "nt", dtype)
        expected = tiled_mm.mm(a, b, algo=other, **asked)
        x, y = torch.stack((a, -a, a * 2)), torch.stack((b, b, -b))
        one = y[:1].expand(3, -1, -1)
        for algo in (None, *RUNGS[kind]):
            what = f"{m} x {n}, {algo}"
            by_columns = torch.full((n, m), torch.nan, dtype=dtype, device="cuda").mT
            strided = torch.full((m, 3 * n), torch.nan, dtype=dtype, device="cuda")
            for out in (by_columns, strided[:, ::3]):
                tiled_mm.mm(a, b, out=out, algo=algo, **asked)
                assert_same_bits(out, expected, what)
            assert strided[:, 1::3].isnan().all() and strided[:, 2::3].isnan().all()
            # Signs and powers of two change no rounding.
            batch = tiled_mm.bmm(x, y, algo=algo, **asked)
            assert_same_bits(batch, torch.stack((expected, -expected, -2 * expected)), what)
            batch = tiled_mm.bmm(x, one, algo=algo, **asked)
            assert_same_bits(batch, torch.stack((expected, -expected, 2 * expected)), what)
            if dtype in (torch.float16, torch.bfloat16):
                wide = tiled_mm.mm(a, b, algo=algo, out_dtype=torch.float32)
                right = tiled_mm.mm(a, b, algo=other, out_dtype=torch.float32)
                assert_same_bits(wide, right, what)


@each_kind
def test_the_kernel_of_the_sums_finishes_them(kind: str) -> None:
    dtype, precision, other = KINDS[kind]
    finish = torch.ops.tiled_debug.mm_with_epilogue
    for along, layout in (("n", "nn"), ("m", "tn")):
        a, b = pair(40, 72, 32769, layout, dtype)
        asked = {
            "bias": operand(1, 72 if along == "n" else 40, "n", dtype)[0],
            "bias_along": along,
            "input": operand(40, 72, "n", dtype),
            "alpha": 0.5,
            "beta": 2,
            "activation": "gelu",
            "pre_activation": True,
            "precision": precision,
        }
        expected = finish(a, b, algo=other, **asked)
        for algo in (None, *RUNGS[kind]):
            for found, right in zip(finish(a, b, algo=algo, **asked), expected, strict=True):
                assert_same_bits(found, right, f"{algo}, bias along {along}")


@each_kind
def test_sums_of_products_in_turn(kind: str) -> None:
    """The kernel that adds starts while the product still runs, in a workspace where the sums of
    another product lie that was there before."""
    dtype, precision, other = KINDS[kind]
    asked = {"precision": precision}
    pairs = [pair(64, 72, 32768 + 8, "nt", dtype) for _ in range(2)]
    expected = [tiled_mm.mm(a, b, algo=other, **asked) for a, b in pairs]
    for algo in RUNGS[kind]:
        found = [tiled_mm.mm(*pairs[i % 2], algo=algo, **asked) for i in range(100)]
        for i, c in enumerate(found):
            assert_same_bits(c, expected[i % 2], f"{algo}, product {i}")
