"""How the benchmark takes time: candidates in turn, and a GPU's samples by a stand-in of it."""

from __future__ import annotations

import gc
import itertools
import math
import random
import time
from types import SimpleNamespace

import pytest
import torch
from benchmark import CPU
from torch import Tensor

from bench import candidates, data, machine
from bench.shapes import Shape
from bench.timing import MAX_SETS, CudaStopwatch, Prepared, Rounds, interleave, ratios, spread


class FakeStopwatch:
    """A device on which a candidate's n-th call takes n seconds."""

    def __init__(self) -> None:
        self.order: list[str] = []

    def start(self, prepared: Prepared) -> float:
        self.order.append(prepared.method)
        return float(self.order.count(prepared.method))

    def read(self, sample: float) -> float:
        return sample


@pytest.mark.parametrize(
    ("least", "budget_s", "count"), [(3, 20, 20), (7, 1, 7), (20, 1, 8), (3, 1000, 50)]
)
def test_candidates_take_turns_in_shuffled_order_until_the_budget_ends(
    monkeypatch, least, budget_s, count
):
    """But not below the least; eight budgets end them anyway. Here a round takes a second."""
    prepared = {n: Prepared((), 1, n, 0.0, lambda: None) for n in "abc"}
    watch, rounds = FakeStopwatch(), Rounds(least=least, most=50, budget_s=budget_s)
    monkeypatch.setattr("bench.timing.time.monotonic", itertools.count().__next__)
    samples = interleave(watch, prepared, rounds, random.Random(1))
    # Every round has each candidate once, and a sample is filed under its candidate and round.
    assert all(samples[n] == [float(i + 1) for i in range(count)] for n in "abc")
    orders = [tuple(watch.order[i : i + 3]) for i in range(0, 3 * count, 3)]
    assert all(sorted(order) == list("abc") for order in orders)
    assert len(set(orders)) == 6 or count < 50


def test_ratios_are_taken_round_by_round():
    # The chip slows down by half over the run; each round's ratio does not see it.
    assert ratios([1.0, 1.25, 1.5], [2.0, 2.5, 3.0]) == [0.5, 0.5, 0.5]
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "q1": 1.5, "q3": 2.5}


