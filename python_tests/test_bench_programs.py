"""Every program of the benchmark measures something small on the CPU, leaves a valid document, and
ends where a result is wrong. What needs a GPU is run on one, or with a stand-in for it."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gates
import pytest
import tiled_mm
import torch
from benchmark import CPU, ROOT, StandIn, invoke, make_document
from torch import Tensor
from torch.nn import functional

from bench import (
    cli,
    compiled,
    compiled_epilogues,
    cpu_table,
    curves,
    decode,
    eager,
    errors,
    fp8_training,
    grouped,
    linears,
    machine,
    models,
    networks,
    out_of_core,
    plot,
    results,
    rivals,
    scale,
    scaled,
    schema,
    share,
    training,
)
from bench.compare import INSTALLED
from bench.limits import Limits
from bench.shapes import Shape
from bench.timing import CpuStopwatch, CudaStopwatch, Rounds

QUICK = Rounds(2, 2, 0.01)
SMALL_TASK = curves.Regression(rows=32, width=16, batches=2, steps=40, learning_rate=3e-3)
MLP = replace(training.MLP_STEP, rows=24, width=16)
STACK = replace(training.LINEAR_STACK, rows=24, width=16)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs whose number of repetitions is no option repeat little."""
    medians = linears.medians
    for module in (linears, compiled_epilogues):
        monkeypatch.setattr(
            module, "medians", lambda watch, works, _=0, **more: medians(watch, works, 1e-4, **more)
        )
    monkeypatch.setattr(linears, "LEAST", 1)
    monkeypatch.setattr(linears, "PLAIN_CALLS", 2)
    monkeypatch.setattr(eager, "TURNS", 2)
    monkeypatch.setattr(models, "BATCHES", (2, 3))
    monkeypatch.setattr(models, "DECODED", (1, 2))
    monkeypatch.setattr(training, "warm_up", lambda *arguments: None)
    monkeypatch.setattr(compiled_epilogues, "ACTIVATIONS", {"relu": torch.nn.ReLU})
    settings = compiled_epilogues.settings()
    del settings["max-autotune"], settings["tiled"]  # each compiles for seconds
    monkeypatch.setattr(compiled_epilogues, "settings", lambda: settings)


# A program, the option that makes it small, and where its records are, with how many there must be.
ON_A_CPU = [
    (errors, "--divide 64", "errors", 3 * 2 * len(errors.SIZES) * len(errors.DEPTHS)),
    (grouped, "--divide 64 --budget 0.01 --only E64_flat_bfloat16_forward", "grouped", 4 + 4),
    (scaled, "--divide 64 --budget 0.01 --only E64", "scaled", 2 + 1),
    (training, "--divide 256 --budget 0.001 --steps 5", "cases", 4),
    (fp8_training, "--divide 16 --budget 0.01 --steps 3 --seeds 2", "fp8_training.runs", 4),
    (models, "--small --only linear --only host", "models.linear", 9),
    (eager, "--small --only calls", "models.eager-calls", 4),
    (compiled_epilogues, "--small", "models.compiled-epilogues", 2),
]


@pytest.mark.parametrize(
    ("program", "options", "records", "count"),
    [
        pytest.param(*row, marks=[pytest.mark.scaled] if row[0] in (scaled, fp8_training) else [])
        for row in ON_A_CPU
    ],
    ids=[row[0].__name__ for row in ON_A_CPU],
)
def test_a_program_measures_and_writes(quick, tmp_path, program, options, records, count) -> None:
    path = tmp_path / "out.json"
    words = [word.replace("_", " ") for word in options.split()]
    done = invoke(program.main, "--device", "cpu", "--json", path, *words)
    assert done.exit_code == 0, done.output
    (document,) = results.read_all(tmp_path)
    assert results.failures(document) == []
    found = document
    for key in records.split("."):
        found = found[key]
    assert len(found) == count


