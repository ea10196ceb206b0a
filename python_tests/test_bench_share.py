"""`python -m bench --share`: one file, whatever happens, that says nothing of who sends it."""

from __future__ import annotations

import getpass
import json
import platform
import subprocess
from pathlib import Path

import pytest
import tiled_mm
import torch
from test_bench import CPU, StandIn, make_document
from typer.testing import CliRunner

from bench import cli, results, share
from bench.shapes import Shape
from bench.timing import Rounds

PASSED = {"ok": True, "seconds": 0.1, "output": ["self-test: all results are right"]}
SHORT = (
    share.Part("ieee", ("float32",), (Shape(8, 9, 10), Shape(3, 8, 8, "nt"))),
    share.Part(None, ("int8",), (Shape(8, 8, 8, "tn"),)),
)


def invoke(monkeypatch: pytest.MonkeyPatch, *arguments: str, operator: StandIn | None = None):
    monkeypatch.setattr(share, "CPU", SHORT)
    monkeypatch.setattr(share, "ROUNDS", Rounds(least=2, most=2, budget_s=1e-3))
    if operator is not None:
        monkeypatch.setattr(cli, "load_operator", lambda: operator)
    # The GPU of a machine that has one is not for these tests.
    return CliRunner().invoke(cli.app, ["--share", "--device", "cpu", *arguments])


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_it_leaves_one_file_and_says_how_to_send_it(monkeypatch, tmp_path):
    monkeypatch.setattr(share, "self_test", lambda: PASSED)
    path = tmp_path / "out.json"
    done = invoke(monkeypatch, "--json", str(path))
    assert done.exit_code == 0, done.output
    assert "no GPU that torch can use" in done.output
    assert f"results: {path}" in done.output
    assert "open an issue at the repository" in one_line(done.output)
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]
    document = results.read(path)
    wanted = [shape.to_json() for part in SHORT for shape in part.shapes()]
    assert [case["shape"] for case in document["cases"]] == wanted
    names = {c["name"] for case in document["cases"] for c in case["candidates"]}
    assert names == {"tiled.mm ieee", "tiled.mm", "torch.mm"}
    shared = document["share"]
    assert [(p["shape"], p["precision"]) for p in shared["plans"]] == [
        (s.to_json(), part.precision) for part in SHORT for s in part.shapes()
    ]
    assert all(p["plan"]["algo"] == "blocked" and not p["error"] for p in shared["plans"])
    assert shared["build"] == tiled_mm.build_info()
    assert shared["device"] is None and shared["refused"] == {}
    assert len(document["errors"]) == 2 * 5 and results.failures(document) == []


def test_what_is_wrong_is_in_the_file_and_ends_with_1(monkeypatch, tmp_path):
    monkeypatch.setattr(share, "self_test", lambda: {**PASSED, "ok": False, "output": ["WRONG: x"]})
    path = tmp_path / "out.json"
    wrong = StandIn(lambda out: out.zero_())
    done = invoke(monkeypatch, "--json", str(path), operator=wrong)
    assert done.exit_code == 1
    assert "open an issue at the repository" in one_line(done.output)
    failures = results.failures(results.read(path))
    assert failures[-1] == "self-test: WRONG: x" and len(failures) == 4


def test_the_file_is_named_after_the_device(monkeypatch):
    named = share.default_path(make_document([], gpu="NVIDIA GeForce RTX 4090"))
    assert named == cli.OUT / "share-nvidia-geforce-rtx-4090.json"


def test_nothing_says_who_sends_it(monkeypatch, tmp_path):
    path = tmp_path / "out.json"
    done = invoke(monkeypatch, "--json", str(path))
    assert done.exit_code == 0, done.output
    document = results.read(path)
    assert document["share"]["self_test"]["ok"]
    # Why nvcc was not found is said with no path either.
    text = json.dumps(document)
    assert str(Path.home()) not in text and str(cli.machine.ROOT) not in text
    user = getpass.getuser()
    for name in {platform.node(), user} - {"root", "", "localhost"}:
        assert f'"{name}' not in text


@pytest.mark.parametrize("more", [("--set", "small"), ("--warm",), ("--mode", "both")])
def test_it_takes_no_other_list(monkeypatch, more):
    assert invoke(monkeypatch, *more).exit_code == 2


def test_a_self_test_that_fails_or_hangs(monkeypatch):
    def ends(code: int, out: str, err: str):
        return lambda *_, **__: subprocess.CompletedProcess([], code, out, err)

    monkeypatch.setattr(subprocess, "run", ends(0, "a\nb\n", "a warning\n"))
    assert share.self_test()["ok"] and share.self_test()["output"] == ["a", "b"]
    monkeypatch.setattr(subprocess, "run", ends(1, "a\n", 'File "/home/x"\nError: y\n'))
    assert not share.self_test()["ok"] and share.self_test()["output"] == ["a", "Error: y"]

    def hangs(*_, **__):
        raise subprocess.TimeoutExpired([], 1)

    monkeypatch.setattr(subprocess, "run", hangs)
    assert not share.self_test()["ok"] and "stopped after" in share.self_test()["output"][0]


def test_a_plan_that_is_refused_is_recorded(monkeypatch):
    def refuses(*_, **__):
        raise NotImplementedError("no kernel")

    monkeypatch.setattr(tiled_mm, "plan", refuses)
    record = share.plan(Shape(8, 8, 8), None, CPU)
    assert record["plan"] is None and record["error"] == "NotImplementedError: no kernel"


def test_precisions_without_a_kernel_are_named():
    assert share.refusal("ieee", CPU) is None and share.refusal("fp16x3", CPU) is None
    assert {part.precision for part in share.GPU} == set(share.PRECISIONS)


def test_a_slow_card_comes_to_the_end_in_time():
    """On a T4, the slowest of the named devices with tensor cores, without the use of them."""
    seconds = 0.0
    for part in share.GPU:
        for shape in part.shapes():
            a = torch.empty(shape.m, shape.k, dtype=getattr(torch, shape.dtype), device="meta")
            b = torch.empty(shape.k, shape.n, dtype=a.dtype, device="meta")
            bound = tiled_mm.plan(a, b, device="t4", precision="ieee" if part.precision else None)
            # Half of the bound's speed; ours, torch.mm's, and torch.mm's on padded copies; warming
            # up and turns; operands, graphs and the check.
            turns = (3 + share.ROUNDS.least) * 3 * 2 * bound.traffic.compulsory.seconds_bound
            seconds += max(turns, share.ROUNDS.budget_s) + 0.5
    assert seconds < share.LIMIT_S


@pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU")
def test_on_a_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(share, "GPU", (*SHORT, share.Part("tf32", ("float32",), (Shape(8, 8, 8),))))
    monkeypatch.setattr(share, "ERRORS", ((16, 64),))
    monkeypatch.setattr(share, "ROUNDS", Rounds(least=2, most=2, budget_s=1e-3))
    monkeypatch.setattr(share, "self_test", lambda: PASSED)
    path = tmp_path / "out.json"
    done = CliRunner().invoke(cli.app, ["--share", "--json", str(path)])
    assert done.exit_code == 0, done.output
    document = results.read(path)
    shared = document["share"]
    count = len(SHORT[0].shapes()) + 1 + ("tf32" not in shared["refused"])
    assert len(document["cases"]) == len(shared["plans"]) == count
    assert shared["device"]["shared_memory_per_multiprocessor"] > 0
    assert shared["copy_bytes_per_s"] > 1e9
    assert document["environment"]["gpu"]["after"] is not None
