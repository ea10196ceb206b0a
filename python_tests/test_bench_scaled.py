"""The benchmark of scaled products: its cases, small runs and tables."""

from __future__ import annotations

import pytest
import torch
import typer
from typer.testing import CliRunner

from bench import fp8_training, fp8_training_table, results, scaled, scaled_table, schema
from bench.limits import Limits
from bench.scaled import Case
from bench.timing import Rounds

pytestmark = pytest.mark.scaled


def run(*arguments: str):
    app = typer.Typer()
    app.command()(scaled.main)
    return CliRunner().invoke(app, arguments)


def test_the_cases() -> None:
    cases = list(scaled.cases(7))
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    assert names == [case.name for case in scaled.cases(7)]
    products = [case for case in cases if case.work == "product"]
    assert len(products) == 3 * 4 * 4 * 3  # models, layers, numbers of rows, recipes
    assert all(case.n % 16 == 0 and case.k % 128 == 0 for case in products)  # or torch refuses
    assert max(case.n * case.k for case in products) >= 128e6
    assert "groups blockwise E8 32768x2048x7168" in names
    assert "quantize both 16384x0x4096" in names
    assert scaled.drawn_layers(7) != scaled.drawn_layers(8)


@pytest.mark.parametrize("case", [c for c in scaled.cases(7) if c.experts or c.work != "product"])
def test_a_case_is_measured(device: str, case: Case) -> None:
    small = scaled.divided(case, 64)
    found = scaled.measure(small, torch.device(device), 7, Rounds(2, 2, 0.01), Limits())
    assert results.problems(found, schema.Scaled) == []
    assert ("copy" in found["seconds"]) == (case.work == "quantize")


@pytest.mark.parametrize("recipe", scaled.RECIPES)
@pytest.mark.parametrize("m", (96, 2))
def test_a_product_is_measured(device: str, recipe: str, m: int) -> None:
    case = Case("product", recipe, m, 256, 384)
    found = scaled.measure(case, torch.device(device), 7, Rounds(2, 2, 0.01), Limits())
    assert results.problems(found, schema.Scaled) == []
    assert ("copy" in found["seconds"]) == (m == 2)
    assert (found["ratio"] is None) == ("torch" not in found["seconds"])
    assert bool(found["refused"]) == any(
        name not in found["seconds"]
        for name in ("torch", "fast")[: 1 + (recipe == "rowwise" and m > 2)]
    )


def test_a_wrong_result_ends_the_run(monkeypatch) -> None:
    ours = scaled.Work.ours
    monkeypatch.setattr(scaled.Work, "ours", lambda *x: ours(*x) * 1.01)
    case = Case("product", "rowwise", 16, 256, 384)
    with pytest.raises(RuntimeError, match="a wrong result: product rowwise 16x256x384"):
        scaled.measure(case, torch.device("cpu"), 7, Rounds(2, 2, 0.01), Limits())


def test_a_small_run_and_its_tables(tmp_path) -> None:
    path = tmp_path / "scaled.json"
    options = ("--device", "cpu", "--divide", "64", "--budget", "0.01", "--json", str(path))
    ran = run(*options, "--only", "E64")
    assert ran.exit_code == 0, ran.output
    document = results.read(path)
    assert len(document["scaled"]) == 2 + 1
    assert "groups blockwise: nothing beside it" in ran.output
    assert run(*options, "--only", "E65").exit_code == 2
    # Tables are a GPU's.
    assert all("Not measured" in table([document]) for table in scaled_table.TABLES.values())
    document["environment"]["gpu"] = {"name": "a GPU", "driver": "1"}
    seconds = {"tiled": 1e-3, "torch": 2e-3, "fast": 1.5e-3, "copy": 9e-4}
    record = document["scaled"][0] | {"seconds": seconds, "ratio": 2.0, "beside_copy": 0.9}
    for m, recipe in ((4096, "rowwise"), (16, "blockwise")):
        document["scaled"].append(record | {"work": "product", "recipe": recipe, "m": m})
    document["scaled"].append(record | {"work": "quantize", "recipe": "both"})
    products, groups, quantize = (table([document]) for table in scaled_table.TABLES.values())
    assert "| 4096 | rowwise | " in products and " | 2.00 | 2.00 | 1.50 | 0.90 | 0.90 |" in products
    assert "| weight gradient | rowwise | 4 |" in groups
    assert "| 1x128, and the transpose |" in quantize


def test_training_runs_and_its_tables(tmp_path) -> None:
    path = tmp_path / "training.json"
    app = typer.Typer()
    app.command()(fp8_training.main)
    options = ("--device", "cpu", "--divide", "16", "--steps", "51", "--seeds", "2")
    ran = CliRunner().invoke(app, [*options, "--budget", "0.01", "--json", str(path)])
    assert ran.exit_code == 0, ran.output
    document = results.read(path)
    runs = document["fp8_training"]["runs"]
    assert {(r["kind"], r["seed"]) for r in runs} == {
        (k, s) for k in ("bf16", "fp8") for s in (0, 1)
    }
    for run in runs:
        assert len(run["losses"]) == 3  # before, and after 50 and 51 steps
        assert run["losses"][0] > 5 > run["losses"][-1]  # ln(256) = 5.5
    document["environment"]["gpu"] = {"name": "a GPU", "driver": "1"}
    losses = {("bf16", 0): 2.0, ("bf16", 1): 3.0, ("fp8", 0): 2.5, ("fp8", 1): 3.25}
    for run in runs:
        run["losses"] = [losses[run["kind"], run["seed"]]]
    document["fp8_training"]["step"] = {"torch": 0.03, "tiled": 0.028, "fp8": 0.02}
    loss, step = (table([document]) for table in fp8_training_table.TABLES.values())
    assert "| 2 | 2.8750 | 2.5000 | 3.2500 | 0.5000 |" in loss
    assert "| ours, fp8 | 20.0 | 1.50 |" in step