@pytest.mark.parametrize(
    ("program", "options", "told"),
    [
        (grouped, "--device cpu --only E65", "no case has all of"),
        (scaled, "--device cpu --only E65", "no case has all of"),
        (models, "--only nothing", "no part nothing"),
        (eager, "--only nothing", "no part nothing"),
        (compiled, "--only nothing", "no part nothing"),
        (rivals, "--only nothing", "no part nothing"),
        (scale, "--only nothing", "no part nothing"),
        (training, "", "this machine has no GPU that torch can use"),
        (decode, "", "this machine has no GPU that torch can use"),
        (out_of_core, "", "this machine has no GPU that torch can use"),
    ],
)
def test_a_program_refuses_what_it_cannot_measure(monkeypatch, program, options, told) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = invoke(program.main, *options.split())
    assert done.exit_code == 2
    assert told in " ".join(re.sub("[│╭╮╰╯─]", " ", done.output).split())


# ---- errors ------------------------------------------------------------------------------------


def test_the_three_errors():
    a, b = torch.full((4, 8), 2.0), torch.ones(8, 5)
    exact, magnitude = errors.reference(a, b)
    c = a @ b
    c[1, 2] -= 16.0  # by one unit of |A||B|
    found = errors.compare(c, exact, magnitude, 8)
    assert found["frobenius"] == pytest.approx(math.sqrt(1 / 20))
    assert (found["largest"], found["bias"]) == (2.0**24, pytest.approx(-(2.0**24) / 20 / 8))
    # Towards zero is below zero for negative sums too.
    assert errors.compare(-c, -exact, magnitude, 8) == found
    c[3, 4] = math.nan
    with pytest.raises(ArithmeticError):
        errors.compare(c, exact, magnitude, 8)
    x = torch.cat([torch.randn(4000), 1 + torch.arange(64) * 2.0**-11])
    assert torch.equal(errors.to_tf32(torch.cat([x, -x])), gates.to_tf32(torch.cat([x, -x])))


def refuse(*operands: object) -> Tensor:
    raise RuntimeError("no kernel")


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda s, a, b: (a @ b).zero_(), "beyond the certain bound, 257 u |A||B|"),
        (lambda s, a, b: a @ b * math.nan, "ArithmeticError: the result is not finite"),
        (refuse, "RuntimeError: no kernel"),
    ],
)
def test_a_wrong_sum_of_ours_is_a_failure_and_of_a_peer_is_not(monkeypatch, spoil, error):
    for side, failures in (("tiled", 1), ("peer", 0)):
        with monkeypatch.context() as patch:
            patch.setattr(errors, side, spoil)
            document = make_document([], gpu="A GPU")
            document["errors"] = [errors.measure("ieee", "normal", 16, 256, CPU)]
        wanted = [f"errors of ieee normal 16 16 256: {error}"][:failures]
        assert results.failures(document) == wanted


# ---- grouped and scaled products ---------------------------------------------------------------


@pytest.mark.parametrize("work", grouped.PASSES)
def test_a_grouped_case_is_measured(device: str, work: str) -> None:
    case = grouped.divided(grouped.Case(8, 2, 128, 14336, 4096, work=work), 64)
    found = grouped.measure(case, torch.device(device), 7, QUICK, Limits())
    assert results.problems(found, schema.Grouped) == []
    assert found["seconds"].keys() == {"tiled", "torch"} and found["rows"] == 4


def test_what_routers_draw() -> None:
    def largest(router: str) -> int:
        case = grouped.Case(64, 8, 4096, 768, 2048, router=router)
        ends = grouped.drawn_ends(case, 7)
        assert ends == grouped.drawn_ends(case, 7) != grouped.drawn_ends(case, 8)
        assert len(ends) == 64 and ends == sorted(ends) and ends[-1] == 4096 * 8
        return max(e - b for b, e in itertools.pairwise([0, *ends]))

    flat, skewed = map(largest, grouped.ROUTERS)
    assert flat < 1.3 * 4096 * 8 / 64 < skewed


