"""What the planner's choice costs: `python -m bench.planner --json FILE`.

For every problem each of hopper's tiles runs in the best way that the model knows for it, all in
turn, in an order shuffled in every round, from cold caches. The oracle is the tile that was fastest
in the odd rounds; it and the planner's choice are scored in the even ones, so that noise does not
flatter it. Regret is the choice's time over the oracle's, less one. The noise floor is the oracle's
regret against itself: its odd rounds' time over its even rounds'.

Half of the problems, `held_out`, were set down before the model's constants were fitted to the
others, and took no part in that.
"""

from __future__ import annotations

import gc
import json
import random
import statistics
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import track

from bench import cli
from bench.data import make_sets
from bench.shapes import Shape
from bench.timing import CudaStopwatch, Rounds, interleave

console = Console()

_NAMED = tuple(
    Shape(m, n, k, layout, "bfloat16")
    for layout in ("nn", "nt", "tn")
    for m, n, k in (
        *((s, s, s) for s in (384, 512, 768, 1024, 1280, 1536, 1792, 2048, 3072, 4096, 6144, 8192)),
        *((m, 4096, 4096) for m in (128, 256, 512, 2048)),
        *((m, 6144, 4096) for m in (128, 512, 2048)),
        *((m, 28672, 4096) for m in (128, 512)),
        *((m, 4096, 14336) for m in (128, 512, 2048)),
        (256, 8192, 8192),
    )
)


def _spread(seed: int, count: int = 75) -> tuple[Shape, ...]:
    """Sizes spread evenly over their logarithms."""
    rng = random.Random(seed)
    shapes: list[Shape] = []
    while len(shapes) < count:
        m, n, k = (8 * round(2 ** rng.uniform(4, 10.5)) for _ in range(3))
        if 2e8 <= m * n * k <= 3e11:
            shapes.append(Shape(m, n, k, rng.choice(("nn", "nt", "tn")), "bfloat16"))
    return tuple(shapes)


FITTED = _NAMED + _spread(seed=20261121)
HELD_OUT = _spread(seed=4096, count=150)


def measure(stopwatch: CudaStopwatch, shape: Shape, rng: random.Random, budget_s: float) -> dict:
    import tiled_mm  # noqa: F401, registers the operators

    sets = make_sets(shape, stopwatch.device, stopwatch.set_count(shape.bytes), seed=20)
    plan = json.loads(torch.ops.tiled_debug.plan(sets[0].a, sets[0].b, algo="hopper"))
    estimates = plan["hopper"]["estimates"]
    prepared = {}
    for e in estimates:
        way = (e["tile"], e["exchanged"], e["cluster_p"], e["cluster_q"], e["share_segments"])

        def call(a, b, out, way=way):
            return torch.ops.tiled_debug.mm_with_tile(a, b, *way)

        prepared[e["tile"]] = stopwatch.prepare(call, sets)
    # Those far behind need no more rounds to be known as such.
    least = min(p.estimate_s for p in prepared.values())
    prepared = {
        tile: p
        for i, (tile, p) in enumerate(prepared.items())
        if i == 0 or p.estimate_s <= 1.5 * least + 3e-6
    }
    seconds = interleave(stopwatch, prepared, Rounds(8, 40, budget_s), rng)
    odd = {tile: statistics.median(s[1::2]) for tile, s in seconds.items()}
    even = {tile: statistics.median(s[0::2]) for tile, s in seconds.items()}
    oracle, choice = min(odd, key=odd.get), estimates[0]["tile"]
    return {
        "shape": shape.to_json(),
        "choice": choice,
        "oracle": oracle,
        "regret": even[choice] / even[oracle] - 1,
        "noise": odd[oracle] / even[oracle] - 1,
        "seconds": even,
    }


def summary(cases: list[dict]) -> dict:
    ratios = [1 + max(c["regret"], 0.0) for c in cases]
    return {
        "problems": len(cases),
        "geomean": statistics.geometric_mean(ratios) - 1,
        "worst": max(ratios) - 1,
        "noise": statistics.mean(abs(c["noise"]) for c in cases),
    }


def main(
    json_path: Annotated[Path | None, typer.Option("--json")] = None,
    budget: Annotated[float, typer.Option(help="seconds of rounds for each problem")] = 0.15,
    only: Annotated[str, typer.Option(help="fitted, held_out or both")] = "both",
) -> None:
    """Measures the planner's regret on this GPU."""
    device = torch.device("cuda", 0)
    stopwatch = CudaStopwatch(device)
    rng = random.Random(7)
    document = cli.new_document("planner", device, {"budget": budget, "only": only})
    document["regret"] = {}
    for name, shapes in (("fitted", FITTED), ("held_out", HELD_OUT)):
        if only not in (name, "both"):
            continue
        cases = []
        for shape in track(shapes, name, console=console):
            cases.append(measure(stopwatch, shape, rng, budget))
            gc.collect()  # graphs hold memory of the GPU, and cycles hold graphs
            torch.cuda.empty_cache()
        found = summary(cases)
        document["regret"][name] = {"summary": found, "cases": cases}
        console.print(
            f"{name}: {found['problems']} problems, regret {found['geomean']:.1%} geomean, "
            f"{found['worst']:.1%} at worst; noise {found['noise']:.1%}"
        )
        for case in sorted(cases, key=lambda c: -c["regret"])[:8]:
            label = Shape.from_json(case["shape"]).label
            console.print(
                f"  {label}: {case['choice']}, {case['regret']:.1%} behind {case['oracle']}"
            )
        cli.keep(document, json_path)


if __name__ == "__main__":
    typer.run(main)
