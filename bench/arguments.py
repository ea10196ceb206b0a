"""The options that several commands have, and the checks of what was asked for. A command refuses
what it cannot measure before it measures anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer

from bench.candidates import PRECISIONS, Operator


def positive(value: float | None) -> float | None:
    """Refuses an option in seconds that is 0, below it or NaN."""
    if value is not None and not value > 0:
        raise typer.BadParameter(f"{value:g} is not above 0")
    return value


DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N")]
JsonOption = Annotated[
    Path | None,
    typer.Option("--json", help="write the results here; with no --plots either: bench/out/"),
]
FileOption = Annotated[Path | None, typer.Option("--json", help="write the results here")]
PlotsOption = Annotated[Path | None, typer.Option("--plots", help="write SVG plots here")]
LimitOption = Annotated[
    float | None,
    typer.Option("--limit", callback=positive, help="begin no case after so many seconds"),
]
BudgetOption = Annotated[
    float, typer.Option("--budget", callback=positive, help="seconds of rounds for each case")
]
ThreadsOption = Annotated[int | None, typer.Option("--threads", min=1, help="of the CPU")]
DivideOption = Annotated[
    int, typer.Option("--divide", min=1, help="sizes by this, to try the program")
]
OnlyOption = Annotated[
    str | None, typer.Option("--only", help="cases whose names have all of these words")
]
SmallOption = Annotated[
    bool, typer.Option("--small", help="tiny sizes and models: whether all of it runs")
]


def chosen_parts(only: Sequence[str] | None, known: Iterable[str]) -> tuple[str, ...]:
    """The parts of a program that are asked for, all where none is named."""
    if unknown := set(only or ()) - set(known):
        raise typer.BadParameter(f"no part {', '.join(sorted(unknown))}")
    return tuple(only or known)


def pick_device(name: str) -> torch.device:
    """The device of this name; a GPU is made the current one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise typer.BadParameter(f"no device {name!r}; there are: auto, cpu, cuda, cuda:N")
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise typer.BadParameter("this machine has no GPU that torch can use")
        device = torch.device("cuda", device.index or 0)
        if device.index >= torch.cuda.device_count():
            last = torch.cuda.device_count() - 1
            raise typer.BadParameter(f"no device {name!r}; the last is cuda:{last}")
        torch.cuda.set_device(device)
    return device


def check_precision(device: torch.device, precision: str | None) -> None:
    """Refuses a precision that the device does not have. A CPU takes every name and computes
    `'ieee'`, whose times would be false under another name."""
    if precision is None:
        return
    if precision not in PRECISIONS:
        raise typer.BadParameter(f"no precision {precision!r}; there are: {', '.join(PRECISIONS)}")
    if device.type == "cpu" and precision != "ieee":
        raise typer.BadParameter(f"a CPU computes 'ieee', and has no {precision!r} to measure")


def check_kernel(operator: Operator, device: torch.device, precision: str | None) -> None:
    """Refuses a precision for which this GPU, or the build, has no kernel."""
    if precision in (None, "ieee"):
        return
    a, b, c = torch.ones(3, 16, 16, device=device)
    try:
        operator.call(None, precision)(a, b, c)
    except NotImplementedError as error:
        raise typer.BadParameter(str(error).splitlines()[0]) from error


def check_algos(operator: Operator, device: torch.device, algos: Sequence[str]) -> None:
    """Refuses a name that is no rung of this device. A rung need not run every problem."""
    known = ("auto", "all", *operator.rungs(device))
    unknown = [name for name in algos if name not in known]
    if unknown:
        raise typer.BadParameter(
            f"no rung {', '.join(map(repr, unknown))} on this device; there are: {', '.join(known)}"
        )