@pytest.mark.parametrize("kind", [list(grouped.cases()), list(scaled.cases(7))], ids=len)
def test_cases_have_names_of_their_own(kind: list) -> None:
    assert len({case.name for case in kind}) == len(kind)


@pytest.mark.scaled
@pytest.mark.parametrize(
    "case",
    [
        *(c for c in scaled.cases(7) if c.experts or c.work != "product"),
        *(scaled.Case("product", r, 64 * m, 8192, 8192) for r in scaled.RECIPES for m in (96, 2)),
    ],
    ids=lambda c: c.name,
)
def test_a_scaled_case_is_measured(device: str, case: scaled.Case) -> None:
    small = scaled.divided(case, 64)
    found = scaled.measure(small, torch.device(device), 7, QUICK, Limits())
    assert results.problems(found, schema.Scaled) == []
    few = case.work == "product" and not case.experts and small.m == 2
    assert ("copy" in found["seconds"]) == (case.work == "quantize" or few)
    assert (found["ratio"] is None) == ("torch" not in found["seconds"])


@pytest.mark.scaled
def test_a_wrong_scaled_result_ends_the_run(monkeypatch) -> None:
    ours = scaled.Work.ours
    monkeypatch.setattr(scaled.Work, "ours", lambda *x: ours(*x) * 1.01)
    case = scaled.Case("product", "rowwise", 16, 256, 384)
    with pytest.raises(RuntimeError, match="a wrong result: product rowwise 16x256x384"):
        scaled.measure(case, CPU, 7, QUICK, Limits())


# ---- models ------------------------------------------------------------------------------------


def test_models_run_and_wrong_linear_layers_end_the_run(quick) -> None:
    pytest.importorskip("transformers", reason="needs transformers")
    for name in models.NAMES:
        model = models.make_model(name, CPU, small=True)
        rows = list(models.bits(model, name))
        assert {(r["arithmetic"], r["batch"]) for r in rows} == {
            (a, b) for a in ("torch", "tiled") for b in models.BATCHES
        }
        assert all(row["differ"] == 0 for row in rows if row["arithmetic"] == "tiled")
        speeds = list(models.speed(CpuStopwatch(), model, name, small=True))
        found = {"bits": rows, "speed": speeds}
        assert results.problems(found, schema.Models) == []
    speeds = list(models.mlp(CpuStopwatch(), CPU, small=True))
    assert [row["tokens"] for row in speeds] == list(models.MLP_ROWS)
    x, w, b = linears.linear_operands((4, 8, 16), CPU, torch.bfloat16)
    right = linears.torch_linear(x.double(), w.double(), b.double(), "gelu").bfloat16()
    linears.check(right, x, w, b, "gelu")
    for wrong in (right * 1.1, torch.full_like(right, torch.nan), right.roll(1, 0)):
        with pytest.raises(RuntimeError, match="a wrong result"):
            linears.check(wrong, x, w, b, "gelu")


def test_rivals_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "SPEEDS", ((2, 3, 4),))
    monkeypatch.setattr("bench.timing.CudaStopwatch", lambda device: None)
    monkeypatch.setattr("bench.linears.medians", lambda watch, works: dict.fromkeys(works, 1e-5))
    monkeypatch.setattr(rivals, "product_of", lambda candidate: torch.ops.tiled.mm)
    names = ("torch", "tiled", "triton", "cut cuBLAS", "tiled beside cut cuBLAS")
    rows = rivals.speeds(names, CPU)
    assert results.problems({"rivals-speed": rows}, schema.Models) == []
    monkeypatch.setattr(rivals, "BF16", ((96, 64),))
    monkeypatch.setattr(rivals, "SQUARES", (33,))
    found = rivals.changed("tiled", CPU)
    assert found == {"bf16": [0, 9], "fp32": [0, 8], "squares": [0, 27]}


