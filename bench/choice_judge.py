"""What the choice costs, by estimates and after tuning, on problems of a seed of your own.

    python -m bench.choice_judge --seed 12345 [--count 6] [--only large16,fp64] [--out FILE]

On a GPU. Of each problem many ways are timed (bench.choice); then the library tunes it, and the way
that estimates choose, the tuned one and the fastest ones are timed in turn once more. The cost of
a choice is its time over the best's, less one: regret.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from bench.cells import markdown
from bench.choice import (
    FAMILIES,
    Case,
    call_of,
    drawn,
    measure,
    name_of,
    peer_of,
    scales_of,
    ways_of,
)
from bench.data import make_sets
from bench.machine import environment
from bench.timing import CudaStopwatch, Rounds, interleave

console = Console()
FINALISTS = 4  # of the ways that were timed, beside the two choices


def tune(case: Case, a: torch.Tensor, b: torch.Tensor) -> None:
    import tiled_mm

    with tiled_mm.tuning():
        if case.recipe:
            tiled_mm.scaled_mm(a, b, *scales_of(case, str(a.device)))
        elif case.activation:
            torch.ops.tiled.linear(a, b.t(), activation=case.activation)
        else:
            product = tiled_mm.bmm if case.shape.batch > 1 else tiled_mm.mm
            product(a, b, **case.options())


def tuned_name(ways: list[dict]) -> str | None:
    """The way of the newest row, as bench.choice names it; None where nothing was measured."""
    rows = [x for x in torch.ops.tiled_debug.rules(None).splitlines() if x.startswith("row ")]
    if not rows:
        return None
    algo, swap_ab, p, q, share, *tile = rows[0].split(" ")[5:]
    found = {"algo": algo, "tile": " ".join(tile), "swap_ab": swap_ab == "1"}
    found |= {"cluster_p": int(p), "cluster_q": int(q), "split_k": share == "1"}
    name = name_of(found)
    return name if any(way["name"] == name for way in ways) else None


def judged(
    stopwatch: CudaStopwatch, case: Case, rng: random.Random, budget_s: float, rules: Path | None
) -> dict:
    """Seconds by the ways' names, in turn; the names of both choices, and how long tuning took."""
    import tiled_mm

    torch.ops.tiled_debug.forget_rules()
    if rules is not None:
        tiled_mm.load_rules(rules)
    ways = {way["name"]: way for way in ways_of(case, "cuda")}
    by_estimate = min((w for w in ways.values() if not w["by_name"]), key=lambda w: w["seconds"])
    timed = measure(stopwatch, case, "cuda", rng, budget_s)["seconds"]
    copies = min(stopwatch.set_count(case.shape.bytes), 24)
    sets = make_sets(case.shape, stopwatch.device, copies, seed=20)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    tune(case, sets[0].a, sets[0].b)
    torch.cuda.synchronize()
    took = time.perf_counter() - begin
    tuned = tuned_name(list(ways.values()))
    first = sorted((n for n in timed if n != "torch.mm"), key=timed.__getitem__)[:FINALISTS]
    names = dict.fromkeys(n for n in (by_estimate["name"], tuned, *first) if n)
    calls = {name: stopwatch.prepare(call_of(case, ways[name]), sets) for name in names}
    if (peer := peer_of(case)) is not None:
        calls["torch.mm"] = stopwatch.prepare(peer, sets)
    found = interleave(stopwatch, calls, Rounds(9, 25, budget_s), rng)
    seconds = {name: statistics.median(times) for name, times in found.items()}
    return {
        "case": asdict(case),
        "estimated": by_estimate["name"],
        "tuned": tuned,
        "tuning_s": round(took, 3),
        "seconds": {name: float(f"{s:.4g}") for name, s in seconds.items()},
    }


def best_of(found: dict) -> str:
    seconds = {name: s for name, s in found["seconds"].items() if name != "torch.mm"}
    return min(seconds, key=seconds.__getitem__)


def cost(found: dict, which: str) -> float:
    return found["seconds"][found[which]] / found["seconds"][best_of(found)]


def table(problems: list[dict]) -> str:
    families = defaultdict(list)
    for found in problems:
        families[found["case"]["family"]].append(found)
    header = ["family", "problems", "estimated", "worst", "tuned", "worst", "s to tune"]
    rows = []
    for family, of_family in families.items():
        figures = []
        for which in ("estimated", "tuned"):
            costs = [cost(found, which) for found in of_family if found[which] is not None]
            mean = f"{statistics.geometric_mean(costs) - 1:.1%}" if costs else "not tuned"
            figures += [mean, f"{max(costs):.2f}" if costs else "-"]
        ratios = [
            f["seconds"]["torch.mm"] / f["seconds"][f["tuned"] or f["estimated"]]
            for f in of_family
            if "torch.mm" in f["seconds"]
        ]
        took = statistics.mean(found["tuning_s"] for found in of_family)
        ratio = f"{statistics.geometric_mean(ratios):.2f}" if ratios else "-"
        rows.append([family, str(len(of_family)), *figures, f"{took:.2f}", ratio])
    return markdown([*header, "torch.mm / ours"], rows)


def main(
    seed: Annotated[int, typer.Option(help="of the problems: one that the rules have not seen")],
    count: Annotated[int, typer.Option(help="problems of each family")] = 6,
    only: Annotated[str, typer.Option(help="families, with commas; or all")] = "all",
    budget: Annotated[float, typer.Option(help="seconds of rounds for each problem")] = 0.03,
    limit: Annotated[float, typer.Option(help="seconds, after which no problem begins")] = 450,
    rules: Annotated[Path | None, typer.Option(help="in place of the shipped ones")] = None,
    out: Annotated[Path | None, typer.Option(help="a line of JSON for each problem")] = None,
) -> None:
    """Prints regret by family, by estimates and after tuning."""
    import tiled_mm  # noqa: F401, registers the operators

    stopwatch = CudaStopwatch(torch.device("cuda", 0), region_s=150e-6)
    rng = random.Random(seed)
    end = time.monotonic() + limit
    problems = []
    draws = {name: drawn(name, seed) for name in (FAMILIES if only == "all" else only.split(","))}
    for _ in range(count):
        for name, cases in draws.items():
            case = next(cases)
            if time.monotonic() > end:
                continue
            try:
                problems.append(judged(stopwatch, case, rng, budget, rules))
            except torch.cuda.OutOfMemoryError:
                console.print(f"[red]{name}: no memory for {case.shape.label}")
        torch.cuda.empty_cache()
    console.print(f"{torch.cuda.get_device_name()}, seed {seed}", highlight=False)
    console.print(table(problems), highlight=False, soft_wrap=True)
    worst = sorted(problems, key=lambda found: -cost(found, "estimated"))[:8]
    worst += sorted(problems, key=lambda found: -cost(found, "tuned"))[:6]
    for found in worst:
        label = f"{found['case']['family']} {Case.from_json(found['case']).shape.label}"
        console.print(
            f"{cost(found, 'estimated'):.2f} {cost(found, 'tuned'):.2f} {label}:"
            f" {found['estimated']}; tuned {found['tuned']};"
            f" best {best_of(found)}",
            highlight=False,
            soft_wrap=True,
        )
    if out is not None:
        with out.open("a") as file:
            head = {"environment": environment(stopwatch.device), "seed": seed}
            file.writelines(json.dumps(x) + "\n" for x in [head, *problems])


if __name__ == "__main__":
    typer.run(main)
