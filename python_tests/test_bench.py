"""The benchmark's own machinery: shapes, checks, turns, documents, tables. Where a device or the
library is needed, stand-ins take their place, so nothing here measures anything."""

from __future__ import annotations

import gc
import itertools
import json
import math
import random
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the benchmark is run from the checkout and is not installed

for _module in ("matplotlib", "rich", "typer"):
    pytest.importorskip(_module, reason=f"the benchmark needs {_module}")

from typer.testing import CliRunner  # noqa: E402

from bench import (  # noqa: E402  # noqa: E402
    bounds,
    candidates,
    check,
    cli,
    compact,
    data,
    host,
    machine,
    plot,
    report,
    results,
)
from bench.runner import Bench, Settings, run_case  # noqa: E402
from bench.shapes import BYTES, DTYPES, LAYOUTS, SETS, Shape, named_set  # noqa: E402
from bench.timing import (  # noqa: E402
    MAX_SETS,
    CpuStopwatch,
    CudaStopwatch,
    Prepared,
    Rounds,
    interleave,
    ratios,
    spread,
)

CPU = torch.device("cpu")


# ---- stand-ins ---------------------------------------------------------------------------------


class StandIn:
    """torch.mm under our name, with two rungs; a hook may spoil its result."""

    def __init__(self, spoil=lambda out: None) -> None:
        self.spoil = spoil

    def algos(self, a: Tensor, b: Tensor) -> list[str]:
        return ["naive", "register_tile"]

    def rungs(self, device: torch.device) -> list[str]:
        return ["naive", "register_tile"]

    def call(self, algo: str | None, precision: str | None) -> candidates.Call:
        if algo == "broken":
            raise RuntimeError("no such rung")

        def run(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
            torch.matmul(a, b, out=out)
            self.spoil(out)
            return out

        return run

    def intensity(self, a: Tensor, b: Tensor, algo: str) -> float | None:
        return 0.25 if algo == "naive" else 32.0

    def recomputed(self, a: Tensor, b: Tensor) -> float | None:
        raise NotImplementedError


class FakeStopwatch:
    """A device on which a call takes what the script says: name -> seconds, in the order asked."""

    def __init__(self, script: dict[str, list[float]]) -> None:
        self.script = {name: iter(values) for name, values in script.items()}
        self.order: list[str] = []
        self.unread = 0

    def start(self, prepared: Prepared) -> float:
        self.order.append(prepared.method)
        self.unread += 1
        return next(self.script[prepared.method])

    def read(self, sample: float) -> float:
        self.unread -= 1
        return sample


def fake_prepared(*names: str) -> dict[str, Prepared]:
    return {n: Prepared((), 1, n, 0.0, lambda: None) for n in names}


def make_bench(operator=None, **settings) -> Bench:
    settings.setdefault("rounds", Rounds(least=3, most=3, budget_s=0.01))
    return Bench(
        CPU,
        CpuStopwatch(region_s=1e-6),
        operator or StandIn(),
        Settings(**settings),
        machine.PowerLog(CPU),
        time.monotonic(),
    )


def make_document(cases: list[dict], gpu: str | None = None, date: str = "2026-01-02") -> dict:
    document = cli.new_document("run", CPU, {})
    environment = document["environment"]
    environment.update(date=f"{date}T03:04:05+00:00", commit="0123456789abcdef", dirty=False)
    if gpu:
        environment["gpu"] = {"name": gpu, "driver": "1.2.3"}
    document["cases"] = cases
    return document


def make_case(set_name: str, shape: Shape, times: dict[str, float], **others) -> dict:
    """A case with these seconds per candidate, the last one being the peer."""
    peer = list(times)[-1]
    records = []
    for name, seconds in times.items():
        record = results.candidate(name, ours=name != peer)
        record.update(
            seconds=spread([seconds]),
            ratio=spread([times[peer] / seconds]),
            flops=shape.flops / seconds,
            bandwidth=shape.bytes / seconds,
            rounds=1,
            check=check.Check(1e-7, 3.0, 0, True).to_json(),
        )
        records.append(record)
    case = {
        "set": set_name,
        "shape": shape.to_json(),
        "mode": "burst",
        "cache": "cold",
        "grad": False,
        "peer": peer,
        "note": "",
        "error": None,
        "power": None,
        "candidates": records,
    }
    return {**case, **others}


# ---- shapes ------------------------------------------------------------------------------------


def test_every_set_is_made_of_valid_shapes_with_a_source():
    for name, chosen in SETS.items():
        shapes = chosen.shapes()
        assert name == chosen.name and chosen.about and chosen.source and shapes
        assert len(set(shapes)) == len(shapes), f"{name} has a shape twice"
        for shape in shapes:
            assert shape.dtype in DTYPES and shape.layout in LAYOUTS
            assert Shape.from_json(json.loads(json.dumps(shape.to_json()))) == shape
    assert set(BYTES) == {*DTYPES, "float8_e4m3fn"}  # products with scales have sets of their own
    assert all(torch.empty((), dtype=getattr(torch, d)).itemsize == BYTES[d] for d in DTYPES)


def test_overviews_take_from_existing_sets():
    for device in ("cpu", "cuda"):
        problems = cli.overview(torch.device(device), ())
        assert len(problems) >= 10
        for name, shape in problems:
            assert shape in named_set(name).shapes((shape.dtype,))


@pytest.mark.parametrize(
    "wrong", [{"m": 0}, {"layout": "nx"}, {"dtype": "float8"}, {"batch": 0}], ids=str
)
def test_invalid_shapes_are_refused(wrong):
    with pytest.raises(ValueError, match=r"must be"):
        Shape(**{"m": 1, "n": 1, "k": 1, **wrong})


def test_counts_of_operations_and_bytes():
    assert Shape(2, 3, 4).flops == 48
    assert Shape(2, 3, 4, dtype="complex64").flops == 192
    assert Shape(2, 3, 4, dtype="bfloat16", batch=5).bytes == 5 * 2 * (8 + 12 + 6)
    assert Shape(46341, 46341, 64).flops == 2 * 46341 * 46341 * 64


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [1, 3])
def test_operands_have_the_layout_and_are_random(layout, batch):
    shape = Shape(5, 6, 7, layout, batch=batch)
    sets = data.make_sets(shape, CPU, 2, seed=1)
    lead = () if batch == 1 else (batch,)
    for s in sets:
        assert s.a.shape == (*lead, 5, 7) and s.b.shape == (*lead, 7, 6)
        assert (s.a.stride(-1) == 1) == (layout[0] == "n")
        assert (s.b.stride(-1) == 1) == (layout[1] == "n")
        assert (s.a != 0).all() and s.out.isnan().all()
    assert not torch.equal(sets[0].a, sets[1].a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_has_data_and_poison(dtype):
    s = data.make_sets(Shape(40, 40, 40, dtype=dtype), CPU, 1, seed=1)[0]
    assert len(set(s.a.flatten().tolist())) > 100
    s.out.zero_()
    data.poison(s.out)
    floating = s.out.dtype.is_floating_point or s.out.dtype.is_complex
    assert s.out.isnan().all() if floating else (s.out != 0).all()


# ---- checks ------------------------------------------------------------------------------------


def verdict(dtype: str, spoil=lambda c: c, shape=(70, 65, 300), **options) -> check.Check:
    s = data.make_sets(Shape(*shape, dtype=dtype), CPU, 1, seed=3)[0]
    c = spoil(s.a.double() @ s.b.double() if s.a.dtype.is_floating_point else s.a @ s.b)
    return check.check_result(c.to(getattr(torch, dtype)), s.a, s.b, tensor_cores=False, **options)


@pytest.mark.parametrize("dtype", DTYPES)
def test_right_results_pass(dtype):
    found = verdict(dtype)
    assert found.ok and found.nan_count == 0 and found.frobenius < 0.01


def one_off(c: Tensor) -> Tensor:
    c = c.clone()
    c[-1, -1] += 1
    return c


def one_nan(c: Tensor) -> Tensor:
    c = c.clone()
    c[33, 31] = math.nan
    return c


@pytest.mark.parametrize(
    "spoil",
    [one_off, one_nan, torch.zeros_like, lambda c: c.bfloat16().double()],
    ids=["one element off", "one NaN", "zeros", "rounded to bf16"],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_wrong_results_fail(dtype, spoil):
    assert verdict(dtype).ok
    assert not verdict(dtype, spoil).ok


def test_tf32_inputs_fail_unless_they_are_asked_for():
    def tf32(x: Tensor) -> Tensor:  # keeps 10 of the 23 bits of the fraction
        return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)

    s = data.make_sets(Shape(70, 65, 2000), CPU, 1, seed=3)[0]
    c = (tf32(s.a).double() @ tf32(s.b).double()).float()
    assert not check.check_result(c, s.a, s.b, tensor_cores=False).ok
    assert check.check_result(c, s.a, s.b, tensor_cores=False, tf32=True).ok


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers_must_be_exact(dtype):
    s = data.make_sets(Shape(30, 30, 300, dtype=dtype), CPU, 1, seed=3)[0]
    c = s.a @ s.b
    assert check.check_result(c, s.a, s.b, tensor_cores=False).ok
    assert not check.check_result(one_off(c), s.a, s.b, tensor_cores=False).ok


def test_a_nan_outside_the_sample_is_found():
    s = data.make_sets(Shape(600, 600, 8), CPU, 1, seed=3)[0]
    c = s.a @ s.b
    rows = check.sample_indices(600, check.SAMPLES, torch.Generator().manual_seed(0))
    unseen = next(i for i in range(600) if i not in rows)
    c[unseen, :] = math.nan
    found = check.check_result(c, s.a, s.b, tensor_cores=False)
    assert found.nan_count == 600 and found.componentwise <= check.GATE and not found.ok


def test_batches_are_checked_in_every_sampled_entry():
    s = data.make_sets(Shape(9, 9, 9, batch=4), CPU, 1, seed=3)[0]
    c = s.a @ s.b
    assert check.check_result(c, s.a, s.b, tensor_cores=False).ok
    c[3] += 1
    assert not check.check_result(c, s.a, s.b, tensor_cores=False).ok


@pytest.mark.parametrize("count", [1, 5, 256, 257, 1000, 8191])
def test_samples_are_ascending_and_hold_both_ends(count):
    found = check.sample_indices(count, 256, torch.Generator().manual_seed(1)).tolist()
    assert len(found) == min(count, 256)
    assert found[0] == 0 and found[-1] == count - 1
    assert all(i < j for i, j in itertools.pairwise(found))


def test_a_check_goes_to_json_without_nan():
    text = json.dumps(check.Check(math.nan, math.inf, 1, False).to_json(), allow_nan=False)
    assert json.loads(text)["frobenius"] is None


# ---- turns and ratios --------------------------------------------------------------------------


def test_candidates_take_turns_in_shuffled_order():
    names = ("a", "b", "c")
    stopwatch = FakeStopwatch({n: [float(i) for i in range(40)] for n in names})
    rounds = Rounds(least=30, most=30, budget_s=100.0)
    samples = interleave(stopwatch, fake_prepared(*names), rounds, random.Random(1))
    # Every round has everyone once, and a sample is filed under its own candidate and round.
    assert all(samples[n] == [float(i) for i in range(30)] for n in names)
    turns = [tuple(stopwatch.order[i : i + 3]) for i in range(0, 90, 3)]
    assert all(sorted(t) == list(names) for t in turns)
    assert len(set(turns)) == 6, "thirty shuffles of three see every order"
    assert stopwatch.unread == 0


def test_rounds_end_with_the_budget_but_not_below_the_least():
    def turns(least: int, budget_s: float) -> int:
        stopwatch = FakeStopwatch({"a": [1.0] * 50})
        rounds = Rounds(least=least, most=50, budget_s=budget_s)
        clock = itertools.count().__next__  # every round takes one second
        prepared = fake_prepared("a")
        return len(interleave(stopwatch, prepared, rounds, random.Random(1), clock)["a"])

    assert turns(least=3, budget_s=20) == 20
    assert turns(least=7, budget_s=1) == 7
    assert turns(least=20, budget_s=1) == 8  # eight budgets end it anyway
    assert turns(least=3, budget_s=1000) == 50


def test_ratios_are_taken_round_by_round():
    # The chip slows down by half over the run; each round's ratio does not see it.
    peer, mine = [1.0, 1.25, 1.5], [2.0, 2.5, 3.0]
    assert ratios(peer, mine) == [0.5, 0.5, 0.5]
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "q1": 1.5, "q3": 2.5}
    assert spread([4.0]) == {"median": 4.0, "q1": 4.0, "q3": 4.0}