@pytest.mark.cuda
def test_the_triton_product() -> None:
    from bench.triton_product import product

    for dtype in (torch.bfloat16, torch.float32):
        a = torch.randint(-3, 4, (130, 100), device="cuda").to(dtype)
        b = torch.randint(-3, 4, (77, 100), device="cuda").to(dtype).t()
        assert torch.equal(product(a, b), a @ b)
        assert torch.equal(product(a[:3], b), product(a, b)[:3])


def test_every_setting_is_a_set_of_inductors_options() -> None:
    from torch._inductor import config

    for options, more in compiled.settings().values():
        assert set(options or {}) <= set(config.get_config_copy()) and set(more) == {"dynamic"}


# ---- training ----------------------------------------------------------------------------------


def make_step(work: training.Work, arithmetic: networks.Arithmetic | None = None):
    network, operands = training._operands(work, CPU)
    chosen = arithmetic or networks.tiled_arithmetic()
    with chosen.precision():
        return network, operands, networks.step(network, chosen.linear, operands.a, operands.b)


def broken(name: str, spoil) -> networks.Arithmetic:
    """Ours, with a result that `spoil` changes."""
    right = networks.torch_arithmetic(name)
    return replace(right, ours=True, linear=lambda x, w, bias: spoil(right.linear(x, w, bias)))


@pytest.mark.parametrize("work", [STACK, MLP], ids=lambda w: w.name)
def test_a_step_has_the_gradients_of_autograd_and_every_product_is_checked(work):
    network, operands, done = make_step(replace(work, dtype="float64"))
    x = y = operands.a
    for i, weight in enumerate(network.weights):
        x = functional.gelu(y) if i and work.mlp else y
        y = functional.linear(x, weight, network.biases[i] if work.mlp else None)
    leaves = [*network.weights, *network.biases, *([] if work.mlp else [operands.a])]
    wanted = torch.autograd.grad(y, leaves, operands.b)
    found = [*done.weight_grads, *done.bias_grads, *done.input_grads[:1]]
    torch.testing.assert_close(found[: len(wanted)], list(wanted))
    products = list(networks.products(network, done))
    assert len(products) * work.shape.flops == work.flops
    for c, _, _ in products:
        kept = c[3, 5].clone()
        for wrong in (c[3, 5] + 1, math.nan):
            c[3, 5] = wrong
            assert not networks.check_step(network, done, tensor_cores=False).ok
        c[3, 5] = kept
    assert networks.check_step(network, done, tensor_cores=False).ok
    done.poison()
    assert not any(t.isnan().any() for t in (operands.a, operands.b, *network.weights))
    assert all(t.isnan().all() for t in (*done.weight_grads, *done.outputs, *done.bias_grads))


def test_precisions_hold_in_both_directions_and_end_with_the_step():
    def setting():
        return tiled_mm.get_float32_precision(), torch.backends.cuda.matmul.fp32_precision

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(setting())
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append(setting())
            return gradient

    seen, before = [], setting()
    for arithmetic in training.rivals(MLP, torch.device("cuda")):
        spy = replace(arithmetic, linear=lambda *a, f=arithmetic.linear: Look.apply(f(*a)))
        make_step(replace(MLP, dtype="float32"), spy)
    assert len(seen) == 18 and setting() == before
    wanted = [("fp16x3", before[1]), (before[0], "ieee"), (before[0], "tf32")]
    assert [set(seen[i : i + 6]) for i in (0, 6, 12)] == [{one} for one in wanted]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda y: 0 * y, "wrong result"),
        (lambda y: y * math.nan, "wrong result"),
        (lambda y: 1.01 * y, "wrong result"),
        (refuse, "RuntimeError: no kernel"),
    ],
)
def test_a_wrong_step_of_ours_is_a_failure_and_costs_its_own_candidate(spoil, told):
    chosen = [broken("ours", spoil), networks.torch_arithmetic("torch fp32")]
    rounds = Rounds(least=3, most=3, budget_s=10.0)
    case = training.run_step(MLP, "burst", CPU, machine.PowerLog(CPU), rounds, chosen)
    (failure,) = results.failures(make_document([case]))
    assert told in failure and results.find(case, "torch fp32")["check"]["ok"]


