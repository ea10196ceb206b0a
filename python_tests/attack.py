"""precision='fp16x3' under structured data, for as long as you like:

    python python_tests/attack.py [--seconds 60] [--seed 0] [--products N] [--json FILE]

Every round makes a batch of products of one size (structured.py), runs it, checks what is promised
of every element (promise.py), and runs it again in other ways that may not change a bit: in other
layouts, rows and columns permuted, a few of them alone, all rows of all products times all columns,
by every tile, into strided results. The closing table counts; the exit status tells.

A round is reproducible by its number: --seed S --round R runs that one alone, on the same kind of
device. --device cpu rehearses the attack without a GPU, by the library's CPU kernels (their chains
may overflow on the way, which is found and is no fault there).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import cases
import promise
import structured
import torch
from structured import Batch, Size
from torch import Tensor

LEAST_K = 64

EVERY_K = (64, 65, 68, 72, 80, 96, 100, 127, 128, 129, 132, 192, 200, 256, 260, 300, 512, 516)
FEW = (1, 2, 3, 5, 8, 9, 16, 17, 24, 31, 32)
MANY = (33, 40, 48, 63, 64, 65, 72, 96)

# name -> (M, N, K) to draw from. By which kernel a size goes is the planner's.
FAMILIES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "few rows": (FEW, MANY, EVERY_K),
    "few columns": (MANY, FEW, EVERY_K),
    "middle": (MANY, MANY, EVERY_K),
    "narrow": ((130, 200, 256, 300), (33, 40, 64), EVERY_K),
    "short K": ((1, 7, 33, 40), (1, 8, 40, 65), (1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 48, 62, 63)),
    "deep": ((2, 33, 40, 64), (3, 33, 40), (4096, 4100, 8192, 8193, 20000, 32767)),
    "segments": ((2, 33, 40), (3, 33, 40), (32768, 36872, 40001)),
}
# Rounds go through this again and again.
ORDER = (
    *("few rows", "middle", "few columns", "narrow", "few rows", "short K"),
    *("few columns", "middle", "few rows", "narrow", "few columns", "deep"),
)
SEGMENTS_EVERY = 5 * len(ORDER)  # rounds


def family_of(number: int) -> str:
    if number % SEGMENTS_EVERY == SEGMENTS_EVERY - 1:
        return "segments"
    return ORDER[number % len(ORDER)]


class Library:
    """What is attacked."""

    def __init__(self, device: str) -> None:
        import tiled_mm  # not at the top: the model is attacked without it

        self.tiled_mm = tiled_mm
        self.device = torch.device(device)
        self.families = FAMILIES
        self.on_gpu = self.device.type == "cuda"
        # Elements of A and B in a round, rows and columns of the crossed product.
        self.elements, self.crossed = (3_000_000, 768) if self.on_gpu else (30_000, 80)

    def bmm(self, a: Tensor, b: Tensor) -> Tensor:
        return self.tiled_mm.bmm(a, b, precision="fp16x3")

    def in_fp64(self, a: Tensor, b: Tensor) -> Tensor:
        return self.tiled_mm.bmm(a, b)

    def path(self, a: Tensor, b: Tensor) -> str:
        """The name of the kernel."""
        if a.shape[-1] < LEAST_K:
            return "short K"
        if not self.on_gpu:
            return "cpu"
        return self.tiled_mm.plan(a, b, precision="fp16x3").tile.name

    def ways(self, a: Tensor, b: Tensor) -> Iterator[tuple[str, Tensor]]:
        """One product by every tile, and into results that lie anyhow."""
        if not self.on_gpu:
            return
        if a.shape[1] >= LEAST_K:
            for x, y in ((a, b), (cases.column_major(a), cases.column_major(b))):
                for tile, swap_ab, p, q in cases.parts_ways(x, y):
                    c = torch.ops.tiled_debug.mm_with_tile(
                        x, y, tile, swap_ab, p, q, False, precision="fp16x3"
                    )
                    yield f"{tile}{', swap_ab' if swap_ab else ''}, cluster {p} x {q}", c
        for name, _, out in cases.outputs(a.shape[0], b.shape[1], torch.float32):
            yield f"out= {name}", self.tiled_mm.mm(a, b, precision="fp16x3", out=out)


# From an index of what was compared to A's entry and row, B's entry and column.
Where = Callable[[tuple[int, ...]], tuple[int, int, int, int]]


@dataclass
class Outcome:
    """One comparison of a round: which elements are wrong."""

    kind: str  # of promise.KINDS, or bits
    path: str
    wrong: Tensor  # bool
    where: Where
    ratio: Tensor | None = None


@dataclass
class Round:
    seed: int
    number: int
    family: str
    size: Size
    count: int
    batch: Batch
    path: str
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def data_seed(self) -> int:
        return self.seed * 1_000_003 + self.number

    def check(self, path: str, c: Tensor, a: Tensor, b: Tensor, where: Where) -> None:
        found = promise.check(c, promise.reference(a, b))
        for kind, wrong in found.wrong.items():
            ratio = found.ratio if kind == "bound" else None
            self.outcomes.append(Outcome(kind, path, wrong, where, ratio))

    def compare(self, path: str, c: Tensor, expected: Tensor, where: Where) -> None:
        self.outcomes.append(Outcome("bits", path, promise.different(c, expected), where))


def as_they_lie(at: tuple[int, ...]) -> tuple[int, int, int, int]:
    entry, row, column = at
    return entry, row, entry, column


def taken_from(
    entries: Tensor | None, rows: Tensor | None = None, columns: Tensor | None = None
) -> Where:
    """Of products, rows and columns that were taken by these indices."""

    def where(at: tuple[int, ...]) -> tuple[int, int, int, int]:
        indices = zip((entries, rows, columns), at, strict=True)
        return as_they_lie(tuple(i if x is None else int(x[i]) for x, i in indices))

    return where


def run_round(library: Library, seed: int, number: int) -> Round:
    """All comparisons of one batch. Nothing here waits for the GPU."""
    family = family_of(number)
    draw = random.Random(f"{seed} {number}")
    size = Size(*(draw.choice(values) for values in library.families[family]))
    count = max(1, min(1024, library.elements // ((size.m + size.n) * size.k)))
    data_seed = seed * 1_000_003 + number
    batch = structured.make(count, size, data_seed, library.device)
    a, b = batch.a, batch.b
    base = library.path(a, b)
    this = Round(seed, number, family, size, count, batch, base)
    c = library.bmm(a, b)
    this.check(base, c, a, b, as_they_lie)
    if size.k < LEAST_K:
        expected = promise.correctly_summed(a, b, library.in_fp64)
        # Whether what is infinite in fp64 may be so is checked above.
        known = torch.where(expected.isinf(), c, expected)
        this.compare("short K / fp64, rounded once", c, known, as_they_lie)

    generator = torch.Generator().manual_seed(data_seed)

    def some(of: int, how_many: int) -> Tensor:
        return torch.randperm(of, generator=generator)[:how_many].to(library.device)

    def again(what: str, x: Tensor, y: Tensor, expected: Tensor, where: Where) -> None:
        this.compare(f"{base} / {library.path(x, y)}, {what}", library.bmm(x, y), expected, where)

    # Layouts: rows along k or beside each other, and neither.
    beside_a, along_b = a.mT.contiguous().mT, b.mT.contiguous().mT
    again("A beside", beside_a, b, c, as_they_lie)
    again("B along", a, along_b, c, as_they_lie)
    again("A beside, B along", beside_a, along_b, c, as_they_lie)
    odd_a = a.new_full((count, size.m, size.k + 3), torch.nan)[:, :, 1 : size.k + 1].copy_(a)
    odd_b = b.new_full((count, size.k, 2 * size.n + 1), torch.nan)[:, :, 1::2].copy_(b)
    again("strided", odd_a, odd_b, c, as_they_lie)

    # Rows, columns and entries in another order, and few of them.
    rows, columns, entries = some(size.m, size.m), some(size.n, size.n), some(count, count)
    again(
        "permuted",
        a[entries][:, rows],
        b[entries][:, :, columns],
        c[entries][:, rows][:, :, columns],
        taken_from(entries, rows, columns),
    )
    few = some(size.m, draw.choice(FEW))
    again("rows", a[:, few], b, c[:, few], taken_from(None, few))
    few_columns = some(size.n, draw.choice(FEW))
    taken = taken_from(None, None, few_columns)
    again("columns", a, b[:, :, few_columns], c[:, :, few_columns], taken)
    cross(this, library, c, draw)

    entry = draw.randrange(count)
    for name, found in library.ways(a[entry], b[entry]):
        path = f"{base} / {name}"
        this.compare(path, found, c[entry], lambda at: as_they_lie((entry, *at)))
    return this


def cross(this: Round, library: Library, c: Tensor, draw: random.Random) -> None:
    """Rows of several products times columns of them, as one large product: other neighbours, other
    kernels, and as many other elements to check."""
    size, limit = this.size, library.crossed
    entries = min(this.count, max(1, limit // max(size.m, size.n)))
    first = draw.randrange(this.count - entries + 1)
    part = slice(first, first + entries)
    a = this.batch.a[part].reshape(-1, size.k)[None]
    b = this.batch.b[part].permute(1, 0, 2).reshape(size.k, -1)[None]
    large = library.bmm(a, b)
    path = library.path(a, b)

    def where(at: tuple[int, ...]) -> tuple[int, int, int, int]:
        i, j = at[-2:]
        return first + i // size.m, i % size.m, first + j // size.n, j % size.n

    this.check(f"{path}, crossed", large, a, b, where)
    of_entries = large[0].view(entries, size.m, entries, size.n)
    same = of_entries.diagonal(dim1=0, dim2=2).permute(2, 0, 1)
    inside = taken_from(torch.arange(first, first + entries))
    this.compare(f"{this.path} / {path}, crossed", same, c[part], inside)
    x, y = a[0, :330].contiguous(), b[0, :, :264].contiguous()
    for name, found in library.ways(x, y):
        this.compare(f"{path}, crossed / {name}", found, large[0, :330, :264], where)


@dataclass
class Tally:
    products: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    elements: int = 0
    worst: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    wrong: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    compared: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    reports: list[str] = field(default_factory=list)

    @property
    def violations(self) -> int:
        return sum(self.wrong.values())

    def add(self, this: Round) -> None:
        """One wait for the GPU."""
        counts = torch.stack([o.wrong.sum() for o in this.outcomes])
        zero = torch.zeros((), dtype=torch.float64, device=counts.device)
        ratios = torch.stack([zero if o.ratio is None else o.ratio.amax() for o in this.outcomes])
        self.products[this.path] += this.count
        for outcome, wrong, ratio in zip(
            this.outcomes, counts.tolist(), ratios.tolist(), strict=True
        ):
            if outcome.kind == "bits":
                self.compared[outcome.path] += outcome.wrong.numel()
            if outcome.ratio is not None:
                self.elements += outcome.wrong.numel()
                self.worst[outcome.path] = max(self.worst[outcome.path], ratio)
            if wrong:
                self.wrong[outcome.kind, outcome.path] += wrong
                if len(self.reports) < 20:
                    self.reports.append(report(this, outcome, wrong))
                    print(self.reports[-1], flush=True)


def report(this: Round, outcome: Outcome, wrong: int) -> str:
    """Where it comes from, and the worst element, or the first, to run again."""
    if outcome.ratio is None:
        flat = int(outcome.wrong.flatten().to(torch.uint8).argmax())
        how = ""
    else:
        flat = int(outcome.ratio.flatten().argmax())
        how = f", worst {float(outcome.ratio.max()):.4g} times the bound"
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), outcome.wrong.shape))
    of_a, i, of_b, j = outcome.where(index)
    batch = this.batch
    return (
        f"{outcome.kind}: {outcome.path}: {wrong} of {outcome.wrong.numel()} elements{how}\n"
        f"  --seed {this.seed} --round {this.number} ({this.family}, {this.size}, "
        f"{this.count} products); structured.make({this.count}, {this.size!r}, "
        f"{this.data_seed}, {str(batch.a.device)!r}), .a[{of_a}, {i}] and .b[{of_b}, :, {j}]; "
        f"element {index} of what was compared\n"
        f"  {batch.describe(of_a, i, of_b, j)}\n"
        f"  k: a, b   {terms_of(batch.a[of_a, i], batch.b[of_b, :, j])}"
    )


def terms_of(row: Tensor, column: Tensor, most: int = 12) -> str:
    """The terms of an element, runs of equal ones together."""
    found: list[str] = []
    pairs = list(zip(row.tolist(), column.tolist(), strict=True))
    begin = 0
    for k in range(1, len(pairs) + 1):
        if k < len(pairs) and str(pairs[k]) == str(pairs[begin]):
            continue
        a, b = (x.hex() for x in pairs[begin])
        found.append(f"{begin}..{k - 1}: {a}, {b}")
        begin = k
    rest = f"; and {len(found) - most} more" if len(found) > most else ""
    return "; ".join(found[:most]) + rest


def table(tally: Tally, seconds: float) -> str:
    lines = [
        f"{'path':<64} {'products':>9} {'worst':>8}"
        + "".join(f" {kind:>8}" for kind in promise.KINDS)
    ]
    for path in sorted(tally.worst):
        wrong = [tally.wrong.get((kind, path), 0) for kind in promise.KINDS]
        products = tally.products.get(path, "")
        lines.append(
            f"{path:<64} {products:>9} {tally.worst[path]:>8.4f}"
            + "".join(f" {count:>8}" for count in wrong)
        )
    lines.append(f"{'bits: path / the same in another way':<64} {'elements':>12} {'different':>10}")
    for path in sorted(tally.compared):
        different = tally.wrong.get(("bits", path), 0)
        lines.append(f"{path:<64} {tally.compared[path]:>12} {different:>10}")
    lines.append(
        f"{sum(tally.products.values())} products, {tally.elements} elements in {seconds:.1f} s: "
        f"{tally.violations} violations"
    )
    return "\n".join(lines)


def as_json(tally: Tally, seconds: float, settings: dict, environment: dict) -> dict:
    return {
        "schema": 1,
        "run": "attack",
        "environment": environment,
        "settings": settings,
        "seconds": round(seconds, 2),
        "products": sum(tally.products.values()),
        "elements": tally.elements,
        "violations": tally.violations,
        "paths": [
            {
                "path": path,
                "products": tally.products.get(path),
                "worst_ratio": tally.worst[path],
                **{kind: tally.wrong.get((kind, path), 0) for kind in promise.KINDS},
            }
            for path in sorted(tally.worst)
        ],
        "bits": [
            {
                "path": path,
                "elements": tally.compared[path],
                "different": tally.wrong.get(("bits", path), 0),
            }
            for path in sorted(tally.compared)
        ],
        "reports": tally.reports,
    }


def attack(
    library: Library,
    seed: int = 0,
    *,
    seconds: float = float("inf"),
    products: float = float("inf"),
    rounds: float = float("inf"),
    first: int = 0,
) -> Tally:
    tally, begin, number = Tally(), time.monotonic(), first
    while (
        time.monotonic() - begin < seconds
        and sum(tally.products.values()) < products
        and number - first < rounds
    ):
        tally.add(run_round(library, seed, number))
        number += 1
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--products", type=int, help="stop after so many, if sooner")
    parser.add_argument("--round", type=int, help="this one alone")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    environment = {}
    if asked.json:
        sys.path.append(str(Path(__file__).resolve().parent.parent))
        from bench import machine

        environment = machine.environment(torch.device(asked.device))
    begin = time.monotonic()
    tally = attack(
        Library(asked.device),
        asked.seed,
        seconds=asked.seconds,
        products=asked.products or float("inf"),
        rounds=float("inf") if asked.round is None else 1,
        first=asked.round or 0,
    )
    seconds = time.monotonic() - begin
    print(table(tally, seconds))
    if asked.json:
        settings = {name: value for name, value in vars(asked).items() if name != "json"}
        text = json.dumps(as_json(tally, seconds, settings, environment), indent=1)
        asked.json.write_text(text + "\n")
    return 1 if tally.violations else 0


if __name__ == "__main__":
    sys.exit(main())
