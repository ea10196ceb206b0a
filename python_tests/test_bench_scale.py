"""The tables of bench.scale."""

from __future__ import annotations

import pytest

pytest.importorskip("typer", reason="needs the benchmark's packages")
from bench.scale_table import TABLES

ENVIRONMENT = {
    "date": "2026-11-26T00:00:00+00:00", "commit": "b747fde1380a", "dirty": False,
    "torch": "2.11.0", "cublas": "13.1.0", "gpu": {"name": "NVIDIA H100", "driver": "580"},
}  # fmt: skip


def document(processes: int, *rows: dict, small: bool = False, **environment: object) -> dict:
    return {
        "settings": {"small": small},
        "environment": ENVIRONMENT | environment,
        "scale": {"processes": processes, "rows": list(rows)},
    }


def tp(what: str, **seconds: float) -> dict:
    return {"part": "tp", "what": what, "mode": "CUDA graph", "tokens": 64, "seconds": seconds}


def lines(name: str, *documents: dict) -> list[str]:
    return TABLES[name](documents).splitlines()


def test_each_number_of_gpus_has_its_columns_of_the_newest_run() -> None:
    old = document(2, tp("forward", torch=9e-3, tiled=1e-3), date="2026-11-25T00:00:00+00:00")
    two = document(2, tp("forward", torch=2e-3, tiled=1e-3), tp("both", torch=4e-3, tiled=5e-3))
    four = document(4, tp("forward", torch=1e-3, tiled=2e-3))
    assert lines("scale-tp", four, two, old)[:4] == [
        "|  |  | tokens | 2 GPUs: torch | torch / tiled | 4 GPUs: torch | torch / tiled |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
        "| forward | CUDA graph | 64 | 2 ms | 2.00 | 1 ms | 0.50 |",
        "| both | CUDA graph | 64 | 4 ms | 0.80 | - | - |",
    ]


def test_what_changes_with_the_batch_and_what_differs_when_loaded() -> None:
    shares = {"differ from one process": 0.5003, "of 16 rows change with the batch": 0.3183}
    counts = {"run again": [0, 132, 0.0, []], "loaded": [7, 132, 0.1, ["k"]]}
    found = document(
        4,
        {"part": "bits", "what": "row parallel", "mode": "", "values": shares},
        {"part": "steps", "what": "torch", "mode": "", "values": counts},
    )
    assert lines("scale-bits", found)[2] == "| 4 | 50 % | 32 % |"
    assert lines("scale-steps", found)[2] == "| 4 | torch | 0 of 132 | 7 of 132 |"


def test_a_trial_without_gpus_or_of_small_sizes_is_no_measurement() -> None:
    row = tp("forward", torch=1e-3, tiled=1e-3)
    for of_no_use in (document(2, row, small=True), document(2, row, gpu=None)):
        assert lines("scale-tp", of_no_use) == ["*Not measured yet.*"]