def test_curves_fall_come_back_the_same_and_fail_where_a_loss_is_not_finite(tmp_path):
    infinite = broken("ours", lambda y: y / 0)
    rivals = [networks.torch_arithmetic("torch fp32"), networks.tiled_arithmetic()]
    chosen = [*rivals, infinite, replace(infinite, name="theirs", ours=False)]
    found = curves.run_curves(SMALL_TASK, CPU, chosen)
    assert found == curves.run_curves(SMALL_TASK, CPU, chosen)
    assert [len(c["losses"]) for c in found] == [SMALL_TASK.steps] * 2 + [0, 0]
    first, second = (c["losses"] for c in found[:2])
    assert first[-1] < 0.5 * first[0] and second == pytest.approx(first, rel=1e-2)
    document = make_document([])
    document["curves"] = found
    assert results.validate(document) == []
    assert results.failures(document) == ["curve of ours: the loss of step 1 is not finite"]
    document["curves"] = [found[0]] * 2  # lines that coincide are drawn too
    assert [p.name for p in plot.plot_document(document, tmp_path)] == ["loss-curves.svg"]


# ---- decode, out of core, CPU groups -----------------------------------------------------------


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["bfloat16", "float32", *decode.PRECISIONS])
def test_few_rows_are_measured(name: str) -> None:
    stopwatch = CudaStopwatch(torch.device("cuda", 0))
    weights = decode.weights_of(stopwatch, 256, 512, "nt", decode.torch_dtype(name))
    found = decode.measure(stopwatch, weights, 3, decode.random.Random(7), name)
    assert found["changed"]["tiled"] is False
    place = {"dtype": name, "layout": "nt", "m": 3, "n": 256, "k": 512, "drawn": False}
    assert results.problems(place | found, schema.Decode) == []


def test_drawn_layers_are_always_the_same() -> None:
    layers = decode.drawn()
    assert layers == decode.drawn() and len(set(layers)) == 20
    assert not set(layers) & set(decode.NAMED)


def test_products_out_of_core_fit_a_host_of_128_gib_and_wrong_bits_are_a_failure():
    for p in itertools.chain(*out_of_core.products(1).values()):
        assert (2 if p.host == "pageable" else 1) * p.bytes < 100 * 2**30
    for m in (1, 16, 512, 513, 65536):
        assert all(0 <= r.start < r.stop <= m for r in out_of_core.checked_rows(m))
    record = dict.fromkeys(("name", "m", "n", "k", "dtype", "host"), "x") | {"error": None}
    document = make_document([])
    for equal, failures in ((True, 0), (False, 1), (None, 1)):
        document["out_of_core"] = {"products": [record | {"equal": equal}]}
        assert len(results.failures(document)) == failures


def test_groups_of_the_cpus_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = {
        name: (cpu_table.Goal(1e9 * i, 0), [cpu_table.Case(name, dtype, 8, 8, 8)])
        for i, (name, dtype) in enumerate((("fp32", "fp32"), ("skinny-fp64", "fp64")))
    }
    monkeypatch.setattr(cpu_table, "_groups", lambda host: groups)
    threads, grad = torch.get_num_threads(), torch.is_grad_enabled()
    try:
        for named in ([], ["--groups", "skinny-fp64"]):
            arguments = ["--out", str(tmp_path), "--threads", "1,2", "--budget", "0.001", *named]
            monkeypatch.setattr(sys, "argv", ["cpu_table", *arguments])
            cpu_table.main()
    finally:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(grad)
    names = {f"cpu_{t}{suffix}.json" for t in (1, 2) for suffix in ("", "_skinny-fp64")}
    assert {p.name for p in tmp_path.iterdir()} == names
    documents = results.read_all(tmp_path)
    assert {d["cpu"]["threads"] for d in documents} == {1, 2}
    met = {line["group"]: line["met"] for line in documents[0]["cpu"]["summary"]}
    assert met["skinny-fp64"] is False


