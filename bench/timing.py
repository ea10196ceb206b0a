"""How a call is timed, and how candidates take turns.

A stopwatch prepares a call once and then takes samples of it: start() begins one, read() gives its
seconds per call. On a GPU start() only enqueues, so a round of samples can be under way while the
one before it is read, and the chip never waits.

Short kernels (GPU): one sample is the replay of a CUDA graph of many calls, over copies of the
operands that together are more than twice the L2 cache, after a read of a buffer that evicts what
is left; less the time of an empty graph. Event pairs around single launches would mostly time the
launch. Long kernels: events around plain calls.
"""

from __future__ import annotations

import contextlib
import gc
import math
import random
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from bench.candidates import Call
from bench.data import OperandSet, poison

MAX_SETS = 64
MAX_CALLS = 20000
ESTIMATES = 3


@dataclass
class Prepared:
    """A call made ready for sampling."""

    sets: Sequence[OperandSet]
    calls: int  # per sample
    method: str  # "graph", "events", "host clock"
    estimate_s: float  # seconds per call, roughly
    run: Callable[[], None]  # one sample's work
    results: dict[int, Tensor] = field(default_factory=dict)  # of the last call, by set

    def last(self) -> tuple[OperandSet, Tensor]:
        """The operands and the result of a sample's last call."""
        index, result = next(iter(self.results.items()))
        return self.sets[index], result

    def poison(self) -> None:
        for operands in self.sets:
            poison(operands.out)
        poison(self.last()[1])


class Stopwatch(Protocol):
    def set_count(self, bytes_per_set: int) -> int:
        """How many copies of the operands a sample should rotate over."""

    def prepare(self, call: Call, sets: Sequence[OperandSet]) -> Prepared: ...

    def start(self, prepared: Prepared) -> Any: ...

    def read(self, sample: Any) -> float: ...


def _calls_runner(
    call: Call, sets: Sequence[OperandSet], calls: int, results: dict[int, Tensor]
) -> Callable[[], None]:
    """A function that makes `calls` calls over the sets in turn and keeps the last result."""

    def run() -> None:
        for i in range(calls):
            operands = sets[i % len(sets)]
            result = call(operands.a, operands.b, operands.out)
        results.clear()
        results[(calls - 1) % len(sets)] = result

    return run


@dataclass
class CpuStopwatch:
    """time.perf_counter around enough calls for `region_s`. Caches are as warm as the turns of
    the other candidates leave them."""

    region_s: float = 2e-3

    def set_count(self, bytes_per_set: int) -> int:
        return 1

    def prepare(self, call: Call, sets: Sequence[OperandSet]) -> Prepared:
        results: dict[int, Tensor] = {}
        once = _calls_runner(call, sets, 1, results)
        once()
        # The least of a few calls, a slow one once: one interruption must not pass for the cost.
        times: list[float] = []
        while len(times) < 3 and sum(times) < 0.05:
            begin = time.perf_counter()
            once()
            times.append(time.perf_counter() - begin)
        estimate = min(times)
        calls = max(1, min(MAX_CALLS, math.ceil(self.region_s / max(estimate, 1e-7))))
        run = _calls_runner(call, sets, calls, results)
        return Prepared(sets, calls, "host clock", estimate, run, results)

    def start(self, prepared: Prepared) -> float:
        begin = time.perf_counter()
        prepared.run()
        return (time.perf_counter() - begin) / prepared.calls

    def read(self, sample: float) -> float:
        return sample