class FakeCuda:
    """torch.cuda as far as the stopwatch uses it, with a clock that only launches move."""

    LAUNCH_S = 3e-6  # of a graph, beyond its kernels

    def __init__(self, monkeypatch, l2_bytes: int = 1 << 20) -> None:
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

        class Properties:
            L2_cache_size = l2_bytes

        class Stream:
            def __init__(self, device: torch.device) -> None:
                pass

            def synchronize(self) -> None:
                pass

        for name, stand_in in (
            ("Event", Event),
            ("CUDAGraph", Graph),
            ("Stream", Stream),
            ("set_stream", lambda stream: None),
            ("synchronize", lambda device: None),
            ("get_device_properties", lambda device: Properties),
            ("mem_get_info", lambda device: (1 << 30, 1 << 30)),
        ):
            monkeypatch.setattr(torch.cuda, name, stand_in)

    def product(self, seconds: float) -> candidates.Call:
        def call(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
            if self.capturing is None:
                self.now += seconds
            else:
                self.capturing.append(seconds)
            return out

        return call


@pytest.mark.parametrize("cold", [True, False])
@pytest.mark.parametrize(("seconds", "method"), [(5e-6, "graph"), (2e-3, "events")])
def test_gpu_samples_are_net_of_the_launch(monkeypatch, seconds, method, cold):
    fake = FakeCuda(monkeypatch)
    stopwatch = CudaStopwatch(CPU, cold=cold)
    assert stopwatch.overhead_s == pytest.approx(fake.LAUNCH_S)
    sets = data.make_sets(Shape(8, 8, 8), CPU, 3, seed=1)
    prepared = stopwatch.prepare(fake.product(seconds), sets)
    assert prepared.method == method
    assert prepared.calls * seconds >= stopwatch.region_s
    samples = [stopwatch.start(prepared) for _ in range(2)]
    assert [stopwatch.read(s) for s in samples] == pytest.approx([seconds] * 2)
    operands, result = prepared.last()
    assert operands is sets[(prepared.calls - 1) % 3] and result is operands.out


def test_long_calls_are_replayed_where_that_is_asked_for(monkeypatch):
    fake = FakeCuda(monkeypatch)
    sets = data.make_sets(Shape(8, 8, 8), CPU, 1, seed=1)
    for stopwatch, more in (
        (CudaStopwatch(CPU, graph_below_s=math.inf), {}),
        (CudaStopwatch(CPU), {"captured": True}),
    ):
        prepared = stopwatch.prepare(fake.product(2e-3), sets, **more)
        assert (prepared.method, prepared.calls) == ("graph", 1)
        assert stopwatch.read(stopwatch.start(prepared)) == pytest.approx(2e-3)


def test_a_slow_first_call_does_not_make_a_short_one_long(monkeypatch):
    """What a library does once would otherwise decide how a short call is timed."""
    fake = FakeCuda(monkeypatch)
    short, slow = fake.product(1e-6), fake.product(2e-3)
    calls = []

    def product(a, b, out):
        calls.append(out)
        return (slow if len(calls) <= 2 else short)(a, b, out)

    sets = data.make_sets(Shape(8, 8, 8), CPU, 1, seed=1)
    assert CudaStopwatch(CPU).prepare(product, sets).method == "graph"


def test_gpu_operands_rotate_through_more_than_twice_the_cache(monkeypatch):
    FakeCuda(monkeypatch, l2_bytes=1000)
    stopwatch = CudaStopwatch(CPU)
    for bytes_per_set in (50, 400, 1999):
        assert stopwatch.set_count(bytes_per_set) * bytes_per_set > 2000
    assert stopwatch.set_count(2001) == 1
    assert stopwatch.set_count(1) == MAX_SETS  # the rest is evicted before each sample
    assert stopwatch.set_count(1 << 29) == 1  # and never more than fits
    assert CudaStopwatch(CPU, cold=False).set_count(50) == 1


def test_small_gpu_operands_are_used_once_a_sample(monkeypatch):
    fake = FakeCuda(monkeypatch)
    sets = data.make_sets(Shape(2, 2, 2), CPU, MAX_SETS, seed=1)
    prepared = CudaStopwatch(CPU).prepare(fake.product(1e-6), sets)
    assert prepared.method == "graph" and prepared.calls == MAX_SETS


def test_a_failed_capture_tells_the_error_and_leaves_the_stream_usable(monkeypatch):
    fake = FakeCuda(monkeypatch)
    stopwatch = CudaStopwatch(CPU)
    sets = data.make_sets(Shape(8, 8, 8), CPU, 1, seed=1)

    def refuses(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        if fake.capturing is not None:
            raise RuntimeError("not while capturing")
        return fake.product(1e-6)(a, b, out)

    with pytest.raises(RuntimeError, match="not while capturing"):
        stopwatch.prepare(refuses, sets)
    assert fake.capturing is None and gc.isenabled()
    assert stopwatch.prepare(fake.product(1e-6), sets).method == "graph"


NVIDIA_SMI = """#!/bin/sh
case "$*" in
  *driver_version*) echo 580.1 ;;
  *index*) exit 1 ;;
  *loop-ms*) while true; do echo "500.5, 1980"; echo "[N/A], 1980"; sleep 0.01; done ;;
  *) echo "600.5, 1980, 3201, [N/A], 700.00, 1980" ;;
esac
"""


def test_power_and_clocks_are_read_from_nvidia_smi(monkeypatch, tmp_path):
    tool = tmp_path / "nvidia-smi"
    tool.write_text(NVIDIA_SMI)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: object())
    monkeypatch.setattr(machine, "_smi_id", machine._smi_id.__wrapped__)  # without its memory
    device = torch.device("cuda", 0)
    assert machine.gpu_state(device) == {
        "power_w": 600.5,
        "sm_mhz": 1980.0,
        "memory_mhz": 3201.0,
        "temperature_c": None,
        "power_limit_w": 700.0,
        "max_sm_mhz": 1980.0,
    }
    begin = time.monotonic()
    with machine.PowerLog(device) as log:
        while not log.watts(begin) and time.monotonic() < begin + 30:
            time.sleep(0.01)
    found = log.summary(begin)
    assert (found["power_w"], found["sm_mhz"]) == (500.5, 1980.0)
    assert log.summary(time.monotonic() + 1) is None

    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert set(machine.gpu_state(device).values()) == {None}
    with machine.PowerLog(device) as log:
        assert log.summary(0.0) is None


def test_padded_sizes_round_up_what_is_contiguous():
    def padded(layout: str) -> tuple[int, int, int]:
        return candidates.padded_sizes(Shape(3, 5, 7, layout, "bfloat16"))

    assert padded("nn") == (3, 8, 8)
    assert padded("nt") == (3, 8, 8)
    assert padded("tn") == (8, 8, 7)
    assert padded("tt") == (8, 8, 8)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_padded_peer_computes_the_product(layout):
    shape = Shape(13, 21, 35, layout)
    s = data.make_sets(shape, CPU, 1, seed=1)[0]
    c = candidates.torch_mm_padded(shape)(s.a, s.b, s.out)
    assert check.check_result(c, s.a, s.b, tensor_cores=False).ok


def test_peers_are_the_real_rivals():
    def names(shape: Shape, device: str, precision: str | None = None) -> list[str]:
        return [c.name for c in candidates.peers(shape, device, precision)]

    assert names(Shape(64, 64, 64), "cuda") == ["torch.mm"]
    assert names(Shape(64, 64, 64), "cuda", "tf32") == ["torch.mm tf32", "torch.mm"]
    assert names(Shape(64, 64, 64), "cuda", "fp16x3") == ["torch.mm", "torch.mm tf32"]
    assert names(Shape(64, 64, 64), "cuda", "ieee") == ["torch.mm"]
    assert names(Shape(64, 64, 64, dtype="float64"), "cuda", "fp16x3") == ["torch.mm"]
    assert names(Shape(63, 63, 63, dtype="bfloat16"), "cuda") == ["torch.mm", "torch.mm padded"]
    assert names(Shape(63, 63, 63, dtype="bfloat16"), "cpu") == ["torch.mm"]
    assert names(Shape(64, 64, 64, dtype="int8"), "cuda") == ["torch._int_mm"]
    assert names(Shape(64, 64, 63, dtype="int8"), "cuda") == []
    assert names(Shape(64, 64, 64, dtype="int32"), "cuda") == []
    assert names(Shape(64, 64, 64, dtype="int32"), "cpu") == ["torch.mm"]
    assert names(Shape(4, 4, 4, batch=2), "cuda") == ["torch.bmm"]


def test_rungs_are_asked_for_by_name_and_once():
    a = torch.ones(2, 2)
    found = candidates.ours(StandIn(), ["auto", "all", "naive"], "tf32", a, a)
    assert [c.name for c in found] == ["tiled.mm tf32", "naive tf32", "register_tile tf32"]
    assert all(c.ours and c.tf32 for c in found)
    found = candidates.ours(StandIn(), ["auto"], "tf32", a.double(), a.double())
    assert [c.name for c in found] == ["tiled.mm"] and not found[0].tf32
    found = candidates.ours(StandIn(), ["auto"], "fp16x3", a, a)
    assert [c.name for c in found] == ["tiled.mm fp16x3"] and not found[0].tf32


# ---- cases and documents -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape",
    [Shape(12, 13, 14), Shape(12, 13, 14, "nt", "int32"), Shape(5, 5, 5, dtype="float64", batch=2)],
    ids=lambda s: s.label,
)
def test_a_case_is_a_valid_record(shape):
    case = run_case(make_bench(algos=("auto", "all")), "small", shape)
    assert results.validate(make_document([case])) == []
    assert case["error"] is None and case["peer"] in ("torch.mm", "torch.bmm")
    by_name = {c["name"]: c for c in case["candidates"]}
    assert set(by_name) == {"tiled.mm", "naive", "register_tile", case["peer"]}
    for c in by_name.values():
        assert c["rounds"] == 3 and c["check"]["ok"]
        assert 0 < c["ratio"]["q1"] <= c["ratio"]["median"] <= c["ratio"]["q3"]
        assert c["flops"] == pytest.approx(shape.flops / c["seconds"]["median"])
    assert by_name[case["peer"]]["ratio"]["median"] == 1.0
    assert by_name["naive"]["intensity"] == 0.25 and by_name["tiled.mm"]["intensity"] is None
    assert results.failures(make_document([case])) == []


