"""Times of every way to run a product: what the choice is fitted to, and judged by.

    python -m bench.choice FILE --seed 1     measures, on a GPU; goes on where it stopped

Problems are drawn by a seed, the same number of every family. For each, the ways that the library
lists (of all rungs of the problem's arithmetic) are timed from cold caches; those that come near
the fastest run on in turn, torch.mm with them.
"""

from __future__ import annotations

import contextlib
import gc
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from torch import Tensor

from bench.choice_records import problems_in
from bench.data import make_sets
from bench.machine import environment
from bench.shapes import SETS, Shape
from bench.timing import CudaStopwatch, Rounds, interleave

console = Console()


@dataclass(frozen=True)
class Case:
    """A problem with its options: what a user would call."""

    family: str
    shape: Shape
    precision: str | None = None
    out_dtype: str | None = None
    activation: str | None = None
    recipe: str | None = None  # of a product with scales: tensorwise, rowwise or blockwise
    sum_order: str | None = None

    def options(self) -> dict:
        out = None if self.out_dtype is None else getattr(torch, self.out_dtype)
        return {"precision": self.precision, "out_dtype": out, "sum_order": self.sum_order}

    @classmethod
    def from_json(cls, record: dict) -> Case:
        return cls(**record | {"shape": Shape.from_json(record["shape"])})


# ---- problems ------------------------------------------------------------------------------------


