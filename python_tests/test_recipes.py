"""The recipes: a policy whose sampler and trainer agree bit for bit, and an fp32 head."""

from __future__ import annotations

from types import ModuleType

import pytest
import tiled_mm
import torch
from test_override_models import example as load


@pytest.fixture
def example() -> ModuleType:
    return load("rl_exact")


@pytest.fixture(autouse=True)
def as_before():
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_sampler_and_trainer_agree(
    example: ModuleType, dtype: str, device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bits, micro-batches, and that the policy learns what is rewarded."""
    assert example.main(["--device", device, "--dtype", dtype, "--steps", "20"]) == 0
    shown = capsys.readouterr().out
    assert "trainer that differ: 0" in shown and "micro-batch: 0" in shown
    first, last = (float(word) for word in shown.split() if word.startswith("0."))
    assert last > first + 0.3


def test_products_are_tileds(example: ModuleType) -> None:
    """Or the test would be of torch's own on a machine where these do not change."""
    tiled_mm.override_counts(reset=True)
    example.main(["--device", "cpu", "--steps", "1"])
    counts = tiled_mm.override_counts()
    assert sum(c["tiled"] for c in counts.values()) > 100
    assert not any(set(c["torch"]) - {"off"} for c in counts.values())


def test_a_head_in_fp32(device: str) -> None:
    """Logits of bf16 states: the sums, not rounded to bf16, and the same of every row alone."""
    x = torch.randn(16, 96, device=device).bfloat16()
    head = torch.randn(500, 96, device=device).bfloat16()
    wide = tiled_mm.mm(x, head.t(), out_dtype=torch.float32)
    exact = x.double() @ head.double().t()
    assert wide.dtype == torch.float32
    assert (wide - exact).abs().max() < 1e-2 * (wide.bfloat16() - exact).abs().max()
    assert torch.equal(tiled_mm.mm(x[3:4], head.t(), out_dtype=torch.float32), wide[3:4])
