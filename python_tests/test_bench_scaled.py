"""Training in fp8: a small run, and its tables."""

from __future__ import annotations

import pytest
from benchmark import invoke

from bench import fp8_training, fp8_training_table, results

pytestmark = pytest.mark.scaled


def test_training_runs_and_its_tables(tmp_path) -> None:
    path = tmp_path / "training.json"
    options = ("--device", "cpu", "--divide", "16", "--steps", "51", "--seeds", "2")
    ran = invoke(fp8_training.main, *options, "--budget", "0.01", "--json", path)
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
