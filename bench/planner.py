"""What the planner's choice costs.

    python -m bench.planner --json FILE     measures every way to run hopper, on a GPU
    python -m bench.planner --score FILE    this library's choices in the times of such a file;
                                            needs no GPU

For every problem each way (tile, operands exchanged or not, cluster, segments shared out or not,
or, where K has one, tiles cut in time or not) is sampled, of those tiles whose best is not
estimated at 15 % more than the least; ways that are not far behind run on, and torch.mm with them,
all in turn, in an order shuffled in every round, from cold caches. The oracle is the way that was
fastest in the odd rounds; it and the planner's choice are scored in the even ones, so that noise
does not flatter it. Regret is the choice's time over the oracle's, less one. The noise floor is the
oracle's regret against itself: its odd rounds' time over its even rounds'.

The drawn problems of another seed, `held_out`, took no part in the fit of the model's constants.
"""

from __future__ import annotations

import gc
import itertools
import json
import random
import statistics
import time
from collections.abc import Callable, Container
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import track
from torch import Tensor

from bench import cli
from bench.data import make_sets
from bench.shapes import Shape, drawn_size, named_set
from bench.timing import CudaStopwatch, Rounds, interleave

console = Console()

LAYERS = (
    *((4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (5120, 5120), (8192, 8192)),
    *((7168, 2048), (2112, 7168), (1024, 4096), (3584, 18944), (2560, 9728), (1536, 1536)),
    *((10240, 2560), (13824, 5120)),
)  # (N, K) of layers of models
FEW_ROWS = (96, 128, 160, 192, 256, 320, 384, 512, 768, 1024)


def drawn(seed: int, count: int, low: int = 224, high: int = 5600) -> tuple[Shape, ...]:
    """Cubes, three sizes, or some rows and a layer; sizes spread evenly over their logarithms, from
    `low` to `high`, in multiples of 8, 64 or 128."""
    rng = random.Random(seed)
    shapes: list[Shape] = []
    rows = [m for m in FEW_ROWS if 2 * m > low] + [2048, 4096] * (low > 512)

    def size(high: int) -> int:
        return drawn_size(rng, low, high, step)

    while len(shapes) < count:
        step, kind = rng.choice((8, 64, 64, 128)), rng.random()
        layouts: tuple[str, ...] = ("nn", "nt", "tn")
        if kind < 0.4:
            m = n = k = size(high)
        elif kind < 0.7:
            m, n, k = size(high), size(high), size(high)
        else:
            m, (n, k) = rng.choice(rows), rng.choice(LAYERS)
            layouts = ("nt", "nt", "nn", "tn")
        if 1e7 <= m * n * k <= 4.5e12:
            shapes.append(Shape(m, n, k, rng.choice(layouts), "bfloat16"))
    return tuple(shapes)


def cubes(*sizes: int) -> tuple[Shape, ...]:
    return tuple(Shape(s, s, s, layout, "bfloat16") for s in sizes for layout in ("nn", "nt"))


NAMED = (
    *cubes(384, 512, 768, 1024, 1152, 1280, 1536, 1792, 2048, 2304, 2560, 2816, 3072),
    Shape(512, 6144, 4096, "nt", "bfloat16"),
    Shape(1024, 5120, 5120, "nt", "bfloat16"),
    Shape(256, 4096, 4096, "nt", "bfloat16"),
    Shape(1024, 4096, 1024, "nt", "bfloat16"),
    Shape(1024, 1024, 4096, "nn", "bfloat16"),
    Shape(4096, 1024, 1024, "tn", "bfloat16"),
)
LARGE_NAMED = (
    *cubes(3584, 4096, 5120, 6144, 8192, 12288, 16384),
    Shape(2048, 57344, 8192, "nt", "bfloat16"),
    Shape(2048, 4096, 14336, "nt", "bfloat16"),
    Shape(8192, 4096, 14336, "nt", "bfloat16"),
)
MIDDLE = tuple(
    sorted(
        named_set("middle16").shapes(("bfloat16",)),
        key=lambda s: (s.m not in (128, 256, 1280), s.m, s.n),
    )
)
FITTED, LARGE_FITTED = drawn(122, 150), drawn(123, 45, 2048, 16384)
SEEN = {*NAMED, *LARGE_NAMED, *FITTED, *LARGE_FITTED}
PROBLEMS = {
    "named": NAMED,
    "fitted": FITTED,
    "held_out": tuple(s for s in drawn(5099, 110) if s not in SEEN),
    "middle": tuple(s for i, s in enumerate(MIDDLE) if i % 3 != 0),
    "middle_held_out": MIDDLE[::3],
    "large_named": LARGE_NAMED,
    "large_fitted": LARGE_FITTED,
    "large_held_out": tuple(s for s in drawn(5101, 35, 2048, 16384) if s not in SEEN),
}
CLUSTERS = ((1, 1), (2, 1), (1, 2), (4, 1), (1, 4))
BOTH = (False, True)
CYCLES_A_SECOND = 1.755e9  # the models'


def name_of(tile: str, exchanged: bool, p: int, q: int, share: bool) -> str:
    marks = (("exchanged", exchanged), ("shared out", share))  # or cut in time
    return " ".join((tile, f"{p}x{q}", *(name for name, holds in marks if holds)))


def ways_of(a: Tensor, b: Tensor, tiles: list[str]) -> dict[str, Callable]:
    """Every way to run hopper that exists for these operands, by its name."""
    found = {}
    for tile, exchanged, (p, q), share in itertools.product(tiles, BOTH, CLUSTERS, BOTH):
        way = (tile, exchanged, p, q, share)

        def call(a, b, out, way=way):
            return torch.ops.tiled_debug.mm_with_tile(a, b, *way)

        try:
            call(a, b, None)
        except RuntimeError as error:
            if f"no way {tile}" not in str(error):
                raise
            continue
        found[name_of(*way)] = call
    return found


def planned(a: Tensor, b: Tensor, device: str | None = None) -> list[dict]:
    """The planner's best way with each tile of hopper, best first."""
    plan = torch.ops.tiled_debug.plan(a, b, algo="hopper", device=device)
    return json.loads(plan)["hopper"]["estimates"]


def meta_operands(shape: Shape) -> tuple[Tensor, Tensor]:
    """Of the problem's sizes and strides, without memory."""

    def operand(rows: int, cols: int, letter: str) -> Tensor:
        sizes = (rows, cols) if letter == "n" else (cols, rows)
        x = torch.empty(sizes, dtype=getattr(torch, shape.dtype), device="meta")
        return x if letter == "n" else x.mT

    return operand(shape.m, shape.k, shape.layout[0]), operand(shape.k, shape.n, shape.layout[1])


def choice_of(estimates: list[dict], measured: Container[str]) -> str:
    """The best by its estimate of the ways with each tile, of those that were measured."""

    def name(e: dict) -> str:
        shares = e["share_segments"] or e["wraps_around"]
        return name_of(e["tile"], e["exchanged"], e["cluster_p"], e["cluster_q"], shares)

    return next(way for way in map(name, estimates) if way in measured)


def mm(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    return torch.mm(a, b, out=out)


def measure(stopwatch: CudaStopwatch, shape: Shape, rng: random.Random, budget_s: float) -> dict:
    sets = make_sets(shape, stopwatch.device, stopwatch.set_count(shape.bytes), seed=20)
    estimates = planned(sets[0].a, sets[0].b)
    least = estimates[0]["cycles"]
    tiles = [e["tile"] for e in estimates if e["cycles"] <= 1.15 * least]
    calls = ways_of(sets[0].a, sets[0].b, tiles)
    roughly = least / CYCLES_A_SECOND
    prepared = {name: stopwatch.prepare(call, sets, roughly) for name, call in calls.items()}
    # Those far behind need no more rounds to be known as such.
    sampled = {
        name: min(stopwatch.read(stopwatch.start(p)) for _ in range(2))
        for name, p in prepared.items()
    }
    limit = 1.2 * min(sampled.values())
    near = {name: p for name, p in prepared.items() if sampled[name] <= limit}
    near["torch.mm"] = stopwatch.prepare(mm, sets)
    seconds = interleave(stopwatch, near, Rounds(8, 40, budget_s), rng)
    peer = statistics.median(seconds.pop("torch.mm")[0::2])
    case = {
        "shape": shape.to_json(),
        "peer": peer,
        "odd": {name: statistics.median(s[1::2]) for name, s in seconds.items()},
        "even": {name: statistics.median(s[0::2]) for name, s in seconds.items()},
        "far": {name: s for name, s in sampled.items() if name not in near},
    }
    return score(case, choice_of(estimates, sampled))


def score(case: dict, choice: str) -> dict:
    """Seconds by the ways' names: of `odd` and `even` rounds; of the others, which are `far`
    behind, rough ones. `peer`: torch.mm's; `ratio`: that over the choice's."""
    odd, even = case["odd"], case["even"]
    oracle = min(odd, key=odd.get)
    chosen = even[choice] if choice in even else case["far"][choice]
    return case | {
        "choice": choice,
        "oracle": oracle,
        "ratio": case["peer"] / chosen,
        "regret": chosen / even[oracle] - 1,
        "noise": odd[oracle] / even[oracle] - 1,
    }


def summary(cases: list[dict]) -> dict:
    losses = [1 + max(c["regret"], 0.0) for c in cases]
    ratios = [c["ratio"] for c in cases]
    return {
        "problems": len(cases),
        "geomean": statistics.geometric_mean(losses) - 1,
        "worst": max(losses) - 1,
        "ratio": statistics.geometric_mean(ratios),
        "least": min(ratios),
        "noise": statistics.mean(abs(c["noise"]) for c in cases),
    }


def summarise(document: dict, name: str, cases: list[dict]) -> None:
    """Into the document, and on the screen with the worst of them."""
    found = summary(cases)
    document["regret"][name] = {"summary": found, "cases": cases}
    console.print(
        f"{name}: {found['problems']} problems, regret {found['geomean']:.1%} geomean, "
        f"{found['worst']:.1%} at worst; noise {found['noise']:.1%}; torch.mm / ours "
        f"{found['ratio']:.3f}, least {found['least']:.2f}"
    )
    for case in sorted(cases, key=lambda c: -c["regret"])[:8]:
        label = Shape.from_json(case["shape"]).label
        console.print(f"  {label}: {case['choice']}, {case['regret']:.1%} behind {case['oracle']}")


def scored(document: dict, device: str) -> dict:
    """The document with the choices that this library makes for a named device."""
    result = document | {"regret": {}}
    for name, regret in document["regret"].items():
        cases = []
        for case in regret["cases"]:
            estimates = planned(*meta_operands(Shape.from_json(case["shape"])), device)
            cases.append(score(case, choice_of(estimates, case["odd"] | case["far"])))
        summarise(result, name, cases)
    return result


def main(
    json_path: Annotated[Path | None, typer.Option("--json")] = None,
    budget: Annotated[float, typer.Option(help="seconds of rounds for each problem")] = 0.15,
    only: Annotated[str, typer.Option(help="one of the sets of problems, or all")] = "all",
    limit: Annotated[float, typer.Option(help="seconds, after which no problem begins")] = 600,
    score_path: Annotated[
        Path | None, typer.Option("--score", help="a file of times; --json says where to, or none")
    ] = None,
    device_name: Annotated[str, typer.Option("--device", help="of --score's times")] = "h200",
) -> None:
    """Measures the planner's regret on this GPU, or works it out from recorded times."""
    import tiled_mm  # noqa: F401, registers the operators

    if score_path is not None:
        cli.keep(scored(json.loads(score_path.read_text()), device_name), json_path)
        return
    device = torch.device("cuda", 0)
    stopwatch = CudaStopwatch(device)
    rng = random.Random(7)
    document = cli.new_document("planner", device, {"budget": budget, "only": only})
    document["regret"] = {}
    end = time.monotonic() + limit
    for name, shapes in PROBLEMS.items():
        if only not in (name, "all"):
            continue
        cases: list[dict] = []
        for shape in track(shapes, name, console=console):
            if time.monotonic() > end:
                break
            cases.append(measure(stopwatch, shape, rng, budget))
            gc.collect()  # graphs hold memory of the GPU, and cycles hold graphs
            torch.cuda.empty_cache()
        if cases:
            summarise(document, name, cases)
        cli.keep(document, json_path)


if __name__ == "__main__":
    typer.run(main)
