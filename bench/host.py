"""Host time of one call, of sizes at which nothing else is left: 16 x 16 on a GPU, and 2 x 2 on the
CPU, where the product is part of the call.

Beside torch.mm stands the same called through torch.ops, as every operator but torch's own has to
be, and an operator that only allocates its result and, on a GPU, launches an empty kernel
(native/host_floor.cpp): the floor of any operator registered in C++. Calls are timed until they
return; the device is awaited before and after each sample, outside its time.
"""

from __future__ import annotations

import gc
import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bench import native, results
from bench.check import check_result
from bench.runner import describe
from bench.shapes import Shape
from bench.timing import Prepared, Rounds, interleave, record_times, spread

FLOOR = "an operator that does nothing"
PEER = "torch.mm"
THROUGH_OPS = "torch.mm through torch.ops"  # whose binding to Python takes longer than torch's own
SHAPE, CPU_SHAPE = Shape(16, 16, 16), Shape(2, 2, 2)
CALLS = 200  # per sample: few enough that the queue of launches never fills

Product = Callable[[Tensor, Tensor], Tensor]


@dataclass
class HostStopwatch:
    """The host's clock around the calls of a sample, the device being idle before and after."""

    device: torch.device
    # Whether the device's end counts: then a call takes what a program that makes nothing but such
    # calls would see, the longer of the host's time and the device's.
    to_the_end: bool = False

    def start(self, prepared: Prepared) -> float:
        self._await_device()
        begin = time.perf_counter()
        prepared.run()
        if self.to_the_end:
            self._await_device()
        seconds = time.perf_counter() - begin
        self._await_device()
        return seconds / prepared.calls

    def read(self, sample: float) -> float:
        return sample

    def _await_device(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _runner(product: Product, a: Tensor, b: Tensor, calls: int) -> Callable[[], None]:
    def run() -> None:
        for _ in itertools.repeat(None, calls):
            product(a, b)

    return run


def products(device: torch.device) -> tuple[dict[str, Product], str]:
    """What is called, by name, and a note on what is missing."""
    import tiled_mm

    found: dict[str, Product] = {
        "torch.ops.tiled.mm": torch.ops.tiled.mm,
        "tiled_mm.mm": tiled_mm.mm,
        PEER: torch.mm,
        THROUGH_OPS: torch.ops.aten.mm,
    }
    missing = native.load(device)
    if missing is None:
        found[FLOOR] = torch.ops.tiled_bench.floor
    return found, missing or ""


def shape_on(device: torch.device) -> Shape:
    return CPU_SHAPE if device.type == "cpu" else SHAPE


def _measure(
    case: dict, calls: dict[str, Product], device: torch.device, rounds: Rounds, grad: bool
) -> None:
    generator = torch.Generator(device).manual_seed(20)
    n = shape_on(device).n
    a, b = (
        torch.randn(n, n, device=device, generator=generator, requires_grad=grad) for _ in range(2)
    )
    records = {n: results.candidate(n, ours=n not in (PEER, THROUGH_OPS, FLOOR)) for n in calls}
    case["candidates"] = list(records.values())
    prepared = {}
    for name, product in calls.items():
        try:
            _runner(product, a, b, CALLS)()
            if name != FLOOR:
                records[name]["check"] = check_result(
                    product(a, b).detach(), a.detach(), b.detach(), tensor_cores=False
                ).to_json()
            run = _runner(product, a, b, CALLS)
            prepared[name] = Prepared((), CALLS, "host clock", 0.0, run)
        except Exception as error:
            records[name]["error"] = describe(error)
    gc.collect()
    gc.disable()
    try:
        samples = interleave(HostStopwatch(device), prepared, rounds, random.Random(20))
    finally:
        gc.enable()
    for name, seconds in samples.items():
        record_times(records[name], seconds, samples.get(PEER))
        if FLOOR in samples:
            above = [t - f for t, f in zip(seconds, samples[FLOOR], strict=True)]
            records[name]["above_floor"] = spread(above)


def run_host(
    device: torch.device, rounds: Rounds, calls: dict[str, Product], note: str = ""
) -> list[dict]:
    """Two cases: without and with gradients recorded. Never raises."""
    cases = []
    for grad in (False, True):
        case = results.case("host", shape_on(device).to_json(), "burst", "warm", grad=grad)
        case.update(peer=PEER, note=note)
        try:
            _measure(case, calls, device, rounds, grad)
        except Exception as error:
            case["error"] = describe(error)
        cases.append(case)
    return cases
