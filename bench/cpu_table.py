"""The CPU's table: torch.ops.tiled.mm beside torch.mm on one thread and on several.

    python -m bench.cpu_table --out DIR [--threads 1,2] [--groups fp32,fp64] [--budget S] [--host]
                              [--drawn SEEDS] [--table FILE]

--library names a libtiled_mm.so that is not installed. --peak and --tiny name the programs cpu_peak
and bench_tiny (bench/cpp): the first's figures stand beside the speeds as fractions, the second's
ratios of 1 ... 64, called from C++, in the document of one thread.

Both sides take turns in random order; a ratio is torch.mm's time over ours in the same round, above
1 where ours is faster. Results are checked as all of the benchmark's are (bench/check.py). A ratio
is marked whose quartiles span more than a factor of two: it was measured badly.
DIR/cpu_<threads>.json, or cpu_<threads>_<groups>.json where groups are named, holds every case; the
summary, printed at the end, is made of the median ratios: their geometric mean and the least.
--drawn runs squares of 48 ... 1200, odd sizes and skinny products that each seed draws, in place of
the listed groups, and squares of 1 ... 12, beside which torch.mm is called through torch.ops too.
--table takes a file of bench.cpu_blocking's in place of the numbers that the library was built
with. Groups may run side by side, each process on cores of its own:

    taskset -c 0,1 python -m bench.cpu_table --out DIR --threads 1,2 --groups fp32 &
    taskset -c 2,3 python -m bench.cpu_table --out DIR --threads 1,2 --groups fp64 & wait

From such documents in bench/results/ the tables `cpu-groups`, `cpu-drawn`, `cpu-host`, `cpu-peak`
and `cpu-tiny` of docs/tables/cpu.md are made.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from bench import cpu_budgets, machine, results
from bench.cells import sizes_text, unsteady_mark
from bench.check import check_result
from bench.data import make_sets
from bench.shapes import Shape

DTYPES = {
    "fp32": "float32",
    "fp64": "float64",
    "bf16": "bfloat16",
    "fp16": "float16",
    "int32": "int32",
    "int8": "int8",
}


@dataclass(frozen=True)
class Case:
    """`layout` has one letter per operand: nn both row-major; nt: B's neighbours are along k."""

    group: str
    dtype: str
    m: int
    n: int
    k: int
    layout: str = "nn"


@dataclass(frozen=True)
class Goal:
    geomean: float
    least: float


_ODD = (64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048)
_HOST = (256, 512, 1000, 1024, 2048, 4096)
_SKINNY = ((2048, 16, 2048), (2048, 2048, 64), (16, 2048, 2048), (64, 64, 16384))


def _squares(dtype: str, sizes: tuple[int, ...], group: str = "") -> list[Case]:
    return [Case(group or dtype, dtype, s, s, s) for s in sizes]


def _drawn_groups(seeds: Iterable[int]) -> dict[str, tuple[Goal, list[Case]]]:
    goals = {"fp32": (1.0, 0.85), "fp64": (1.0, 0.85), "bf16": (1.5, 0.9), "fp16": (1.2, 0)}
    groups: dict[str, tuple[Goal, list[Case]]] = {
        f"drawn-{dtype}": (Goal(*goal), []) for dtype, goal in goals.items()
    }
    for seed in seeds:
        draw = random.Random(seed)
        for dtype in goals:
            groups[f"drawn-{dtype}"][1].extend(_drawn_cases(f"drawn-{dtype}", dtype, draw))
    for dtype in ("fp32", "fp64", "bf16", "int32"):
        cases = _squares(dtype, tuple(range(1, 13)), f"tiny-{dtype}")
        groups[f"tiny-{dtype}"] = (Goal(0.95, 0), cases)
    return groups


def _drawn_cases(group: str, dtype: str, draw: random.Random) -> list[Case]:
    def sizes(least: int, most: int, count: int) -> list[int]:
        """A size from each of `count` equal parts of the range's logarithm."""
        low, step = math.log(least), math.log(most / least) / count
        return [round(math.exp(low + step * (i + draw.random()))) for i in range(count)]

    squares = tuple(round(s / 16) * 16 for s in sizes(48, 1200, 6))
    odd = tuple(s | 1 for s in sizes(48, 1200, 4))
    return _squares(dtype, squares + odd, group) + [
        Case(group, dtype, *draw.sample([short, *sizes(600, 3000, 2)], 3), layout)
        for short, layout in zip(sizes(4, 100, 6), ("nn", "nt") * 3, strict=True)
    ]


