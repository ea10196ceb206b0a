"""The fit of the choice's rules to recorded times.

    python -m bench.choice_fit RECORD... --device h100 --rules FILE [--held-out RECORD]
    python -m bench.choice_fit RECORD... --device h100 --score     what this library's choices cost

Every number of the rules is found here, by gradients of two losses: how far the estimates are off
(of the ways near the best most), and what the choice would cost, where a soft minimum of the
estimates stands for the choice. `estimated` is the formula of ops/cuda/plan/estimate.cpp once
more; a test holds the two equal. A record of another device than the rules' counts with its
memory's rate, as the library scales rules (ops/cuda/plan/rules.cpp).
"""

from __future__ import annotations

import contextlib
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import track
from torch import Tensor

from bench.cells import markdown
from bench.choice import Case, ways_of
from bench.choice_records import gpu_of, problems_in, source_of

console = Console()

CHIP = {  # ops/cuda/plan/chip_rates.inc
    "kernel": 2.5e-6,
    "copy": 2.5e12,
    "memory": 2.9e12,
    "cache": 4e13,
    "pair_load": 2e11,
    "pair_memory": 1e11,
    "line": 1e-9,
    "store": 2e-11,
    "again": 0.3,
    "off_sector": 3.0,
    "slowdown": 0.5,
    "hand_over": 8e-6,
    "cluster": 3e-7,
    "four": 0.7,
    "spread": 3e-7,
    "activation": 2e-10,
}
STIFF = 5.0
FIRST = (1, 8, 12, 16, 24, 32)  # numbers of ways that tuning could time
TILE = {"busy": 3e-7, "latency": 2e-7, "end": 1.5e-6, "start": 2e-6, "p_mn": 1.0, "q_mn": 1.0}


def overlap(x: Tensor, y: Tensor) -> Tensor:
    longer, shorter = torch.maximum(x, y), torch.minimum(x, y)
    return longer * (1 + (shorter / longer) ** 4) ** 0.25


class Ways:
    """Measured ways as columns; `problem` numbers the problem of each."""

    COLUMNS = ("resident", "cluster_p", "cluster_q", "cluster_k", "p_mn", "q_mn", "stream_k")
    COLUMNS += ("units", "steps", "filled", "ends", "elements", "loaded", "off_sector")
    COLUMNS += ("line_loads", "store_lines", "again", "bytes", "copies", "kernels")

    def __init__(self, problems: list[dict], multiprocessors: int) -> None:
        self.multiprocessors = multiprocessors
        rows = [(i, w) for i, p in enumerate(problems) for w in p["all"]]
        self.problem = torch.tensor([i for i, _ in rows])
        self.count = len(problems)
        for name in self.COLUMNS:
            values = [float(w["demand"][name]) for _, w in rows]
            setattr(self, name, torch.tensor(values, dtype=torch.float64))
        self.seconds = torch.tensor([w["t"] for _, w in rows], dtype=torch.float64)
        memory = [problems[i].get("memory", 1.0) for i, _ in rows]
        self.memory = torch.tensor(memory, dtype=torch.float64)  # rates over the rules'
        self.names = [row_name(w) for _, w in rows]

        def multiplies_on_tensor_cores(case: dict, kind: str) -> bool:
            return case["precision"] == "fp16x3" or (
                kind in ("16bit", "tf32", "fp8") and case["precision"] != "ieee"
            )

        on_tensor_cores = [
            float(multiplies_on_tensor_cores(problems[i]["case"], w["demand"]["kind"]))
            for i, w in rows
        ]
        self.on_tensor_cores = torch.tensor(on_tensor_cores, dtype=torch.float64)
        act = [problems[i]["case"]["activation"] for i, _ in rows]
        self.activation = torch.tensor(
            [float(a not in (None, "relu")) for a in act], dtype=torch.float64
        )
        best = torch.full((self.count,), math.inf, dtype=torch.float64)
        best.scatter_reduce_(0, self.problem, self.seconds, "amin")
        self.behind = torch.log(self.seconds / best[self.problem])


def row_name(way: dict) -> str:
    """As rules have it: rung, kind, variant."""
    return f"{way['algo']} {way['demand']['kind']} {way['demand']['variant']}"


