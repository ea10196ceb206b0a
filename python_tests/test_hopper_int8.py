"""Products of bytes by wgmma: every way of rung hopper beside exact sums, drawn sizes beside those
of torch, extremes and sums that wrap around, groups, and scales.

The exact sum is one in float64, which has no rounding below 2^53 and here is below 2^39, and of
which the low 32 bits remain."""

from __future__ import annotations

import random

import cases
import groups
import pytest
import scaled
import tiled_mm
import torch
from cases import each
from epilogues import same_bits
from rungs import DEEP, of_each_tile, ways_of

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]

BYTES = (torch.int8, torch.uint8)
INT32 = {"out_dtype": torch.int32}
HOPPER = {"algo": "hopper"}

each_byte = each("dtype", BYTES)


def exact(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.matmul(a.double(), b.double()).long().to(torch.int32)


def check(c: torch.Tensor, whole: torch.Tensor, what: object) -> None:
    """C is of int32, or of the operands' dtype."""
    assert c.shape == whole.shape and torch.equal(c, whole.to(c.dtype)), what


def operands(m: int, n: int, k: int, dtype: torch.dtype, layout: str) -> tuple:
    return tuple(
        cases.LAYOUTS[name](*size, dtype, "cuda")
        for name, size in zip(layout.split("-"), ((m, k), (k, n)), strict=True)
    )


@each_byte
@each("layout", ("n-t", "n-n", "t-t", "t-n"))
def test_every_way(dtype: torch.dtype, layout: str) -> None:
    """Of sizes that end within every tile; a C whose rows TMA writes, and one that it cannot."""
    for m, n, k in ((136, 272, 592), (300, 203, 1000), (16, 520, 4104), (70, 66, DEEP)):
        a, b = operands(m, n, k, dtype, layout)
        whole = exact(a, b)
        for asked in (INT32, {}):
            ways = ways_of(a, b, "hopper", **asked)
            assert len({way[0] for way in ways}) >= 19 and {way[1] for way in ways} == {True, False}
            assert (k < 32768) == (not any(way[4] for way in ways))
            for way in ways:
                c = torch.ops.tiled_debug.mm_with_tile(a, b, *way, **HOPPER, **asked)
                check(c, whole, (m, n, k, asked, way))


@each_byte
def test_many_tiles_of_each_block(dtype: torch.dtype) -> None:
    """Blocks go on from tile to tile, and so do their slices; in pairs, or alone."""
    for m, n, k in ((3000, 2600, 384), (2600, 3001, 130), (129, 40000, 256)):
        a, b = operands(m, n, k, dtype, "n-t")
        whole = exact(a, b)
        for asked in (INT32, {}):
            for way in of_each_tile(ways_of(a, b, "hopper", **asked)):
                c = torch.ops.tiled_debug.mm_with_tile(a, b, *way, **HOPPER, **asked)
                check(c, whole, (m, n, k, asked, way))


def drawn(rng: random.Random) -> tuple[int, int, int]:
    step = rng.choice((1, 1, 8, 16, 64))
    return tuple(step * rng.randint(1, int(2 ** rng.uniform(1, 11)) // step + 1) for _ in range(3))


@each("part", range(4))
def test_drawn_products(part: int) -> None:
    rng = random.Random(part)
    for _ in range(100):
        m, n, k = drawn(rng)
        dtype = rng.choice(BYTES)
        names = list(cases.layouts_of(dtype))
        layout = f"{rng.choice(names)}-{rng.choice(names)}"
        a, b = operands(m, n, k, dtype, layout)
        whole = exact(a, b)
        for asked in (INT32, {}):
            for algo in (None, "hopper"):
                c = tiled_mm.mm(a, b, algo=algo, **asked)
                check(c, whole, (m, n, k, dtype, layout, asked, algo))


@each_byte
def test_extremes_and_sums_that_wrap_around(dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    for k in (1, 35, 128, 5000, 140000):
        for x in (info.min, info.max):
            for y in (info.min, info.max):
                a = torch.full((150, k), x, dtype=dtype, device="cuda")
                b = torch.full((270, k), y, dtype=dtype, device="cuda").t()
                total = (x * y * k + 2**31) % 2**32 - 2**31
                assert abs(x * y * k) < 2**31 or k == 140000
                whole = torch.full((150, 270), total, dtype=torch.int32, device="cuda")
                for asked in (INT32, {}):
                    for way in of_each_tile(ways_of(a, b, "hopper", **asked)):
                        c = torch.ops.tiled_debug.mm_with_tile(a, b, *way, **HOPPER, **asked)
                        check(c, whole, (x, y, k, way))


@each_byte
def test_a_result_that_lies_anywhere(dtype: torch.dtype) -> None:
    for m, n, k in ((130, 264, 96), (37, 45, 66)):
        a, b = operands(m, n, k, dtype, "n-t")
        whole = exact(a, b)
        for out_dtype in (torch.int32, dtype):
            for name, memory, out in cases.outputs(m, n, out_dtype, "cuda"):
                tiled_mm.mm(a, b, out=out, out_dtype=out_dtype, **HOPPER)
                check(out, whole, (name, out_dtype))
                assert cases.is_untouched_outside(memory, out), (name, out_dtype)


@each_byte
def test_batches(dtype: torch.dtype) -> None:
    for m, n, k in ((65, 40, 130), (128, 256, 384), (1, 33, 4100), (3, 4, 0)):
        a = torch.stack([cases.fill(m, k, dtype, "cuda") for _ in range(3)])
        b = torch.stack([cases.fill(k, n, dtype, "cuda") for _ in range(3)])
        for y in (b, b[:1].expand(3, -1, -1), b.mT.contiguous().mT):
            for asked in (INT32, {}):
                check(tiled_mm.bmm(a, y, **HOPPER, **asked), exact(a, y), (m, n, k, asked))


def test_a_graph_has_the_copies_too() -> None:
    a, b = operands(200, 301, 257, torch.int8, "t-n")
    whole = exact(a, b)
    tiled_mm.mm(a, b, **HOPPER, **INT32)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = tiled_mm.mm(a, b, **HOPPER, **INT32)
    for seed in range(3):
        torch.manual_seed(seed)
        a.random_(-128, 128)
        graph.replay()
        check(c, exact(a, b), seed)
    assert not torch.equal(c, whole)


# ---- groups --------------------------------------------------------------------------------------


def drawn_groups(rng: random.Random, dtype: torch.dtype) -> groups.Groups:
    form = rng.choice(("rows", "rows", "columns", "batch"))
    ends, total = groups.draw(rng, 700)
    p, q = (rng.choice((16, 64, 128, 200, 320, 33, 7, 129)) for _ in range(2))
    g = groups.make(form, ends, total, p, q, dtype, "cuda", rng.choice((torch.int32, torch.int64)))
    return g.on(*(t.mT.contiguous().mT if rng.random() < 0.5 else t for t in (g.a, g.b)))


@each_byte
def test_drawn_groups(dtype: torch.dtype) -> None:
    rng = random.Random(3)
    for i in range(100):
        g = drawn_groups(rng, dtype)
        for asked in (INT32, {}):
            for algo in (None, "hopper"):
                c = g.run(algo=algo, **asked)
                what = (i, g.form, g.ends, g.a.shape, g.b.shape, asked, algo)
                for part, whole in zip(g.parts(c), g.expected(exact), strict=True):
                    check(part, whole, what)
                assert not g.beyond(c).any(), what


def test_large_groups() -> None:
    """Of so many rows each that the tiles for groups take turns in being chosen."""
    for p, q, rows in ((1024, 4096, 2000), (4096, 1024, 300), (512, 768, 30), (2048, 512, 4)):
        ends = tuple(rows * i + i % 3 for i in range(1, 9))
        g = groups.make("rows", ends, ends[-1], p, q, torch.int8, "cuda")
        g = g.on(g.a, g.b.mT.contiguous().mT)
        for part, whole in zip(g.parts(g.run(**INT32)), g.expected(exact), strict=True):
            check(part, whole, (p, q, rows))


# ---- with scales ---------------------------------------------------------------------------------


def expected(o: scaled.Operands, dtype: torch.dtype) -> torch.Tensor:
    """The exact sum, rounded to fp32, times the product of the scales; -0 becomes +0."""
    scale = o.scale_a * (o.scale_b if o.recipe_b == "TensorWise" else o.scale_b.reshape(1, -1))
    return (scale * exact(o.a, o.b).float() + 0.0).to(dtype)


@each("recipe_a", scaled.RECIPES[:2])
@each("recipe_b", scaled.RECIPES[:2])
def test_scaled_by_every_way(recipe_a: str, recipe_b: str) -> None:
    for m, n, k in ((130, 257, 300), (16, 512, 1000), (1, 1, 1), (300, 200, 4096), (7, 96, 40000)):
        o = scaled.make(m, n, k, recipe_a, recipe_b, (torch.int8, torch.int8), device="cuda")
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            right, count = expected(o, dtype), 0
            assert same_bits(tiled_mm.scaled_mm(*o.all(), out_dtype=dtype), right)
            for way, c in scaled.by_every_way(o, dtype):
                count += 1
                assert same_bits(c, right), (m, n, k, dtype, way)
            assert count >= len(scaled.TILES)


def test_scaled_has_the_bits_of_the_cpu() -> None:
    """With a bias and an activation too; of drawn sizes."""
    rng = random.Random(5)
    for seed in range(60):
        m, n, k = drawn(rng)
        m, n = min(m, 400), min(n, 400)
        kinds = (torch.int8, torch.int8)
        recipes = (rng.choice(scaled.RECIPES[:2]), rng.choice(scaled.RECIPES[:2]))
        here = scaled.make(m, n, k, *recipes, kinds, seed=seed, device="cuda")
        there = scaled.make(m, n, k, *recipes, kinds, seed=seed)
        for activation, bias in ((None, None), ("gelu", None), ("relu", torch.randn(n))):
            for dtype in (torch.float32, torch.bfloat16, torch.float16):
                asked = {"activation": activation, "out_dtype": dtype}
                on_cpu = tiled_mm.scaled_mm(*there.all(), bias=bias, **asked)
                bias_here = None if bias is None else bias.cuda()
                on_gpu = tiled_mm.scaled_mm(*here.all(), bias=bias_here, **asked)
                assert same_bits(on_gpu.cpu(), on_cpu), (m, n, k, recipes, asked)


def test_scaled_groups() -> None:
    rng = random.Random(9)
    for i in range(40):
        g = drawn_groups(rng, torch.int8)
        count = len(g.ends or g.a)
        if g.form == "rows":
            scale_a = torch.rand(g.a.shape[0], 1, device="cuda")
            scale_b = torch.rand(count, 1, g.b.shape[-1], device="cuda")
        elif g.form == "columns":
            scale_a = torch.rand(count, g.a.shape[1], 1, device="cuda")
            scale_b = torch.rand(1, g.b.shape[1], device="cuda")
        else:
            scale_a = torch.rand(count, g.a.shape[1], 1, device="cuda")
            scale_b = torch.rand(count, 1, g.b.shape[-1], device="cuda")
        c = tiled_mm.scaled_mm(g.a, g.b, scale_a, scale_b, offs=g.offs)
        spans = g.spans() or [(0, 0)] * count
        each_group = zip(g.parts(c), g.each(), spans, strict=True)
        for j, (part, (a, b), (begin, end)) in enumerate(each_group):
            s_a = scale_a[begin:end] if g.form == "rows" else scale_a[j]
            s_b = scale_b[:, begin:end] if g.form == "columns" else scale_b[j]
            right = (s_a * s_b * exact(a, b).float()).to(torch.bfloat16)
            assert same_bits(part.contiguous(), right), (i, g.form, g.ends, j)
        assert not g.beyond(c).any()
