"""Rung async_mma: every tile, whatever the layout, alignment and result, has the bits of the other
rungs; and what its ring of stages could get wrong. (The rest is test_rungs.py's.)"""

from __future__ import annotations

import functools

import cases
import pytest
import rungs
import tiled_mm
import torch
from cases import HALVES, each
from golden import assert_equal

pytestmark = [pytest.mark.cuda, pytest.mark.mma]


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


TF32 = {"precision": "tf32"}
INT32 = {"out_dtype": torch.int32}  # sums of bytes as they are
of_halves = [pytest.param(d, {}, id=str(d).removeprefix("torch.")) for d in HALVES]
of_tf32 = pytest.param(torch.float32, TF32, id="tf32")
of_bytes = [
    pytest.param(dtype, asked, id=name)
    for name, dtype, asked in (
        ("int8", torch.int8, {}),
        ("int8 to int32", torch.int8, INT32),
        ("uint8", torch.uint8, {}),
        ("uint8 to int32", torch.uint8, INT32),
    )
]
each_kind = pytest.mark.parametrize(("dtype", "asked"), [*of_halves, of_tf32, *of_bytes])


# A little more than every tile, less than one, a long ring that ends within a step or not, and a
# deep K.
SIZES = ((136, 264, 584), (136, 264, 592), (131, 261, 203), (5, 7, 1), (72, 136, 9 * 4096 + 272))


@each("size", SIZES)
@each_kind
def test_every_tile_has_the_bits_of_the_other_rungs(
    dtype: torch.dtype, asked: dict, size: tuple
) -> None:
    m, n, k = size
    a, b = normal(m, k, dtype), normal(k, n, dtype)
    expected = reference(a, b, **asked)
    met = set()
    for (name_a, x), (name_b, y) in pairs(a, b):
        for tile, way, c in with_each_tile(x, y, **asked):
            assert_equal(c, expected, (*way, name_a, name_b))
            met.add(tile)
    assert len(met) == tiles()


@each_kind
def test_results_of_any_layout(dtype: torch.dtype, asked: dict) -> None:
    a, b = normal(133, 80, dtype), normal(80, 261, dtype)
    for more in ({}, {"out_dtype": torch.float32}) if dtype in HALVES else ({},):
        expected = reference(a, b, **asked | more)
        for name, out in laid(torch.zeros_like(expected)).items():
            tiled_mm.mm(a, b, algo="async_mma", out=out, **asked | more)
            assert_equal(out, expected, name)
        hole = cases.in_a_hole(cases.hole(133, 261, expected.dtype, "cuda"))
        tiled_mm.mm(a, b, algo="async_mma", out=hole, **asked | more)
        assert_equal(hole, expected)


@pytest.mark.parametrize(("dtype", "asked"), [*of_halves, of_tf32, of_bytes[0]])
def test_repeats_beside_another_stream(dtype: torch.dtype, asked: dict) -> None:
    """The ring, 100 times."""
    async_mma = functools.partial(tiled_mm.mm, algo="async_mma", **asked)
    for m, n, k in ((1024, 1024, 1024), (300, 520, 6152), (255, 257, 999)):
        a, b = normal(m, k, dtype), normal(n, k, dtype).t()
        cases.beside_another_stream(async_mma, a, b, reference(a, b, **asked), 34)


def test_what_rounding_to_tf32_meets() -> None:
    """Ties, overflow, subnormals, Inf, and NaN whose payload is in the bits that are cut."""
    bits = [0x3F800FFF, 0x3F801000, 0x3F801001, 0x3F803000, 0x7F7FFFFF, 0x7F800000, 0x7F800001]
    bits += [0x7FFFFFFF, 0x00000001, 0x00001000, 0x00001001, 0x007FFFFF, 0x00800001, 0, 0x33333333]
    bits += [x | 0x80000000 for x in bits]
    words = torch.tensor(bits, dtype=torch.int64).to(torch.int32).view(torch.float32)
    values = torch.zeros(32, 32, device="cuda")
    values[: len(bits), 0] = words.cuda()
    for b in (torch.eye(32, device="cuda"), torch.full((32, 32), 1.5, device="cuda")):
        for x, y in ((values, b), (b, values), (values.t(), b)):
            for tile, _, c in with_each_tile(x, y, **TF32):
                assert_equal(c, reference(x, y, **TF32), tile)