def estimated(w: Ways, chip: dict[str, Tensor], tile: dict[str, Tensor]) -> Tensor:
    """Seconds of every way; `tile`: the numbers of each way's own tile."""
    cluster = w.cluster_p * w.cluster_q
    one = torch.ones((), dtype=torch.float64)
    layout = torch.where(w.p_mn > 0, tile["p_mn"], one) * torch.where(w.q_mn > 0, tile["q_mn"], one)
    shared = torch.where(cluster > 2, chip["four"], one)
    loaded = w.loaded + chip["off_sector"] * w.off_sector
    slowdown = w.on_tensor_cores * chip["slowdown"]

    def step(blocks: Tensor, share: Tensor) -> Tensor:
        wait = shared * (1 + slowdown * torch.clamp(share, max=1)) / (1 + slowdown)
        return layout * overlap(tile["busy"] * w.filled * blocks, tile["latency"] * wait)

    end = w.ends * (tile["end"] + w.elements * w.activation * chip["activation"])
    together = cluster * w.cluster_k
    fills = torch.where(together > 2, 10 / 11 * one, one)
    groups = torch.clamp(torch.floor(w.multiprocessors * fills / together), min=1)
    places = groups * w.resident * together
    waves = torch.floor(w.units / places)
    rest = w.units - waves * places
    full = w.steps * step(w.resident, one) + end
    share = rest / w.multiprocessors
    blocks = torch.clamp(torch.ceil(share), min=1)
    last = w.steps * step(torch.minimum(blocks, w.resident), share) + end
    whole = waves * full + torch.where(rest > 0, last, 0 * one)
    product = torch.where(w.stream_k > 0, w.units / places * full + chip["hand_over"], whole)
    rounds = w.units / (w.multiprocessors / 2)
    part = torch.where(w.stream_k > 0, rounds, torch.ceil(rounds)) / w.units
    port = overlap(part * loaded / chip["pair_load"], part * w.bytes / chip["pair_memory"])
    memory = (w.bytes + chip["again"] * w.again) / (chip["memory"] * w.memory)
    cache = loaded / chip["cache"] + w.line_loads * chip["line"] + w.store_lines * chip["store"]
    starts = tile["start"] + chip["spread"] * torch.clamp(w.units / w.multiprocessors, max=1)
    starts = starts + torch.where(together > 1, chip["cluster"], 0 * one)
    others = (w.kernels - 1) * chip["kernel"] + 2 * w.copies / (chip["copy"] * w.memory)
    return starts + overlap(overlap(product, port), memory + cache) + others


class Fit:
    """Logarithms of all numbers; what is `fixed` keeps the value that it has there."""

    def __init__(self, names: list[str], fixed: dict[str, float] | None = None) -> None:
        self.fixed = {n: torch.tensor(x, dtype=torch.float64) for n, x in (fixed or {}).items()}
        self.place = {name: i for i, name in enumerate(names)}
        rungs = {rung: i for i, rung in enumerate(sorted({n.rsplit(" ", 1)[0] for n in names}))}
        self.rung = torch.tensor([rungs[n.rsplit(" ", 1)[0]] for n in names])
        self.chip = {n: torch.tensor(math.log(v), dtype=torch.float64) for n, v in CHIP.items()}
        self.tile = {
            n: torch.full((len(names),), math.log(v), dtype=torch.float64) for n, v in TILE.items()
        }
        for x in self.parameters():
            x.requires_grad_()

    def parameters(self) -> list[Tensor]:
        return [*self.chip.values(), *self.tile.values()]

    def round(self) -> None:
        """To the digits that rules have: which of two near ways is less may hang on the next."""
        with torch.no_grad():
            for x in self.parameters():
                found = [math.log(float(f"{v:.4g}")) for v in x.exp().reshape(-1).tolist()]
                x.copy_(torch.tensor(found, dtype=torch.float64).reshape(x.shape))

    def places(self, w: Ways) -> Tensor:
        return torch.tensor([self.place[n] for n in w.names])

    def seconds(self, w: Ways, places: Tensor) -> Tensor:
        chip = {n: self.fixed.get(n, x.exp()) for n, x in self.chip.items()}
        tile = {n: self.fixed.get(n, x.exp()[places]) for n, x in self.tile.items()}
        return estimated(w, chip, tile)

    def apart(self) -> Tensor:
        """How far the layouts' factors are from none, and the chip's numbers from where they began:
        of what records say nothing, the fit shall say nothing either."""
        chip = sum((x - math.log(CHIP[n])) ** 2 for n, x in self.chip.items())
        return sum((self.tile[n] ** 2).sum() for n in ("p_mn", "q_mn")) + STIFF * chip


def expected_regret(w: Ways, estimates: Tensor, softness: float) -> Tensor:
    """Of each problem: the logarithm of what a way costs over the best, expected if ways are taken
    the more often the less they are estimated at."""
    score = -torch.log(estimates) / softness
    most = torch.full((w.count,), -math.inf, dtype=torch.float64)
    most = most.scatter_reduce(0, w.problem, score.detach(), "amax")
    weight = torch.exp(score - most[w.problem])
    total = torch.zeros(w.count, dtype=torch.float64).scatter_add(0, w.problem, weight)
    cost = weight / total[w.problem] * w.behind
    return torch.zeros(w.count, dtype=torch.float64).scatter_add(0, w.problem, cost)


