"""What tests of the benchmark share: an operator, documents and commands that measure nothing."""

from __future__ import annotations

import copy
import functools
import sys
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

from bench import candidates, check, machine, results  # noqa: E402
from bench.shapes import Shape  # noqa: E402
from bench.timing import spread  # noqa: E402

CPU = torch.device("cpu")
environment = functools.cache(machine.environment)


class StandIn:
    """torch.mm under our name, with two rungs; `rung`, if there is one, is naive."""

    def __init__(self, rung: candidates.Call | None = None) -> None:
        self.rung = rung

    def algos(self, a: Tensor, b: Tensor) -> list[str]:
        return ["naive", "register_tile"]

    def rungs(self, device: torch.device) -> list[str]:
        return ["naive", "register_tile"]

    def call(self, algo: str | None, precision: str | None) -> candidates.Call:
        if algo == "broken":
            raise RuntimeError("no such rung")
        return self.rung if algo == "naive" and self.rung else candidates.torch_mm

    def intensity(self, a: Tensor, b: Tensor, algo: str) -> float | None:
        return 0.25 if algo == "naive" else 32.0

    def recomputed(self, a: Tensor, b: Tensor) -> float | None:
        return 0.5


def refuse(*_: object, **__: object) -> Tensor:
    raise RuntimeError("no kernel\nwith a long story")


def make_document(cases: list[dict], gpu: str | None = None, date: str = "2026-01-02") -> dict:
    document = {"schema": results.SCHEMA, "run": "run", "settings": {}, "ceilings": None}
    document |= {"environment": copy.deepcopy(environment(CPU)), "cases": cases}
    document["environment"] |= {"date": f"{date}T03:04:05+00:00", "dirty": False}
    document["environment"] |= {"commit": "0123456789abcdef"}
    document["environment"]["gpu"] = {"name": gpu, "driver": "1.2.3"} if gpu else None
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
            check=check.Check(1e-7, 3.0, 0, True).to_json(),
        )
        case["candidates"].append(record)
    return case | others


def ladder_document(seconds: float = 1.0) -> dict:
    times = {"naive": 10 * seconds, "torch.mm": seconds}
    cases = [make_case("ladder", Shape(n, n, n), times) for n in (2048, 4096)]
    return make_document(cases, gpu="A GPU")


def invoke(program: typer.Typer | Callable, *arguments: object):
    """A program of the benchmark with its arguments, in this process."""
    app = program
    if not isinstance(program, typer.Typer):
        app = typer.Typer()
        app.command()(program)
    return CliRunner().invoke(app, [str(x) for x in arguments])
