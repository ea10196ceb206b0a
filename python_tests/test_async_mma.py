"""Rung async_mma: every tile, whatever the layout, alignment and result, has the bits of the other
rungs; and what its ring of stages could get wrong. (The rest is test_rungs.py's.)"""

from __future__ import annotations

import cases
import pytest
import rungs
import tiled_mm
import torch
from cases import HALVES, each
from golden import assert_equal

pytestmark = [pytest.mark.cuda, pytest.mark.mma]

each_half = each("dtype", HALVES)


def normal(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    if not dtype.is_floating_point:
        return torch.randint(0, 256, (rows, columns), device="cuda", dtype=torch.uint8).view(dtype)
    return torch.randn(rows, columns, device="cuda").to(dtype)


def laid(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The same matrix along either dimension, at pitches of every alignment, and apart."""
    found = {}
    for name, y in (("rows", x), ("columns", x.t())):
        for extra in (0, 1, 2, 4):
            memory = torch.empty(y.shape[0], y.shape[1] + extra, dtype=x.dtype, device="cuda")
            part = memory[:, extra:]
            part.copy_(y)
            found[f"{name}+{extra}"] = part if name == "rows" else part.t()
    apart = torch.empty(2 * x.shape[0], 3 * x.shape[1], dtype=x.dtype, device="cuda")[::2, ::3]
    found["apart"] = apart.copy_(x)
    return found


def with_each_tile(a: torch.Tensor, b: torch.Tensor, **asked: object):
    for way in rungs.ways_of(a, b, "async_mma", **asked):
        c = torch.ops.tiled_debug.mm_with_tile(a, b, *way, algo="async_mma", **asked)
        yield way[0].split()[0], way, c


def pairs(a: torch.Tensor, b: torch.Tensor):
    """Each of A's layouts with three of B's, which go round: the same one, the next, and one that
    lies in the other direction."""
    of_a, of_b = list(laid(a).items()), list(laid(b).items())
    for i, first in enumerate(of_a):
        for step in (0, 1, 4):
            yield first, of_b[(i + step) % len(of_b)]


def reference(a: torch.Tensor, b: torch.Tensor, **asked) -> torch.Tensor:
    """The same bits by a rung whose loads are single elements; on GPUs without mma_tile by one of
    this rung's tiles, which the gates of test_rungs.py hold to the product."""
    if not a.dtype.is_floating_point:
        return tiled_mm.mm(a, b, algo="naive", **asked)
    algo = "mma_tile" if rungs.has_tensor_core_kernels("cuda") else "async_mma"
    return tiled_mm.mm(a, b, algo=algo, **asked)


def tiles() -> int:
    """That the GPU has: the largest needs more than the 99 KiB that a block may have on some."""
    return 7 if rungs.capability() in ((8, 6), (8, 9), (12, 0)) else 8


# A little more than every tile, less than one, a long ring, and a deep K.
SIZES = ((136, 264, 584), (131, 261, 203), (5, 7, 1), (72, 136, 9 * 4096 + 264))


@each("size", SIZES)
@each_half
def test_every_tile_has_the_bits_of_the_other_rungs(dtype: torch.dtype, size: tuple) -> None:
    m, n, k = size
    a, b = normal(m, k, dtype), normal(k, n, dtype)
    expected = reference(a, b)
    met = set()
    for (name_a, x), (name_b, y) in pairs(a, b):
        for tile, way, c in with_each_tile(x, y):
            assert_equal(c, expected, (*way, name_a, name_b))
            met.add(tile)
    assert len(met) == tiles()


@each_half
def test_results_of_any_layout(dtype: torch.dtype) -> None:
    a, b = normal(133, 80, dtype), normal(80, 261, dtype)
    expected = reference(a, b)
    for out_dtype in (dtype, torch.float32):
        wide = reference(a, b, out_dtype=out_dtype)
        for name, out in laid(torch.zeros(133, 261, device="cuda", dtype=out_dtype)).items():
            tiled_mm.mm(a, b, algo="async_mma", out=out, out_dtype=out_dtype)
            assert_equal(out, wide, name)
    hole = cases.in_a_hole(cases.hole(133, 261, dtype, "cuda"))
    tiled_mm.mm(a, b, algo="async_mma", out=hole)
    assert_equal(hole, expected)


TF32 = {"precision": "tf32"}
INT32 = {"out_dtype": torch.int32}  # sums of bytes as they are
each_word = pytest.mark.parametrize(
    ("dtype", "asked"),
    [
        (torch.float32, TF32),
        *((dtype, asked) for dtype in (torch.int8, torch.uint8) for asked in ({}, INT32)),
    ],
    ids=["tf32", "int8", "int8 to int32", "uint8", "uint8 to int32"],
)
each_kind = pytest.mark.parametrize(
    ("dtype", "asked"),
    [(torch.float32, TF32), (torch.int8, {}), *((dtype, {}) for dtype in HALVES)],
    ids=["tf32", "int8", *(str(dtype).removeprefix("torch.") for dtype in HALVES)],
)


@each("size", ((136, 264, 592), (131, 261, 203), (5, 7, 1), (72, 136, 9 * 4096 + 272)))
@each_word
def test_every_tile_of_tf32_and_bytes(dtype: torch.dtype, asked: dict, size: tuple) -> None:
    m, n, k = size
    a, b = normal(m, k, dtype), normal(k, n, dtype)
    expected = reference(a, b, **asked)
    met = set()
    for (name_a, x), (name_b, y) in pairs(a, b):
        for tile, way, c in with_each_tile(x, y, **asked):
            assert_equal(c, expected, (*way, name_a, name_b))
            met.add(tile)
    assert len(met) == tiles()


@each_word
def test_results_of_any_layout_of_tf32_and_bytes(dtype: torch.dtype, asked: dict) -> None:
    a, b = normal(133, 80, dtype), normal(80, 261, dtype)
    expected = reference(a, b, **asked)
    zeros = torch.zeros_like(expected)
    for name, out in laid(zeros).items():
        tiled_mm.mm(a, b, algo="async_mma", out=out, **asked)
        assert_equal(out, expected, name)
    hole = cases.in_a_hole(cases.hole(133, 261, zeros.dtype, "cuda"))
    tiled_mm.mm(a, b, algo="async_mma", out=hole, **asked)
    assert_equal(hole, expected)


@each_kind
def test_repeats_beside_another_stream(dtype: torch.dtype, asked: dict) -> None:
    """The ring, 100 times, while another stream takes multiprocessors at random."""
    beside = torch.cuda.Stream()
    noise = normal(1536, 1536, torch.bfloat16)
    for m, n, k in ((1024, 1024, 1024), (300, 520, 6152), (255, 257, 999)):
        a, b = normal(m, k, dtype), normal(n, k, dtype).t()
        expected = reference(a, b, **asked)
        for _ in range(34):
            with torch.cuda.stream(beside):
                noise @ noise
            assert_equal(tiled_mm.mm(a, b, algo="async_mma", **asked), expected)


def test_what_rounding_to_tf32_meets() -> None:
    """Ties, overflow, subnormals, Inf, and NaN whose payload is in the bits that are cut."""
    bits = [0x3F800FFF, 0x3F801000, 0x3F801001, 0x3F803000, 0x7F7FFFFF, 0x7F800000, 0x7F800001]
    bits += [
        0x7FFFFFFF,
        0x00000001,
        0x00001000,
        0x00001001,
        0x007FFFFF,
        0x00800001,
        0x0,
        0x33333333,
    ]
    bits += [x | 0x80000000 for x in bits]
    words = torch.tensor(bits, dtype=torch.int64).to(torch.int32).view(torch.float32)
    values = torch.zeros(32, 32, device="cuda")
    values[: len(bits), 0] = words.cuda()
    for b in (torch.eye(32, device="cuda"), torch.full((32, 32), 1.5, device="cuda")):
        for x, y in ((values, b), (b, values), (values.t(), b)):
            for tile, _, c in with_each_tile(x, y, **TF32):
                assert_equal(c, reference(x, y, **TF32), tile)
