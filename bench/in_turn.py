"""Times of works that several processes do together, for bench.scale."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable

import tiled_mm
import torch
from torch import Tensor, distributed

Work = Callable[[], object]


class Turns:
    """Times works in turn, of which every process makes the same calls."""

    def __init__(self, device: torch.device, rounds: int) -> None:
        self.device, self.rounds = device, rounds

    def settle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        distributed.barrier()

    def sample(self, work: Work, calls: int) -> float:
        """Seconds a call, on the GPU's clock."""
        if self.device.type != "cuda":
            return self.host(work, calls)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / calls

    def host(self, work: Work, calls: int) -> float:
        """Seconds a call, on the host's clock until the last one is enqueued."""
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        return (time.perf_counter() - begin) / calls

    def __call__(
        self,
        works: dict[str, Work],
        *,
        calls: int = 0,
        host: bool = False,
        around: dict[str, Callable] | None = None,
    ) -> dict:
        """Medians over rounds in whose order the first comes last in every second one. `around` is
        entered by name before a sample begins; it holds the override where nothing else is."""
        around = {name: tiled_mm.override for name in works if "override" in name} | (around or {})

        def sample(name: str, calls: int) -> float:
            with around.get(name, contextlib.nullcontext)():
                works[name]()  # what is entered may have changed the layers
                self.settle()
                return (self.host if host else self.sample)(works[name], calls)

        for name in works:
            sample(name, 3)
        if not calls:  # about 20 ms a sample, the same number in every process
            seconds = torch.tensor(sample(next(iter(works)), 3), device=self.device)
            distributed.all_reduce(seconds, distributed.ReduceOp.MAX)
            calls = max(1, min(200, round(0.02 / max(float(seconds), 1e-5))))
        found: dict[str, list[float]] = {name: [] for name in works}
        for turn in range(self.rounds):
            for name in list(works)[:: 1 if turn % 2 else -1]:
                found[name].append(sample(name, calls))
        medians = torch.tensor([statistics.median(v) for v in found.values()], device=self.device)
        distributed.all_reduce(medians, distributed.ReduceOp.MAX)
        return dict(zip(works, medians.tolist(), strict=True))


def forward_of(net: torch.nn.Module, x: Tensor) -> Work:
    def work() -> Tensor:
        with torch.no_grad():
            return net(x)

    return work


def gradients_of(net: torch.nn.Module, x: Tensor) -> Work:
    def work() -> None:
        y = net(x)
        torch.autograd.grad(y, [x, *net.parameters()], torch.ones_like(y))

    return work
