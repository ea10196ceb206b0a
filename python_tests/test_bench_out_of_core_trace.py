"""The parts that a streamed product's time is taken apart into."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the benchmark is run from the checkout and is not installed
for module in ("rich", "typer"):
    pytest.importorskip(module, reason=f"the benchmark needs {module}")

from bench import out_of_core_trace as trace  # noqa: E402


def event(category: str, name: str, begin: float, end: float, nbytes: int = 0) -> dict:
    """Of a Chrome trace, whose times are in microseconds."""
    ts, dur = begin * 1e6, (end - begin) * 1e6
    return {"cat": category, "name": name, "ts": ts, "dur": dur, "args": {"bytes": nbytes}}


def test_every_moment_is_counted_once() -> None:
    found = trace.split(
        [
            event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 10, 14, 400),
            event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 14, 18, 400),
            event("kernel", "product", 14, 20),
            event("kernel", "product", 21, 24),
            event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 20, 22, 100),
            event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 25, 27, 100),
            event("cuda_runtime", "cudaMemcpyAsync", 0, 100),
            {"name": "process_name"},
        ]
    )
    assert found["total"] == pytest.approx(17)
    expected = {"products": 9, "link in": 4, "link out": 3, "idle": 1}
    assert found["once"] == {name: pytest.approx(value) for name, value in expected.items()}
    assert sum(found["once"].values()) == pytest.approx(found["total"])
    link = found["stages"]["link in"]
    assert (link["busy"], link["bytes"], link["events"], link["first"]) == (
        pytest.approx(8),
        800,
        2,
        0,
    )
    assert found["stages"]["products"]["first"] == pytest.approx(4)
    assert found["kernels"] == {"product": [pytest.approx(6), pytest.approx(3)]}
