"""A cluster's blocks that end one after the other (docs/decisions/039)."""

from __future__ import annotations

import cases
import pytest
import tiled_mm
import torch
from golden import assert_same_bits

CALLS = 200  # before the mend one of the first 20 failed, three times of three


@pytest.mark.cuda
@pytest.mark.parametrize("cluster", [(2, 1), (1, 2)])
def test_a_reader_s_last_word_finds_its_barrier(cluster: tuple[int, int]) -> None:
    """A small tile whose fp32 result each thread stores: the shortest way from the last stage to
    the end. What runs in between drives the operands out of the caches."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("rung hopper is for compute capability 9.0")
    a = torch.stack([cases.fill(16, 1792, torch.bfloat16, "cuda") for _ in range(8)])
    b = torch.stack([cases.fill(4096, 1792, torch.bfloat16, "cuda") for _ in range(8)]).mT
    between = torch.ones(1 << 26, device="cuda")
    way = ("Solo64x16", True, *cluster, False)
    right = tiled_mm.bmm(a, b, out_dtype=torch.float32, algo="few_rows")
    for _ in range(CALLS):
        got = torch.ops.tiled_debug.mm_with_tile(a, b, *way, out_dtype=torch.float32)
        torch.cuda.synchronize()
        between.add_(1)
    assert_same_bits(got, right)