@pytest.mark.parametrize(
    "spoil", [lambda out: out.zero_(), lambda out: out[-1].fill_(math.nan)], ids=["zeros", "NaN"]
)
def test_a_wrong_result_of_ours_is_a_failure(spoil):
    case = run_case(make_bench(StandIn(spoil)), "small", Shape(12, 13, 14))
    document = make_document([case])
    assert results.validate(document) == []
    assert len(results.failures(document)) == 1
    assert "wrong result" in results.failures(document)[0]
    assert report.rate_text(case["candidates"][0], 1e12) == "**wrong**"


def test_a_result_that_is_not_written_is_a_failure():
    class Lazy(StandIn):
        def call(self, algo, precision):
            return lambda a, b, out: out

    case = run_case(make_bench(Lazy()), "small", Shape(12, 13, 14, dtype="int32"))
    assert len(results.failures(make_document([case]))) == 1


def test_errors_are_recorded_and_cost_only_their_own():
    class Half(StandIn):
        def call(self, algo, precision):
            if algo != "naive":
                return super().call(algo, precision)

            def run(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
                raise RuntimeError("no kernel\nwith a long story")

            return run

    case = run_case(make_bench(Half(), algos=("all",)), "small", Shape(4, 4, 4))
    by_name = {c["name"]: c for c in case["candidates"]}
    assert by_name["naive"]["error"] == "RuntimeError: no kernel"
    assert by_name["naive"]["seconds"] is None and by_name["register_tile"]["check"]["ok"]
    assert len(results.failures(make_document([case]))) == 1

    case = run_case(make_bench(algos=("broken",)), "small", Shape(4, 4, 4))
    assert case["error"] == "RuntimeError: no such rung" and case["candidates"] == []
    assert results.validate(make_document([case])) == []
    assert len(results.failures(make_document([case]))) == 1


def test_no_case_begins_after_the_limit():
    bench = make_bench(limit_s=0.0)
    bench.begin -= 1
    case = run_case(bench, "small", Shape(4, 4, 4))
    assert case["note"] == "not run: out of time" and not case["candidates"]
    assert results.failures(make_document([case])) == []


def test_slow_candidates_are_left_out_of_sustained_runs():
    class Slow(StandIn):
        def call(self, algo, precision):
            fast = super().call(algo, precision)

            def run(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
                time.sleep(0.01)
                return fast(a, b, out)

            return run

    case = run_case(make_bench(Slow(), mode="sustained"), "small", Shape(4, 4, 4))
    assert case["note"] == "not run: ours is below half the peer's speed"
    assert case["candidates"][0]["note"] == "left out: below half the peer's speed"
    assert results.validate(make_document([case])) == []


def test_documents_are_written_and_read(tmp_path):
    document = make_document([make_case("small", Shape(4, 4, 4), {"tiled.mm": 1.0, "torch.mm": 2})])
    path = tmp_path / "new" / "a.json"
    results.write(document, path)
    summary = results.read(path)
    assert list(path.parent.iterdir()) == [path]
    mine, peer = summary["cases"][0]["candidates"]
    assert mine["ratio"] == {"median": 2.0, "q1": 2.0, "q3": 2.0}
    assert mine["seconds"] == {"median": 1.0} and mine["check"] == {"frobenius": 1e-7, "ok": True}
    assert [c["flops"] for c in (mine, peer)] == [128.0, 64.0], "worked out again"
    assert "rounds" not in mine and mine["error"] is None
    results.write(summary, path)
    assert results.read(path) == summary, "a summary is its own"

    later = make_document([], date="2027-01-01")
    results.write(later, path.parent / "0.json")
    assert results.read_all(path.parent) == [summary, later]


RECORDS = [
    {"m": 1, "at": {"x": 2.0, "y": None}, "in": [{"a": 1, "b": True}], "same": [1]},
    {"m": 2, "at": None, "in": [], "same": [1], "more": {"z": 0}},
    {"m": True, "at": {"x": None, "y": 1.0}, "in": [{"a": 1.0, "b": True}], "same": [1]},
]


def test_records_come_back_from_their_table_as_they_were():
    packed = json.loads(compact.text(compact.packed({"deep": {"records": RECORDS}})))
    table = packed["deep"]["records"]
    assert table["columns"] == ["m", "at.x", "at.y", "in", "same", "more.z"]
    assert table["same"] == {"same": [1]} and table["absent"] == ["more.z"]
    found = compact.unpacked(packed)["deep"]["records"]
    assert json.dumps(found) == json.dumps(RECORDS), "with the types and the order of their keys"


@pytest.mark.parametrize("records", [[], [{"a.b": 1}, {"a": {"b": 1}}], [{"a": {"b": None}}], [1]])
def test_what_no_table_holds_stays_a_list(records):
    assert compact.unpacked(compact.packed({"x": records})) == {"x": records}


def test_numbers_keep_five_digits():
    assert compact.rounded({"x": [1.23456789e-7, 123456, True]}) == {"x": [1.2346e-7, 123456, True]}


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda d: d.pop("cases"), "cases: Field required"),
        (lambda d: d.update(extra=1), "extra: Extra"),
        (lambda d: d.update(schema=9), "schema 9"),
        (lambda d: d["environment"].update(torch=None), "environment.torch"),
        (lambda d: d["cases"][0].update(grad=0), "grad"),
        (lambda d: d["cases"][0]["shape"].update(m="4"), "shape.m"),
        (lambda d: d["cases"][0]["candidates"][0].update(flops=True), "flops"),
        (lambda d: d["cases"][0]["candidates"][0].update(flops=math.nan), "flops"),
        (lambda d: d["cases"][0]["candidates"][0]["check"].pop("ok"), "check.ok"),
    ],
)
def test_invalid_documents_are_refused(spoil, told, tmp_path):
    document = make_document([make_case("small", Shape(4, 4, 4), {"tiled.mm": 1.0, "torch.mm": 2})])
    assert results.validate(document) == []
    spoil(document)
    assert any(told in problem for problem in results.validate(document))
    with pytest.raises(ValueError, match="not a valid result"):
        results.write(document, tmp_path / "a.json")