@pytest.mark.parametrize("options", [["--threads", "2,0"], ["--budget", "0"], ["--groups", "x"]])
def test_the_cpus_table_refuses_them(monkeypatch, tmp_path, options):
    monkeypatch.setattr("sys.argv", ["cpu_table", "--out", str(tmp_path / "out"), *options])
    with pytest.raises(SystemExit) as ended:
        cpu_table.main()
    assert ended.value.code == 2 and not (tmp_path / "out").exists()


# ---- share -------------------------------------------------------------------------------------

SHORT = (
    share.Part("ieee", ("float32",), (Shape(8, 9, 10), Shape(3, 8, 8, "nt"))),
    share.Part(None, ("int8",), (Shape(8, 8, 8, "tn"),)),
)


@pytest.fixture
def short(monkeypatch) -> None:
    for name, value in (("CPU", SHORT), ("GPU", SHORT), ("ROUNDS", QUICK), ("ERRORS", ((16, 64),))):
        monkeypatch.setattr(share, name, value)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_share_leaves_one_file_that_says_nothing_of_who_sends_it(short, tmp_path, device):
    path = tmp_path / "out.json"
    done = invoke(cli.app, "--share", "--device", device, "--json", path)
    assert done.exit_code == 0, done.output
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]
    document = results.read(path)
    wanted = [shape.to_json() for part in SHORT for shape in part.shapes()]
    shared = document["share"]
    assert [case["shape"] for case in document["cases"]] == wanted
    assert [plan["shape"] for plan in shared["plans"]] == wanted
    assert shared["self_test"]["ok"] and all(p["plan"] and not p["error"] for p in shared["plans"])
    assert results.failures(document) == []
    # Why nvcc was not found is said with no path either.
    text = json.dumps(document)
    assert str(Path.home()) not in text and str(machine.ROOT) not in text


def test_share_keeps_what_is_wrong_and_ends_with_1(short, monkeypatch, tmp_path):
    def ended(*_: object, **__: object) -> subprocess.CompletedProcess:
        return subprocess.CompletedProcess([], 1, "a\n", 'File "/home/x"\nWRONG: x\n')

    def refused(*_: object, **__: object) -> None:
        raise NotImplementedError("no kernel")

    monkeypatch.setattr(share.subprocess, "run", ended)
    monkeypatch.setattr(tiled_mm, "plan", refused)
    monkeypatch.setattr(cli, "load_operator", lambda: StandIn(lambda out: out.zero_()))
    path = tmp_path / "out.json"
    done = invoke(cli.app, "--share", "--device", "cpu", "--json", path)
    assert done.exit_code == 1
    document = results.read(path)
    assert {p["error"] for p in document["share"]["plans"]} == {"NotImplementedError: no kernel"}
    failures = results.failures(document)
    assert failures[-1] == "self-test: a; WRONG: x" and len(failures) == 4

    def hangs(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired([], 1)

    monkeypatch.setattr(share.subprocess, "run", hangs)
    assert not share.self_test()["ok"] and "stopped after" in share.self_test()["output"][0]


# ---- two libraries -----------------------------------------------------------------------------


def run_compare(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "bench.compare", *arguments],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_library_beside_itself_and_one_that_does_not_load(tmp_path: Path) -> None:
    path, gone = tmp_path / "compared.json", tmp_path / "libtiled_mm.so"
    only = ("--set", "cpu", "--turns", "2", "--only", "^64³ nn float32")
    done = run_compare(str(INSTALLED), *only, "--json", str(path))
    assert done.returncode == 0, done.stderr
    cases = json.loads(path.read_text())["cases"]
    assert len(cases) == 1 and 0 < cases[0]["least"] <= cases[0]["ratio"] <= cases[0]["most"]
    gone.write_bytes(b"no library")
    done = run_compare(str(gone), *only)
    assert done.returncode != 0 and "library's process has ended" in done.stderr
