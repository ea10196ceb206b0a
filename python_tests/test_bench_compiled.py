"""bench.eager, bench.rivals and bench.compiled, as far as they go without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("typer", reason="needs the benchmark's packages")
from bench import compiled, compiled_epilogues, eager, results, rivals, schema
from bench.models_table import TABLES, rivals_speed_rows


def test_host_time_of_calls_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "TURNS", 2)
    eager.main(tmp_path / "eager.json", ["calls"], None, "cpu", True)
    rows = results.read(tmp_path / "eager.json")["models"]["eager-calls"]
    assert [row["what"] for row in rows] == ["mm", "addmm", "linear", "bmm"]
    assert all(0 < row["seconds"][who] < 1 for row in rows for who in ("torch", "tiled"))


def test_rows_of_ours_do_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "BF16", ((96, 64),))
    monkeypatch.setattr(rivals, "SQUARES", (33,))
    found = rivals.changed("tiled", torch.device("cpu"))
    assert found == {"bf16": [0, 9], "fp32": [0, 8], "squares": [0, 27]}


def test_the_problems_are_as_many_as_the_page_says() -> None:
    kinds = [kind for kind, *_ in rivals.problems()]
    assert (kinds.count("bf16"), kinds.count("fp32")) == (90, 80)
    assert kinds.count("squares") == 480


def test_the_speeds_are_a_result_with_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "SPEEDS", ((2, 3, 4),))
    monkeypatch.setattr("bench.timing.CudaStopwatch", lambda device: None)
    monkeypatch.setattr("bench.linears.medians", lambda watch, works: dict.fromkeys(works, 1e-5))
    candidates = ("torch", "tiled", "triton", "cut cuBLAS", "tiled beside cut cuBLAS")
    monkeypatch.setattr(rivals, "product_of", lambda candidate: torch.mm)
    rows = rivals.speeds(candidates, torch.device("cpu"))
    assert results.problems({"rivals-speed": rows}, schema.Models) == []
    assert rivals_speed_rows(rows) == [["2 x 3 x 4", "10 µs", "1.00", "1.00", "1.00"]]


@pytest.mark.cuda
def test_the_triton_product() -> None:
    from bench.triton_product import product

    for dtype in (torch.bfloat16, torch.float32):
        a = torch.randint(-3, 4, (130, 100), device="cuda").to(dtype)
        b = torch.randint(-3, 4, (77, 100), device="cuda").to(dtype).t()
        assert torch.equal(product(a, b), a @ b)
        assert torch.equal(product(a[:3], b), product(a, b)[:3])


def test_every_setting_is_a_set_of_options() -> None:
    from torch._inductor import config

    for options, more in compiled.settings().values():
        assert set(options or {}) <= set(config.get_config_copy())
        assert set(more) == {"dynamic"}


def test_a_compiled_perceptron_with_epilogues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_epilogues, "ACTIVATIONS", {"relu": torch.nn.ReLU})
    compiled_epilogues.main(tmp_path / "epilogues.json", "cpu", True)
    (document,) = results.read_all(tmp_path)
    rows = document["models"]["compiled-epilogues"]
    assert [row["what"] for row in rows] == ["forward", "loss and gradients"]
    assert all(list(row["seconds"]) == list(compiled_epilogues.settings()) for row in rows)
    document["settings"]["small"] = False
    lines = TABLES["models-compiled-epilogues"]([document]).splitlines()
    assert lines[2].startswith("| relu | forward | 16 | ")