def test_the_environment_names_what_a_reader_needs(monkeypatch):
    monkeypatch.setenv("TILED_MM_COMMIT", "abc123-dirty")
    found = machine.environment(CPU)
    assert (found["commit"], found["dirty"]) == ("abc123", True)
    assert found["torch"] == torch.__version__ and found["gpu"] is None
    monkeypatch.setenv("TILED_MM_COMMIT", "abc123")
    assert machine.commit() == ("abc123", False)


def test_host_times_have_ratios_and_a_floor():
    calls = {"torch.ops.tiled.mm": torch.mm, host.PEER: torch.mm, host.FLOOR: torch.mm}
    cases = host.run_host(CPU, Rounds(least=3, most=3, budget_s=1e-3), calls)
    assert results.validate(make_document(cases)) == []
    assert [c["grad"] for c in cases] == [False, True]
    for case in cases:
        assert case["error"] is None and case["shape"]["n"] == 2
        mine = results.find(case, "torch.ops.tiled.mm")
        assert mine["ours"] and mine["check"]["ok"] and mine["above_floor"] is not None
        assert results.find(case, host.FLOOR)["above_floor"]["median"] == 0.0
        assert results.find(case, host.FLOOR)["check"] is None


# ---- tables ------------------------------------------------------------------------------------


