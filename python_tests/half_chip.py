"""A kernel that holds half of the GPU, for tests of what runs beside it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tiled_mm
import torch


@contextlib.contextmanager
def half_of_the_chip_held() -> Iterator[None]:
    """In a stream of its own, from the begin of the block on and for 100 products: what the block
    launches starts on the other half. Leaving the block waits for it."""
    half = torch.cuda.get_device_properties(0).multi_processor_count // 2
    # Blocks of 1024 threads, one for each of so many multiprocessors.
    a = torch.randn(32 * half, 20000, device="cuda")
    b = torch.randn(20000, 32, device="cuda")
    holding = "shared_tile_32"
    assert tiled_mm.plan(a, b, algo=holding).grid.x == half
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(100):
            torch.ops.tiled.mm(a, b, algo=holding)
    yield
    side.synchronize()
