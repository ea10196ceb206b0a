"""TILED_MM_PLAN_AS: a GPU runs the plans of another, and says so; or it is refused by name."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import rungs
import tiled_mm
import torch
from cases import each

pytestmark = pytest.mark.cuda

# Whole numbers, whose sums are exact, in sizes that no tile divides.
SCRIPT = """
import tiled_mm, torch
a, b = torch.randint(-3, 4, (300, 200)), torch.randint(-3, 4, (200, 270))
right = (a[:, :, None] * b).sum(1)
a, b = a.cuda().half(), b.cuda().half()
plan = tiled_mm.plan(a, b)
print(plan.device, plan.algo, plan.arithmetic, plan.shared_bytes, sep="\\n")
print(torch.equal(tiled_mm.mm(a, b).cpu(), right.half()))
try:
    tiled_mm.mm(a.float(), b.float(), precision="tf32")
    print("tf32")
except NotImplementedError as error:
    print(error)
"""


def run_as(device: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TILED_MM_PLAN_AS": device}
    command = [sys.executable, "-c", SCRIPT]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.mma
@each("device", ("a100", "a10", "rtx4090"))
def test_plans_of_8_0_and_later_run_here(device: str) -> None:
    done = run_as(device)
    if "its limits are beyond" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    name, algo, arithmetic, shared_bytes, right, tf32 = done.stdout.splitlines()
    assert " (on NVIDIA" in name and algo in ("async_mma", "tall") and arithmetic == "tensor"
    assert int(shared_bytes) <= (163 if device == "a100" else 99) * 1024
    assert (right, tf32) == ("True", "tf32")


def test_plans_of_7_5_run_here() -> None:
    """Where the build's code for 7.5 does: from its PTX. (A build without that code plans for a T4
    without tensor cores nowhere but on a T4.)"""
    done = run_as("t4")
    built = tiled_mm.build_info()["by_8_architectures"]
    if not rungs.is_served(built, torch.cuda.get_device_capability()):
        assert done.returncode != 0 and "TILED_MM_PLAN_AS=t4: it has kernels" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    name, algo, arithmetic, _, right, refused = done.stdout.splitlines()
    assert name.startswith("NVIDIA T4 (on ")
    assert (algo, arithmetic, right) == ("async_mma", "tensor", "True")
    assert "'tf32' has no kernel" in refused and "7.5" in refused


def test_others_are_refused() -> None:
    done = run_as("h2000")
    assert done.returncode != 0
    assert "TILED_MM_PLAN_AS=h2000: there is no device of this name" in done.stderr
    if tiled_mm.build_info()["left_out"] or torch.cuda.get_device_capability() != (9, 0):
        done = run_as("h200")
        assert done.returncode != 0 and "TILED_MM_PLAN_AS=h200: it has kernels" in done.stderr