def ladder_document(date: str = "2026-01-02", seconds: float = 1.0) -> dict:
    cases = [
        make_case("ladder", Shape(n, n, n), {"naive": 10 * seconds, "torch.mm": seconds})
        for n in (128, 2048, 4096, 8192)
    ]
    return make_document(cases, gpu="A GPU", date=date)


def test_the_ladder_table_has_rates_and_shares():
    table = report.TABLES["ladder"]([ladder_document(seconds=1e-3)])
    lines = table.splitlines()
    assert lines[0].startswith("| rung, float32 | 2048³ TF/s | of cuBLAS | 4096³ TF/s")
    assert lines[2] == "| `naive` | 1.7 | 10.0 % | 13.7 | 10.0 % | 110 | 10.0 % |"
    assert lines[3] == "| `torch.mm` | 17.2 | 100.0 % | 137 | 100.0 % | 1100 | 100.0 % |"
    assert lines[5].startswith("<sub>A GPU, driver 1.2.3, torch ")
    assert lines[5].endswith("2026-01-02, commit 0123456789ab</sub>")


def test_a_table_is_made_from_the_newest_document_that_has_its_cases():
    old, new = ladder_document("2026-01-02"), ladder_document("2026-02-01", seconds=2.0)
    times = {"tiled.mm": 1.0, "torch.mm": 2.0}
    other = make_document(
        [make_case("cpu", Shape(4, 4, 4), times, cache="warm")], date="2026-03-01"
    )
    assert report.TABLES["ladder"]([new, old, other]) == report.TABLES["ladder"]([new])
    assert "| 4³ nn float32 | 2.00 (2.00-2.00) |" in report.TABLES["cpu"]([new, old, other])
    assert report.TABLES["host"]([new, old, other]) == report.NOT_MEASURED


