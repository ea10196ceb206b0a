"""The commands of `python -m bench`."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import cells, host, machine, report, results, terminal
from bench.arguments import (
    BudgetOption,
    DeviceOption,
    JsonOption,
    LimitOption,
    PlotsOption,
    ThreadsOption,
    check_algos,
    check_kernel,
    check_precision,
    pick_device,
)
from bench.candidates import TiledOperator
from bench.runner import MODES, Bench, Settings, run_cases
from bench.shapes import DTYPES, SETS, Shape, named_set
from bench.timing import CpuStopwatch, CudaStopwatch, Rounds, Stopwatch

# Where a run leaves its results and plots if it is not told where.
OUT = machine.ROOT / "bench" / "out"

app = typer.Typer(add_completion=False, help=__doc__, rich_markup_mode=None)
console = Console()

Problem = tuple[str, Shape]  # with the name of the set it comes from


class Named(Protocol):
    @property
    def name(self) -> str: ...


Case = TypeVar("Case", bound=Named)

# ---- what all commands share -------------------------------------------------------------------


def make_stopwatch(device: torch.device, mode: str, cache: str) -> Stopwatch:
    if device.type == "cpu":
        return CpuStopwatch()
    if mode == "sustained":
        return CudaStopwatch(device, region_s=5e-3, cold=cache == "cold")
    return CudaStopwatch(device, cold=cache == "cold", idle_s=5e-3)


def cases_within(
    cases: Iterable[Case], only: str | None, limit: float | None, device: torch.device
) -> Iterator[Case]:
    """The cases whose names have all words of `only`, until `limit` seconds are over. What one
    leaves on the GPU is gone before the next."""
    begin, words = time.monotonic(), set((only or "").split())
    chosen = [case for case in cases if words <= set(case.name.split())]
    if not chosen:
        raise typer.BadParameter(f"no case has all of: {only}")
    for case in chosen:
        if limit is not None and time.monotonic() - begin > limit:
            console.print("the limit is reached", highlight=False)
            return
        yield case
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()


def cache_state(device: torch.device, warm: bool = False) -> str:
    """The caches that samples start from. A CPU's are as warm as the turns leave them."""
    return "warm" if warm or device.type == "cpu" else "cold"


def new_document(run: str, device: torch.device, settings: dict) -> dict:
    return {
        "schema": results.SCHEMA,
        "run": run,
        "environment": machine.environment(device),
        "settings": settings,
        "ceilings": None,
        "cases": [],
    }


def destinations(
    run: str, json: Path | None, plots: Path | None
) -> tuple[Path | None, Path | None]:
    """Where results and plots go: both to OUT if the command names neither."""
    return (json, plots) if json or plots else (OUT / f"{run}.json", OUT)


def keep(document: dict, path: Path | None) -> None:
    """After every case, so that a run that is ended early leaves what it has."""
    if path is not None:
        results.write(document, path)


def load_operator() -> TiledOperator:
    try:
        return TiledOperator()
    except ImportError as error:
        console.print(f"[red]tiled_mm cannot be imported:[/red] {error}")
        raise typer.Exit(2) from error


def finish(document: dict, path: Path | None, plots: Path | None) -> None:
    """The plots, an exit status that tells failures, and at the very end where everything lies."""
    keep(document, path)
    written: list[Path] = []
    if plots is not None:
        from bench import plot

        written = plot.plot_document(document, plots)
    failures = results.failures(document)
    for failure in failures:
        terminal.say(console, f"failed: {failure}", style="red", unbroken=True)
    if path is not None:
        terminal.say(console, f"results: {_short(path)}", unbroken=True)
    for figure in written:
        terminal.say(console, f"plot: {_short(figure)}", unbroken=True)
    if failures:
        raise typer.Exit(1)


