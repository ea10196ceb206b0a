"""Which GPU computes how: docs/contract.md shows the library's one table, and plans keep to it; and
the rates that docs/gpus.md shows are those of the plans."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import rungs
import tiled_mm
import torch

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "contract.md"
TABLE = ROOT / "ops" / "core" / "generations.inc"

if not PAGE.exists():
    pytest.skip("there is no docs/ beside these tests", allow_module_level=True)


def page_rows() -> list[list[str]]:
    """The table's cells: first capability, generation, and what is run for each request."""
    lines = PAGE.read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("| compute capability, from"))
    rows = []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
    return rows


def test_the_page_shows_the_table() -> None:
    rows = re.findall(
        r'^GENERATION\((\d+), "(\w+)", (\w+), (\w+)\)', TABLE.read_text(), re.MULTILINE
    )
    of_mma = {
        "None": ["fma", "fma", "-", "-"],
        "Fp16By8": ["tensor, steps of 8", "fma", "-", "-"],
        "All": ["tensor", "tensor", "tf32", "fp16x3"],
    }
    assert len(rows) > 1
    wanted = []
    for capability, name, _, mma in rows:
        wanted.append([f"{int(capability) // 10}.{int(capability) % 10}", name, *of_mma[mma]])
    assert page_rows() == wanted


def test_every_named_device_has_a_capability_here() -> None:
    assert set(rungs.CAPABILITIES) == set(tiled_mm.devices())


@pytest.mark.parametrize("device", rungs.CAPABILITIES)
def test_plans_are_as_the_page_says(device: str) -> None:
    own = rungs.CAPABILITIES[device]
    rows = [r for r in page_rows() if tuple(map(int, r[0].split("."))) <= own]
    _, _, fp16, bf16, tf32, fp16x3 = rows[-1]
    for dtype, runs in ((torch.float16, fp16), (torch.bfloat16, bf16)):
        x = torch.empty(64, 64, dtype=dtype, device="meta")
        assert tiled_mm.plan(x, x, device=device).arithmetic == runs.split(",")[0]
    x = torch.empty(64, 64, device="meta")
    assert tiled_mm.plan(x, x, device=device, precision="ieee").arithmetic == "fma"
    for precision, runs in {"tf32": tf32, "fp16x3": fp16x3}.items():
        if runs == "-":
            with pytest.raises(NotImplementedError, match=f"'{precision}' has no kernel"):
                tiled_mm.plan(x, x, device=device, precision=precision)
        else:
            plan = tiled_mm.plan(x, x, device=device, precision=precision)
            assert plan.arithmetic == runs


def test_the_rates_of_cards() -> None:
    """docs/gpus.md, to three digits, in TF/s and GB/s."""
    lines = (ROOT / "docs" / "gpus.md").read_text().splitlines()
    begin = lines.index("| | 16 bits | `tf32` | int8 | fp32 | memory |")
    shown = 0
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        device, *rates, memory = (cell.strip().strip("`") for cell in line.strip("|").split("|"))
        asked = (torch.float16, None), (torch.float32, "tf32"), (torch.int8, None)
        for (dtype, precision), rate in zip((*asked, (torch.float32, "ieee")), rates, strict=True):
            x = torch.empty(64, 64, dtype=dtype, device="meta")
            if rate == "-":
                with pytest.raises(NotImplementedError):
                    tiled_mm.plan(x, x, device=device, precision=precision)
                continue
            plan = tiled_mm.plan(x, x, device=device, precision=precision)
            assert f"{plan.peak_flops / 1e12:.3g}" == rate, (device, dtype)
            assert f"{plan.memory_bandwidth / 1e9:.0f}" == memory
        shown += 1
    assert shown == 7