def test_squares_set_burst_beside_sustained():
    shape = Shape(512, 512, 512, dtype="bfloat16")
    times = {"tiled.mm": 1e-3, "torch.mm": 2e-3}
    burst = make_case("squares", shape, times)
    sustained = make_case("squares", shape, {**times, "tiled.mm": 4e-3}, mode="sustained")
    other = make_case("squares", Shape(512, 512, 512), times)
    table = report.TABLES["squares-bfloat16"](
        [make_document([burst, sustained, other], gpu="A GPU")]
    )
    row = "| 512 | 2.00 (2.00-2.00) | 0.27 | 0.13 | 0.50 (0.50-0.50) | 0.07 | 0.13 |"
    assert table.splitlines()[2] == f"{row} 1.0e-07 | 1.0e-07 |"
    assert len(table.splitlines()) == 5


def test_a_grid_sets_layouts_beside_each_other_and_errors_at_the_end():
    cases = []
    for layout, seconds, error in (("nn", 1e-3, 2e-7), ("nt", 4e-3, 3e-7)):
        times = {"tiled.mm fp16x3": seconds, "torch.mm tf32": 5e-4, "torch.mm": 2e-3}
        case = make_case("fp16x3", Shape(2048, 2048, 2048, layout), times)
        mine, tf32, _ = case["candidates"]
        tf32["ours"] = False
        mine["check"]["frobenius"], tf32["check"]["frobenius"] = error, 3e-4
        cases.append(case)
    wide = make_case("fp16x3", Shape(4096, 128, 4096), {"tiled.mm fp16x3": 1e-3, "torch.mm": 4e-3})
    table = report.TABLES["fp16x3"]([make_document([*cases, wide], gpu="A GPU")])
    header, _, mean, least, square, other = table.splitlines()[:6]
    rates = "tiled TF/s | torch TF/s | torch.mm tf32 TF/s"
    assert header == (
        f"| float32, burst | nn: ratio | {rates} | nt: ratio | {rates} "
        "| error, tiled | torch | torch.mm tf32 |"
    )
    assert mean.startswith("| **geometric mean** | **2.83** |  |  |  | **0.50** |")
    assert least.startswith("| **least** | **2.00** |  |  |  | **0.50** |")
    assert square == (
        "| 2048³ | 2.00 | 17.2 | 8.6 | 34.4 | 0.50 | 4.3 | 8.6 | 34.4 "
        "| 3.0e-07 | 1.0e-07 | 3.0e-04 |"
    )
    assert other == (
        "| 4096x128x4096 | 4.00 | 4.3 | 1.1 | - | - | - | - | - | 1.0e-07 | 1.0e-07 | - |"
    )
    columns = {line.count("|") for line in table.splitlines()[:6]}
    assert len(columns) == 1, "every row has every column"


