"""Streamed products: what a run leaves, and the tables made from it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the benchmark is run from the checkout and is not installed
for module in ("matplotlib", "rich", "typer"):
    pytest.importorskip(module, reason=f"the benchmark needs {module}")

from bench import cli, out_of_core, plot, report, results  # noqa: E402

LINK = dict.fromkeys(
    (
        *("to_device", "to_host", "both_ways_each", "pageable_to_device", "pageable_to_host"),
        "host_copy",
    ),
    50e9,
)


def record(name: str, n: int, host: str, **changes: object) -> dict:
    made = {
        **{"name": name, "m": n, "n": n, "k": n, "dtype": "float32", "host": host},
        **{"overlap": True, "memory": 8 * 2**30, "devices": 1, "tiles": 4, "bytes_in": 9},
        **{"bytes_out": 4, "seconds": 2.0, "arithmetic_s": 1.8, "link_s": 1.0, "share": 0.9},
        **{"equal": True, "error": None},
    }
    return {**made, **changes}


def document(*products: dict) -> dict:
    made = cli.new_document("out_of_core", torch.device("cpu"), {})
    made["out_of_core"] = {"link": LINK, "arithmetic": {}, "products": list(products)}
    assert results.validate(made) == []
    return made


def test_the_tables_show_times_and_what_bounds_them():
    made = document(
        record("square-float32", 64, "pinned"),
        record("sweep", 32, "pageable", overlap=False),
        record("sweep", 32, "mapped", seconds=0.25),
    )
    link, products, sweep = (
        report.TABLES[name]([made], gpu=False)
        for name in ("out-of-core-link", "out-of-core", "out-of-core-sweep")
    )
    assert "| pinned, to the device | 50.0 |" in link
    row = "| 64x64x64 float32 | pinned | 8 GiB | 1 | 2 s | 1.8 s | 1 s | 90.0% |"
    assert row in products and "32x32x32" not in products
    assert "| 32 | 2 s | - | - | - | 250 ms |" in sweep
    assert report.TABLES["out-of-core"]([], gpu=False) == report.NOT_MEASURED


def test_runs_on_several_gpus_stand_below_those_on_one():
    one = document(record("square-float32", 64, "pinned"))
    two = document(record("square-float32", 64, "pinned", devices=2, seconds=1.0))
    table = report.TABLES["out-of-core"]([two, one], gpu=False)
    rows = [line for line in table.splitlines() if line.startswith("| 64x64x64")]
    assert [row.split(" | ")[3:5] for row in rows] == [["1", "2 s"], ["2", "1 s"]]
    # A newer run on one GPU takes the place of that on one alone.
    newer = document(record("square-float32", 64, "pinned", seconds=1.5))
    newer["environment"]["date"] = "9999-01-01T00:00:00+00:00"
    table = report.TABLES["out-of-core"]([two, one, newer], gpu=False)
    assert "| 1.5 s |" in table and "| 1 s |" in table and "| 2 s |" not in table


def test_the_plot_has_a_line_for_each_way_to_copy(tmp_path: Path):
    made = document(
        *(record("sweep", n, "pageable", overlap=False) for n in (32, 64)),
        record("sweep", 32, "mapped", equal=False),
        record("deep", 64, "pinned"),
    )
    assert [p.name for p in plot.plot_document(made, tmp_path)] == ["copies-float32.svg"]
    (axes,) = plot.copies(made["out_of_core"]["products"], "").axes
    assert [line.get_label() for line in axes.lines][:1] == ["pageable"]
    nothing = document(record("sweep", 32, "mapped", equal=False))
    assert plot.plot_document(nothing, tmp_path) == []


def test_wrong_bits_have_no_time_and_fail_the_run():
    wrong = record("deep", 64, "pinned", equal=False)
    failed = record("tall", 64, "pinned", equal=None, seconds=None, share=None, error="no")
    made = document(wrong, failed)
    table = report.TABLES["out-of-core"]([made], gpu=False)
    assert table.count("**wrong**") == 1 and "2 s" not in table
    assert len(results.failures(made)) == 2
    assert results.failures(document(record("deep", 64, "pinned"))) == []


def test_the_sizes_fit_the_memory_of_a_host_of_128_gib():
    for products in out_of_core.products(1).values():
        for product in products:
            copies = 2 if product.host == "pageable" else 1
            assert copies * product.bytes < 100 * 2**30


def test_all_rows_that_are_checked_lie_in_the_result():
    for m in (1, 16, 512, 513, 65536):
        assert all(0 <= r.start < r.stop <= m for r in out_of_core.checked_rows(m))
