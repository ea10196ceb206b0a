"""The numbers behind the CPU's blockings, found on this processor.

    python -m bench.cpu_blocking [--seed 1] [--judge-seed 2] [--minutes 8] [--levels avx512,amx]

Every instruction level that this CPU has runs in a process of its own, and fits the column of
ops/cpu/budgets.inc that its kernels read. For products of drawn sizes, layouts and numbers of
threads, one number after another is halved, doubled, or set to the value at which its special case
is none (PLAIN), and all of them again until none changes or the time is over. Two columns take
turns in random order, on the products for which they choose different blockings alone; the others
take as long with both. A value is taken that gains more than two standard errors and 0.3 % over all
products; a special case goes whose end surely costs less.

Then both columns run products of another seed, and the new one is written if it gains more than a
standard error there; else the table says that none better was found. --judge TABLE does this alone,
with the library's column and TABLE's.
No bit of a result depends on any of it, and a build is needed for it to take effect.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import torch

from bench import cpu_budgets, machine
from bench.cpu_budgets import TABLE, Column, Library

# What each level fits, and with products of which dtypes.
DTYPES = {
    "base": ("float32", "float64", "bfloat16", "int32"),
    "avx2": ("float32", "float64", "float16", "bfloat16", "int32"),
    "avx512": ("float32", "float64", "float16", "int32"),
    "avx512_bf16": ("bfloat16", "int8"),
    "amx": ("bfloat16", "int8"),
}
# The value of a number, or the number with whose value, a special case is none.
PLAIN: dict[str, int | str] = {
    "WHOLE_K": 0,
    "WAITING_K": "BLOCK_K",
    "TILE_BYTES": 1 << 20,
    "FEW_PANEL_BYTES": "PANEL_BYTES",
    "LONG_B_LOADS": "B_LOADS",
    "SET_ROWS": 32,
    "STRIPS_TO_PACK_A": 1 << 20,
    "TILES_TO_PACK_SHARING_B": "TILES_TO_PACK_B",
    "FEW_TILES": 0,
    "FEW_CACHED_K": "FEW_STREAM_K",
    "RAW_TILES": 0,
    "RAW_STREAM_TILES": "RAW_TILES",
    "DOT_TILES": 0,
    "DOT_STREAM_TILES": "DOT_TILES",
    "STREAM_AHEAD": 0,
    "STEPS_AHEAD": 0,
}
SMALL = 4  # numbers up to here go up and down by one
LEAST_GAIN = 0.003
ROUNDS = (6, 18)  # of every product; the second number where the first leaves much noise
MOST = math.log(2)  # that one product counts: a thread that waits for a core takes any time
SAMPLE_S = 1e-3
MOST_OPERATIONS = 4e8  # multiply-adds of a product


@dataclass(frozen=True)
class Case:
    dtype: str
    m: int
    n: int
    k: int
    layout: str
    threads: int


def drawn_cases(dtypes: Sequence[str], seed: int, count: int) -> list[Case]:
    """Squares from 48 to 1200, products with one short side, few rows of a large B, and some rows
    of a B that a cache holds."""
    draw = random.Random(seed)

    def size(least: float, most: float) -> int:
        value = round(math.exp(draw.uniform(math.log(least), math.log(most))))
        unit = draw.choice((1, 1, 16, 512 if value > 256 else 16))
        return max(unit, round(value / unit) * unit)

    cases = []
    while len(cases) < count:
        kind = len(cases) % 5
        if kind < 2:
            m = n = k = size(48, 1200)
        elif kind == 2:
            m, n, k = draw.sample([size(2, 160), size(200, 4000), size(200, 8000)], 3)
        elif kind == 3:
            m, n, k = size(1, 40), size(800, 4096), size(800, 4096)
        else:
            m, n, k = size(1, 400), size(16, 2000), size(16, 400)
        if m * n * k <= MOST_OPERATIONS:
            layout = draw.choice(("nn", "nn", "nt", "tn", "tt", "nv", "vn"))
            cases.append(Case(draw.choice(dtypes), m, n, k, layout, draw.choice((1, 2))))
    return cases


class Product:
    """A case with its operands. `calls` of it make a sample."""

    def __init__(self, case: Case) -> None:
        self.case = case
        dtype = getattr(torch, case.dtype)
        self._a = _matrix(case.m, case.k, dtype, case.layout[0])
        self._b = _matrix(case.k, case.n, dtype, case.layout[1])
        self._calls = 1
        self.seconds()
        self._calls = max(1, round(SAMPLE_S / min(self.seconds() for _ in range(3))))

    def seconds(self) -> float:
        torch.set_num_threads(self.case.threads)
        begin = time.perf_counter()
        for _ in range(self._calls):
            torch.ops.tiled.mm(self._a, self._b)
        return (time.perf_counter() - begin) / self._calls

    def blocking(self) -> str:
        torch.set_num_threads(self.case.threads)
        return json.loads(torch.ops.tiled_debug.plan(self._a, self._b))["blocking"]


def _matrix(rows: int, cols: int, dtype: torch.dtype, layout: str) -> torch.Tensor:
    """Row-major (n), column-major (t), or the first columns of a matrix whose rows are a power of
    two apart (v), of at least 4096 elements."""
    width = 1 << max(12, (cols - 1).bit_length())
    sizes = {"n": (rows, cols), "t": (cols, rows), "v": (rows, width)}[layout]
    if dtype.is_floating_point:
        made = torch.randn(sizes).to(dtype)
    else:
        made = torch.randint(-100, 100, sizes, dtype=dtype)
    return made.t() if layout == "t" else made[:, :cols]


@dataclass(frozen=True)
class Gain:
    """Logarithms of the old column's time over the new one's, of every product; 0 where both choose
    the same blocking."""

    of: list[float]
    noise: list[float]  # standard errors of the times
    changed: int

    @property
    def mean(self) -> float:
        return statistics.fmean(self.of)

    @property
    def error(self) -> float:
        """The standard error of the mean, the products being a sample of all that there may be: a
        gain of one of them alone proves nothing."""
        return statistics.stdev(self.of) / math.sqrt(len(self.of))

    @property
    def is_settled(self) -> bool:
        """Whether longer measuring would tell little more."""
        noise = math.sqrt(sum(x * x for x in self.noise)) / len(self.noise)
        return noise < max(self.error, LEAST_GAIN) / 4

    @property
    def text(self) -> str:
        return f"{100 * self.mean:+.2f} % (+- {100 * self.error:.2f}) by {self.changed} products"


def compare(library: Library, old: Column, new: Column, products: Sequence[Product]) -> Gain:
    def blockings(column: Column) -> list[str]:
        library.use(column)
        return [product.blocking() for product in products]

    pairs = zip(blockings(old), blockings(new), strict=True)
    changed = [i for i, (x, y) in enumerate(pairs) if x != y]
    logs: dict[int, list[float]] = {i: [] for i in changed}
    gain = Gain([0.0] * len(products), [0.0] * len(products), len(changed))
    sides = [old, new]
    for rounds in ROUNDS if changed else ():
        while len(logs[changed[0]]) < rounds:
            for i in changed:
                seconds = {}
                for side in random.sample((0, 1), 2):
                    library.use(sides[side])
                    seconds[side] = products[i].seconds()
                logs[i].append(math.log(seconds[0] / seconds[1]))
        for i in changed:
            gain.of[i] = max(-MOST, min(MOST, statistics.median(logs[i])))
            # Of a median, by the quartiles: a sample that another process interrupts tells nothing.
            low, _, high = statistics.quantiles(logs[i], n=4)
            gain.noise[i] = 0.93 * (high - low) / math.sqrt(len(logs[i]))
        if gain.is_settled:
            break
    return gain


def plain_value(column: Column, name: str) -> int | None:
    plain = PLAIN.get(name)
    return column[plain] if isinstance(plain, str) else plain


def neighbour(name: str, value: int, up: bool) -> int | None:
    """The next value of a number, up or down; none beyond its limits."""
    if up:
        most = 4 if name == "FEW_TILES" or name.startswith("DOT_") else 1 << 40
        value = value + 1 if value < SMALL else 2 * value
        return value if value <= most else None
    value = value - 1 if value <= SMALL else value // 2
    return value if value >= 1 else None


def fit(library: Library, products: Sequence[Product], deadline: float) -> Column:
    """The library's column, number after number made better; prints what each is worth."""
    before = dict(library.values)
    best = dict(before)

    def gain_of(name: str, value: int) -> Gain:
        return compare(library, best, {**best, name: value}, products)

    for name in best:
        if time.monotonic() > deadline:
            print(f"  from {name} on no time was left", flush=True)
            break
        for up in (False, True):
            while (value := neighbour(name, best[name], up)) is not None:
                gain = gain_of(name, value)
                if gain.mean <= max(2 * gain.error, LEAST_GAIN):
                    break
                print(f"  {name}: {best[name]} -> {value} gains {gain.text}", flush=True)
                best[name] = value
        plain = plain_value(best, name)
        if plain is None or plain == best[name]:
            continue
        gain = gain_of(name, plain)
        if gain.changed == 0:
            print(f"  {name}: {best[name]}, which changes no product here", flush=True)
        elif gain.mean - 2 * gain.error > -LEAST_GAIN:
            print(f"  {name}: {best[name]} -> {plain}, no special case: {gain.text}", flush=True)
            best[name] = plain
        else:
            print(f"  {name}: {best[name]}; without it {gain.text}", flush=True)
    if best != before and time.monotonic() < deadline:
        library.use(best)
        return fit(library, products, deadline)
    return best


