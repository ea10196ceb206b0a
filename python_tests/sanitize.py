r"""Every rung on the GPU over awkward shapes and layouts, for compute-sanitizer to watch:

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck \
        python python_tests/sanitize.py

and the same with synccheck, initcheck and, with --short since it is slow, racecheck (of the
tensor-core rungs with --check-warpgroup-mma yes). Without the caching allocator every tensor is an
allocation of its own, so a read one element past its end is seen. The results are compared bit for
bit: those of the fma arithmetic with the CPU's, those of tensor cores with one rung's, those of
fp16x3 with one tile's. The lines say how many products ran. Parts by name (PARTS) run alone.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import cases
import rungs
import scaled
import tiled_mm
import torch
import trees

SHORT_DTYPES = (torch.float32, torch.float64, torch.complex128)  # one of each accumulator's size
SHAPES = ((129, 130, 7), (65, 63, 9), (5, 300, 131), (1, 1, 1))
LAYOUTS = (
    *(("n", "n"), ("t", "t"), ("n", "t"), ("t", "n")),
    *(("misaligned", "slice"), ("strided", "n")),
)
# One crosses every tile in both directions, the other a segment.
LONG = ((130, 260, 4100), (9, 70, 32772))

TENSOR_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
# Aligned, so that every rung takes them, and odd; fractions of every tile, and some of several.
TENSOR_SHAPES = ((136, 264, 72), (8, 8, 8), (65, 63, 9), (300, 136, 131), (1, 1, 1))
SHORT_TENSOR_SHAPES = ((136, 72, 72), (65, 63, 9))
DEEP = (72, 136, 32840)  # crosses segments, the last by more than a step
# Of fp16x3: fractions of every tile and square, some of several; and a K of fma chains alone.
PARTS_SHAPES = (
    *((136, 264, 72), (65, 63, 9), (300, 136, 131), (1, 1, 64), (5, 300, 200)),
    *((300, 9, 4200), (16, 65, 300), (30, 72, 300)),  # few rows, and columns
)
SHORT_PARTS_SHAPES = ((136, 72, 72), (65, 63, 131), (3, 72, 131), (30, 72, 132), (9, 5, 9))
# Few rows of an operand, of few_rows's widths; a weight of a part of a tile, of several, and deep.
FEW_SHAPES = tuple(
    (m, n, k) for m in (1, 5, 16, 31, 64) for n, k in ((40, 24), (8456, 264), (72, 4200))
)
SHORT_FEW_SHAPES = ((1, 72, 264), (9, 8456, 24), (33, 72, 24), (64, 40, 520))
# Of tall: strips and their rests, columns about a tile's, a K of a panel and of several.
TALL_SHAPES = (
    (1100, 16, 16),
    (999, 7, 7),
    (600, 40, 33),
    (300, 130, 24),
    (16, 999, 24),
    (70, 17, 1030),
)
SHORT_TALL_SHAPES = ((600, 16, 16), (333, 7, 7), (40, 17, 72))
# Scaled: fractions of every tile and some of several; one block of K, a part of one, and some laps.
SCALED_SHAPES = ((130, 257, 304), (5, 300, 128), (300, 136, 2064), (1, 1, 16))
SHORT_SCALED_SHAPES = ((130, 72, 304),)
# A small C with a deep K, by split-K.
SHARED_SHAPES = ((9, 40, 32772), (72, 56, 36871))
FEW_LAYOUTS = (("n", "t"), ("n", "n"), ("t", "misaligned"))


def same_bits(x: torch.Tensor, y: torch.Tensor) -> bool:
    x, y = x.cpu().contiguous(), y.cpu().contiguous()
    return torch.equal(x.view(torch.uint8), y.view(torch.uint8))


def problems(shapes: tuple, dtypes: tuple, layouts: tuple) -> Iterator[tuple]:
    """(A, B, what they are)"""
    for (m, n, k), dtype, (layout_a, layout_b) in itertools.product(shapes, dtypes, layouts):
        a = cases.LAYOUTS[layout_a](m, k, dtype, "cuda")
        b = cases.LAYOUTS[layout_b](k, n, dtype, "cuda")
        yield a, b, (m, n, k, dtype, layout_a, layout_b)


def run(a, b, algos, expected: torch.Tensor, what: tuple, **keywords) -> int:
    """New results, results inside of other memory, and batches; how many."""
    m, n = expected.shape
    out = cases.in_a_hole(cases.hole(m, n, expected.dtype, "cuda"))
    for algo in algos:
        c = tiled_mm.mm(a, b, algo=algo, **keywords)
        assert same_bits(c, expected), (*what, algo)
        tiled_mm.mm(a, b, algo=algo, out=out, **keywords)
        assert same_bits(out, expected), (*what, algo, "out=")
        x, y = a.expand(3, *a.shape), b.expand(3, *b.shape)
        batch = tiled_mm.bmm(x, y, algo=algo, **keywords)
        assert all(same_bits(entry, expected) for entry in batch), (*what, algo, "bmm")
    return 3 * len(algos)


def run_ways(a, b, ways: list, expected: torch.Tensor, what: tuple, **asked) -> int:
    """Each of these ways by name; how many."""
    for way in ways:
        c = torch.ops.tiled_debug.mm_with_tile(a, b, *way, **asked)
        assert same_bits(c, expected), (*what, *way)
    return len(ways)


def run_fma(short: bool) -> int:
    """The rungs of the fma arithmetic."""
    if short:
        every = problems(SHAPES[:2], SHORT_DTYPES, LAYOUTS[2::2])
    else:
        every = itertools.chain(
            problems(SHAPES, cases.DTYPES, LAYOUTS),
            problems(LONG, (torch.float32,), LAYOUTS[:4]),
        )
    products = 0
    for a, b, what in every:
        expected = tiled_mm.mm(a.cpu(), b.cpu(), precision="ieee")
        algos = (None, *rungs.fma_rungs("cuda", a.dtype))
        products += run(a, b, algos, expected, what, precision="ieee")
    return products


def run_tensor_cores(short: bool) -> int:
    """Those on tensor cores."""
    if short:
        every = problems(SHORT_TENSOR_SHAPES, TENSOR_DTYPES, LAYOUTS[1:3])
    else:
        every = itertools.chain(
            problems(TENSOR_SHAPES, TENSOR_DTYPES, LAYOUTS),
            problems((DEEP,), TENSOR_DTYPES, LAYOUTS[:4]),
        )
    products = 0
    for a, b, what in every:
        asked = {"precision": "tf32"} if a.dtype == torch.float32 else {}
        algos = [x for x in tiled_mm.algos(a, b, **asked) if x in rungs.TENSOR_RUNGS]
        for out_dtype in {a.dtype, torch.float32}:
            expected = tiled_mm.mm(a, b, algo="mma_tile", out_dtype=out_dtype, **asked)
            products += run(a, b, (None, *algos), expected, what, out_dtype=out_dtype, **asked)
        expected = tiled_mm.mm(a, b, algo="mma_tile", **asked)
        ways = rungs.ways_of(a, b, "hopper", **asked)  # all of them, or in turn one of each tile
        if short or what[-2:] != LAYOUTS[0]:
            ways = rungs.of_each_tile(ways)
        products += run_ways(a, b, ways, expected, what, **asked)
        ways = rungs.ways_of(a, b, "async_mma", **asked)
        products += run_ways(a, b, ways, expected, what, algo="async_mma", **asked)
    return products


def run_byte_tiles(short: bool) -> int:
    """hopper with bytes, whole sums and their low 8 bits."""
    shapes = SHORT_TENSOR_SHAPES if short else (*TENSOR_SHAPES, DEEP)
    products = 0
    for a, b, what in problems(shapes, rungs.BYTES, LAYOUTS[1:3]):
        for out_dtype in (torch.int32, a.dtype):
            asked = {"out_dtype": out_dtype}
            expected = tiled_mm.mm(a, b, algo="naive", **asked)
            ways = rungs.of_each_tile(rungs.ways_of(a, b, "hopper", **asked))
            products += run_ways(a, b, ways, expected, what, **asked)
    return products


def run_few_rows(short: bool) -> int:
    """few_rows with each of the tiles that hold so many rows, on every input that it takes."""
    dtypes = (*TENSOR_DTYPES, torch.float64)
    products = 0
    every = itertools.chain(
        problems(SHORT_FEW_SHAPES if short else FEW_SHAPES, dtypes, FEW_LAYOUTS),
        problems(SHARED_SHAPES[:1] if short else SHARED_SHAPES, dtypes, FEW_LAYOUTS[short:]),
    )
    for a, b, what in every:
        for precision in ("tf32", "ieee") if a.dtype == torch.float32 else (None,):
            asked = {"precision": precision}
            other = "register_tile" if precision == "ieee" else "mma_tile"
            expected = tiled_mm.mm(a, b, algo=other, **asked)
            products += run(a, b, ("few_rows",), expected, what, **asked)
            products += run_shared_tiles(a, b, asked, expected, what)
            ways = rungs.ways_of(a, b, "few_rows", **asked)
            products += run_ways(a, b, ways, expected, what, algo="few_rows", **asked)
    return products


def run_tall(short: bool) -> int:
    """tall with each of its tiles."""
    shapes = SHORT_TALL_SHAPES if short else TALL_SHAPES
    products = 0
    for a, b, what in problems(shapes, TENSOR_DTYPES, LAYOUTS[1:3] if short else LAYOUTS):
        other = "register_tile" if a.dtype == torch.float32 else "mma_tile"
        expected = tiled_mm.mm(a, b, algo=other)
        products += run(a, b, ("tall",), expected, what)
        products += run_ways(a, b, rungs.ways_of(a, b, "tall"), expected, what, algo="tall")
    return products


def run_shared_tiles(a, b, asked: dict, expected: torch.Tensor, what: tuple) -> int:
    """register_tile and mma_tile, with each tile that has split-K for a deep K,
    of fp32 and fp64."""
    of_chains = a.dtype in (torch.float32, torch.float64) and asked["precision"] != "tf32"
    if what[2] < rungs.SHARED_K or not of_chains:
        return 0
    products = 0
    for algo in ("register_tile", "mma_tile"):
        if algo not in tiled_mm.algos(a, b, **asked):
            continue
        ways = [way for way in rungs.ways_of(a, b, algo, **asked) if way[-1]]
        products += run_ways(a, b, ways, expected, (*what, algo), algo=algo, **asked)
    return products


def run_parts(short: bool) -> int:
    """fp16x3, of data of which the guard computes some elements again: a row with an Inf, a column
    with a NaN, a row that is lost beside one element."""
    if short:
        every = problems(SHORT_PARTS_SHAPES, (torch.float32,), LAYOUTS[:3])
    else:
        every = itertools.chain(
            problems(PARTS_SHAPES, (torch.float32,), LAYOUTS),
            problems((DEEP,), (torch.float32,), LAYOUTS[:4]),
        )
    asked = {"precision": "fp16x3"}
    products = 0
    for a, b, what in every:
        a[-1, -1], b[-1, ::2] = 1e30, 0
        a[0, 0], b[-1, -1] = torch.inf, torch.nan
        ways = cases.parts_ways(a, b)
        expected = torch.ops.tiled_debug.mm_with_tile(a, b, *ways[0], False, **asked)
        products += 1 + run(a, b, (None,), expected, what, **asked)
        whole = [(*way, False) for way in (ways[1::4] if short else ways)]
        products += run_ways(a, b, whole, expected, what, **asked)
        again = int(tiled_mm.fp16x3_recomputed(a, b))
        m, n, k = what[:3]
        assert again >= (m + n - 1 if k >= 64 else m * n), (*what, again)
        products += 1
    return products


def run_cut_parts(short: bool) -> int:
    """fp16x3 by stream-K."""
    size = cases.parts_cut_size() - 4
    asked = {"precision": "fp16x3"}
    ways = cases.parts_cut_ways(size, size)
    products = 0
    for a, b, what in problems(
        ((size, size, 331),), (torch.float32,), LAYOUTS[: 1 if short else 4]
    ):
        a[0, 0], a[-1, -1], b[-1, ::2] = torch.inf, 1e30, 0
        expected = torch.ops.tiled_debug.mm_with_tile(a, b, *ways[0], False, **asked)
        cut = [(*way, True) for way in (ways[::3] if short else ways)]
        products += run_ways(a, b, cut, expected, what, **asked)
    return products


def run_epilogues(short: bool) -> int:
    """Rungs with an epilogue of everything: bias, input, activation, and the value before it, which
    leaves as C does. Every rung has mma_tile's bits."""
    product = torch.ops.tiled_debug.mm_with_epilogue
    shapes = SHORT_TENSOR_SHAPES if short else TENSOR_SHAPES
    products = 0
    for a, b, what in problems(shapes, TENSOR_DTYPES, LAYOUTS[:2] if short else LAYOUTS):
        m, n, _ = what[:3]
        precision = {"precision": "tf32"} if a.dtype == torch.float32 else {}
        for along, out_dtype in (("n", a.dtype), ("m", torch.float32)):
            asked = {
                "bias": cases.fill(1, n if along == "n" else m, a.dtype, "cuda")[0],
                "bias_along": along,
                "input": cases.fill(m, n, a.dtype, "cuda"),
                "beta": 0.5,
                "activation": "gelu",
                "pre_activation": True,
                "out_dtype": out_dtype,
                **precision,
            }
            expected = product(a, b, algo="mma_tile", **asked)
            algos = [x for x in tiled_mm.algos(a, b, **precision) if x in rungs.TENSOR_RUNGS]
            for algo in algos:
                found = product(a, b, algo=algo, **asked)
                assert all(map(same_bits, found, expected)), (*what, algo, along)
                products += 1
        products += run_finished_tiles(a, b, precision, what)
    return products