def test_a_grid_of_wrong_results_has_no_ratio():
    case = make_case("ieee", Shape(512, 512, 512), {"tiled.mm ieee": 1e-3, "torch.mm": 2e-3})
    case["candidates"][0]["check"]["ok"] = False
    table = report.TABLES["ieee"]([make_document([case], gpu="A GPU")])
    assert "| **least** | - |" in table and "**wrong**" in table


def test_the_host_table_shows_what_is_above_the_floor():
    cases = []
    for grad in (False, True):
        times = {"torch.ops.tiled.mm": 6e-6, "torch.mm": 8e-6}
        case = make_case("host", host.SHAPE, times, grad=grad)
        case["candidates"][0]["above_floor"] = spread([0.5e-6])
        cases.append(case)
    table = report.TABLES["host"]([make_document(cases, gpu="A GPU")])
    half = "6.00 | 0.50 | 0.75"
    assert table.splitlines()[2] == f"| `torch.ops.tiled.mm` | {half} | {half} |"
    assert report.TABLES["host-cpu"]([make_document(cases, gpu="A GPU")]) == report.NOT_MEASURED
    of_cpu = report.TABLES["host-cpu"]([make_document(cases)])
    assert of_cpu.splitlines()[2] == table.splitlines()[2] and "| a 16 x 16 call |" in of_cpu


README = """# A title
<!-- bench:ladder -->
old
<!-- /bench:ladder -->
between
<!-- bench:cpu -->
<!-- /bench:cpu -->
after
"""


def test_only_what_stands_between_markers_is_rewritten(tmp_path):
    document = ladder_document()
    text = report.rewrite(README, [document])
    assert report.TABLES["ladder"]([document]) in text and report.NOT_MEASURED in text
    assert "old" not in text
    outside = [line for line in text.splitlines() if line in ("# A title", "between", "after")]
    assert outside == ["# A title", "between", "after"]
    assert report.rewrite(text, [document]) == text, "rewriting twice changes nothing"


@pytest.mark.parametrize(
    "text",
    [
        "<!-- bench:ladder -->\nno end\n",
        "<!-- bench:ladder -->\n<!-- /bench:cpu -->\n",
        "<!-- bench:nothing -->\n<!-- /bench:nothing -->\n",
    ],
)
def test_markers_that_do_not_fit_are_refused(text):
    with pytest.raises(ValueError, match=r"bench:NAME|no table named"):
        report.rewrite(text, [])


def test_report_command_finds_and_mends_stale_tables(tmp_path):
    folder, (readme, other) = tmp_path / "results", make_pages(tmp_path)
    results.write(ladder_document(), folder / "ladder.json")
    arguments = ["report", "--results", str(folder)]
    for page in (readme, other):
        arguments += ["--page", str(page)]

    def status(*more: str) -> int:
        return CliRunner().invoke(cli.app, [*arguments, *more]).exit_code

    assert status("--check") == 1 and readme.read_text() == other.read_text() == README
    assert status() == 0 and status("--check") == 0
    assert readme.read_text() == other.read_text() != README
    results.write(ladder_document("2026-05-05", seconds=3.0), folder / "later.json")
    assert status("--check") == 1
    report.update(readme, folder)
    assert status("--check") == 1, "one stale page is enough"


