"""python -m tiled_mm: it runs, in time, and a wrong product makes it fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import tiled_mm
import torch
from tiled_mm import _report, _self_test
from tiled_mm.__main__ import main
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
    monkeypatch.setattr(_report, "devices", lambda: [torch.device("cpu")])
    assert main([]) == 1
    assert "WRONG: cpu float32 ieee: " in capsys.readouterr().out


def test_what_runs_under_override_is_tested_too() -> None:
    a, b = torch.ones(2, 3), torch.ones(3, 4)
    assert list(_self_test.wrong_gradients(a, b, torch.full((2, 4), 3.0))) == []
    (wrong,) = _self_test.wrong_gradients(a, b, torch.full((2, 4), 2.0))
    assert wrong == "cpu float32: torch's product under override is wrong"


def test_a_product_that_raises_is_a_failure_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def raises(*_: object, **__: object) -> Tensor:
        raise RuntimeError("an illegal access\nin /a/path/of/a/user")

    monkeypatch.setattr(tiled_mm, "mm", raises)
    failures = list(_self_test.failures([torch.device("cpu")]))
    names = [_self_test.name(dtype) for dtype in _self_test.DTYPES]
    assert failures == [f"cpu {name}: an illegal access" for name in names]
    assert "Traceback" in capsys.readouterr().err