def judge(library: Library, old: Column, new: Column, products: Sequence[Product]) -> dict:
    gain = compare(library, old, new, products)
    worst = min(range(len(products)), key=gain.of.__getitem__)
    found = {
        "geomean": math.exp(gain.mean),
        "error": gain.error,
        "least": math.exp(gain.of[worst]),
        "least_at": asdict(products[worst].case),
        "changed": gain.changed,
        "products": len(products),
        "of": [
            {**asdict(p.case), "ratio": math.exp(x)} for p, x in zip(products, gain.of, strict=True)
        ],
    }
    print(
        f"  held out: the old numbers' time / the new ones' {found['geomean']:.3f}"
        f" (+- {gain.error:.3f}), least {found['least']:.3f},"
        f" {gain.changed} of {len(products)} products with another blocking",
        flush=True,
    )
    return found


def run_level(options: argparse.Namespace) -> None:
    """One level, the one that this process has."""
    begin = time.monotonic()
    level = options.only
    library = Library(level)
    old = dict(library.values)
    made = lambda seed: [  # noqa: E731
        Product(case) for case in drawn_cases(DTYPES[level], seed, options.products)
    ]
    print(f"{level}: {', '.join(DTYPES[level])}", flush=True)
    if options.judge:
        new = cpu_budgets.columns_in(options.judge.read_text())[level]
    else:
        random.seed(options.seed)
        new = fit(library, made(options.seed), begin + 0.8 * 60 * options.minutes)
    held_out = judge(library, old, new, made(options.judge_seed))
    gains = math.log(held_out["geomean"]) > held_out["error"]
    written = gains and not options.judge
    if not options.judge:
        name = machine.cpu_model().replace("(R)", "").split("@")[0].strip()[:32]
        judged = f"on seed {options.judge_seed} {held_out['geomean']:.3f}"
        found = f"{judged} (least {held_out['least']:.2f})" if gains else "none better found"
        origin = f"{name}, {date.today()}, seed {options.seed}; {found}"
        column = new if gains else old
        text = cpu_budgets.with_column(options.table.read_text(), level, column, origin)
        options.table.write_text(text)
    print(f"  {'written to' if written else 'nothing changed in'} {options.table}", flush=True)
    if options.json:
        record = {
            "level": level,
            "cpu": machine.cpu_model(),
            "seeds": [options.seed, options.judge_seed],
            "seconds": time.monotonic() - begin,
            "old": old,
            "new": new,
            "written": written,
            "held_out": held_out,
        }
        options.json.mkdir(parents=True, exist_ok=True)
        (options.json / f"cpu_blocking_{level}.json").write_text(json.dumps(record, indent=1))


