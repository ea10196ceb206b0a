"""Rung few_rows: every tile, whatever the layout, has the bits of the other rungs; and what its
ring of stages and its walk from tile to tile could get wrong. (The rest is test_rungs.py's.)"""

from __future__ import annotations

import functools

import cases
import pytest
import rungs
import tiled_mm
import torch
from cases import each
from golden import assert_same_bits

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]

# Inputs, the precision they ask for, and a rung with the same arithmetic.
KINDS = {
    "bfloat16": (torch.bfloat16, None, "mma_tile"),
    "float16": (torch.float16, None, "mma_tile"),
    "tf32": (torch.float32, "tf32", "mma_tile"),
    "float32": (torch.float32, "ieee", "register_tile"),
    "float64": (torch.float64, None, "mma_tile"),
}
each_kind = each("kind", tuple(KINDS))


def normal(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(rows, columns, device="cuda").to(dtype)


def weights(n: int, k: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """[K, N]: along k, and along n."""
    b = normal(k, n, dtype)
    return b.t().contiguous().t(), b


# Less than a tile, several a block of unequal heights, edges of both, chains of many laps of the
# ring, and a deep K.
SIZES = ((24, 40), (104, 200), (8200, 264), (18440, 136), (520, 6152), (72, 9 * 4096 + 264))


@each("rows", (1, 2, 5, 8, 16, 17, 33, 64, 100))
@each_kind
def test_every_tile_has_the_bits_of_the_other_rungs(kind: str, rows: int) -> None:
    dtype, precision, other = KINDS[kind]
    asked = {"precision": precision}
    met = set()
    for n, k in SIZES:
        a = normal(rows, k, dtype)
        for b in weights(n, k, dtype):
            for x, y in ((a, b), (b.t(), a.t())):
                expected = tiled_mm.mm(x, y, algo=other, **asked)
                assert expected.isfinite().all()
                for way in rungs.ways_of(x, y, "few_rows", **asked):
                    c = torch.ops.tiled_debug.mm_with_tile(x, y, *way, algo="few_rows", **asked)
                    assert_same_bits(c, expected, f"{n} x {k}, {way}")
                    met.add(way[0])
    assert len(met) >= 4, "several ways to share a weight out"


@each_kind
def test_repeats_beside_another_stream(kind: str) -> None:
    """The ring, 100 times."""
    dtype, precision, other = KINDS[kind]
    asked = {"precision": precision}
    few_rows = functools.partial(tiled_mm.mm, algo="few_rows", **asked)
    for n, k in ((4096, 4096), (520, 6152)):
        a, (b, _) = normal(7, k, dtype), weights(n, k, dtype)
        expected = tiled_mm.mm(a, b, algo=other, **asked)
        cases.beside_another_stream(few_rows, a, b, expected, 50)


@each_kind
def test_stores_that_loads_wait_behind(kind: str) -> None:
    """A stage may not be filled again while loads of it wait behind slow stores.

    Where C is contiguous along the few rows, every lane stores to another row, and the first stores
    of a block take microseconds; what the warp has then asked for of the next tile waits behind
    them. A kernel that released a stage too early was wrong in one product of 400.
    """
    dtype, precision, other = KINDS[kind]
    asked = {"precision": precision}
    for n, k, rows in ((18440, 136, 64), (8200, 264, 64), (8200, 264, 33)):
        a = normal(rows, k, dtype).t()
        for w in weights(n, k, dtype):
            x = w.t()
            expected = tiled_mm.mm(x, a, algo=other, **asked)
            wrong = torch.zeros((), dtype=torch.int64, device="cuda")
            ways = rungs.ways_of(x, a, "few_rows", **asked)
            for way in ways:
                for _ in range(6000 // len(ways)):
                    c = torch.ops.tiled_debug.mm_with_tile(x, a, *way, algo="few_rows", **asked)
                    wrong += (c != expected).any()
            assert wrong.item() == 0, f"{n} x {k} by {rows}, {w.stride()}"


@each_kind
def test_a_chain_of_products(kind: str) -> None:
    """Each reads what the one before has just written, and starts before it has ended."""
    dtype, precision, other = KINDS[kind]
    asked = {"precision": precision}
    b = (torch.randn(512, 512, device="cuda") / 16).to(dtype).t()
    x = normal(5, 512, dtype)
    results = {}
    for algo in ("few_rows", other):
        for _ in range(3):
            y = x
            for _ in range(200):
                y = tiled_mm.mm(y, b, algo=algo, **asked)
                y = y.clamp(-4, 4) if _ % 20 == 19 else y
            results.setdefault(algo, y)
            assert_same_bits(y, results[algo])
    assert results[other].isfinite().all()
    assert_same_bits(results["few_rows"], results[other])


@each_kind
def test_a_batch_of_weights(kind: str) -> None:
    dtype, precision, _ = KINDS[kind]
    asked = {"algo": "few_rows", "precision": precision}
    a = torch.stack([normal(3, 264, dtype) for _ in range(150)])
    b = torch.stack([normal(264, 72, dtype) for _ in range(150)])
    for x, y in ((a, b), (a, b.mT.contiguous().mT), (a[:1].expand_as(a), b)):
        c = tiled_mm.bmm(x, y, **asked)
        for i in range(0, 150, 7):
            assert_same_bits(c[i], tiled_mm.mm(x[i], y[i], **asked), f"entry {i}")
