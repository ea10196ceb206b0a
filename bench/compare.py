"""Two builds of the library side by side: two processes that take turns on one device.

    python -m bench.compare OLD/libtiled_mm.so [NEW/libtiled_mm.so] --set fp16x3 [--json FILE]

NEW is the installed one unless given. One process cannot load both, since both register the same
operators; and two runs one after the other would meet another clock. So each library has a process
of its own, and for each problem they take turns, a few samples a turn, while the other waits.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import torch
import typer

from bench import machine
from bench.arguments import FileOption, check_precision, pick_device
from bench.cli import make_stopwatch
from bench.data import make_sets
from bench.shapes import Shape, named_set

ROOT = Path(__file__).resolve().parents[1]
# Found without being loaded: each library is loaded by a process of its own.
PACKAGE = Path(importlib.util.find_spec("tiled_mm").origin).parent
INSTALLED = PACKAGE / "lib" / "libtiled_mm.so"

WORK = "--work"  # the argument of a library's process


# ---- a library's process ------------------------------------------------------------------------


def work() -> None:
    """Reads problems and turns from standard input, a JSON line each, and answers with seconds."""
    from bench.candidates import TiledOperator

    device = pick_device("auto")
    stopwatch = make_stopwatch(device, "burst", "cold")
    operator = TiledOperator()
    prepared = None
    for line in sys.stdin:
        request = json.loads(line)
        if "shape" in request:
            prepared = None
            if device.type == "cuda":
                torch.cuda.empty_cache()
            shape = Shape.from_json(request["shape"])
            call = operator.call(None, request["precision"])
            count = max(request["copies"], stopwatch.set_count(shape.bytes))
            prepared = stopwatch.prepare(call, make_sets(shape, device, count, seed=0))
            answer: object = prepared.method
        else:
            answer = [stopwatch.read(stopwatch.start(prepared)) for _ in range(request["samples"])]
        print(json.dumps(answer), flush=True)


def environment_with(library: Path, folder: Path) -> dict[str, str]:
    """The environment of a process whose tiled_mm, a copy of the package, loads this library."""
    package = folder / "tiled_mm"
    ignored = shutil.ignore_patterns("lib", "__pycache__")
    shutil.copytree(PACKAGE, package, ignore=ignored)
    (package / "lib").mkdir()
    shutil.copy(library, package / "lib" / "libtiled_mm.so")
    return {**os.environ, "PYTHONPATH": str(folder)}


class Worker:
    def __init__(self, library: Path, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.compare", WORK],
            cwd=ROOT,
            env=environment_with(library, folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **request: object) -> object:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the library's process has ended")
        return json.loads(line)


# ---- the comparison -----------------------------------------------------------------------------


def problems(names: list[str]) -> Iterator[tuple[str, Shape, str | None]]:
    """(set, problem, precision); a set's name may end in ':precision'."""
    for name in names:
        chosen, _, precision = name.partition(":")
        for shape in named_set(chosen).shapes():
            asked = precision or None if shape.dtype == "float32" else None
            yield name, shape, asked


def compare(
    old: Path,
    new: Annotated[Path, typer.Argument()] = INSTALLED,
    sets: Annotated[list[str] | None, typer.Option("--set", help="as 'fp16x3:fp16x3'")] = None,
    turns: Annotated[int, typer.Option(min=1)] = 7,
    samples: Annotated[int, typer.Option(min=1)] = 3,
    only: Annotated[str, typer.Option(help="problems whose label has this pattern")] = "",
    copies: Annotated[
        int, typer.Option(min=1, help="of the operands, at least: different data")
    ] = 1,
    output: FileOption = None,
) -> None:
    """Prints, for every problem and set, the old library's time over the new one's."""
    device = pick_device("auto")
    asked = list(problems(sets or ["fp16x3:fp16x3"]))
    for _, _, precision in asked:
        check_precision(device, precision)
    environment = machine.environment(device)
    cases: list[dict] = []
    with tempfile.TemporaryDirectory() as folder:
        workers = []
        for i, library in enumerate((old, new)):
            (Path(folder) / str(i)).mkdir()
            workers.append(Worker(library, Path(folder) / str(i)))
        for name, shape, precision in asked:
            if not re.search(only, shape.label):
                continue
            for worker in workers:
                worker.ask(shape=shape.to_json(), precision=precision, copies=copies)
            times: list[list[float]] = [[], []]
            for turn in range(turns + 1):
                for i in (0, 1) if turn % 2 else (1, 0):
                    found = workers[i].ask(samples=samples)
                    if turn > 0:  # the first warms up
                        times[i].append(statistics.median(found))
            ratios = [a / b for a, b in zip(*times, strict=True)]
            case = {
                "set": name,
                "shape": shape.to_json(),
                "old_s": statistics.median(times[0]),
                "new_s": statistics.median(times[1]),
                "ratio": statistics.median(ratios),
                "least": min(ratios),
                "most": max(ratios),
            }
            cases.append(case)
            print(
                f"{case['ratio']:6.3f} ({case['least']:.3f}-{case['most']:.3f})"
                f" {case['new_s'] * 1e6:9.1f} us  {name} {shape.label}",
                flush=True,
            )
    for name in dict.fromkeys(case["set"] for case in cases):
        found = [case["ratio"] for case in cases if case["set"] == name]
        mean = math.exp(statistics.fmean(map(math.log, found)))
        print(f"{mean:6.3f} geometric mean, {min(found):.3f} least: {name}")
    if output:
        output.write_text(json.dumps({"environment": environment, "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    work() if WORK in sys.argv else typer.run(compare)
