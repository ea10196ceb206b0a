"""The fit of the choice's rules to recorded times.

    python -m bench.choice_fit RECORD... --device h100 --rules FILE

Every number of the rules is found here, by gradients of two losses: how far the estimates are off
(of the ways near the best most), and what the choice would cost, where a soft minimum of the
estimates stands for the choice. `estimated` is the formula of ops/cuda/plan/estimate.cpp once
more; a test holds the two equal.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import track
from torch import Tensor

from bench.choice import Case, ways_of

console = Console()

CHIP = {  # ops/cuda/plan/chip_rates.inc
    "launch": 1e-6,
    "kernel": 2.5e-6,
    "copy": 2.5e12,
    "sums": 1.5e12,
    "memory": 2.9e12,
    "cache": 8e12,
    "arrival": 6e11,
    "slowdown": 0.2,
    "hand_over": 8e-6,
    "segment": 1e-6,
    "cluster": 3e-7,
    "pair_p": 1.0,
    "pair_q": 1.0,
    "four": 1.0,
    "activation": 2e-6,
    "relu": 5e-7,
}
TILE = {"busy": 3e-7, "latency": 6e-7, "end": 1.5e-6, "start": 2e-6, "p_mn": 1.0, "q_mn": 1.0}
MULTIPROCESSORS = 132
FAR = 4.0  # ways that took so many times the best one's time tell nothing


def overlap(x: Tensor, y: Tensor, power: int) -> Tensor:
    longer, shorter = torch.maximum(x, y), torch.minimum(x, y)
    return longer * (1 + (shorter / longer) ** power) ** (1 / power)


class Ways:
    """Measured ways as columns; `problem` numbers the problem of each."""

    COLUMNS = ("resident", "cluster_p", "cluster_q", "p_mn", "q_mn", "stream_k", "units", "steps")
    COLUMNS += ("segments", "loaded", "bytes", "copies", "sums", "kernels")

    def __init__(self, problems: list[dict]) -> None:
        rows = [(i, w) for i, p in enumerate(problems) for w in p["all"]]
        self.problem = torch.tensor([i for i, _ in rows])
        self.count = len(problems)
        for name in self.COLUMNS:
            values = [float(w["demand"][name]) for _, w in rows]
            setattr(self, name, torch.tensor(values, dtype=torch.float64))
        self.seconds = torch.tensor([w["t"] for _, w in rows], dtype=torch.float64)
        self.names = [row_name(w) for _, w in rows]

        def multiplies_on_tensor_cores(case: dict, kind: str) -> bool:
            return case["precision"] == "fp16x3" or (
                kind in ("16bit", "tf32") and case["precision"] != "ieee"
            )

        on_tensor_cores = [
            float(multiplies_on_tensor_cores(problems[i]["case"], w["demand"]["kind"]))
            for i, w in rows
        ]
        self.on_tensor_cores = torch.tensor(on_tensor_cores, dtype=torch.float64)
        act = [problems[i]["case"]["activation"] for i, _ in rows]
        self.relu = torch.tensor([float(a == "relu") for a in act], dtype=torch.float64)
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
    layout = layout * torch.where(
        cluster == 1,
        one,
        torch.where(
            cluster > 2, chip["four"], torch.where(w.cluster_p == 2, chip["pair_p"], chip["pair_q"])
        ),
    )

    arriving = w.loaded / torch.clamp(w.units * w.steps, min=1) / chip["arrival"]
    slowdown = w.on_tensor_cores * chip["slowdown"]

    def step(blocks: Tensor, share: Tensor) -> Tensor:
        pace = (1 + slowdown * torch.clamp(share, max=1)) / (1 + slowdown)
        return layout * pace * overlap(tile["busy"] * blocks, tile["latency"], 4) + arriving

    end = tile["end"] + w.activation * chip["activation"] + w.relu * chip["relu"]
    end = end + (w.segments - 1) * chip["segment"]
    fills = torch.where(cluster > 2, 10 / 11 * one, one)
    groups = torch.clamp(torch.floor(MULTIPROCESSORS * fills / cluster), min=1)
    places = groups * w.resident * cluster
    waves = torch.floor(w.units / places)
    rest = w.units - waves * places
    full = w.steps * step(w.resident, one) + end
    share = rest / MULTIPROCESSORS
    blocks = torch.clamp(torch.ceil(share), min=1)
    last = w.steps * step(torch.minimum(blocks, w.resident), share) + end
    whole = waves * full + torch.where(rest > 0, last, 0 * one)
    product = torch.where(w.stream_k > 0, w.units / places * full + chip["hand_over"], whole)
    product = overlap(product, w.bytes / chip["memory"], 3)
    product = overlap(product, w.loaded / chip["cache"], 3)
    starts = chip["launch"] + tile["start"] + torch.where(cluster > 1, chip["cluster"], 0 * one)
    return (
        starts
        + product
        + (w.kernels - 1) * chip["kernel"]
        + 2 * w.copies / chip["copy"]
        + w.sums / chip["sums"]
    )


class Fit:
    """Logarithms of all numbers."""

    def __init__(self, names: list[str]) -> None:
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

    def places(self, w: Ways) -> Tensor:
        return torch.tensor([self.place[n] for n in w.names])

    def seconds(self, w: Ways, places: Tensor) -> Tensor:
        chip = {n: x.exp() for n, x in self.chip.items()}
        tile = {n: x.exp()[places] for n, x in self.tile.items()}
        return estimated(w, chip, tile)

    def apart(self) -> Tensor:
        """How far the layouts' factors are from none."""
        return sum((self.tile[n] ** 2).sum() for n in ("p_mn", "q_mn"))


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


