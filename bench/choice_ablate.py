"""Which tiles pay: what recorded products would take without each.

    python -m bench.choice_ablate RECORD... --device h100 [--budget 0.005 --worst 1.10]

A tile's gain is how much longer a family's products take (geometric mean, and the worst of them)
by the best of the other timed ways. Then tiles go one by one, the one that costs least first, and
the others are scored again after each: as long as what went costs no family more than the budget,
and no product more than the worst. A tile's products by stream-K count apart.

Records of two cards may be given together: a family counts for each card by itself. Another chip
may need what these do not: keep its tiles (`--keep async_mma`).

`--names` asks for a tile as a whole, whatever its dtypes and whether by stream-K; `--instances` for
whole kernels: the families that would lose most without each.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from bench.choice import LESSONS
from bench.choice_fit import console, load

KEPT = (*LESSONS, "shared_tile")  # rungs that a reader begins with
ONE_KERNEL = ("hopper", "async_mma")  # rungs whose tiles have names for their schedules
SHOWN = 0.003  # of a family's mean, what an instance has to be worth to be mentioned


def tile_of(way: dict) -> str:
    """Rung, kind and tile, however operands are read."""
    d = way["demand"]
    cut = " cut" if d["stream_k"] else ""
    return f"{way['algo']} {d['kind']} {d['variant'].split(' ')[0]}{cut}"


def name_of(way: dict) -> str:
    """Rung and tile, of all kinds."""
    return f"{way['algo']} {way['demand']['variant'].split(' ')[0]}"


def instance_of(way: dict) -> str:
    """The kernel: a rung, or of rungs with several kernels the kind of tile as well."""
    algo, tile = way["algo"], way["demand"]["variant"].split(" ")[0]
    if algo in ONE_KERNEL:
        return algo
    if algo.startswith("shared_tile"):
        return "shared_tile"
    return f"{algo} {re.sub(r'[0-9]+(x[0-9]+)?[A-Za-z]*$', '', tile)}"


@dataclass(frozen=True)
class Loss:
    """What products would take longer."""

    family: str  # the one that loses most
    mean: float  # its geometric mean, less one
    worst: float  # of all products, over the best time
    in_all: float  # a family's mean, with what went before


class Times:
    """The best recorded time of each tile, of each problem, while tiles go."""

    def __init__(self, problems: list[dict], name: Callable[[dict], str] = tile_of) -> None:
        self.best: list[dict[str, float]] = []  # by problem, the fastest first
        self.family: list[str] = []
        self.problems_of: dict[str, list[int]] = defaultdict(list)  # by tile
        self.count: dict[str, int] = defaultdict(int)  # problems, by family
        self.lost: dict[str, float] = defaultdict(float)  # mean logarithm, by family
        self.gone: set[str] = set()
        for p in problems:
            if not p["all"]:
                continue
            best: dict[str, float] = {}
            for way in sorted(p["all"], key=lambda w: w["t"]):
                best.setdefault(name(way), way["t"])
            for tile in best:
                self.problems_of[tile].append(len(self.best))
            self.best.append(best)
            self.family.append(f"{p['case']['family']} {p['device']}")
            self.count[self.family[-1]] += 1
        self.cost = [1.0] * len(self.best)  # so far, over the best time

    def dearer(self, tile: str) -> Iterator[tuple[int, float, float]]:
        """The problems that this tile's going too makes dearer: their cost then, and what that
        adds to the mean logarithm of their families."""
        for i in self.problems_of[tile]:
            best = self.best[i]
            left = (t for name, t in best.items() if name != tile and name not in self.gone)
            cost = next(left, math.inf) / next(iter(best.values()))
            if cost > self.cost[i]:
                yield i, cost, math.log(cost / self.cost[i]) / self.count[self.family[i]]

    def loss(self, tile: str) -> Loss:
        added: dict[str, float] = defaultdict(float)
        worst = 1.0
        for i, cost, more in self.dearer(tile):
            added[self.family[i]] += more
            worst = max(worst, cost)
        if not added:
            return Loss("-", 0.0, 1.0, 0.0)
        family = max(added, key=added.__getitem__)
        in_all = max(self.lost[f] + more for f, more in added.items())
        return Loss(family, math.expm1(added[family]), worst, math.expm1(in_all))

    def by_family(self, tile: str) -> list[Loss]:
        """What each family would lose, the most first. Products that nothing else computes are left
        out of the mean; with one of them `worst` is infinite."""
        added: dict[str, float] = defaultdict(float)
        worst: dict[str, float] = defaultdict(lambda: 1.0)
        for i, cost, more in self.dearer(tile):
            family = self.family[i]
            worst[family] = max(worst[family], cost)
            if math.isfinite(cost):
                added[family] += more
        losses = [Loss(f, math.expm1(added[f]), w, math.expm1(added[f])) for f, w in worst.items()]
        return sorted(losses, key=lambda loss: -loss.mean)

    def remove(self, tile: str) -> None:
        for i, cost, more in list(self.dearer(tile)):
            self.cost[i] = cost
            self.lost[self.family[i]] += more
        self.gone.add(tile)

    def losses(self) -> list[Loss]:
        """Of every family, by all that went."""
        worst: dict[str, float] = defaultdict(float)
        for family, cost in zip(self.family, self.cost, strict=True):
            worst[family] = max(worst[family], cost)
        means = {f: math.expm1(self.lost[f]) for f in worst}
        return [Loss(f, means[f], worst[f], means[f]) for f in worst]


def ablated(times: Times, kept: Iterable[str], budget: float, worst: float) -> dict[str, Loss]:
    """Removes the tiles that may go, and says what each cost when it went."""
    left = {tile for tile in times.problems_of if not tile.startswith(tuple(kept))}
    gone: dict[str, Loss] = {}
    while True:
        found = {tile: times.loss(tile) for tile in sorted(left)}
        left = {t for t, loss in found.items() if loss.in_all <= budget and loss.worst <= worst}
        if not left:
            return gone
        least = min(sorted(left), key=lambda t: (found[t].mean, found[t].worst))
        times.remove(least)
        left.remove(least)
        gone[least] = found[least]


def show(name: str, loss: Loss) -> None:
    text = f"{name:40s}{loss.mean:8.2%}, worst {loss.worst:5.2f}  {loss.family}"
    console.print(text, highlight=False)


def main(
    records: list[Path],
    device: Annotated[str, typer.Option(help="the named device of the records")] = "h100",
    budget: Annotated[float, typer.Option(help="that a family may lose, in the mean")] = 0.005,
    worst: Annotated[float, typer.Option(help="a product's time over its best")] = 1.10,
    keep: Annotated[list[str] | None, typer.Option(help="rungs, or tiles as printed")] = None,
    names: Annotated[bool, typer.Option("--names", help="tiles of all kinds together")] = False,
    instances: Annotated[bool, typer.Option("--instances", help="whole kernels")] = False,
) -> None:
    """Prints each tile's gain, and which tiles could go."""
    if names and instances:
        raise typer.BadParameter("--names and --instances are two questions")
    problems = load(records, device)
    if instances:
        times = Times(problems, instance_of)
        for name in sorted(times.problems_of):
            console.print(name, highlight=False)
            for loss in times.by_family(name)[:4]:
                if loss.mean >= SHOWN or loss.worst == math.inf:
                    show("", loss)
        return
    times = Times(problems, name_of if names else tile_of)
    console.print("gains:")
    gains = {tile: times.loss(tile) for tile in times.problems_of}
    for tile, loss in sorted(gains.items(), key=lambda x: x[1].mean):
        show(tile, loss)
    gone = ablated(times, (*KEPT, *(keep or ())), budget, worst)
    console.print(f"could go, of {len(gains)}, one after the other:")
    for tile, loss in gone.items():
        show(tile, loss)
    console.print("in all:")
    for loss in times.losses():
        show("", loss)


if __name__ == "__main__":
    typer.run(main)
