"""What tests of the benchmark share: an operator, documents and commands that measure nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the benchmark is run from the checkout and is not installed

for _module in ("matplotlib", "rich", "typer"):
    pytest.importorskip(_module, reason=f"the benchmark needs {_module}")

import typer  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from bench import candidates, check, cli, machine, results  # noqa: E402
from bench.runner import Bench, Settings  # noqa: E402
from bench.shapes import Shape  # noqa: E402
from bench.timing import CpuStopwatch, Rounds, spread  # noqa: E402

CPU = torch.device("cpu")


class StandIn:
    """torch.mm under our name, with two rungs. `spoil` may change a result; `rung`, if there is
    one, takes the place of naive."""

    def __init__(
        self, spoil: Callable = lambda out: None, rung: candidates.Call | None = None
    ) -> None:
        self.spoil, self.rung = spoil, rung

    def algos(self, a: Tensor, b: Tensor) -> list[str]:
        return ["naive", "register_tile"]

    def rungs(self, device: torch.device) -> list[str]:
        return ["naive", "register_tile"]

    def call(self, algo: str | None, precision: str | None) -> candidates.Call:
        if algo == "broken":
            raise RuntimeError("no such rung")
        if algo == "naive" and self.rung:
            return self.rung

        def run(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
            torch.matmul(a, b, out=out)
            self.spoil(out)
            return out

        return run

    def intensity(self, a: Tensor, b: Tensor, algo: str) -> float | None:
        return 0.25 if algo == "naive" else 32.0

    def recomputed(self, a: Tensor, b: Tensor) -> float | None:
        return 0.5


def make_bench(operator: StandIn | None = None, **settings: object) -> Bench:
    settings.setdefault("rounds", Rounds(least=3, most=3, budget_s=0.01))
    return Bench(
        CPU,
        CpuStopwatch(region_s=1e-6),
        operator or StandIn(),
        Settings(**settings),
        machine.PowerLog(CPU),
        time.monotonic(),
    )


def make_document(cases: list[dict], gpu: str | None = None, date: str = "2026-01-02") -> dict:
    document = cli.new_document("run", CPU, {})
    environment = document["environment"]
    environment.update(date=f"{date}T03:04:05+00:00", commit="0123456789abcdef", dirty=False)
    if gpu:
        environment["gpu"] = {"name": gpu, "driver": "1.2.3"}
    document["cases"] = cases
    return document


def make_case(set_name: str, shape: Shape, times: dict[str, float], **others: object) -> dict:
    """A case with these seconds per candidate, the last one being the peer."""
    peer = list(times)[-1]
    case = results.case(set_name, shape.to_json(), "burst", "cold") | {"peer": peer}
    for name, seconds in times.items():
        record = results.candidate(name, ours=name != peer)
        record.update(
            seconds=spread([seconds]),
            ratio=spread([times[peer] / seconds]),
            flops=shape.flops / seconds,
            bandwidth=shape.bytes / seconds,
            rounds=1,
            check=check.Check(1e-7, 3.0, 0, True).to_json(),
        )
        case["candidates"].append(record)
    return case | others


def ladder_document(date: str = "2026-01-02", seconds: float = 1.0) -> dict:
    times = {"naive": 10 * seconds, "torch.mm": seconds}
    cases = [make_case("ladder", Shape(n, n, n), times) for n in (128, 2048, 4096, 8192)]
    return make_document(cases, gpu="A GPU", date=date)


def invoke(program: typer.Typer | Callable, *arguments: object):
    """A program of the benchmark with its arguments, in this process."""
    app = program
    if not isinstance(program, typer.Typer):
        app = typer.Typer()
        app.command()(program)
    return CliRunner().invoke(app, [str(x) for x in arguments])
