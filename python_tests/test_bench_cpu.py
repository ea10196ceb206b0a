"""The CPU's groups of cases: what a run leaves, and the table made from it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import tiled_mm  # noqa: F401  (the table's own import must find it loaded)
import torch

from bench import cpu_table, report, results


def case(group: str, n: int, ratio: float, layout: str = "nn") -> dict:
    return {"group": group, "m": n, "n": n, "k": 2 * n, "layout": layout, "ratio": ratio}


def document(group: str, threads: int, ratios: list[float], date: str, cpu: str = "A CPU") -> dict:
    goals = {group: cpu_table.Goal(1.5, 0.5)}
    cases = [case(group, 8 * (i + 1), r, "nt") for i, r in enumerate(ratios)]
    summary = list(cpu_table._summary(cases, goals))
    made = cpu_table.document_of(cases, summary, threads, {}, {})
    made["environment"].update(date=date, commit="0123456789abcdef", dirty=False)
    made["environment"]["cpu"].update(model=cpu, capability="AVX2")
    assert results.validate(made) == []
    return made


def test_the_summary_says_where_the_least_ratio_was():
    goals = {"fp32": cpu_table.Goal(1.5, 0.5), "fp64": cpu_table.Goal(1, 1)}
    lines = list(cpu_table._summary([case("fp32", 8, 4.0), case("fp32", 16, 1.0)], goals))
    assert [line["group"] for line in lines] == ["fp32"]
    assert lines[0]["geomean"] == pytest.approx(2) and lines[0]["least"] == 1
    assert lines[0]["where"] == "16x16x32" and lines[0]["met"]


def test_the_groups_table_gathers_documents_of_one_cpu():
    table = report.TABLES["cpu-groups"]
    assert table([]) == report.NOT_MEASURED
    documents = [
        document("fp32", 1, [3.0, 3.0], "2026-01-01"),  # measured again below
        document("fp32", 1, [4.0, 1.0], "2026-01-03"),
        document("fp32", 2, [2.0, 2.0], "2026-01-02"),
        document("rows-bf16", 2, [0.5], "2026-01-02"),
        document("fp64", 1, [9.0], "2026-01-01", cpu="Another CPU"),
    ]
    lines = table(documents).splitlines()
    assert lines[0] == (
        "| torch.mm's time / ours | goal: geomean | least "
        "| 1 thread: geomean | least | at | 2 threads: geomean | least | at |"
    )
    assert lines[2] == (
        "| `fp32` | 1.5 | 0.5 | 2.00 | 1.00 | 16x16x32 nt | 2.00 | 2.00 | 8x8x16 nt |"
    )
    assert lines[3] == "| `rows-bf16` | 1.5 | 0.5 | - | - | - | **0.50** | 0.50 | 8x8x16 nt |"
    assert len(lines) == 6
    assert lines[5].startswith("<sub>A CPU, AVX2, torch ") and "2026-01-03" in lines[5]


def test_groups_named_leave_files_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = {
        name: (cpu_table.Goal(0, 0), [cpu_table.Case(name, dtype, 8, 8, 8)])
        for name, dtype in (("fp32", "fp32"), ("skinny-fp64", "fp64"))
    }
    monkeypatch.setattr(cpu_table, "_groups", lambda host: groups)
    begin, grad = torch.get_num_threads(), torch.is_grad_enabled()
    try:
        for named in ([], ["--groups", "fp32"], ["--groups", "skinny-fp64"]):
            arguments = ["--out", str(tmp_path), "--threads", "1,2", "--budget", "0.001", *named]
            monkeypatch.setattr(sys, "argv", ["cpu_table", *arguments])
            cpu_table.main()
    finally:
        torch.set_num_threads(begin)
        torch.set_grad_enabled(grad)
    suffixes = ("", "_fp32", "_skinny-fp64")
    assert {p.name for p in tmp_path.iterdir()} == {
        f"cpu_{t}{suffix}.json" for t in (1, 2) for suffix in suffixes
    }
    documents = results.read_all(tmp_path)
    assert {d["cpu"]["threads"] for d in documents} == {1, 2}
    assert all(d["environment"]["cpu"]["threads"] == d["cpu"]["threads"] for d in documents)
    assert "`skinny-fp64`" in report.TABLES["cpu-groups"](documents)
