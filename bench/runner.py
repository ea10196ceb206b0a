"""One case after another, into a document. An error costs its case or its candidate, never the
run: it is recorded and the next case follows."""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from bench import results
from bench.candidates import (
    Candidate,
    Operator,
    fp32_precision,
    no_peer_reason,
    ours,
    peers,
    uses_tensor_cores,
)
from bench.check import GATE, any_data_gate, check_result
from bench.data import OperandSet, make_sets
from bench.machine import PowerLog
from bench.shapes import Shape
from bench.timing import Prepared, Rounds, Stopwatch, interleave, record_times

MODES = ("burst", "sustained")


@dataclass(frozen=True)
class Settings:
    """What a run was asked for; recorded with it."""

    algos: tuple[str, ...] = ("auto",)
    precision: str | None = None
    mode: str = "burst"
    cache: str = "cold"  # or "warm": which state of L2 a GPU's samples start from
    rounds: Rounds = field(default_factory=Rounds)
    seed: int = 20
    limit_s: float | None = None  # no case begins later than this

    def to_json(self) -> dict:
        return asdict(self)


@dataclass
class Bench:
    """What cases run on."""

    device: torch.device
    stopwatch: Stopwatch
    operator: Operator
    settings: Settings
    power: PowerLog
    begin: float  # time.monotonic() of the run
    load_ended: float = -math.inf  # time.monotonic() when the last case's rounds were over

    def overdue(self) -> bool:
        limit = self.settings.limit_s
        return limit is not None and time.monotonic() - self.begin > limit


def describe(error: BaseException) -> str:
    """One line of an error."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:300]


def _check_memory(bench: Bench, shape: Shape, count: int) -> None:
    if bench.device.type != "cuda":
        return
    free_bytes, _ = torch.cuda.mem_get_info(bench.device)
    # Half as much again: references, comparisons, padded copies.
    needed_bytes = int(1.5 * shape.bytes * count)
    if needed_bytes > free_bytes:
        raise MemoryError(f"needs {needed_bytes >> 30} GiB, {free_bytes >> 30} GiB are free")


def _prepare(
    bench: Bench, candidates: Sequence[Candidate], sets: Sequence[OperandSet]
) -> tuple[dict[str, Prepared], dict[str, dict]]:
    prepared: dict[str, Prepared] = {}
    records: dict[str, dict] = {}
    for c in candidates:
        records[c.name] = results.candidate(c.name, ours=c.ours, note=c.note)
        try:
            prepared[c.name] = bench.stopwatch.prepare(c.call, sets)
        except Exception as error:
            records[c.name]["error"] = describe(error)
    return prepared, records


def _keep_fast(
    prepared: dict[str, Prepared], records: dict[str, dict], peer: str | None
) -> dict[str, Prepared]:
    """Those of at least half the peer's speed: a slow candidate would cool the chip for all."""
    if peer is None or peer not in prepared:
        return prepared
    bound = 2 * prepared[peer].estimate_s
    kept = {name: p for name, p in prepared.items() if p.estimate_s <= bound}
    for name in prepared.keys() - kept.keys():
        records[name]["note"] = "left out: below half the peer's speed"
    return kept


def warm_up(
    stopwatch: Stopwatch, prepared: Prepared, power: PowerLog, is_warm: bool = False
) -> None:
    """Runs until the chip's power has settled: two readings half a second apart within 2 %. One
    second at least and four at most; two where no power can be read. A chip that has only just
    ended another sustained case is taken up where it is, for a quarter of a second."""
    begin = time.monotonic()
    while True:
        samples = [stopwatch.start(prepared) for _ in range(10)]
        for sample in samples:
            stopwatch.read(sample)
        elapsed = time.monotonic() - begin
        if is_warm and elapsed >= 0.25:
            return
        watts = power.watts(begin)
        if not watts:
            settled = elapsed >= 2.0
        else:
            settled = len(watts) >= 4 and abs(watts[-1] - watts[-3]) <= 0.02 * watts[-1]
        if elapsed >= 4.0 or (elapsed >= 1.0 and settled):
            return