def test_a_page_with_a_folder_of_its_own_has_its_tables_from_there(tmp_path):
    folder, (readme, other) = tmp_path / "results", make_pages(tmp_path)
    results.write(ladder_document(), folder / "ladder.json")
    for page in (readme, other):
        report.update(page, folder)
    assert readme.read_text() == other.read_text()
    results.write(ladder_document(seconds=3.0), folder / "other" / "ladder.json")
    assert report.update(readme, folder, check=True)
    assert not report.update(other, folder, check=True)


def make_pages(root: Path) -> list[Path]:
    (root / "docs").mkdir()
    made = [root / "README.md", root / "docs" / "tables" / "other.md"]
    for page in made:
        page.parent.mkdir(exist_ok=True)
        page.write_text(README)
    return made


def test_the_readme_and_all_of_docs_are_pages(tmp_path, monkeypatch):
    made = make_pages(tmp_path)
    (tmp_path / "docs" / "no_page.txt").touch()
    assert report.pages(tmp_path) == made
    monkeypatch.setattr(report, "pages", lambda: made)
    done = CliRunner().invoke(cli.app, ["report", "--results", str(tmp_path)])
    assert done.exit_code == 0 and all("old" not in page.read_text() for page in made)


def test_the_pages_are_current():
    found = [page for page in report.pages() if page.exists()]
    if not found:
        pytest.skip("there are no README.md and docs/ beside these tests")
    for page in found:
        assert report.update(page, check=True), f"{page} is stale: run `python -m bench report`"


def test_committed_results_are_valid():
    folders = {report.RESULTS, *map(report.folder_of, report.pages())}
    for path in sorted(path for folder in folders for path in folder.glob("*.json")):
        assert results.failures(results.read(path)) == [], path


# ---- plots and commands ------------------------------------------------------------------------


def test_plots_are_made_from_a_document(tmp_path):
    document = ladder_document()
    document["ceilings"] = {"copy_bytes_per_s": 4e12, "fp32_flops": 6e13, "fp32_source": "told"}
    for case in document["cases"]:
        case["candidates"][0]["intensity"] = 0.25
    names = {p.name for p in plot.plot_document(document, tmp_path)}
    assert names == {f"{kind}-ladder-float32.svg" for kind in ("run-time", "rate", "roofline")}
    assert all((tmp_path / n).read_text().startswith("<?xml") for n in names)
    # Without ceilings, or with one size alone, there is less to draw, and no error.
    document["ceilings"] = None
    assert len(plot.plot_document(document, tmp_path)) == 2
    document["cases"] = document["cases"][:1]
    assert plot.plot_document(document, tmp_path) == []


def invoke(monkeypatch, *arguments: str, operator: StandIn | None = None):
    monkeypatch.setattr(cli, "load_operator", lambda: operator or StandIn())
    # The GPU of a machine that has one is not for these tests.
    return CliRunner().invoke(cli.app, ["--device", "cpu", "--budget", "0.001", *arguments])


def test_the_command_measures_and_writes(monkeypatch, tmp_path):
    path = tmp_path / "out.json"
    arguments = ("--set", "small", "--algo", "auto", "--algo", "naive", "--json", str(path))
    done = invoke(monkeypatch, *arguments, "--plots", str(tmp_path))
    assert done.exit_code == 0, done.output
    document = results.read(path)
    assert len(document["cases"]) == len(SETS["small"].shapes())
    assert {c["name"] for c in document["cases"][0]["candidates"]} == {
        "tiled.mm",
        "naive",
        "torch.mm",
    }
    assert document["settings"]["algos"] == ["auto", "naive"]
    assert {p.suffix for p in tmp_path.iterdir()} == {".json", ".svg"}


def test_the_command_fails_when_ours_is_wrong_but_leaves_its_results(monkeypatch, tmp_path):
    path = tmp_path / "out.json"
    wrong = StandIn(lambda out: out.zero_())
    done = invoke(monkeypatch, "--set", "small", "--json", str(path), operator=wrong)
    assert done.exit_code == 1 and "wrong result" in done.output
    assert len(results.failures(results.read(path))) == len(SETS["small"].shapes())


@pytest.mark.parametrize(
    "arguments", [("--set", "nothing"), ("--set", "small", "--dtype", "float8"), ("--mode", "x")]
)
def test_unknown_names_are_refused(monkeypatch, arguments):
    assert invoke(monkeypatch, *arguments).exit_code == 2


# ---- counters ------------------------------------------------------------------------------------


def test_counters_are_read_from_a_raw_report() -> None:
    columns = {"ID": ("", "0"), "Kernel Name": ("", "naive<float>(Problem)")}
    columns |= {metric: ("%", str(10 * i)) for i, metric in enumerate(bounds.UNITS.values())}
    stall = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    columns |= {stall.format("long_scoreboard"): ("inst", "6"), stall.format("wait"): ("inst", "2")}
    lines = [
        ",".join(f'"{x}"' for x in row) for row in (columns, *zip(*columns.values(), strict=True))
    ]
    found = bounds.parse("==PROF== Connected\n" + "\n".join(lines) + "\n")
    assert found["kernel"] == "naive<float>"
    assert found["units"]["DRAM"] == 50
    assert found["stalls"] == {"long_scoreboard": 0.75, "wait": 0.25}
    with pytest.raises(ValueError, match="no kernel"):
        bounds.parse("==PROF== Connected\n==ERROR== nothing\n")