def levels_here() -> list[str]:
    """The levels that this CPU has, lowest first."""
    own = json.loads(torch.ops.tiled_debug.plan(torch.ones(64, 64), torch.ones(64, 64)))[
        "cpu_level"
    ]
    return list(DTYPES)[: list(DTYPES).index(own) + 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--judge-seed", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=8, help="of all levels together")
    parser.add_argument("--levels", help="comma-separated; all but base where not given")
    parser.add_argument("--products", type=int, default=240, help="that are drawn of a seed")
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--judge", type=Path, help="a table to compare, fitting nothing")
    parser.add_argument("--json", type=Path, help="a folder for what was found")
    parser.add_argument("--library", help="libtiled_mm.so; else the installed tiled_mm")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.library:
        torch.ops.load_library(options.library)
        sys.modules["tiled_mm"] = None  # an installed one would register the operators again
    else:
        import tiled_mm  # noqa: F401
    torch.set_grad_enabled(False)
    if options.only:
        return run_level(options)
    here = levels_here()
    levels = options.levels.split(",") if options.levels else here[1:] or here
    if unknown := set(levels) - set(here):
        parser.error(
            f"this CPU has no level {', '.join(sorted(unknown))}; it has {', '.join(here)}"
        )
    for level in levels:
        share = ["--only", level, "--minutes", str(options.minutes / len(levels))]
        subprocess.run(
            [sys.executable, "-m", "bench.cpu_blocking", *sys.argv[1:], *share],
            env={**os.environ, "TILED_MM_CPU_LEVEL": level},
            check=True,
        )
    return None


if __name__ == "__main__":
    main()