def _groups(host: bool, seeds: Iterable[int] = ()) -> dict[str, tuple[Goal, list[Case]]]:
    if seeds:
        return _drawn_groups(seeds)
    if host:
        goals = {"fp32": 0.9, "fp64": 0.9, "bf16": 0.85, "fp16": 0.9, "int8": 3}
        return {
            f"host-{d}": (Goal(goal, 0), _squares(d, _HOST, f"host-{d}"))
            for d, goal in goals.items()
        }
    groups = {
        "fp32": (Goal(1.08, 0.97), _squares("fp32", _ODD)),
        "fp64": (Goal(1.12, 0.97), _squares("fp64", _ODD)),
        "bf16": (Goal(1.0, 0.93), _squares("bf16", tuple(s for s in _ODD if s >= 128))),
        "fp16": (Goal(30, 10), _squares("fp16", (64, 128, 256, 512, 1024))),
        "int32": (Goal(3, 1), _squares("int32", (64, 128, 256, 512, 1024))),
        "int8": (Goal(1.5, 1), _squares("int8", (64, 128, 256, 512, 1024))),
    }
    for dtype, goal in (("fp32", 1.0), ("bf16", 2.0), ("fp16", 50.0)):
        rows = f"rows-{dtype}"
        cases = [
            Case(rows, dtype, m, 4096, 4096, layout)
            for layout in ("nt", "nn")
            for m in (1, 2, 4, 8, 16)
        ]
        groups[rows] = (Goal(goal, 0), cases)
    for dtype in ("fp32", "fp64", "bf16"):
        skinny = f"skinny-{dtype}"
        groups[skinny] = (Goal(1.1, 0.95), [Case(skinny, dtype, *s) for s in _SKINNY])
    return groups


def _seconds(call: Callable[[], object], calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - begin) / calls