def _verify(
    bench: Bench, shape: Shape, candidates: Sequence[Candidate], prepared: dict[str, Prepared]
) -> dict[str, dict | str]:
    """Checks of what was timed: every result poisoned, one more sample, its last call compared."""
    found: dict[str, dict | str] = {}
    for c in candidates:
        if c.name not in prepared:
            continue
        p = prepared[c.name]
        try:
            p.poison()
            bench.stopwatch.read(bench.stopwatch.start(p))
            operands, result = p.last()
            found[c.name] = check_result(
                result,
                operands.a,
                operands.b,
                tensor_cores=uses_tensor_cores(shape, bench.device.type),
                tf32=c.tf32,
                gate=GATE if shape.data == "normal" else any_data_gate(shape.k),
            ).to_json()
        except Exception as error:
            found[c.name] = describe(error)
    return found


def _measure(bench: Bench, case: dict, shape: Shape) -> None:
    settings = bench.settings
    count = bench.stopwatch.set_count(shape.bytes)
    _check_memory(bench, shape, count)
    sets = make_sets(shape, bench.device, count, settings.seed)
    rivals = peers(shape, bench.device.type, settings.precision)
    mine = ours(bench.operator, settings.algos, settings.precision, sets[0].a, sets[0].b)
    candidates = mine + rivals
    peer = rivals[0].name if rivals else None
    case["peer"] = peer
    if peer is None:
        case["note"] = "no peer: " + no_peer_reason(shape, bench.device.type)

    prepared, records = _prepare(bench, candidates, sets)
    case["candidates"] = [records[c.name] for c in candidates]
    timed = prepared
    if settings.mode == "sustained":
        timed = _keep_fast(prepared, records, peer)
        if not any(c.name in timed for c in mine):
            case["note"] = "not run: ours is below half the peer's speed"
            return
        load = timed.get(peer) or next(iter(timed.values()))
        warm_up(bench.stopwatch, load, bench.power, time.monotonic() - bench.load_ended < 2)
    rng = random.Random(f"{settings.seed} {shape.label}")
    samples = interleave(bench.stopwatch, timed, settings.rounds, rng)
    bench.load_ended = time.monotonic()
    checks = _verify(bench, shape, candidates, timed)

    for c in candidates:
        if c.name not in timed:
            continue
        record = records[c.name]
        record_times(record, samples[c.name], samples.get(peer))
        median = record["seconds"]["median"]
        if median > 0:
            record.update(flops=shape.flops / median, bandwidth=shape.bytes / median)
        if isinstance(checks[c.name], str):
            record["error"] = checks[c.name]
        else:
            record["check"] = checks[c.name]
        if c.algo is not None:
            record["intensity"] = bench.operator.intensity(sets[0].a, sets[0].b, c.algo)
        if c.ours and settings.precision == "fp16x3" and shape.dtype == "float32":
            record["recomputed"] = bench.operator.recomputed(sets[0].a, sets[0].b)


def release_memory(case: dict, device: torch.device) -> None:
    """Gives back what a case held; never raises."""
    gc.collect()  # graphs hold memory of the GPU, and cycles hold graphs
    if device.type == "cuda":
        try:
            torch.cuda.empty_cache()
        except RuntimeError as error:  # after an illegal access every later call raises
            case["error"] = case["error"] or describe(error)


def run_case(bench: Bench, set_name: str, shape: Shape) -> dict:
    """One case's record; never raises."""
    case = results.case(set_name, shape.to_json(), bench.settings.mode, bench.settings.cache)
    if bench.overdue():
        case["note"] = "not run: out of time"
        return case
    try:
        with torch.no_grad():
            _measure(bench, case, shape)
    except Exception as error:
        case["error"] = describe(error)
    release_memory(case, bench.device)
    return case


def run_cases(
    bench: Bench,
    problems: Sequence[tuple[str, Shape]],
    keep: Callable[[dict], Any],
) -> None:
    """Runs (set name, shape) after (set name, shape); every case's record goes to `keep`."""
    # Peers must not compute less exactly than ours unless a candidate says so itself.
    with fp32_precision("ieee"):
        for set_name, shape in problems:
            keep(run_case(bench, set_name, shape))