class Draw:
    """Sizes of one family, drawn by a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def size(self, low: float, high: float, step: int = 1) -> int:
        """A multiple of `step`, evenly spread over the logarithms."""
        return max(step, step * round(low * (high / low) ** self.rng.random() / step))

    def step(self) -> int:
        return self.rng.choice((8, 16, 64, 64, 128))

    def layout(self, kinds: str = "nn nt nt tn tt") -> str:
        return self.rng.choice(kinds.split())

    def dtype16(self) -> str:
        return self.rng.choice(("bfloat16", "float16"))

    def sizes(self, low: int, high: int, steps: Callable[[], int]) -> tuple[int, int, int]:
        step = steps()
        if self.rng.random() < 0.3:
            return (self.size(low, high, step),) * 3
        return tuple(self.size(low, high, step) for _ in range(3))

    def turned(self, m: int, n: int) -> tuple[int, int]:
        return (n, m) if self.rng.random() < 0.3 else (m, n)


MOST_BYTES, MOST_TERMS = 2.5e9, 5e11
TIMES = {"complex64": 8, "complex128": 16, "int64": 8, "int32": 4, "int16": 4}


def _large(d: Draw, dtype: str) -> Shape:
    return Shape(*d.sizes(1536, 10000, d.step), d.layout(), dtype)


def _middle(d: Draw, dtype: str) -> Shape:
    if d.rng.random() < 0.5:
        return Shape(*d.sizes(224, 2048, d.step), d.layout(), dtype)
    rows = 32 * d.rng.randint(3, 24)
    m, n = d.turned(rows, 64 * round(2 ** d.rng.uniform(4, 8)))
    return Shape(m, n, 64 * round(2 ** d.rng.uniform(4, 8)), d.layout(), dtype)


def _small(d: Draw, dtype: str) -> Shape:
    return Shape(*d.sizes(8, 320, lambda: d.rng.choice((1, 8, 16))), d.layout(), dtype)


def _tall(d: Draw, dtype: str) -> Shape:
    step = d.rng.choice((1, 8, 8, 8))
    m, n = d.turned(d.size(32768, 2e6, step), d.size(8, 300, step))
    return Shape(m, n, d.size(8, 600, step), d.layout(), dtype)


def _deep(d: Draw, dtype: str) -> Shape:
    step = d.rng.choice((1, 8, 8, 64))
    m, n = d.size(16, 1024, step), d.size(16, 1024, step)
    return Shape(m, n, d.size(4096, 150000, max(step, 8)), d.layout(), dtype)


def _few(d: Draw, dtype: str) -> Shape:
    n, k = d.size(512, 32768, 64), d.size(512, 32768, 64)
    m, n = d.turned(d.rng.choice((1, 2, 3, 4, 8, 12, 16, 24, 32, 48, 64)), n)
    return Shape(m, n, k, d.layout("nt nt nn tn"), dtype)


def _batched(d: Draw, dtype: str) -> Shape:
    step = d.rng.choice((1, 8, 16, 32))
    sizes = d.size(16, 1024, step), d.size(16, 1024, step), d.size(16, 1024, step)
    return Shape(*sizes, d.layout(), dtype, batch=d.size(2, 512))


def _unaligned(d: Draw, dtype: str) -> Shape:
    return Shape(*d.sizes(160, 6000, lambda: d.rng.choice((1, 1, 2, 4))), d.layout(), dtype)


def _any(d: Draw, dtype: str) -> Shape:
    steps = lambda: d.rng.choice((1, 4, 8, 32, 64))  # noqa: E731
    return Shape(*d.sizes(160, 6000, steps), d.layout(), dtype)


def _layer(d: Draw, dtype: str) -> Shape:
    """A layer's product as models have them: round widths, and tokens in powers of two or three
    times such; forward, or for the gradient of the input or of the weight."""
    width = d.size(512, 9216, d.rng.choice((64, 128, 256, 512)))
    other = d.rng.choice(
        (
            width,
            width + 256 * 2 ** d.rng.randint(0, 3),  # a few heads of keys and values more
            128 * round(width * d.rng.choice((2, 8 / 3, 3.5, 4)) / 128),
            128 * round(width * d.rng.choice((2, 8 / 3, 3.5, 4)) / 128),
        )
    )
    tokens = d.rng.choice((1, 1, 3)) * 2 ** d.rng.randint(5, 12)
    n, k = d.rng.sample((width, other), 2)
    layout = d.layout("nt nt nn tn")
    return Shape(*((n, k, tokens) if layout == "tn" else (tokens, n, k)), layout, dtype)


def _int_mm(d: Draw) -> Shape:
    """Sizes that torch._int_mm takes, A along k: squares and others, layers, few rows."""
    kind = d.rng.choice(("large", "middle", "layer", "few"))
    s = {"large": _large, "middle": _middle, "layer": _layer, "few": _few}[kind](d, "int8")
    m, n, k = (max(8, 8 * round(size / 8)) for size in (s.m, s.n, s.k))
    return Shape(max(m, 24), n, k, d.layout("nt nt nn"), "int8")


def _trees(d: Draw, dtype: str) -> Shape:
    """Of several leaves: a small C of a long K, or few rows."""
    if d.rng.random() < 0.3:
        few = _few(d, dtype)
        return replace(few, k=max(few.k, 2048))
    step = d.rng.choice((1, 1, 8, 64))
    m, n = (min(512, step * d.rng.randint(1, 512 // step)) for _ in range(2))
    return Shape(m, n, d.size(4096, 32767, step), d.layout(), dtype)


FAMILIES: dict[str, Callable[[Draw], Case]] = {
    "large16": lambda d: Case("large16", _large(d, d.dtype16())),
    "middle16": lambda d: Case("middle16", _middle(d, d.dtype16())),
    "small16": lambda d: Case("small16", _small(d, d.dtype16())),
    "tall16": lambda d: Case("tall16", _tall(d, d.dtype16())),
    "deep16": lambda d: Case("deep16", _deep(d, d.dtype16())),
    "few16": lambda d: Case("few16", _few(d, d.dtype16())),
    "layers16": lambda d: Case("layers16", _layer(d, d.dtype16())),
    "layers32": lambda d: Case(
        "layers32", _layer(d, "float32"), d.rng.choice(("tf32", "ieee", "fp16x3"))
    ),
    "unaligned16": lambda d: Case("unaligned16", _unaligned(d, d.dtype16())),
    "epilogue16": lambda d: Case(
        "epilogue16",
        d.rng.choice((_large, _middle))(d, d.dtype16()),
        activation=d.rng.choice(("gelu", "relu")),
    ),
    "tf32": lambda d: Case("tf32", d.rng.choice((_any, _any, _few))(d, "float32"), "tf32"),
    "fp32": lambda d: Case("fp32", _any(d, "float32"), "ieee"),
    "fp32_small": lambda d: Case("fp32_small", _small(d, "float32"), "ieee"),
    "fp32_few": lambda d: Case("fp32_few", _few(d, "float32"), "ieee"),
    "fp32_tall": lambda d: Case("fp32_tall", _tall(d, "float32"), "ieee"),
    "fp32_deep": lambda d: Case("fp32_deep", _deep(d, "float32"), "ieee"),
    "fp64": lambda d: Case("fp64", _any(d, "float64")),
    "fp64_other": lambda d: Case(
        "fp64_other", d.rng.choice((_few, _deep, _tall, _small))(d, "float64")
    ),
    "fp16x3": lambda d: Case("fp16x3", _any(d, "float32"), "fp16x3"),
    "fp16x3_few": lambda d: Case("fp16x3_few", _few(d, "float32"), "fp16x3"),
    "batched": lambda d: Case(
        "batched",
        _batched(d, d.rng.choice(("bfloat16", "float16", "float32", "float64"))),
    ),
    "trees16": lambda d: Case("trees16", _trees(d, d.dtype16()), sum_order="tree"),
    "trees32": lambda d: Case("trees32", _trees(d, "float32"), "ieee", sum_order="tree"),
    "trees64": lambda d: Case("trees64", _trees(d, "float64"), sum_order="tree"),
    "other": lambda d: Case(
        "other",
        d.rng.choice((_any, _small, _few))(
            d, d.rng.choice(("int16", "int32", "int64", "complex64", "complex128"))
        ),
    ),
    "ieee16": lambda d: Case("ieee16", d.rng.choice((_any, _few))(d, d.dtype16()), "ieee"),
    "fp8": lambda d: Case(
        "fp8",
        d.rng.choice((_few, _few, _middle, _large, _layer))(d, "float8_e4m3fn"),
        recipe=d.rng.choice(("tensorwise", "rowwise", "blockwise", "blockwise")),
    ),
    "int8": lambda d: Case("int8", d.rng.choice((_any, _any, _few))(d, "int8"), out_dtype="int32"),
    "int8_torch": lambda d: Case("int8_torch", _int_mm(d), out_dtype="int32"),
}


# Sizes that tables and tests show: what is fitted to others is shown by these.
NAMED_SIZES = frozenset((s.m, s.n, s.k) for named in SETS.values() for s in named.templates)


def drawn(family: str, seed: int) -> Iterator[Case]:
    """Endless, and the same for a seed; none of the sizes that have names."""
    d = Draw(seed * 1000003 + sum(map(ord, family)))
    while True:
        case = FAMILIES[family](d)
        s = case.shape
        if (
            s.batch * s.m * s.n * s.k * TIMES.get(s.dtype, 1) <= MOST_TERMS
            and s.bytes <= MOST_BYTES
            and (s.m, s.n, s.k) not in NAMED_SIZES
        ):
            yield case


# ---- ways ----------------------------------------------------------------------------------------


def meta_operands(shape: Shape) -> tuple[Tensor, Tensor]:
    """Of the problem's sizes and strides, without memory."""

    def operand(rows: int, cols: int, letter: str) -> Tensor:
        sizes = (rows, cols) if letter == "n" else (cols, rows)
        if shape.batch > 1:
            sizes = (shape.batch, *sizes)
        x = torch.empty(sizes, dtype=getattr(torch, shape.dtype), device="meta")
        return x if letter == "n" else x.mT

    return operand(shape.m, shape.k, shape.layout[0]), operand(shape.k, shape.n, shape.layout[1])


