"""What a GPU does of one kind alone, measured in the run that speaks of it."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import dataclass

import torch

from bench.data import OperandSet
from bench.timing import CudaStopwatch, Rounds, interleave

COPIED = 1 << 30  # bytes
SIDE = 8192


@dataclass(frozen=True)
class Limits:
    """A copy, read and written bytes a second, and a product of large squares in bf16, operations
    a second. Infinite where it has not been measured."""

    copy: float = math.inf
    product: float = math.inf

    def share(self, seconds: float, nbytes: float, flops: float) -> float:
        """The time of the bytes or of the operations alone, the longer one, over ``seconds``."""
        return max(nbytes / self.copy, flops / self.product) / seconds


def limits_of(device: torch.device) -> Limits:
    if device.type == "cpu":
        return Limits()
    stopwatch = CudaStopwatch(device, graph_below_s=0)
    from_, to = (torch.zeros(COPIED // 4, dtype=torch.int32, device=device) for _ in range(2))
    a, b = (torch.randn(SIDE, SIDE, dtype=torch.bfloat16, device=device) for _ in range(2))
    nothing = from_[:0]
    works = {
        "copy": stopwatch.prepare(lambda a, b, out: b.copy_(a), [OperandSet(from_, to, nothing)]),
        "product": stopwatch.prepare(
            lambda a, b, out: torch.ops.tiled.mm(a, b), [OperandSet(a, b, nothing)]
        ),
    }
    found = interleave(stopwatch, works, Rounds(5, 20, 0.1), random.Random(1))
    seconds = {name: statistics.median(times) for name, times in found.items()}
    return Limits(2 * COPIED / seconds["copy"], 2 * SIDE**3 / seconds["product"])