def fit_to(problems: list[dict], steps: int, weight: float = 4.0) -> Fit:
    w = Ways(problems)
    fit = Fit(sorted(set(w.names)))
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
        loss = error + (weight * regret if progress > 0.2 else 0) + 2e-5 * fit.apart()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 50 == 0 or i == steps - 1:
            console.print(f"{i}: error {error.item():.4f}, regret {regret.item():.4f}")
    return fit


# ---- scores --------------------------------------------------------------------------------------


def regrets(problems: list[dict], seconds: list[float]) -> dict[str, list[tuple]]:
    """By family: (time of the choice over the best, problem, choice, best)."""
    found = defaultdict(list)
    estimates = iter(seconds)
    for p in problems:
        ways = [(next(estimates), w) for w in p["all"]]
        if not ways:
            continue
        chosen = min(ways, key=lambda x: x[0])[1]
        turns = [w for _, w in ways if w["name"] in p["turns"]]
        best = min(turns or [w for _, w in ways], key=lambda w: w["t"])
        label = Case.from_json(p["case"]).shape.label
        cost = max(1.0, chosen["t"] / best["t"])
        peer = p["seconds"].get("torch.mm", math.nan)
        found[p["case"]["family"]].append(
            (cost, label, chosen["name"], best["name"], peer / chosen["t"])
        )
    return found


def show(found: dict[str, list[tuple]], worst: int = 2) -> None:
    for family, cases in found.items():
        cases.sort(reverse=True)
        mean = statistics.geometric_mean(c[0] for c in cases) - 1
        peers = [c[4] for c in cases if not math.isnan(c[4])]
        ratio = f", torch.mm / ours {statistics.geometric_mean(peers):.3f}" if peers else ""
        console.print(f"{family:14s}{len(cases):4d} {mean:6.1%}, worst {cases[0][0]:.2f}{ratio}")
        for cost, label, chosen, best, _ in cases[:worst]:
            console.print(f"      {cost:.2f} {label}: {chosen}; best {best}", highlight=False)


def load(paths: Iterable[Path], device: str) -> list[dict]:
    """Records with what the library says of their ways, near ones alone."""
    import tiled_mm  # noqa: F401, registers the operators

    problems = []
    for path in paths:
        for line in track(path.read_text().splitlines(), path.name, console=console):
            p = json.loads(line)
            times = p["seconds"]
            near = FAR * min(s for name, s in times.items() if name != "torch.mm")
            p["all"] = [
                way | {"t": times[way["name"]]}
                for way in ways_of(Case.from_json(p["case"]), device)
                if not way["by_name"] and times.get(way["name"], math.inf) <= near
            ]
            problems.append(p)
    return problems


def rules_text(fit: Fit, head: list[str]) -> str:
    lines = [f"# {line}" for line in head]
    lines += [f"chip {name} {x.exp().item():.4g}" for name, x in fit.chip.items()]
    for name, place in fit.place.items():
        algo, kind, variant = name.split(" ", 2)
        numbers = " ".join(f"{x[place].exp().item():.4g}" for x in fit.tile.values())
        lines.append(f"tile {algo} {kind} {numbers} {variant}")
    return "\n".join(lines) + "\n"


def main(
    records: list[Path],
    device: Annotated[str, typer.Option(help="the named device of the records")] = "h100",
    rules: Annotated[Path | None, typer.Option(help="where to write the rules")] = None,
    steps: int = 400,
    held_out: Annotated[Path | None, typer.Option(help="a record to score by")] = None,
) -> None:
    torch.set_num_threads(2)
    problems = load(records, device)
    judged = load([held_out], device) if held_out else None
    fit = fit_to(problems, steps)
    with torch.no_grad():
        w = Ways(problems)
        console.print("fitted:")
        show(regrets(problems, fit.seconds(w, fit.places(w)).tolist()), worst=0)
        if judged:
            for p in judged:
                p["all"] = [way for way in p["all"] if row_name(way) in fit.place]
            w = Ways(judged)
            console.print("held out:")
            show(regrets(judged, fit.seconds(w, fit.places(w)).tolist()))
    if rules is not None:
        head = ["tiled_mm rules, made by python -m bench.choice_fit", f"device {device}"]
        rules.write_text('R"rules(' + rules_text(fit, head) + ')rules"\n')
        console.print(f"{len(fit.place)} tiles in {rules}")


if __name__ == "__main__":
    typer.run(main)