def run_finished_tiles(a, b, precision: dict, what: tuple) -> int:
    """hopper with each tile and a bias of C's type, the ways, activations and outputs in turn."""
    product = torch.ops.tiled_debug.mm_with_epilogue
    asked = {"bias": cases.fill(1, b.shape[1], a.dtype, "cuda")[0]} | precision
    expected = {
        f: product(a, b, algo="mma_tile", activation=f, pre_activation=True, **asked)
        for f in ("gelu", "relu", "silu")
    }
    finishes = itertools.cycle(itertools.product(expected, (True, False)))
    whole = [way for way in rungs.ways_of(a, b, "hopper", **precision) if not way[-1]]
    tiles = rungs.of_each_tile(whole)
    for way in tiles:
        activation, keeps = next(finishes)
        found = torch.ops.tiled_debug.finished_with_tile(
            a, b, *way, **asked | {"activation": activation, "pre_activation": keeps}
        )
        count = 2 if keeps else 1
        right = expected[activation]
        assert all(map(same_bits, found[:count], right[:count])), (*what, way, activation)
    return len(tiles)


def run_gradient_passes(short: bool) -> int:
    """tiled::activation_backward: rows of a group, of several, of several levels of sums, read one
    by one and 16 bytes at a time. All with the CPU's bits."""
    passes = 0
    backward = torch.ops.tiled.activation_backward
    sizes = ((1, 1), (33, 7), (1025, 40)) if short else ((1, 1), (33, 7), (1100, 130), (33000, 24))
    for rows, columns in (*sizes, (512, 8192)):  # the last in vectors
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
            for layout, activation in itertools.product(
                ("n", "t", "misaligned", "strided"), ("none", "relu", "gelu", "gelu_tanh", "silu")
            ):
                g, x = (cases.LAYOUTS[layout](rows, columns, dtype, "cuda") for _ in range(2))
                found = backward(g, x, activation, bias_dtype=dtype)
                right = backward(g.cpu(), x.cpu(), activation, bias_dtype=dtype)
                assert all(map(same_bits, found, right)), (rows, columns, dtype, layout, activation)
                passes += 1
            if short:
                break
    return passes