def _measure(case: Case, budget_s: float, sample_s: float) -> dict:
    shape = Shape(case.m, case.n, case.k, case.layout, DTYPES[case.dtype])
    (operands,) = make_sets(shape, torch.device("cpu"), 1, seed=20)
    a, b = operands.a, operands.b
    sides = {
        "tiled": lambda: torch.ops.tiled.mm(a, b),
        "torch": lambda: torch.mm(a, b),
    }
    if case.group.startswith("tiny"):
        sides["through_ops"] = lambda: torch.ops.aten.mm(a, b)
    if not check_result(sides["tiled"](), a, b, tensor_cores=False).ok:
        raise RuntimeError(f"a wrong result: {shape.label}")
    calls = {}
    for name, call in sides.items():
        once = min(_seconds(call, 1) for _ in range(2))
        calls[name] = max(1, round(sample_s / once))
    times: dict[str, list[float]] = {name: [] for name in sides}
    end = time.perf_counter() + budget_s
    while len(times["tiled"]) < 3 or (time.perf_counter() < end and len(times["tiled"]) < 200):
        for name in random.sample(list(sides), len(sides)):
            times[name].append(_seconds(sides[name], calls[name]))
    ratios = sorted(y / x for x, y in zip(times["tiled"], times["torch"], strict=True))
    operations = 2 * case.m * case.n * case.k
    return {
        **asdict(case),
        "rounds": len(ratios),
        "ratio": statistics.median(ratios),
        "ratio_q1": ratios[len(ratios) // 4],
        "ratio_q3": ratios[-1 - len(ratios) // 4],
        **{f"{name}_s": statistics.median(values) for name, values in times.items()},
        "tiled_gflops": operations / statistics.median(times["tiled"]) * 1e-9,
        "torch_gflops": operations / statistics.median(times["torch"]) * 1e-9,
    }


def _output(program: str | None, *arguments: object) -> dict:
    """What a program prints as JSON; nothing where none is named."""
    if program is None:
        return {}
    command = [program, *map(str, arguments)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _place(r: dict) -> str:
    sizes = sizes_text(r["m"], r["n"], r["k"])
    return sizes if r["layout"] == "nn" else f"{sizes} {r['layout']}"


def _of_ops(r: dict) -> str:
    """What a tiny product's ratio would be if torch.mm were called through torch.ops as well."""
    ratio = r["through_ops_s"] / r["tiled_s"] if "through_ops_s" in r else None
    return f" {ratio:6.3f} through torch.ops" if ratio else ""


def _summary(cases: list[dict], goals: dict[str, Goal]) -> Iterator[dict]:
    for group, goal in goals.items():
        of_group = [r for r in cases if r["group"] == group]
        if of_group:
            geomean = math.exp(statistics.fmean(math.log(r["ratio"]) for r in of_group))
            worst = min(of_group, key=lambda r: r["ratio"])
            yield {
                "group": group,
                "geomean": geomean,
                "least": worst["ratio"],
                "where": _place(worst),
                "met": geomean >= goal.geomean and worst["ratio"] >= goal.least,
                "goal": asdict(goal),
            }


def document_of(
    cases: list[dict],
    summary: list[dict],
    threads: int,
    peak: dict[str, float],
    settings: dict,
    tiny: dict[str, dict[str, float]] | None = None,
) -> dict:
    """As results.py wants it; its own cases are no cases of bench.runner's. Peaks by kind, in
    Gflop/s, bf16's only where there are instructions for it; tiny: ratios by dtype and size."""
    return {
        "schema": results.SCHEMA,
        "run": "cpu_table",
        "environment": machine.environment(torch.device("cpu")),
        "settings": settings,
        "ceilings": None,
        "cases": [],
        "cpu": {
            "threads": threads,
            "peak_gflops": peak,
            "summary": summary,
            "cases": cases,
            "tiny": tiny or {},
        },
    }


def seconds(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def numbers(text: str) -> list[int]:
    """Of 1 or more, with commas between them, each once."""
    values = [int(part) for part in text.split(",")]
    if min(values) < 1:
        raise argparse.ArgumentTypeError(f"{text}: a number is 1 or more")
    return list(dict.fromkeys(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--threads", type=numbers, default=f"1,{torch.get_num_threads()}")
    parser.add_argument("--groups", default="", help="comma-separated; all where not given")
    parser.add_argument("--host", action="store_true", help="256 ... 4096, for a server's cores")
    parser.add_argument("--drawn", type=numbers, default=[], help="seeds that draw the sizes")
    parser.add_argument("--table", type=Path, help="of numbers, else ops/cpu/budgets.inc as built")
    parser.add_argument("--library", help="libtiled_mm.so; else the installed tiled_mm")
    parser.add_argument("--peak", help="the program cpu_peak")
    parser.add_argument("--tiny", help="the program bench_tiny")
    parser.add_argument("--budget", type=seconds, default=1.0, help="seconds a case")
    parser.add_argument("--sample", type=seconds, default=0.01, help="seconds of calls a sample")
    options = parser.parse_args()
    if options.library:
        torch.ops.load_library(options.library)
        sys.modules["tiled_mm"] = None  # an installed one would register the operators again
    else:
        import tiled_mm  # noqa: F401
    if options.table:
        cpu_budgets.use_table(options.table.read_text())
    groups = _groups(options.host, options.drawn)
    wanted = options.groups.split(",") if options.groups else list(groups)
    if unknown := set(wanted) - set(groups):
        parser.error(f"no group {', '.join(sorted(unknown))}; there are: {', '.join(groups)}")
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_grad_enabled(False)
    for threads in options.threads:
        torch.set_num_threads(threads)
        peak = _output(options.peak, threads)
        measured = []
        for case in (case for group in wanted for case in groups[group][1]):
            measured.append(_measure(case, options.budget, options.sample))
            r = measured[-1]
            of_peak = f"{r['tiled_gflops'] / peak[case.dtype]:6.2f}" if case.dtype in peak else ""
            print(
                f"{threads:2} {case.group:12} {case.m:5} x {case.n:5} x {case.k:5} {case.layout}"
                f" {r['ratio']:8.3f} ({r['ratio_q1']:.3f}-{r['ratio_q3']:.3f})"
                f"{unsteady_mark(r['ratio_q1'], r['ratio_q3']):1}"
                f" {r['tiled_gflops']:9.1f} {r['torch_gflops']:9.1f} GF/s {of_peak}{_of_ops(r)}",
                flush=True,
            )
        for kind, rate in _output(options.peak, threads).items():  # a neighbour may have slowed one
            peak[kind] = max(peak[kind], rate)
        summary = list(_summary(measured, {g: groups[g][0] for g in wanted}))
        for line in summary:
            print(f"{threads:2} {line['group']:12} geomean {line['geomean']:.3f}, least", end=" ")
            goal = "" if line["met"] else f"   goal: {line['goal']}"
            print(f"{line['least']:.3f} at {line['where']}{goal}")
        settings = {
            "budget_s": options.budget,
            "sample_s": options.sample,
            "host": options.host,
            **({"drawn": options.drawn} if options.drawn else {}),
        }
        tiny = _output(options.tiny, 41, "json") if threads == 1 else {}
        document = document_of(measured, summary, threads, peak, settings, tiny)
        name = "_".join(["cpu", str(threads), *(wanted if options.groups else [])])
        results.write(document, options.out / f"{name}.json")


if __name__ == "__main__":
    main()