class FakeCuda:
    """torch.cuda as far as the stopwatch uses it, with a clock that only launches move."""

    LAUNCH_S = 3e-6  # of a graph, beyond its kernels
    L2_BYTES = 1 << 20

    def __init__(self, monkeypatch) -> None:
        self.now = 0.0
        self.capturing: list[float] | None = None
        fake = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self, stream: object) -> None:
                self.time = fake.now

            def synchronize(self) -> None:
                pass

            def elapsed_time(self, end: Event) -> float:
                return (end.time - self.time) * 1e3

        class Graph:
            def capture_begin(self) -> None:
                assert fake.capturing is None
                fake.capturing = []

            def capture_end(self) -> None:
                self.kernels, fake.capturing = fake.capturing, None

            def replay(self) -> None:
                fake.now += fake.LAUNCH_S + sum(self.kernels)

        for name, stand_in in (
            ("Event", Event),
            ("CUDAGraph", Graph),
            ("Stream", lambda device: SimpleNamespace(synchronize=lambda: None)),
            ("set_stream", lambda stream: None),
            ("synchronize", lambda device: None),
            ("get_device_properties", lambda device: SimpleNamespace(L2_cache_size=fake.L2_BYTES)),
            ("mem_get_info", lambda device: (1 << 30, 1 << 30)),
        ):
            monkeypatch.setattr(torch.cuda, name, stand_in)

    def product(self, *seconds: float) -> candidates.Call:
        """A call that takes these seconds, one after the other, and then the last of them."""
        left = list(seconds)

        def call(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
            taken = left.pop(0) if len(left) > 1 else left[0]
            if self.capturing is None:
                self.now += taken
            else:
                self.capturing.append(taken)
            return out

        return call


@pytest.fixture
def fake(monkeypatch) -> FakeCuda:
    return FakeCuda(monkeypatch)


def sets_of(count: int) -> list[data.OperandSet]:
    return data.make_sets(Shape(2, 2, 2), CPU, count, seed=1)


@pytest.mark.parametrize("cold", [True, False])
@pytest.mark.parametrize(("seconds", "method"), [(5e-6, "graph"), (2e-3, "events")])
def test_gpu_samples_are_net_of_the_launch(fake, seconds, method, cold):
    stopwatch, sets = CudaStopwatch(CPU, cold=cold), sets_of(3)
    prepared = stopwatch.prepare(fake.product(seconds), sets)
    assert prepared.method == method and prepared.calls * seconds >= stopwatch.region_s
    samples = [stopwatch.start(prepared) for _ in range(2)]
    assert [stopwatch.read(s) for s in samples] == pytest.approx([seconds] * 2)
    operands, result = prepared.last()
    assert operands is sets[(prepared.calls - 1) % 3] and result is operands.out


def test_what_is_captured_does_not_depend_on_a_first_call(fake):
    """What a library does once would otherwise decide how a short call is timed; and a long one is
    captured where that is asked for."""
    slow_first, long = fake.product(2e-3, 2e-3, 1e-6), fake.product(2e-3)
    assert CudaStopwatch(CPU).prepare(slow_first, sets_of(1)).method == "graph"
    for stopwatch, more in (
        (CudaStopwatch(CPU, graph_below_s=math.inf), {}),
        (CudaStopwatch(CPU), {"captured": True}),
    ):
        prepared = stopwatch.prepare(long, sets_of(1), **more)
        assert (prepared.method, prepared.calls) == ("graph", 1)


def test_gpu_operands_rotate_through_more_than_twice_the_cache(fake):
    stopwatch, twice = CudaStopwatch(CPU), 2 * fake.L2_BYTES
    for size in (twice // 40, twice // 5, twice - 1):
        assert stopwatch.set_count(size) * size > twice
    assert stopwatch.set_count(twice + 1) == stopwatch.set_count(1 << 29) == 1  # as many as fit
    assert stopwatch.set_count(1) == MAX_SETS  # the rest is evicted before each sample
    assert CudaStopwatch(CPU, cold=False).set_count(twice // 40) == 1
    assert stopwatch.prepare(fake.product(1e-6), sets_of(MAX_SETS)).calls == MAX_SETS


def test_a_failed_capture_tells_the_error_and_leaves_the_stream_usable(fake):
    stopwatch = CudaStopwatch(CPU)

    def refuses(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        if fake.capturing is not None:
            raise RuntimeError("not while capturing")
        return fake.product(1e-6)(a, b, out)

    with pytest.raises(RuntimeError, match="not while capturing"):
        stopwatch.prepare(refuses, sets_of(1))
    assert fake.capturing is None and gc.isenabled()
    assert stopwatch.prepare(fake.product(1e-6), sets_of(1)).method == "graph"


NVIDIA_SMI = """#!/bin/sh
case "$*" in
  *driver_version*) echo 580.1 ;;
  *index*) exit 1 ;;
  *loop-ms*) while true; do echo 500.5; echo "[N/A]"; sleep 0.01; done ;;
esac
"""


def test_power_and_the_driver_are_read_from_nvidia_smi(monkeypatch, tmp_path):
    tool = tmp_path / "nvidia-smi"
    tool.write_text(NVIDIA_SMI)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: object())
    monkeypatch.setattr(machine, "_smi_id", machine._smi_id.__wrapped__)  # without its memory
    device = torch.device("cuda", 0)
    assert machine._asked("driver_version") == "580.1"
    begin = time.monotonic()
    with machine.PowerLog(device) as log:
        while not log.watts(begin) and time.monotonic() < begin + 30:
            time.sleep(0.01)
    assert set(log.watts(begin)) == {500.5}
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert machine._asked("driver_version") is None