def _short(path: Path) -> Path:
    """As one would type it from here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def print_cases(cases: Sequence[dict], title: str, *, gpu: bool) -> None:
    """One row a candidate, the ratio first; what there is to remark, under the table."""
    unit, scale = ("TF/s", 1e-12) if gpu else ("GF/s", 1e-9)
    rows = [
        terminal.Row(
            {
                "problem": "" if i else _problem(case),
                "candidate": record["name"],
                **_numbers(record, scale),
            },
            ours=record["ours"],
            begins_case=i == 0,
        )
        for case in cases
        for i, record in enumerate(case["candidates"])
    ]
    titles = dict.fromkeys(("problem", "candidate", "ratio", "quartiles", "time"))
    titles |= {"rate": unit, "GB/s": None, "error": None}
    terminal.say(console, f"\n{title}", style="bold")
    terminal.show(console, rows, {column: name or column for column, name in titles.items()})
    for remark in _remarks(cases):
        terminal.say(console, remark)


def _problem(case: dict) -> str:
    return Shape.from_json(case["shape"]).label + (" grad" if case["grad"] else "")


def _remarks(cases: Sequence[dict]) -> list[str]:
    """Each remark once, with the problems that it is about unless it is about all."""
    found: dict[tuple[str, str], list[str]] = {}  # (remark, candidate) -> problems
    count: dict[str, int] = {}  # of the cases of a candidate
    for case in cases:
        of_case = [("", remark) for remark in (case["error"], case["note"])]
        for record in case["candidates"]:
            name, check = record["name"], record["check"]
            count[name] = count.get(name, 0) + 1
            of_case += [(name, remark) for remark in (record["error"], record["note"])]
            of_case += [(name, "beyond the error gate")] * (check is not None and not check["ok"])
        for name, remark in of_case:
            if remark:
                found.setdefault((remark, name), []).append(_problem(case))
    lines = []
    for (remark, name), problems in found.items():
        where = "" if len(problems) == count.get(name) else ", ".join(problems)
        lines.append(" at ".join(filter(None, (name, where))) + f": {remark}")
    return lines


def _numbers(record: dict, scale: float) -> dict[str, str]:
    seconds, flops, bandwidth = (record[q] for q in ("seconds", "flops", "bandwidth"))
    ratio = record["ratio"]
    mark = cells.unsteady_mark(ratio["q1"], ratio["q3"]) if ratio else ""
    return {
        "ratio": cells.ratio_number(ratio["median"]) + mark if ratio else "-",
        "quartiles": "-".join(cells.ratio_number(ratio[q]) for q in ("q1", "q3")) if ratio else "-",
        "time": cells.seconds_text(seconds["median"]) if seconds else "-",
        "rate": f"{flops * scale:.3g}" if flops else "-",
        "GB/s": f"{bandwidth * 1e-9:.4g}" if bandwidth else "-",
        "error": cells.error_text(record),
    }


def run_problems(
    document: dict,
    device: torch.device,
    settings: Settings,
    problems: Sequence[Problem],
    path: Path | None,
    begin: float,
) -> None:
    """Runs the problems with a progress bar and prints their table."""
    cases: list[dict] = []
    operator = load_operator()
    processor = document["environment"]["cpu"]
    if device.type == "cpu" and processor["load_before"] > 0.5 * processor["logical_cores"]:
        busy = f"the machine is busy (load {processor['load_before']}): expect wide quartiles"
        console.print(busy, style="yellow", highlight=False)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with machine.PowerLog(device) as power, Progress(*columns, console=console) as progress:
        stopwatch = make_stopwatch(device, settings.mode, settings.cache)
        bench = Bench(device, stopwatch, operator, settings, power, begin)
        task = progress.add_task(settings.mode, total=len(problems))

        def take(case: dict) -> None:
            cases.append(case)
            document["cases"].append(case)
            keep(document, path)
            progress.update(task, advance=1, description=case["set"])

        run_cases(bench, problems, take)
    title = f"{cells.device_name(document)}, {settings.mode}, {settings.cache} caches"
    print_cases(cases, f"{title}; ratio: peer's time / ours", gpu=device.type == "cuda")


def expand(sets: Sequence[str], dtypes: Sequence[str]) -> list[Problem]:
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise typer.BadParameter(f"no dtype {dtype!r}; there are: {', '.join(DTYPES)}")
    problems = []
    for name in sets:
        try:
            chosen = named_set(name)
        except KeyError as error:
            raise typer.BadParameter(error.args[0]) from error
        problems += [(name, shape) for shape in chosen.shapes(tuple(dtypes))]
    return problems


def overview(device: torch.device, dtypes: Sequence[str]) -> list[Problem]:
    """A little of everything that matters on this device."""
    if device.type == "cpu":
        return expand(["cpu"], dtypes)

    def some(name: str, wanted: Sequence[tuple[int, int]], own: Sequence[str]) -> list[Problem]:
        shapes = [s for _, s in expand([name], dtypes or own)]
        return [(name, s) for s in shapes if (s.m, s.n) in wanted]

    return [
        *some("squares", [(1024, 1024), (4096, 4096)], ("float32", "float64", "bfloat16")),
        *some("odd", [(1023, 1023), (4095, 4095)], ("float32", "bfloat16")),
        *some("few_rows", [(1, 4096), (16, 4096)], ("float32", "bfloat16")),
        *(p for p in some("tall", [(262144, 64)], ("float32", "bfloat16")) if p[1].layout == "nn"),
        *some("integers", [(1024, 1024)], ("int8", "int32")),
    ]


# ---- the commands ------------------------------------------------------------------------------


@app.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help=f"any of: {', '.join(SETS)}")
    ] = None,
    dtypes: Annotated[
        list[str] | None, typer.Option("--dtype", help="instead of the set's own")
    ] = None,
    algos: Annotated[
        list[str] | None,
        typer.Option("--algo", help="auto (the planner's choice), all, or a rung by name"),
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="of ours, for float32: ieee, tf32 or fp16x3")
    ] = None,
    mode: Annotated[str, typer.Option(help="burst, sustained or both")] = "burst",
    warm: Annotated[
        bool, typer.Option("--warm", help="GPU: find the operands in L2, instead of evicting them")
    ] = False,
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    budget: BudgetOption = 0.5,
    limit: LimitOption = None,
    json: JsonOption = None,
    plots: PlotsOption = None,
    share: Annotated[
        bool, typer.Option("--share", help="a fixed list of a minute or two, in one file to send")
    ] = False,
) -> None:
    """Times tiled-mm and its peers in one run, candidates taking turns in random order, and checks
    every result. Without --set: an overview for the device that is there."""
    if context.invoked_subcommand is not None:
        return
    if share:
        # Files of different cards are of one list, measured in one way.
        if sets or dtypes or algos or precision or warm or limit or plots or mode != "burst":
            raise typer.BadParameter("--share takes --device, --threads and --json alone")
        _share(pick_device(device), threads, json)
        return
    if mode not in (*MODES, "both"):
        raise typer.BadParameter(f"--mode is one of {', '.join(MODES)}, both")
    begin = time.monotonic()
    chosen = pick_device(device)
    check_precision(chosen, precision)
    problems = expand(sets, dtypes or ()) if sets else overview(chosen, dtypes or ())
    operator = load_operator()
    check_kernel(operator, chosen, precision)
    check_algos(operator, chosen, algos or ())
    if threads:
        torch.set_num_threads(threads)
    if limit is None and not sets:
        limit = 150.0 if chosen.type == "cuda" else 90.0
    settings = Settings(
        algos=tuple(algos or ["auto"]),
        precision=precision,
        cache=cache_state(chosen, warm),
        rounds=Rounds(budget_s=budget),
        limit_s=limit,
    )
    document = new_document("run", chosen, settings.to_json())
    json, plots = destinations("run", json, plots)
    for one in MODES if mode == "both" else (mode,):
        settings = replace(settings, mode=one)
        run_problems(document, chosen, settings, problems, json, begin)
    if not sets:
        rounds = Rounds(least=5, most=100, budget_s=1.0)
        cases = host.run_host(chosen, rounds, *host.products(chosen))
        document["cases"] += cases
        print_cases(cases, "host time of one call", gpu=chosen.type == "cuda")
    finish(document, json, plots)


def _share(device: torch.device, threads: int | None, json: Path | None) -> None:
    if threads:
        torch.set_num_threads(threads)
    load_operator()
    from bench import share  # which is made of this module

    share.run(device, json)


@app.command()
def ladder(
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    dtype: Annotated[str, typer.Option(help="of the operands")] = "float32",
    budget: BudgetOption = 4.0,
    limit: LimitOption = None,
    json: JsonOption = None,
    plots: PlotsOption = None,
) -> None:
    """Every rung from naive on, in a run of its own: rungs this far apart in speed would not let
    each other's chip be warm. With the roofline's ceilings."""
    begin = time.monotonic()
    chosen = pick_device(device)
    if threads:
        torch.set_num_threads(threads)
    problems = expand(["ladder"], (dtype,))
    if chosen.type == "cpu":
        problems = [(name, s) for name, s in problems if s.n <= 512]
    rounds = Rounds(least=3, most=30, budget_s=budget)
    settings = Settings(algos=("all",), cache=cache_state(chosen), rounds=rounds, limit_s=limit)
    document = new_document("ladder", chosen, settings.to_json())
    json, plots = destinations("ladder", json, plots)
    try:
        document["ceilings"] = machine.ceilings(chosen)
    except Exception as error:  # the ladder is worth having without its roofline
        console.print(f"no ceilings: {error}", style="yellow", markup=False)
    run_problems(document, chosen, settings, problems, json, begin)
    finish(document, json, plots)


@app.command(name="host")
def host_command(
    device: DeviceOption = "auto",
    budget: BudgetOption = 3.0,
    json: JsonOption = None,
) -> None:
    """Host time of one small call, without and with gradients, beside torch.mm and an operator that
    only allocates its result and, on a GPU, launches an empty kernel."""
    chosen = pick_device(device)
    load_operator()
    rounds = Rounds(least=20, most=400, budget_s=budget)
    document = new_document("host", chosen, {"calls": host.CALLS, "budget_s": budget})
    json, _ = destinations("host", json, None)
    document["cases"] = host.run_host(chosen, rounds, *host.products(chosen))
    title = f"{cells.device_name(document)}, host time of one call"
    print_cases(document["cases"], title, gpu=chosen.type == "cuda")
    for case in document["cases"]:
        for record in case["candidates"]:
            if record["above_floor"] is not None and record["ours"]:
                above = record["above_floor"]["median"] * 1e6
                grad = "with" if case["grad"] else "without"
                console.print(f"{record['name']}, {grad} gradient: {above:.2f} µs above the floor")
    finish(document, json, None)


def _sets(*names: str, limit: int, **options: str | float) -> list[str]:
    """The arguments that run these sets."""
    flags = [*(("set", name) for name in names), *options.items(), ("limit", limit)]
    return [word for flag, value in flags for word in (f"--{flag}", str(value))]


# The parts of `all`, each a process of its own: an illegal access in one kernel ends every later
# call of its process. With the most seconds a part may take.
_PARTS: dict[str, tuple[list[str], int]] = {
    "host": (["host"], 60),
    "ladder": (["ladder", "--limit", "45"], 90),
    "ladder16": (["ladder", "--dtype", "bfloat16", "--budget", "1", "--limit", "30"], 60),
    "squares": (_sets("squares", mode="both", limit=75), 110),
    # Three layouts of many shapes: one candidate and its peers a case, short rounds.
    "large16": (_sets("large16", mode="sustained", budget=0.25, limit=150), 200),
    "middle16": (_sets("middle16", budget=0.15, limit=70), 90),
    "unaligned16": (_sets("unaligned16", budget=0.2, limit=60), 80),
    "mma_sync": (_sets("mma_sync", algo="async_mma", budget=0.15, limit=30), 50),
    "mma_sync_tf32": (
        _sets(
            "mma_sync", dtype="float32", precision="tf32", algo="async_mma", budget=0.15, limit=20
        ),
        40,
    ),
    "tf32": (_sets("tf32", precision="tf32", budget=0.25, limit=40), 60),
    "fp16x3": (_sets("fp16x3", precision="fp16x3", budget=0.25, limit=80), 110),
    "activations": (_sets("activations", precision="fp16x3", limit=20), 50),
    "ieee": (_sets("ieee", precision="ieee", budget=0.25, limit=40), 60),
    "fp64": (_sets("fp64", mode="both", budget=0.25, limit=40), 60),
    "shapes": (_sets("odd", "integers", "few_rows", budget=0.15, limit=40), 70),
    "deep": (_sets("deep", budget=0.1, limit=50), 70),
    "tall": (_sets("tall", budget=0.1, limit=40), 60),
    "drawn16": (_sets("large16_drawn", mode="sustained", budget=0.15, limit=80), 100),
    "drawn": (_sets("middle16_drawn", "ieee_drawn", "fp64_drawn", budget=0.1, limit=80), 110),
    "complex": (_sets("complex", budget=0.1, limit=80), 110),
}


@app.command(name="all")
def all_parts(
    out: Annotated[Path, typer.Option(help="folder for the JSON files")],
    only: Annotated[
        list[str] | None, typer.Option(help=f"parts to run: {', '.join(_PARTS)}")
    ] = None,
) -> None:
    """What most tables of docs/tables/ need, one JSON file for each part. Without a GPU: the
    parts that a CPU gets through."""
    parts = only or (list(_PARTS) if torch.cuda.is_available() else ["host", "ladder"])
    unknown = set(parts) - set(_PARTS)
    if unknown:
        raise typer.BadParameter(f"no part {', '.join(sorted(unknown))}")
    failed = []
    for part in parts:
        arguments, timeout_s = _PARTS[part]
        path = out / f"{part}.json"
        command = [sys.executable, "-m", "bench", *arguments, "--json", str(path)]
        console.rule(part)
        begin = time.monotonic()
        try:
            status = subprocess.run(
                command,
                cwd=machine.ROOT,
                env={**os.environ, "COLUMNS": "150"},
                timeout=timeout_s,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            status = f"stopped after {timeout_s} s, its finished cases are kept"
        console.print(f"{part}: {time.monotonic() - begin:.0f} s, exit status {status}")
        if status != 0:
            failed.append(part)
    # The essence once more, at the end, where a log is read first.
    documents = results.read_all(out)
    for name in report.SUMMARY:
        console.rule(name)
        print(report.TABLES[name](documents))
    if failed:
        console.print(f"failed parts: {', '.join(failed)}", style="red")
        raise typer.Exit(1)


@app.command(name="plot")
def plot_command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="results, as written by --json; else all plots of the pages"),
    ] = None,
    out: Annotated[Path, typer.Option(help="folder for the SVG files")] = report.PLOTS,
) -> None:
    """Plots from results: run time and TF/s over N, and the roofline."""
    from bench import plot, regime_plots

    if files:
        written = [path for file in files for path in plot.plot_document(results.read(file), out)]
    else:
        written = regime_plots.write(report.every_document(), out)
        written += plot.redraw(results.read_all(report.RESULTS), out)
    for path in written:
        terminal.say(console, f"plot: {_short(path)}", unbroken=True)


@app.command(name="report")
def report_command(
    check: Annotated[bool, typer.Option("--check", help="only fail if a table is stale")] = False,
    chosen: Annotated[
        list[Path] | None, typer.Option("--page", help="else README.md and all of docs/")
    ] = None,
    folder: Annotated[Path, typer.Option("--results")] = report.RESULTS,
) -> None:
    """Rewrites the tables of README.md and docs/ from bench/results/."""
    stale = 0
    for page in chosen or report.pages():
        if report.update(page, folder, check=check):
            console.print(f"the tables of {page} are current")
        elif check:
            stale += 1
            console.print(f"the tables of {page} are stale: run `python -m bench report`")
        else:
            console.print(f"rewrote the tables of {page}")
    if stale:
        raise typer.Exit(1)


@app.command(name="distil")
def distil_command(
    files: list[Path],
    out: Annotated[Path, typer.Option(help="folder for the files")] = report.RESULTS,
) -> None:
    """Writes documents anew as bench/results/ has them, compressed, of whatever version of the form
    they are."""
    for file in files:
        document = results.read(file)
        name = file.name.removesuffix(".xz") + ".xz"
        results.write(document | {"schema": results.SCHEMA}, out / name)


@app.command(name="shapes")
def shapes_command() -> None:
    """The named sets of problems and where they come from."""
    for chosen in SETS.values():
        console.print(f"{chosen.name}: {chosen.about}", style="bold", highlight=False)
        console.print(f"  source: {chosen.source}", highlight=False, markup=False)
        console.print(f"  dtypes: {', '.join(chosen.dtypes)}", highlight=False)
        labels = [s.label.removesuffix(f" {s.dtype}") for s in chosen.shapes(chosen.dtypes[:1])]
        console.print(f"  {', '.join(labels)}", highlight=False, markup=False)
