"""The benchmark of whole models: that its parts run, and its tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
for _module in ("rich", "typer"):
    pytest.importorskip(_module, reason=f"the benchmark needs {_module}")

from bench import linears, models, results, schema  # noqa: E402
from bench.models_table import TABLES  # noqa: E402
from bench.timing import CpuStopwatch  # noqa: E402

CPU = torch.device("cpu")


def document(*, small: bool = False, **parts: list[dict]) -> dict:
    gpu = {"name": "GPU", "driver": "1"}
    environment = {
        "date": "2026-01-01",
        "gpu": gpu,
        "commit": "abc",
        "dirty": False,
        "torch": "2",
        "cublas": "3",
    }
    return {"settings": {"small": small}, "environment": environment, "models": parts}


def cells_of(table: str) -> list[list[str]]:
    lines = table.split("\n\n")[0].splitlines()[2:]
    return [line.strip("| ").split(" | ") for line in lines]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = linears.medians
    monkeypatch.setattr(linears, "LEAST", 1)
    monkeypatch.setattr(linears, "PLAIN_CALLS", 2)
    monkeypatch.setattr(
        linears, "medians", lambda watch, works, _=0, **more: whole(watch, works, 1e-4, **more)
    )


def valid(part: str, rows: list[dict]) -> None:
    """Rows that a document may hold, with a time of each candidate."""
    kind = schema.MODELS[part]
    assert rows and results.problems(rows, list[kind]) == []
    for row in rows:
        assert all(seconds > 0 for seconds in row.get("seconds", {}).values())


def test_linear_layers_run_and_are_checked(quick: None) -> None:
    rows = list(linears.linears(CpuStopwatch(), CPU, small=True))
    valid("linear", rows)
    assert {"mm", "torch.mm", "bias", *linears.ACTIVATIONS} == set(rows[0]["seconds"])
    x, w, b = linears.linear_operands((4, 8, 16), CPU, torch.bfloat16)
    right = linears.torch_linear(x.double(), w.double(), b.double(), "gelu").bfloat16()
    linears.check(right, x, w, b, "gelu")
    for wrong in (right * 1.1, torch.full_like(right, torch.nan), right.roll(1, 0)):
        with pytest.raises(RuntimeError, match="a wrong result"):
            linears.check(wrong, x, w, b, "gelu")


def test_models_run(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers", reason="needs transformers")
    monkeypatch.setattr(models, "BATCHES", (2, 3))
    monkeypatch.setattr(models, "DECODED", (1, 2))
    for name in models.NAMES:
        model = models.make_model(name, CPU, small=True)
        found = list(models.bits(model, name))
        valid("bits", found)
        assert {(r["arithmetic"], r["batch"]) for r in found} == {
            (a, b) for a in ("torch", "tiled") for b in models.BATCHES
        }
        valid("speed", list(models.speed(CpuStopwatch(), model, name, small=True)))


def test_the_mlp_runs(quick: None) -> None:
    rows = list(models.mlp(CpuStopwatch(), CPU, small=True))
    valid("speed", rows)
    assert [row["tokens"] for row in rows] == list(models.MLP_ROWS)


def test_the_tables() -> None:
    bit = {"model": "gpt2", "of": 200, "largest": 0.5}
    found = document(
        bits=[
            {**bit, "arithmetic": "torch", "batch": 2, "differ": 50},
            {**bit, "arithmetic": "tiled", "batch": 2, "differ": 0},
        ],
        speed=[
            {"model": "mlp", "what": "mlp", "tokens": 8, "seconds": {"tiled": 2e-5, "torch": 3e-5}}
        ],
        linear=[
            {"what": "forward", "shape": [2, 3, 4], "seconds": {"mm": 1e-3, "gelu": 1.02e-3}},
            {"what": "both", "shape": [2, 3, 4], "seconds": {"tiled": 2e-3, "torch": 1e-3}},
        ],
        host=[{"what": "linear", "grad": True, "seconds": {"tiled": 4e-6, "torch": 8e-6}}],
    )
    assert cells_of(TABLES["models-bits"]([found])) == [
        ["GPT-2", "2", "equal", "25 % differ, by 0.5"]
    ]
    assert cells_of(TABLES["models-speed"]([found]))[0][1:] == [
        "mlp",
        "8",
        "1.50",
        "20 µs",
        "30 µs",
    ]
    assert cells_of(TABLES["models-finished"]([found])) == [
        ["2 x 3 x 4", "mm", "1 ms", "+0.0 %"],
        ["2 x 3 x 4", "gelu", "1.02 ms", "+2.0 %"],
    ]
    assert cells_of(TABLES["models-linear"]([found])) == [
        ["both", "2 x 3 x 4", "0.50", "2 ms", "1 ms"]
    ]
    assert cells_of(TABLES["models-host"]([found])) == [["linear", "yes", "2.00", "4 µs", "8 µs"]]
    assert TABLES["models-cpu"]([found]) == "*Not measured yet.*"
    small = document(small=True, bits=found["models"]["bits"])
    assert TABLES["models-bits"]([small]) == "*Not measured yet.*"
