"""The benchmark's training steps and loss curves, at sizes of a few rows."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace

import pytest
import tiled_mm
import torch
import typer
from test_bench import CPU, make_document
from torch import Tensor
from torch.nn import functional
from typer.testing import CliRunner

from bench import curves, machine, networks, plot, report, results, training
from bench.timing import Rounds

STACK = replace(training.LINEAR_STACK, rows=24, width=16)
MLP = replace(training.MLP_STEP, rows=24, width=16)
TASK = curves.Regression(rows=32, width=16, batches=2, steps=40, learning_rate=3e-3)
each_work = pytest.mark.parametrize("work", [STACK, MLP], ids=lambda w: w.name)


def make_step(work: training.Work, dtype: str, arithmetic: networks.Arithmetic | None = None):
    network, operands = training._operands(replace(work, dtype=dtype), CPU)
    with (arithmetic or networks.tiled_arithmetic()).precision():
        chosen = arithmetic or networks.tiled_arithmetic()
        return network, operands, networks.step(network, chosen.linear, operands.a, operands.b)


def broken(name: str, spoil) -> networks.Arithmetic:
    """Ours, with a result that `spoil` changes."""
    right = networks.torch_arithmetic(name)
    return replace(right, ours=True, linear=lambda x, w, bias: spoil(right.linear(x, w, bias)))


# ---- one step ----------------------------------------------------------------------------------


@each_work
def test_a_step_has_the_gradients_of_autograd(work):
    network, operands, done = make_step(work, "float64")
    x = y = operands.a
    for i, weight in enumerate(network.weights):
        x = functional.gelu(y) if i and work.mlp else y
        y = functional.linear(x, weight, network.biases[i] if work.mlp else None)
    leaves = [*network.weights, *network.biases, *([] if work.mlp else [operands.a])]
    wanted = torch.autograd.grad(y, leaves, operands.b)
    found = [*done.weight_grads, *done.bias_grads, *done.input_grads[:1]]
    torch.testing.assert_close(done.outputs[-1], y.detach())
    torch.testing.assert_close(found[: len(wanted)], list(wanted))
    assert (done.input_grads[0] is None) == work.mlp


@pytest.mark.parametrize(
    ("work", "dtype"), [(STACK, "bfloat16"), (STACK, "float32"), (MLP, "float32")]
)
def test_every_product_of_a_step_is_checked(work, dtype):
    network, _, done = make_step(work, dtype)
    products = list(networks.products(network, done))
    assert len(products) * work.shape.flops == work.flops
    assert networks.check_step(network, done, tensor_cores=False).ok
    for c, _, _ in products:
        kept = c[3, 5].clone()
        c[3, 5] += 1
        assert not networks.check_step(network, done, tensor_cores=False).ok
        c[3, 5] = math.nan
        found = networks.check_step(network, done, tensor_cores=False)
        assert not found.ok and found.nan_count > 0
        c[3, 5] = kept
    assert networks.check_step(network, done, tensor_cores=False).ok


@each_work
def test_poison_spares_what_a_step_was_given(work):
    network, operands, done = make_step(work, "float32")
    done.poison()
    given = (operands.a, operands.b, *network.weights, *network.biases)
    assert not any(t.isnan().any() for t in given)
    assert all(t.isnan().all() for t in (*done.weight_grads, *done.outputs, *done.bias_grads))


def test_precisions_hold_in_both_directions_and_end_with_the_step():
    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(setting())
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append(setting())
            return gradient

    def setting():
        return tiled_mm.get_float32_precision(), torch.backends.cuda.matmul.fp32_precision

    before = setting()
    for arithmetic in training.rivals(MLP, torch.device("cuda")):
        spy = replace(arithmetic, linear=lambda *a, f=arithmetic.linear: Look.apply(f(*a)))
        make_step(MLP, "float32", spy)
    assert len(seen) == 18 and setting() == before
    assert set(seen[:6]) == {("fp16x3", before[1])}
    assert set(seen[6:12]) == {(before[0], "ieee")}
    assert set(seen[12:]) == {(before[0], "tf32")}


# ---- cases -------------------------------------------------------------------------------------


def run(work: training.Work, mode: str = "burst", chosen=None) -> dict:
    rounds = Rounds(least=3, most=3, budget_s=10.0)
    case = training.run_step(work, mode, CPU, machine.PowerLog(CPU), rounds, chosen)
    assert results.validate(make_document([case])) == []
    return case


@each_work
@pytest.mark.parametrize("mode", training.MODES)
def test_a_step_is_a_valid_case(monkeypatch, work, mode):
    monkeypatch.setattr(training, "warm_up", lambda *arguments: None)
    case = run(work, mode)
    assert case["error"] is None and case["grad"] and results.failures(make_document([case])) == []
    mine, peer = (case["candidates"][i] for i in (0, 1))
    assert mine["ours"] and not peer["ours"] and case["peer"] == peer["name"]
    for record in case["candidates"]:
        assert record["check"]["ok"] and record["rounds"] == 3 and record["ratio"]["median"] > 0
        assert record["flops"] == pytest.approx(work.flops / record["seconds"]["median"])
    assert peer["ratio"]["median"] == 1.0


@pytest.mark.parametrize("spoil", [torch.zeros_like, lambda y: y * math.nan, lambda y: 1.01 * y])
def test_a_wrong_step_of_ours_is_a_failure(spoil):
    case = run(MLP, chosen=[broken("ours", spoil), networks.torch_arithmetic("torch fp32")])
    assert len(results.failures(make_document([case]))) == 1
    assert results.find(case, "torch fp32")["check"]["ok"]


def test_an_error_costs_its_own_candidate():
    def refuse(y: Tensor) -> Tensor:
        raise RuntimeError("no kernel")

    case = run(MLP, chosen=[broken("ours", refuse), networks.torch_arithmetic("torch fp32")])
    assert case["candidates"][0]["error"] == "RuntimeError: no kernel"
    assert results.find(case, "torch fp32")["check"]["ok"]


# ---- curves ------------------------------------------------------------------------------------


def test_curves_begin_together_fall_and_come_back_the_same():
    found = curves.run_curves(TASK, CPU)
    names = ["torch fp32", "tiled.mm ieee"]  # all that a CPU has
    assert [c["name"] for c in found] == names
    for curve in found:
        losses = curve["losses"]
        assert curve["error"] is None and len(losses) == TASK.steps
        assert losses[0] == pytest.approx(found[0]["losses"][0], rel=1e-5)
        assert losses[-1] < 0.5 * losses[0]
        assert losses == pytest.approx(found[0]["losses"], rel=1e-2)
    assert found == curves.run_curves(TASK, CPU)


def test_a_curve_that_ends_is_a_failure_of_ours_alone():
    infinite = broken("ours", lambda y: y / 0)
    peer = replace(infinite, name="theirs", ours=False)
    chosen = [networks.torch_arithmetic("torch fp32"), infinite, peer]
    found = curves.run_curves(TASK, CPU, chosen)
    assert [len(c["losses"]) for c in found] == [TASK.steps, 0, 0]
    assert found[1]["error"] == "the loss of step 1 is not finite"
    document = make_document([])
    document["curves"] = found
    json.dumps(document, allow_nan=False)
    assert results.validate(document) == []
    assert results.failures(document) == [f"curve of ours: {found[1]['error']}"]


# ---- tables, plot, command ---------------------------------------------------------------------


def training_document() -> dict:
    document = make_document([], gpu="A GPU")
    document["settings"] = {STACK.name: {"layers": 4}, "loss-curves": TASK.to_json()}
    for mode, seconds in (("sustained", 2e-3), ("burst", 1e-3)):
        case = results.case(STACK.name, STACK.shape.to_json(), mode, "cold", grad=True)
        for name, own in (("tiled.mm", seconds), ("torch.mm", 1.5 * seconds)):
            record = results.candidate(name, ours=name == "tiled.mm")
            spread = {"median": 1.5 * seconds / own, "q1": 0.75, "q3": 2.0}
            record.update(seconds={**spread, "median": own}, ratio=spread, flops=1e9 / own)
            record["check"] = networks.Check(1e-3, 3.0, 0, True).to_json()
            case["candidates"].append(record)
        document["cases"].append({**case, "peer": "torch.mm"})
    document["curves"] = [
        {
            "name": name,
            "ours": i > 0,
            "error": None,
            "losses": [4.0 + i / 8] * (TASK.steps - 10 * i),
        }
        for i, name in enumerate(("torch fp32", "tiled.mm ieee"))
    ]
    assert results.validate(document) == []
    return document


def test_the_step_table_sets_modes_beside_each_other():
    document = training_document()
    lines = report.TABLES["linear-stack"]([document]).splitlines()
    times = "ratio | ms a step | TF/s"
    what = "4 layers 16 wide, 24 rows, bfloat16"
    assert lines[0] == f"| {what} | sustained: {times} | burst: {times} | error |"
    own = "1.50 (0.75-2.00)"
    assert lines[2] == f"| `tiled.mm` | {own} | 2.00 | 0.50 | {own} | 1.00 | 1.0 | 1.0e-03 |"
    document["cases"][0]["candidates"][0]["check"]["ok"] = False
    assert "| **wrong** | **wrong** |" in report.TABLES["linear-stack"]([document])
    assert report.TABLES["mlp-step"]([document]) == report.NOT_MEASURED


def test_the_curves_table_has_losses_and_the_largest_distance():
    document = training_document()
    lines = report.TABLES["loss-curves"]([make_document([], gpu="A GPU"), document]).splitlines()
    steps = "step 1 | step 10 | step 20 | step 30 | step 40"
    assert lines[0] == f"| loss, 3 layers 16 wide, 32 rows | {steps} | farthest from torch fp32 |"
    assert lines[2] == "| `torch fp32` | 4 | 4 | 4 | 4 | 4 | - |"
    assert lines[3] == "| `tiled.mm ieee` | 4.125 | 4.125 | 4.125 | 4.125 | - | 3.1e-02 |"
    document["curves"][1]["error"] = "no kernel"
    assert "**failed**" in report.TABLES["loss-curves"]([document])
    assert report.TABLES["loss-curves"]([make_document([])]) == report.NOT_MEASURED


def test_curves_are_plotted_even_where_they_coincide(tmp_path):
    document = training_document()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            written = plot.plot_document(document, tmp_path)
            assert [p.name for p in written] == ["loss-curves.svg"]
            assert written[0].read_text().startswith("<?xml")
            document["curves"][1]["losses"] = document["curves"][0]["losses"]


def invoke(*arguments: str):
    app = typer.Typer()
    app.command()(training.main)
    return CliRunner().invoke(app, [*arguments])


def test_the_command_measures_trains_and_writes(monkeypatch, tmp_path):
    monkeypatch.setattr(training, "warm_up", lambda *arguments: None)
    path = tmp_path / "out.json"
    small = ("--device", "cpu", "--divide", "256", "--budget", "0.001", "--steps", "5")
    done = invoke(*small, "--json", str(path), "--plots", str(tmp_path))
    assert done.exit_code == 0, done.output
    document = results.read(path)
    ran = [(c["set"], c["mode"]) for c in document["cases"]]
    assert ran == [(w.name, m) for w in (STACK, MLP) for m in training.MODES]
    assert document["settings"]["linear-stack"]["width"] == 16
    assert document["settings"]["loss-curves"]["width"] == 8
    assert [len(c["losses"]) for c in document["curves"]] == [5] * 2
    # The CPU has no arithmetic of these names.
    assert "fp16x3" not in path.read_text() and "tf32" not in path.read_text()
    assert (tmp_path / "loss-curves.svg").exists()


def test_the_command_needs_a_gpu_and_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = invoke()
    assert done.exit_code == 2 and "this machine has no GPU that torch can use" in done.output
