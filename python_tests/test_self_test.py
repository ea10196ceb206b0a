"""python -m tiled_mm: it runs, in time, and a wrong product makes it fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import tiled_mm
import torch
from tiled_mm import __main__ as self_test
from torch import Tensor


def test_it_passes_and_says_what_runs() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tiled_mm"], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"tiled-mm {tiled_mm.__version__}, built for torch ")
    assert lines[1].startswith(f"torch {torch.__version__}, Python ")
    assert lines[2].startswith("cpu: CPU (") and "blocked for float32" in lines[2]
    assert lines[-1] == "self-test: all results are right"


def test_what_it_says_of_a_wrong_result_ends_the_process_with_1() -> None:
    program = """
import runpy
import tiled_mm
right = tiled_mm.mm
tiled_mm.mm = lambda a, b, **options: right(a, b, **options) + 1
runpy.run_module("tiled_mm", run_name="__main__")
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 1, result.stderr
    assert result.stdout.splitlines()[-1].endswith(" failures")


def one_element_off(c: Tensor) -> Tensor:
    c[-1, -1] += 1
    return c


def not_finite(c: Tensor) -> Tensor:
    return c.fill_(torch.nan) if c.is_floating_point() else c


def rows_of_batches_differ(c: Tensor) -> Tensor:
    return c + 1 if c.shape[0] == 2 else c


@pytest.mark.parametrize("fault", [one_element_off, not_finite, rows_of_batches_differ])
def test_a_wrong_product_makes_it_fail(
    fault: Callable[[Tensor], Tensor],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    right = tiled_mm.mm
    monkeypatch.setattr(tiled_mm, "mm", lambda a, b, **options: fault(right(a, b, **options)))
    monkeypatch.setattr(self_test, "devices", lambda: [torch.device("cpu")])
    assert self_test.main([]) == 1
    assert "WRONG: cpu float32 ieee: " in capsys.readouterr().out


def test_what_runs_under_override_is_tested_too() -> None:
    a, b = torch.ones(2, 3), torch.ones(3, 4)
    assert list(self_test.wrong_gradients(a, b, torch.full((2, 4), 3.0))) == []
    (wrong,) = self_test.wrong_gradients(a, b, torch.full((2, 4), 2.0))
    assert wrong == "cpu float32: torch's product under override is wrong"