class CudaStopwatch:
    """Events around graph replays or plain calls, all on one stream, which becomes current.

    region_s: how long a sample should be.
    cold: rotate operands and evict the L2 cache before each sample; else one set, kept warm.
    idle_s: pause before each sample, so that bursts do not heat the chip; 0 keeps the load up.
    graph_below_s: longer calls do not need a graph.
    """

    def __init__(
        self,
        device: torch.device,
        *,
        region_s: float = 400e-6,
        cold: bool = True,
        idle_s: float = 0.0,
        graph_below_s: float = 500e-6,
    ) -> None:
        self.device = device
        self.region_s = region_s
        self.cold = cold
        self.idle_s = idle_s
        self.graph_below_s = graph_below_s
        # Captures need a stream of their own, and cuBLAS keeps one workspace per stream: on this
        # one it exists before any capture, outside every graph's memory.
        self.stream = torch.cuda.Stream(device)
        torch.cuda.set_stream(self.stream)
        self.l2_bytes = int(torch.cuda.get_device_properties(device).L2_cache_size)
        self._evict = torch.ones(max(4 * self.l2_bytes, 1 << 20) // 4, device=device)
        self._sink = torch.empty((), device=device)
        self.overhead_s = self._empty_graph_seconds()

    def set_count(self, bytes_per_set: int) -> int:
        if not self.cold:
            return 1
        wanted = 2 * self.l2_bytes // bytes_per_set + 1
        free_bytes, _ = torch.cuda.mem_get_info(self.device)
        fits = int(0.25 * free_bytes) // bytes_per_set
        return max(1, min(wanted, fits, MAX_SETS))

    def prepare(
        self,
        call: Call,
        sets: Sequence[OperandSet],
        estimate: float | None = None,
        *,
        captured: bool = False,
    ) -> Prepared:
        """`estimate`: of a call, in seconds, where it is known well enough to choose a sample's
        length by; else it is measured, which takes several passes over the sets. `captured`: a long
        call too goes into a graph, without the host's time."""
        results: dict[int, Tensor] = {}
        if estimate is None:
            # Twice over the sets: the first pass loads kernels and fills the allocator's cache.
            _calls_runner(call, sets, len(sets), results)()
            once = _calls_runner(call, sets, len(sets), results)
            # The least of a few: a first call's other work (autograd's threads, say) would put a
            # short one on the long side, and it would be timed otherwise than what is beside it.
            estimate = min(self._events_seconds(once) for _ in range(ESTIMATES)) / len(sets)
        else:
            _calls_runner(call, sets, 1, results)()
        if estimate >= self.graph_below_s and not captured:
            calls = max(1, math.ceil(self.region_s / estimate))
            run = _calls_runner(call, sets, calls, results)
            return Prepared(sets, calls, "events", estimate, run, results)
        calls = max(len(sets), min(1000, math.ceil(self.region_s / max(estimate, 1e-6))))
        if self.cold and len(sets) == MAX_SETS:
            calls = len(sets)  # small operands: a second turn would find them in the cache
        graph = self._capture(_calls_runner(call, sets, calls, results))
        return Prepared(sets, calls, "graph", estimate, graph.replay, results)

    def start(self, prepared: Prepared) -> tuple[Any, Any, Prepared]:
        if self.idle_s > 0:
            self.stream.synchronize()
            time.sleep(self.idle_s)
        begin, end = self._enqueue(prepared.run)
        return begin, end, prepared

    def read(self, sample: tuple[Any, Any, Prepared]) -> float:
        begin, end, prepared = sample
        end.synchronize()
        seconds = begin.elapsed_time(end) * 1e-3
        if prepared.method == "graph":
            seconds -= self.overhead_s
        return max(seconds, 0.0) / prepared.calls

    def _enqueue(self, run: Callable[[], None]) -> tuple[Any, Any]:
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        # Also hides the host's work: while the device reads the buffer, the host enqueues the rest.
        torch.sum(self._evict, dim=0, out=self._sink)
        if not self.cold:
            run()
        begin.record(self.stream)
        run()
        end.record(self.stream)
        return begin, end

    def _events_seconds(self, run: Callable[[], None]) -> float:
        begin, end = self._enqueue(run)
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def _capture(self, run: Callable[[], None]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(self.device)
        # A collection during capture could free device memory, which would end the capture.
        gc.disable()
        try:
            graph.capture_begin()
            try:
                run()
            except Exception:
                # The stream must leave its capture; the call's own error is the one to tell.
                with contextlib.suppress(RuntimeError):
                    graph.capture_end()
                raise
            graph.capture_end()
        finally:
            gc.enable()
        graph.replay()
        torch.cuda.synchronize(self.device)
        return graph

    def _empty_graph_seconds(self) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that the graph is empty
            try:
                replay = self._capture(lambda: None).replay
            except RuntimeError:
                replay = _nothing  # an event pair with nothing between is the next best
        return statistics.median(self._events_seconds(replay) for _ in range(50))


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Rounds:
    """How many turns the candidates take: at least `least`, then until the budget is spent. Eight
    times the budget ends them even below `least`."""

    least: int = 5
    most: int = 60
    budget_s: float = 0.5


def interleave(
    stopwatch: Stopwatch,
    prepared: Mapping[str, Prepared],
    rounds: Rounds,
    rng: random.Random,
) -> dict[str, list[float]]:
    """Seconds per call of every candidate in every round; the order is shuffled in each round, so
    that no candidate always meets the cooler chip. Round i is read while round i + 1 runs."""
    samples: dict[str, list[float]] = {name: [] for name in prepared}
    pending: list[tuple[str, Any]] = []

    def drain() -> None:
        for name, sample in pending:
            samples[name].append(stopwatch.read(sample))

    begin = time.monotonic()
    for turn in range(rounds.most):
        order = list(prepared)
        rng.shuffle(order)
        current = [(name, stopwatch.start(prepared[name])) for name in order]
        drain()
        pending = current
        budgets = (time.monotonic() - begin) / rounds.budget_s
        if (turn + 1 >= rounds.least and budgets >= 1) or budgets >= 8:
            break
    drain()
    return samples


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and quartiles."""
    if len(values) == 1:
        return {"median": values[0], "q1": values[0], "q3": values[0]}
    q1, median, q3 = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": median, "q1": q1, "q3": q3}


def ratios(peer: Sequence[float], mine: Sequence[float]) -> list[float]:
    """The peer's time over mine, round by round: above 1, mine is the faster."""
    return [p / t if t > 0 else math.nan for p, t in zip(peer, mine, strict=True)]


def record_times(record: dict, seconds: Sequence[float], peer: Sequence[float] | None) -> None:
    """A candidate's times over the rounds, and their ratio to the peer's of the same rounds."""
    record["seconds"] = spread(seconds)
    if peer is not None and min(seconds) > 0:
        record["ratio"] = spread(ratios(peer, seconds))
