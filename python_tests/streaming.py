"""Products streamed through a CPU in the part of a device, for the tests of out_of_core."""

from __future__ import annotations

import mmap
import re

import torch
from tiled_mm import _scale

MIB = 2**20


def pinned(x: torch.Tensor, offset: int = 0) -> torch.Tensor:
    """A copy that counts as pinned for the CPU's device, since it begins where a page does."""
    memory = mmap.mmap(-1, offset + max(1, x.numel() * x.element_size()))
    flat = torch.frombuffer(memory, dtype=x.dtype, count=x.numel(), offset=offset)
    return flat.view(x.shape).copy_(x)


def pageable(x: torch.Tensor) -> torch.Tensor:
    """A copy that does not."""
    return pinned(x, offset=64)


def start(
    a: torch.Tensor,
    b: torch.Tensor,
    out: torch.Tensor | None = None,
    *,
    capacities: tuple[int, ...] = (4 * MIB,),
    memory: int | None = None,
    precision: str | None = None,
    out_dtype: torch.dtype | None = None,
    copy: bool = True,
    fail_at: int = -1,
    slow: float = 0,
):
    return torch.classes.tiled_debug.OutOfCoreOnCpu(
        a, b, out, precision, out_dtype, list(capacities), memory, copy, fail_at, slow
    )


def on_cpu(*operands: torch.Tensor, progress=False, **options) -> torch.Tensor:
    return _scale._wait_for(start(*operands, **options), progress)


def tiles_of(job) -> int:
    return _scale.Progress(*job.progress()).tiles


def same(c: torch.Tensor, expected: torch.Tensor) -> None:
    assert c.dtype == expected.dtype and c.shape == expected.shape
    # NaN where NaN is expected, bits elsewhere; assert_close compares no signs of zero.
    torch.testing.assert_close(c, expected, rtol=0, atol=0, equal_nan=True)
    if not c.is_complex() and c.dtype.is_floating_point:
        assert torch.equal(torch.signbit(c), torch.signbit(expected)) or expected.isnan().any()


def check_tiles(out: torch.Tensor, before: torch.Tensor, expected: torch.Tensor) -> None:
    """Every element is as it was, or done."""
    assert torch.equal(torch.where(out == before, expected, out), expected)


def done_of(error: BaseException) -> tuple[int, int]:
    text = "\n".join([str(error), *getattr(error, "__notes__", [])])
    done, tiles = re.search(r"(\d+) of (\d+) tiles of out are done", text).groups()
    return int(done), int(tiles)