def fit_to(
    problems: list[dict], multiprocessors: int, steps: int, fixed: dict[str, float] | None = None
) -> Fit:
    w = Ways(problems, multiprocessors)
    fit = Fit(sorted(set(w.names)), fixed)
    places = fit.places(w)
    nearness = torch.exp(-2 * w.behind)
    optimizer = torch.optim.Adam(fit.parameters(), lr=0.05, betas=(0.9, 0.98))
    for i in track(range(steps), "fit", console=console):
        progress = i / steps
        for group in optimizer.param_groups:
            group["lr"] = 0.06 * 0.5 * (1 + math.cos(math.pi * progress)) + 2e-4
        seconds = fit.seconds(w, places)
        off = torch.log(seconds / w.seconds)
        error = (nearness * torch.sqrt(off * off + 1e-4)).sum() / nearness.sum()
        regret = expected_regret(w, seconds, 0.12 - 0.1 * progress).mean()
        loss = error + (8 * regret if progress > 0.2 else 0) + 2e-4 * fit.apart()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 200 == 0 or i == steps - 1:
            console.print(f"{i}: error {error.item():.4f}, regret {regret.item():.4f}")
    fit.round()
    return fit


# ---- scores --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """Of one choice: its time over the best way's, and torch.mm's over its."""

    cost: float
    problem: str
    chosen: str
    best: str
    ratio: float  # NaN where torch was not timed


def costs(problems: list[dict], seconds: Iterable[float]) -> dict[str, list[Cost]]:
    """By family, the dearest first; `seconds` are estimates, of all problems' ways one after the
    other. The best is one that was timed in turn with others."""
    found: dict[str, list[Cost]] = defaultdict(list)
    estimates = iter(seconds)
    for p in problems:
        ways = [(next(estimates), w) for w in p["all"]]
        turns = [w for _, w in ways if w["name"] in p["turns"]]
        if not turns:
            continue
        chosen = min(ways, key=lambda x: x[0])[1]
        best = min(turns, key=lambda w: w["t"])
        found[p["case"]["family"]].append(
            Cost(
                max(1.0, chosen["t"] / best["t"]),
                Case.from_json(p["case"]).shape.label,
                chosen["name"],
                best["name"],
                p["seconds"].get("torch.mm", math.nan) / chosen["t"],
            )
        )
    for cases in found.values():
        cases.sort(key=lambda c: -c.cost)
    return found


def regret(cases: list[Cost]) -> float:
    return statistics.geometric_mean(c.cost for c in cases) - 1


def table(found: dict[str, list[Cost]]) -> str:
    """The page's: regret of each family, and torch.mm's time over ours."""
    header = ["family", "problems", "regret, geomean", "worst", "torch.mm / ours"]
    rows = []
    for family, cases in found.items():
        ratios = [c.ratio for c in cases if not math.isnan(c.ratio)]
        ratio = f"{statistics.geometric_mean(ratios):.2f}" if ratios else "-"
        figures = f"{regret(cases):.1%}", f"{cases[0].cost:.2f}", ratio
        rows.append([family, str(len(cases)), *figures])
    return markdown(header, rows)


def show(found: dict[str, list[Cost]], worst: int = 2) -> None:
    for family, cases in found.items():
        console.print(
            f"{family:14s}{len(cases):4d} {regret(cases):6.1%}, worst {cases[0].cost:.2f}",
            highlight=False,
        )
        for c in cases[:worst]:
            console.print(
                f"      {c.cost:.2f} {c.problem}: {c.chosen}; best {c.best}",
                highlight=False,
                soft_wrap=True,
            )


def first_ways(problems: list[dict], counts: Iterable[int]) -> str:
    """What the choice costs if so many ways are timed, those with the least estimates, and the
    fastest of them is taken: how many tuning needs. As a table of all problems."""
    rows = []
    for count in counts:
        costs = []
        for p in problems:
            turns = [w["t"] for w in p["all"] if w["name"] in p["turns"]]
            timed = sorted(p["all"], key=lambda w: w["seconds"])[:count]
            if turns:
                costs.append(max(1.0, min(w["t"] for w in timed) / min(turns)))
        mean = statistics.geometric_mean(costs) - 1
        above = sum(cost > 1.02 for cost in costs)
        rows.append([str(count), str(len(costs)), f"{mean:.2%}", f"{max(costs):.2f}", str(above)])
    return markdown(["ways", "problems", "regret, geomean", "worst", "above 1.02"], rows)


