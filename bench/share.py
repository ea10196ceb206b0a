"""Figures of a card of yours, in one file to send: `python -m bench --share`.

A short fixed list of products, ours and torch.mm's as in every other run, so that files of
different cards can be laid side by side; the errors of a few sums beside fp64; the plan of each
product, as explain has it; what the device says of itself, and the self-test. Of the machine there
is nothing else in it: no name, no address, no path.

Files that came from others belong in bench/results/shared/: the tables of docs/ are made of what
lies in bench/results/ itself, and take the newest of a kind, whichever card it is of.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from bench import cells, cli, errors, machine, terminal
from bench.runner import Settings, describe
from bench.shapes import Shape, ShapeSet
from bench.timing import Rounds

NAME = "share"
ROUNDS = Rounds(least=5, most=40, budget_s=0.25)
LIMIT_S = 90  # no product begins later, the errors and the self-test still to come
SELF_TEST_LIMIT_S = 60

# What is asked of fp32. None: other dtypes, which have no choice.
PRECISIONS = (None, "ieee", "tf32", "fp16x3")

_NN_NT_TN = ("nn", "nt", "tn")


@dataclass(frozen=True)
class Part:
    """Products of some dtypes, with the precision that ours is asked for."""

    precision: str | None
    dtypes: tuple[str, ...]
    templates: tuple[Shape, ...]

    def shapes(self) -> list[Shape]:
        return ShapeSet(NAME, "", "", self.dtypes, self.templates).shapes()


def _cubes(*sizes: int, layout: str = "nn") -> tuple[Shape, ...]:
    return tuple(Shape(s, s, s, layout) for s in sizes)


# What matters most first: a slow card may not come to the end.
GPU = (
    Part(
        None,
        ("bfloat16", "float16"),
        (
            *(shape for layout in _NN_NT_TN for shape in _cubes(2048, layout=layout)),
            *_cubes(512, 1024, 4096),
            *_cubes(1023, 2047),  # pitches of every alignment
            *_cubes(2050),  # rows that begin at multiples of 4 bytes
            *(Shape(m, 4096, 4096, "nt") for m in (1, 16, 64)),
            Shape(16, 14336, 4096, "nt"),
            *_cubes(128),
            Shape(131072, 64, 64),
        ),
    ),
    Part("ieee", ("float32",), (*_cubes(512, 1023, 2048), Shape(16, 4096, 4096, "nt"))),
    Part("tf32", ("float32",), (*_cubes(1024, 2047, 4096), *_cubes(2048, layout="nt"))),
    Part("fp16x3", ("float32",), (*_cubes(2048, 2047), Shape(16, 4096, 4096, "nt"))),
    Part(None, ("int8",), (*_cubes(1024, 4096), *_cubes(2048, layout="nt"))),
    Part(None, ("float64",), _cubes(512, 1023)),
)
CPU = (
    Part("ieee", ("float32",), (*_cubes(64, 256, 1000, 1024), Shape(1, 4096, 4096, "nt"))),
    Part(None, ("bfloat16", "float64", "int8"), _cubes(256, 1000)),
)

# bench.errors' problems: [size, K] times [K, size].
ERRORS = ((256, 1024), (256, 8192), (256, 32768))
CPU_ERRORS = ((64, 1024),)

# What a GPU says of itself, beyond bench.machine's: the limits that plans keep to.
_PROPERTIES = (
    "clock_rate",
    "memory_clock_rate",
    "memory_bus_width",
    "max_threads_per_multi_processor",
    "regs_per_multiprocessor",
    "shared_memory_per_block",
    "shared_memory_per_block_optin",
    "shared_memory_per_multiprocessor",
    "warp_size",
)


def parts(device: torch.device) -> tuple[Part, ...]:
    return GPU if device.type == "cuda" else CPU


def properties(device: torch.device) -> dict[str, int | None] | None:
    """None of a CPU, of which the environment has all."""
    if device.type != "cuda":
        return None
    found = torch.cuda.get_device_properties(device)
    return {name: getattr(found, name, None) for name in _PROPERTIES}


def refusal(precision: str | None, device: torch.device) -> str | None:
    """Why there is no kernel for this precision of fp32 here; None where there is one."""
    import tiled_mm

    x = torch.empty(8, 8, device=device)
    try:
        tiled_mm.algos(x, x, precision=precision)
    except NotImplementedError as error:
        return describe(error)
    return None


def plan(shape: Shape, precision: str | None, device: torch.device) -> dict:
    """What explain says of a product, without its operands: a record of the document."""
    import tiled_mm

    record = {"shape": shape.to_json(), "precision": precision, "plan": None, "error": None}

    def operand(rows: int, columns: int, letter: str) -> torch.Tensor:
        dtype = getattr(torch, shape.dtype)
        if letter == "n":
            return torch.empty(rows, columns, dtype=dtype, device=device)
        return torch.empty(columns, rows, dtype=dtype, device=device).mT

    try:
        a = operand(shape.m, shape.k, shape.layout[0])
        b = operand(shape.k, shape.n, shape.layout[1])
        asked = precision if shape.dtype == "float32" else None
        record["plan"] = tiled_mm.plan(a, b, precision=asked)
    except Exception as error:
        record["error"] = describe(error)
    return record


def self_test() -> dict:
    """`python -m tiled_mm`, in a process of its own: an illegal access there ends it alone."""
    begin = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tiled_mm"],
            capture_output=True,
            text=True,
            timeout=SELF_TEST_LIMIT_S,
            check=False,
        )
        # Of a failure that is none of its own only the last line, without the paths above it.
        output = done.stdout.splitlines() + done.stderr.splitlines()[-1:] * (done.returncode != 0)
        ok = done.returncode == 0
    except subprocess.TimeoutExpired:
        output, ok = [f"stopped after {SELF_TEST_LIMIT_S} s"], False
    return {"ok": ok, "seconds": time.monotonic() - begin, "output": output}


def copy_rate(device: torch.device) -> float | None:
    """Bytes per second; None for a CPU, and where the memory does not suffice."""
    if device.type != "cuda":
        return None
    try:
        return machine.copy_bandwidth(device)
    except RuntimeError:
        return None


def default_path(document: dict) -> Path:
    device = re.sub(r"[^a-z0-9]+", "-", cells.device_name(document).lower()).strip("-")
    return cli.OUT / f"{NAME}-{device}.json"


def run(device: torch.device, path: Path | None) -> None:
    """Measures, writes the file, and says how to send it. Ends with 1 where a result is wrong,
    which is worth sending as well."""
    import tiled_mm

    begin = time.monotonic()
    if device.type != "cuda":
        terminal.say(cli.console, "no GPU that torch can use: the figures are of the CPU alone")
    document = cli.new_document(NAME, device, {"rounds": asdict(ROUNDS), "limit_s": LIMIT_S})
    path = path or default_path(document)
    shared = document["share"] = {
        "build": dict(tiled_mm.build_info()),
        "device": properties(device),
        "copy_bytes_per_s": copy_rate(device),
        "refused": {},
        "self_test": None,
        "plans": [],
    }
    for precision in PRECISIONS[1:]:
        reason = refusal(precision, device) if device.type == "cuda" else None
        if reason is not None:
            shared["refused"][precision] = reason
    measured = [part for part in parts(device) if part.precision not in shared["refused"]]
    _time(document, device, measured, path, begin)
    _errors(document, device)
    shared["self_test"] = self_test()
    _say(shared)
    try:
        cli.finish(document, path, None)
    finally:
        for line in how_to_send(path):
            terminal.say(cli.console, line)


def _time(
    document: dict,
    device: torch.device,
    measured: Sequence[Part],
    path: Path,
    begin: float,
) -> None:
    for part in measured:
        settings = Settings(
            precision=part.precision,
            cache=cli.cache_state(device),
            rounds=ROUNDS,
            limit_s=LIMIT_S,
        )
        shapes = part.shapes()
        document["share"]["plans"] += [plan(shape, part.precision, device) for shape in shapes]
        problems = [(NAME, shape) for shape in shapes]
        cli.run_problems(document, device, settings, problems, path, begin)


def _errors(document: dict, device: torch.device) -> None:
    """Of every arithmetic that there is here."""
    document["errors"] = [
        errors.measure(name, data, size, k, device)
        for name, sums in errors.SUMS.items()
        if sums.precision not in document["share"]["refused"]
        for data in errors.DATA
        for size, k in (ERRORS if device.type == "cuda" else CPU_ERRORS)
    ]


def _say(shared: dict) -> None:
    for reason in shared["refused"].values():
        terminal.say(cli.console, f"left out: {reason}")
    for line in shared["self_test"]["output"]:
        if line.startswith(("self-test:", "WRONG:")):
            terminal.say(cli.console, line)


def how_to_send(path: Path) -> list[str]:
    kib = path.stat().st_size / 1024
    return [
        "It holds versions, the device's limits and clocks, times, errors and plans, and no name, "
        "address or path of yours.",
        "To send it, open an issue at the repository that this checkout is of, and attach the file "
        f"({kib:.0f} KiB).",
    ]