def run_groups_of_k(o: scaled.Operands) -> int:
    """By scales for blocks that end with their tensors, and each group beside its own product."""
    (m, k), n = o.a.shape, o.b.shape[1]
    ends = (k // 3, k // 3, k - k // 5)
    offs = torch.tensor(ends, device="cuda")
    scale_a = torch.rand(m, k // 128 + 3, device="cuda")
    scale_b = torch.rand(k // 128 + 3, n, device="cuda")
    c = tiled_mm.scaled_mm(o.a, o.b, scale_a, scale_b, offs=offs, out_dtype=torch.float32)
    for g, (begin, end) in enumerate(itertools.pairwise((0, *ends))):
        first = begin // 128 + g
        blocks = slice(first, first + scaled.blocks(end - begin))
        operands = o.a[:, begin:end], o.b[begin:end], scale_a[:, blocks], scale_b[blocks]
        assert same_bits(c[g], tiled_mm.scaled_mm(*operands, out_dtype=torch.float32)), (m, n, k, g)
    return len(ends)


def run_scaled(short: bool) -> int:
    """Every tile and cluster of scaled products, and groups of them; also by other scales, whose
    reads end with their tensor."""
    products = 0
    pairs = (("RowWise", "TensorWise"), ("BlockWise1x128", "BlockWise128x128"))
    pairs += (("BlockWise128x128", "BlockWise1x128"), ("BlockWise1x128", "BlockWise1x128"))
    for size, pair in itertools.product(SHORT_SCALED_SHAPES if short else SCALED_SHAPES, pairs):
        o = scaled.make(*size, *pair, device="cuda")
        expected = tiled_mm.scaled_mm(*o.all(), out_dtype=torch.float32)
        for way, c in scaled.by_every_way(o, torch.float32):
            assert same_bits(c, expected), (size, pair, way)
            products += 1
        products += run_groups_of_k(o)
        if pair[0] == "BlockWise128x128" or pair[1] == "TensorWise":
            continue  # rows that groups share out have no such scales; a weight's would be others
        ends = torch.tensor([size[0] // 3, size[0] // 3, size[0] - 1], device="cuda")
        b, scale_b = (x.mT.expand(3, *x.mT.shape).contiguous().mT for x in (o.b, o.scale_b))
        c = tiled_mm.scaled_mm(o.a, b, o.scale_a, scale_b, offs=ends, out_dtype=torch.float32)
        assert same_bits(c[:-1], expected[:-1]), (size, pair)
        products += 1
    return products


def run_trees(short: bool) -> int:
    """Every way of the kernels that sum a tree, of a large C and of one whose leaves are shared."""
    sizes = ((136, 72, 200),) if short else ((300, 264, 331), (65, 63, 1000), (8, 8, 100))
    products = 0
    for size, dtype in itertools.product(sizes, trees.SPLIT_K):
        for layouts in LAYOUTS[:1] if short else LAYOUTS:
            a, b = next(problems((size,), (dtype,), (layouts,)))[:2]
            expected = trees.by_hand(a, b, 64).to(dtype)
            for way, c in trees.by_every_way(a, b, 64):
                assert same_bits(c, expected), (size, dtype, *layouts, way)
                products += 1
    return products


PARTS = {
    "fma": (run_fma, "products, all with the bits of the CPU"),
    "gradients": (run_gradient_passes, "passes over gradients, all with the bits of the CPU"),
    "epilogues": (run_epilogues, "products with epilogues, all with the same bits"),
    "tensor_cores": (run_tensor_cores, "products on tensor cores, all with the same bits"),
    "bytes": (run_byte_tiles, "products of bytes, all with the same bits"),
    "few_rows": (run_few_rows, "products of few rows, all with the same bits"),
    "tall": (run_tall, "products of a long operand, all with the same bits"),
    "fp16x3": (run_parts, "products of fp16x3, all with the same bits"),
    "fp16x3_cut": (run_cut_parts, "products of fp16x3 by stream-K, all with the same bits"),
    "trees": (run_trees, "products whose K a tree sums, all with their leaves' bits"),
    "scaled": (run_scaled, "scaled products, all with the same bits"),
}
OF_ANY_GPU = ("fma", "gradients", "trees")


def main(short: bool, chosen: list[str]) -> None:
    torch.manual_seed(0)
    everything = PARTS if rungs.has_tensor_core_kernels("cuda") else OF_ANY_GPU
    for part in chosen or everything:
        run_part, what = PARTS[part]
        print(f"{run_part(short)} {what}", flush=True)
    torch.cuda.synchronize()


if __name__ == "__main__":
    words = sys.argv[1:]
    main("--short" in words, [word for word in words if word != "--short"])
