"""torch's setting that keeps multiprocessors from products, for kernels of communication."""

from collections.abc import Iterator

import pytest
import tiled_mm
import torch

ALL = 132  # an H200's


@pytest.fixture
def keep() -> Iterator:
    yield torch._C._set_sm_carveout_experimental
    torch._C._set_sm_carveout_experimental(None)


def blocks_of(m: int, n: int, k: int, **options: object) -> tuple[int, dict]:
    a, b = torch.empty(m, k, dtype=torch.bfloat16), torch.empty(k, n, dtype=torch.bfloat16)
    plan = tiled_mm.plan(a, b, device="h200", **options)
    return int(plan["grid"]["blocks"]), plan


@pytest.mark.parametrize("kept", [1, 16, 100])
def test_blocks_that_stay_leave_so_many_multiprocessors(keep, kept: int) -> None:
    before, plan = blocks_of(4224, 4096, 4096, algo="hopper")
    assert before > ALL - kept and plan["left_free"] == 0
    keep(kept)
    blocks, plan = blocks_of(4224, 4096, 4096, algo="hopper")
    assert plan["left_free"] == kept
    assert 0 < blocks <= ALL - kept
    assert plan["occupancy"]["blocks_per_sm"] == 1
    keep(None)
    assert blocks_of(4224, 4096, 4096, algo="hopper")[0] == before  # remembered as it was


@pytest.mark.parametrize("kept", [0, -3])
def test_nothing_is_kept_by_numbers_that_say_nothing(keep, kept: int) -> None:
    before, _ = blocks_of(512, 4096, 4096)
    keep(kept)
    assert blocks_of(512, 4096, 4096)[0] == before


@pytest.mark.parametrize("kept", [130, 131, 132, 2**31 - 1])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.int8])
def test_one_multiprocessor_is_left_at_least(keep, kept: int, dtype: torch.dtype) -> None:
    """Every rung has a plan for what is left, of few rows, of a deep K, in batches."""
    keep(kept)
    for sizes in [(1, 1, 8192, 512), (1, 300, 200, 100), (1, 64, 64, 70000), (3, 16, 48, 96)]:
        batch, m, n, k = sizes
        a = torch.empty(batch, m, k, dtype=dtype)
        b = torch.empty(batch, k, n, dtype=dtype)
        for algo in tiled_mm.algos(a, b, device="h200"):
            plan = tiled_mm.plan(a, b, device="h200", algo=algo)
            assert plan["left_free"] == min(kept, ALL - 1) and plan["grid"]["blocks"] > 0
            assert all(way["seconds"] > 0 for way in plan["ways"])


def test_explain_says_so(keep) -> None:
    a = torch.empty(512, 512, dtype=torch.bfloat16)
    assert "left free" not in tiled_mm.explain(a, a, device="h100")
    keep(20)
    assert "20 of 132 multiprocessors" in tiled_mm.explain(a, a, device="h100")


def test_rates_and_rules_are_the_whole_devices(keep) -> None:
    """What is kept makes a large product slower, by about its share, and the peak not lower."""
    _, before = blocks_of(8192, 8192, 4096)
    keep(33)
    _, after = blocks_of(8192, 8192, 4096)
    assert after["peak_flops"] == before["peak_flops"]
    times = after["ways"][0]["seconds"] / before["ways"][0]["seconds"]
    assert 1.1 < times < 1.6
