"""The plans of rung async_mma: where it runs, its tiles, and how it reads."""

from __future__ import annotations

import pytest
import rungs
import tiled_mm
import torch
from cases import HALVES, each, meta
from rungs import BYTES, ways_of

BF16 = torch.bfloat16
SINCE_AMPERE = ("a100", "a10", "l40s", "rtx3090", "rtx4090", "rtx5090", "b200")


@each("device", SINCE_AMPERE)
@each("dtype", HALVES)
def test_it_runs_where_there_are_no_kernels_of_hopper(dtype: torch.dtype, device: str) -> None:
    for m, n, k in ((4096, 4096, 4096), (1, 4096, 4096), (64, 64, 64), (1023, 999, 1001)):
        a, b = meta(m, n, k, dtype)
        assert tiled_mm.plan(a, b, device=device).algo in ("async_mma", "tall")
        plan = tiled_mm.plan(a, b, algo="async_mma", device=device)
        assert (plan.algo, plan.arithmetic) == ("async_mma", "tensor")
        copies = plan.async_mma.copies_a or plan.async_mma.copies_b
        assert k == 1001 or not copies, "it lies as it is read"
        assert len(plan.steps) == 1 + copies and (plan.workspace_bytes > 0) == copies
        assert plan.occupancy.blocks_per_sm >= 1
        text = tiled_mm.explain(a, b, algo="async_mma", device=device)
        assert text.startswith("async_mma on") and ("by 16 bytes" in text or k == 1001)


def test_operands_that_are_copied_first() -> None:
    """Each that does not lie by whole 16 bytes is copied in some ways, and not in others."""
    for (m, n, k), copied in (
        ((64, 64, 64), {""}),
        ((64, 64, 65), {"", " of copied A"}),
        ((64, 63, 65), {"", " of copied A", " of copied B", " of copied A and B"}),
    ):
        ways = ways_of(*meta(m, n, k, BF16), "async_mma", device="a100")
        assert {way[0].removeprefix(way[0].split()[0]) for way in ways} == copied, (m, n, k)


def reads_of(a: torch.Tensor, b: torch.Tensor, **precision: str) -> tuple[str, str]:
    """How the plan reads A and B; what it copies first, by 16 bytes."""
    found = tiled_mm.plan(a, b, algo="async_mma", device="a100", **precision).async_mma
    assert not found.copies_a or found.reads_a == "by 16 bytes"
    assert not found.copies_b or found.reads_b == "by 16 bytes"
    return found.reads_a, found.reads_b


@pytest.mark.parametrize(
    ("columns", "reads"),
    [
        (64, "by 16 bytes"),
        (68, "by 8 bytes"),
        (66, "by 4 bytes"),
        (65, "through registers, shifted"),
    ],
)
def test_how_it_reads(columns: int, reads: str) -> None:
    a = torch.empty(64, columns, dtype=BF16, device="meta")
    b = torch.empty(columns, 64, dtype=BF16, device="meta")
    assert reads_of(a, b) in ((reads, "by 16 bytes"), ("by 16 bytes", "by 16 bytes"))
    apart = torch.empty(128, 2 * columns, dtype=BF16, device="meta")[::2, ::2]
    assert reads_of(apart, b)[0] in ("through registers, by elements", "by 16 bytes")


@each("device", SINCE_AMPERE)
def test_tf32_and_bytes(device: str) -> None:
    operands = meta(1000, 900, 800, torch.float32)
    plan = tiled_mm.plan(*operands, precision="tf32", device=device)
    assert (plan.algo, plan.arithmetic) == ("async_mma", "tf32")
    assert "async_mma" not in tiled_mm.algos(*operands, device=device)
    for dtype in BYTES:
        operands = meta(1000, 900, 800, dtype)
        plan = tiled_mm.plan(*operands, algo="async_mma", device=device)
        assert (plan.algo, plan.arithmetic) == ("async_mma", "fma")
        assert "async_mma" not in tiled_mm.algos(*operands, device="t4")


def test_how_it_reads_tf32_and_bytes() -> None:
    def matrix(dtype: torch.dtype, pitch: int = 64) -> torch.Tensor:
        return torch.empty(64, pitch, dtype=dtype, device="meta")[:, :64]

    def expect(a: torch.Tensor, b: torch.Tensor, *reads: str, **precision: str) -> None:
        """An operand that is not copied is read so."""
        for found, read in zip(reads_of(a, b, **precision), reads, strict=True):
            assert found in (read, wide)

    single = matrix(torch.float32)
    wide, words = "by 16 bytes", "by 4 bytes"
    expect(single, single.t(), wide, wide, precision="tf32")
    expect(single.t(), single, words, words, precision="tf32")
    expect(matrix(torch.float32, 65), single.t(), words, wide, precision="tf32")
    byte, turned = matrix(torch.int8), "through registers, turned"
    expect(byte, byte.t(), wide, wide)
    expect(byte.t(), byte, turned, turned)
    expect(matrix(torch.int8, 68), matrix(torch.int8, 68), words, turned)


def test_fp16_on_7_5() -> None:
    """By tiles of its own, which hold what they read in registers; bf16 keeps its chains."""
    for m, n, k in ((4096, 4096, 4096), (1, 4096, 4096), (64, 64, 64), (1023, 999, 1001)):
        a, b = meta(m, n, k, torch.float16)
        plan = tiled_mm.plan(a, b, device="t4")
        assert (plan.algo, plan.arithmetic) == ("async_mma", "tensor")
        tiles = {way[0] for way in ways_of(a, b, "async_mma", device="t4")}
        assert tiles == {"RegisterStaged128x128", "RegisterStaged64x64"}
        assert [step.work for step in plan.steps] == ["product"]
        assert plan.shared_bytes <= 32 * 1024 and plan.occupancy.blocks_per_sm >= 1
        odd = (m, n, k) == (1023, 999, 1001)
        reads = "through registers, shifted" if odd else "by 16 bytes"
        assert plan.async_mma.reads_a == plan.async_mma.reads_b == reads
        plan = tiled_mm.plan(*meta(m, n, k, BF16), device="t4")
        assert plan.algo in rungs.RUNGS["cuda"] and plan.arithmetic == "fma"
    apart = torch.empty(128, 128, dtype=torch.float16, device="meta")[::2, ::2]
    plan = tiled_mm.plan(apart, apart, device="t4")
    assert plan.async_mma.reads_a == "through registers, by elements"


def test_what_it_is_not_for() -> None:
    for dtype, precision in ((torch.float32, None), (torch.int16, None), (BF16, "ieee")):
        with pytest.raises(RuntimeError, match="'async_mma' is not for these inputs"):
            tiled_mm.plan(
                *meta(64, 64, 64, dtype), algo="async_mma", precision=precision, device="a100"
            )
    with pytest.raises(RuntimeError, match="'async_mma' is not for these inputs"):
        tiled_mm.plan(*meta(64, 64, 64, BF16), algo="async_mma", device="t4")