def memory_rate_of(device: str) -> float:
    """In bytes a second. Raises RuntimeError where no device has that name."""
    import tiled_mm  # noqa: F401, registers the operators

    a = torch.empty(8, 8, device="meta")
    return json.loads(torch.ops.tiled_debug.plan(a, a, device=device))["memory_bandwidth"]


def device_of(path: Path, device: str) -> str:
    """The name of the device that a record was measured on; `device` where it does not say."""
    for word in gpu_of(path).lower().split():
        with contextlib.suppress(RuntimeError):
            memory_rate_of(word)
            return word
    return device


def load(paths: Iterable[Path], device: str) -> list[dict]:
    """Records' problems, as :func:`loaded` has them, each with its own device's name and
    ways, and its memory's rate over that of `device`."""
    found = []
    for path in paths:
        own = device if device == "cuda" else device_of(path, device)
        rate = memory_rate_of(own) / memory_rate_of(device)
        problems = loaded(track(problems_in(path), path.name, console=console), own)
        found += [p | {"memory": rate, "device": own} for p in problems]
    return found


def loaded(problems: Iterable[dict], device: str) -> list[dict]:
    """Problems with what the library says of their ways: of `all` that were timed, what they ask
    for, and the seconds that it estimates itself."""
    import tiled_mm  # noqa: F401, registers the operators

    found = []
    for p in problems:
        times = p["seconds"]
        ways = [
            way | {"t": times[way["name"]]}
            for way in ways_of(Case.from_json(p["case"]), device)
            if not way["by_name"] and way["name"] in times
        ]
        found.append(p | {"all": ways})
    return found


def fitted_seconds(fit: Fit, problems: list[dict], multiprocessors: int) -> list[float]:
    w = Ways(problems, multiprocessors)
    with torch.no_grad():
        return fit.seconds(w, fit.places(w)).tolist()


def head_of(device: str) -> list[str]:
    """A rules file's first lines: its version, the device, the table of ways."""
    return torch.ops.tiled_debug.rules(device).splitlines()[:3]


def multiprocessors_of(device: str) -> int:
    return int(head_of(device)[1].split(" ")[2])


def rules_text(fit: Fit, device: str, head: list[str]) -> str:
    """A file that tiled_mm.load_rules() reads."""
    lines = head_of(device) + [f"# {line}" for line in head]
    lines += [f"chip {name} {x.exp().item():.4g}" for name, x in fit.chip.items()]
    for name, place in fit.place.items():
        algo, kind, variant = name.split(" ", 2)
        numbers = " ".join(f"{x[place].exp().item():.4g}" for x in fit.tile.values())
        lines.append(f"tile {algo} {kind} {numbers} {variant}")
    return "\n".join([*lines, f"lines {len(lines)}"]) + "\n"


def main(
    records: list[Path],
    device: Annotated[
        str, typer.Option(help="the rules' device by name; cuda: this machine's")
    ] = "h100",
    rules: Annotated[Path | None, typer.Option(help="where to write the rules")] = None,
    held_out: Annotated[Path | None, typer.Option(help="a record to judge the fit by")] = None,
    steps: Annotated[int, typer.Option(help="of the fit")] = 1600,
    score: Annotated[bool, typer.Option(help="no fit: what this library's choices cost")] = False,
) -> None:
    """Fits the rules to records, or scores the library's own choices in them."""
    problems = load(records, device)
    if score:
        found = costs(problems, (w["seconds"] for p in problems for w in p["all"]))
        show(found)
        for text in (table(found), first_ways(problems, FIRST)):
            console.print(text, highlight=False, soft_wrap=True)
        return
    multiprocessors = multiprocessors_of(device)
    if torch.cuda.is_available():  # some 20 seconds instead of minutes
        torch.set_default_device("cuda")
    fit = fit_to(problems, multiprocessors, steps)
    console.print("fitted:")
    show(costs(problems, fitted_seconds(fit, problems, multiprocessors)), worst=0)
    head = ["tiled_mm rules: python -m bench.choice_fit, " + date.today().isoformat()]
    head += [f"device {device}", *(f"record {source_of(path)}" for path in records)]
    if held_out is not None:
        judged = load([held_out], device)
        for p in judged:
            p["all"] = [way for way in p["all"] if row_name(way) in fit.place]
        found = costs(judged, fitted_seconds(fit, judged, multiprocessors))
        console.print("held out:")
        show(found)
        head += [f"held out {source_of(held_out)}: regret by family"]
        head += [f"  {family} {regret(cases):.1%}" for family, cases in found.items()]
    if rules is not None:
        rules.write_text(rules_text(fit, device, head))
        console.print(f"{len(fit.place)} tiles in {rules}")


if __name__ == "__main__":
    typer.run(main)