def scales_of(case: Case, device: str) -> tuple[Tensor, ...]:
    """Of A and B, near 1; none of a product without. Blocks' lie as quantize leaves them."""
    m, n, blocks = case.shape.m, case.shape.n, -(-case.shape.k // 128)

    def scale(*sizes: int) -> Tensor:
        return torch.rand(sizes, device=device) + 0.5

    if case.recipe == "tensorwise":
        return scale(1), scale(1)
    if case.recipe == "rowwise":
        return scale(m, 1), scale(1, n)
    if case.recipe == "blockwise":
        return scale(blocks, m).t(), scale(-(-n // 128), blocks).t()
    return ()


def ways_of(case: Case, device: str) -> list[dict]:
    """Every way that the library lists; `name` is unique among them."""
    a, b = meta_operands(case.shape)
    scales = dict(zip(("scale_a", "scale_b"), scales_of(case, "meta"), strict=False))
    text = torch.ops.tiled_debug.ways(
        a, b, **case.options(), activation=case.activation, device=device, **scales
    )
    return [way | {"name": name_of(way)} for way in json.loads(text)]


def name_of(way: dict) -> str:
    marks = (("swap", way["swap_ab"]), ("split", way["split_k"]))
    cluster = f"{way['cluster_p']}x{way['cluster_q']}"
    parts = (way["algo"], way["tile"], cluster, *(name for name, holds in marks if holds))
    return " ".join(parts)


LESSONS = ("naive", "tma_wgmma", "warp_specialized")


def picked(case: Case, ways: list[dict], rng: random.Random, most: int = 56) -> list[dict]:
    """Of each rung the ways that it estimates the least, and some more by lot."""
    terms = case.shape.batch * case.shape.m * case.shape.n * case.shape.k
    rungs: dict[str, list[dict]] = {}
    for way in ways:
        algo = way["algo"]
        if algo in LESSONS or (algo.startswith("shared_tile") and terms > 3e7):
            continue
        if not way["tile"] and terms > 1e9:
            continue
        rungs.setdefault(algo, []).append(way)
    found: list[dict] = []
    for listed in rungs.values():
        known = sorted((w for w in listed if not w["by_name"]), key=lambda w: w["seconds"])
        tiles: dict[str, dict] = {}
        for way in known:
            tiles.setdefault(way["tile"].split()[0] if way["tile"] else "", way)
        best = known[:5] + [w for w in list(tiles.values())[:8] if w not in known[:5]]
        rest = [w for w in listed if w not in best]
        found += best + rng.sample(rest, min(14 if known else 10, len(rest)))
    rng.shuffle(found)
    return found[:most]


def call_of(case: Case, way: dict) -> Callable:
    ops = torch.ops.tiled_debug
    if case.recipe:
        scales = scales_of(case, "cuda")
        named = (way["tile"], way["swap_ab"], way["cluster_p"], way["cluster_q"])
        return lambda a, b, out: ops.scaled_with_tile(a, b, *scales, *named)
    options = case.options()
    options["algo"] = way["algo"]
    if not way["tile"]:
        product = torch.ops.tiled.bmm if case.shape.batch > 1 else torch.ops.tiled.mm
        return lambda a, b, out: product(a, b, **options)
    named = (way["tile"], way["swap_ab"], way["cluster_p"], way["cluster_q"])
    named += (way["split_k"],)
    if case.activation:
        return lambda a, b, out: ops.finished_with_tile(
            a, b, *named, activation=case.activation, **options
        )[0]
    return lambda a, b, out: ops.mm_with_tile(a, b, *named, **options)


def peer_of(case: Case) -> Callable | None:
    if case.family == "int8_torch":
        return lambda a, b, out: torch._int_mm(a, b)
    if case.activation or case.recipe or case.shape.dtype == "int8":
        return None
    if case.shape.dtype in ("int16", "int32", "int64"):
        return None
    if case.shape.batch > 1:
        return lambda a, b, out: torch.bmm(a, b, out=out)
    return lambda a, b, out: torch.mm(a, b, out=out)


# ---- recording -----------------------------------------------------------------------------------


def measure(
    stopwatch: CudaStopwatch, case: Case, device: str, rng: random.Random, budget_s: float
) -> dict:
    """The line of the record: seconds by the ways' names, those of `turns` taken in turn."""
    shape = case.shape
    count = min(stopwatch.set_count(shape.bytes), 24)
    sets = make_sets(shape, stopwatch.device, count, seed=20)
    ways = ways_of(case, device)
    torch.backends.cuda.matmul.allow_tf32 = case.precision == "tf32"
    prepared, sampled = {}, {}
    floor = max(2 * shape.m * shape.n * shape.k / 6e14, shape.bytes / 3e12) + 3e-6
    best = float("inf")
    for way in picked(case, ways, rng):
        with contextlib.suppress(torch.cuda.OutOfMemoryError):
            try:
                roughly = min(max(floor, way["seconds"]), 5e-3)
                p = stopwatch.prepare(call_of(case, way), sets, roughly)
            except RuntimeError as error:
                console.print(f"[red]{way['name']}: {str(error).splitlines()[0][:150]}")
                continue
            times = [stopwatch.read(stopwatch.start(p)) for _ in range(2)]
            sampled[way["name"]] = min(times)
            if sampled[way["name"]] < 1.1 * best:
                prepared[way["name"]] = p
            best = min(best, sampled[way["name"]])
    near = {name: p for name, p in prepared.items() if sampled[name] <= 1.08 * best}
    near = dict(sorted(near.items(), key=lambda item: sampled[item[0]])[:10])
    peer = peer_of(case)
    if peer is not None:
        near["torch.mm"] = stopwatch.prepare(peer, sets)
    seconds = interleave(stopwatch, near, Rounds(7, 15, budget_s), rng)
    times = sampled | {name: statistics.median(s) for name, s in seconds.items()}
    return {
        "case": asdict(case),
        "ways": len(ways),
        "seconds": {name: float(f"{s:.4g}") for name, s in times.items()},
        "turns": sorted(seconds),
    }


def main(
    path: Path,
    seed: Annotated[int, typer.Option(help="of the problems")] = 1,
    limit: Annotated[float, typer.Option(help="seconds, after which no problem begins")] = 450,
    budget: Annotated[float, typer.Option(help="seconds of rounds for each problem")] = 0.03,
    only: Annotated[str, typer.Option(help="families, with commas; or all")] = "all",
    device_name: Annotated[
        str, typer.Option("--device", help="what it lists ways for; cuda: the current GPU")
    ] = "cuda",
    skip: Annotated[int, typer.Option(help="problems of each family to leave out")] = 0,
) -> None:
    """Appends a line of JSON for each problem to FILE."""
    import tiled_mm  # noqa: F401, registers the operators

    stopwatch = CudaStopwatch(torch.device("cuda", 0), region_s=150e-6)
    rng = random.Random(7)
    done: dict[str, int] = {}
    for problem in problems_in(path) if path.exists() else ():
        family = problem["case"]["family"]
        done[family] = done.get(family, 0) + 1
    names = list(FAMILIES) if only == "all" else only.split(",")
    problems = {name: drawn(name, seed) for name in names}
    for name in names:
        for _ in range(done.get(name, 0) + skip):
            next(problems[name])
    end = time.monotonic() + limit
    counts = dict.fromkeys(names, 0)
    with path.open("a") as file:
        head = {"environment": environment(stopwatch.device), "seed": seed, "budget": budget}
        file.write(json.dumps(head) + "\n")
        while time.monotonic() < end:
            for name in names:
                case = next(problems[name])
                begin = time.monotonic()
                try:
                    found = measure(stopwatch, case, device_name, rng, budget)
                except torch.cuda.OutOfMemoryError:
                    continue
                found["took"] = round(time.monotonic() - begin, 2)
                file.write(json.dumps(found) + "\n")
                file.flush()
                counts[name] += 1
                gc.collect()  # graphs hold memory of the GPU, and cycles hold graphs
                if time.monotonic() > end:
                    break
            torch.cuda.empty_cache()
    console.print(counts)


if __name__ == "__main__":
    typer.run(main)
