"""Every program of the benchmark measures something small on the CPU, leaves a valid document of
which its tables are made, ends with an error where a result of ours is wrong, and refuses what it
cannot measure. What needs a GPU is run on one, or with a stand-in for it."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import gates
import pytest
import tiled_mm
import torch
import typer
from benchmark import CPU, ROOT, StandIn, invoke, make_document, refuse
from torch import Tensor
from torch.nn import functional

from bench import (
    arguments,
    bits,
    candidates,
    cli,
    compiled,
    compiled_epilogues,
    cpu_table,
    curves,
    decode,
    eager,
    errors,
    grouped,
    host,
    linears,
    models,
    networks,
    out_of_core,
    plot,
    report,
    results,
    rivals,
    scale,
    scaled,
    schema,
    shapes,
    share,
    training,
)
from bench.limits import Limits
from bench.shapes import Shape
from bench.timing import CpuStopwatch, CudaStopwatch, Rounds

MLP = replace(training.MLP_STEP, rows=24, width=16)
STACK = replace(training.LINEAR_STACK, rows=24, width=16)
SQUARES = shapes.ShapeSet("squares", "", "", ("float32",), (Shape(4, 4, 4), Shape(8, 8, 8)))
SHORT = (
    share.Part("ieee", ("float32",), (Shape(8, 9, 10), Shape(3, 8, 8, "nt"))),
    share.Part(None, ("int8",), (Shape(8, 8, 8, "tn"),)),
)
HAS_MODELS = importlib.util.find_spec("transformers") is not None
CALLS = {"tiled.mm": torch.mm, host.PEER: torch.mm, host.FLOOR: torch.mm}


Text = Annotated[str, typer.Option()]


def cpu_groups(
    path: Annotated[Path, typer.Option("--json")],
    threads: Text = "1",
    budget: Text = "0.001",
    groups: Text = "",
) -> None:
    """bench.cpu_table has a folder instead of a file, and is no typer program."""
    options = ("--threads", threads, "--budget", budget, "--groups", groups)
    sys.argv = ["cpu_table", "--out", str(path.parent), *options]
    cpu_table.main()
    (path.parent / "cpu_1.json").rename(path)


class Program(NamedTuple):
    main: object
    options: str  # that make it small; _ stands for a space within one
    records: str  # where its document has them, of which there are `count`
    count: int
    tables: str = ""
    ours: tuple | None = None  # the owner and the name of what computes our results


OPERATOR = (candidates.TiledOperator, "call")
PROGRAMS = {
    "bench": Program(cli.app, "--device cpu", "cases", 4, "host-cpu", OPERATOR),
    "ladder": Program(cli.app, "ladder --device cpu --plots .", "cases", 2, "", OPERATOR),
    "host": Program(cli.app, "host --device cpu", "cases", 2, "host-cpu", (CALLS, "tiled.mm")),
    "share": Program(cli.app, "--share --device cpu", "share.plans", 3, "", OPERATOR),
    "errors": Program(
        errors.main,
        "--device cpu --divide 64",
        "errors",
        270,
        "errors errors-largest errors-tree errors-bias",
        (errors, "tiled"),
    ),
    "grouped": Program(
        grouped.main, "--device cpu --divide 64", "grouped", 22, "", (grouped.Layer, "ours")
    ),
    "scaled": Program(
        scaled.main, "--device cpu --divide 64", "scaled", 25,
        "fp8-products fp8-groups fp8-quantize", (scaled.Work, "ours"),
    ),
    "training": Program(
        training.main, "--device cpu --divide 256 --steps 5", "cases", 4,
        "linear-stack mlp-step loss-curves", (tiled_mm, "mm"),
    ),
    "linear": Program(
        models.main, "--device cpu --small --only linear --only cpu", "models.linear", 9,
        "models-finished models-linear models-cpu", (tiled_mm, "linear"),
    ),
    "models": Program(
        models.main, "--device cpu --small --only bits --only speed --only host", "models.speed",
        7 + 6 * HAS_MODELS, "models-speed models-host" + " models-bits" * HAS_MODELS,
    ),
    "eager": Program(
        eager.main, "--device cpu --small --only calls", "models.eager-calls", 5, "models-eager"
    ),
    "compiled_epilogues": Program(
        compiled_epilogues.main, "--device cpu --small", "models.compiled-epilogues", 2
    ),
    "scale": Program(
        scale.main, "--small --rounds 1", "scale.rows", 14, "scale-tp scale-tree scale-bits"
    ),
    "cpu_table": Program(
        cpu_groups, "", "cpu.cases", 12, "cpu-groups", (torch.ops.tiled, "mm")
    ),
}  # fmt: skip


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What is no option of a program and takes long is made small. Files go to a folder of the
    test's own."""
    monkeypatch.chdir(tmp_path)
    few = Rounds(2, 2, 1e-3)
    for module in (cli, grouped, scaled, linears, training):
        monkeypatch.setattr(module, "Rounds", lambda *_, **__: few)
    for owner, name, value in (
        (cli, "named_set", lambda name: shapes.named_set(name) and SQUARES),
        (host, "products", lambda device: (CALLS, "")),
        (share, "CPU", SHORT),
        (share, "ROUNDS", few),
        (share, "self_test", lambda: {"ok": True, "seconds": 0.1, "output": []}),
        (grouped, "LAYERS", grouped.LAYERS[1:2]),
        (grouped, "TOKENS", (4096, 16)),
        (scaled, "ROWS", (4096, 2)),
        (scaled, "drawn_layers", lambda seed: [(8192, 4096)]),
        (linears, "PLAIN_CALLS", 2),
        (eager, "TURNS", 1),
        (models, "BATCHES", (2, 3)),
        (models, "DECODED", (1, 2)),
        (training, "warm_up", lambda *_: None),
        (compiled_epilogues, "ACTIVATIONS", {"relu": torch.nn.ReLU}),
        (sys, "argv", []),
    ):
        monkeypatch.setattr(owner, name, value)
    settings = compiled_epilogues.settings()
    del settings["max-autotune"], settings["tiled"]  # each compiles for seconds
    monkeypatch.setattr(compiled_epilogues, "settings", lambda: settings)
    groups = {
        name: (goal, [replace(cases[0], m=8, n=8, k=8)])
        for name, (goal, cases) in cpu_table._groups(False).items()
    }
    monkeypatch.setattr(cpu_table, "_groups", lambda *_: groups)
    for key in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT"):  # one process of torchrun's
        monkeypatch.setenv(key, str(int(key == "WORLD_SIZE")))
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.set_grad_enabled(True)  # cpu_table needs none


def run(program: Program, path: Path) -> object:
    words = (word.replace("_", " ") for word in program.options.split())
    return invoke(program.main, *words, "--json", path)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_measures_and_writes_what_its_tables_show(quick, tmp_path, name):
    program, path = PROGRAMS[name], tmp_path / "out.json"
    done = run(program, path)
    assert done.exit_code == 0, done.output
    (document,) = results.read_all(tmp_path)
    assert results.failures(document) == []
    told = set(re.findall(r"^(?:results|plot): (\S+)$", done.output, re.MULTILINE))
    assert {p.name for p in tmp_path.iterdir()} == told | {path.name}
    assert ("--plots" in program.options) == any(name.endswith(".svg") for name in told)
    found = document
    for key in program.records.split("."):
        found = found[key]
    assert len(found) == program.count
    for record in found:
        seconds = record.get("seconds", {})
        if record.get("ratio") and "torch" in seconds:
            assert record["ratio"] == pytest.approx(seconds["torch"] / seconds["tiled"], rel=1e-3)
    document["settings"]["small"] = False
    if not program.tables.endswith("cpu"):
        document["environment"]["gpu"] = {"name": "A GPU", "driver": "1"}
    for table in program.tables.split():
        text = report.TABLES[table]([document])
        assert len(text.splitlines()) > 4 and "**wrong**" not in text, text


WRONG = [name for name, program in PROGRAMS.items() if program.ours]


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize(
    "spoil", [lambda c: c * 1.01, lambda c: c * math.nan, refuse], ids=["1 %", "NaN", "error"]
)
def test_a_wrong_result_or_an_error_ends_a_program_with_an_error(
    quick, monkeypatch, tmp_path, name, spoil
):
    owner, attribute = PROGRAMS[name].ours
    of_dict = isinstance(owner, dict)
    right = owner[attribute] if of_dict else getattr(owner, attribute)

    def wrong(*inputs: object, **options: object) -> object:
        made = right(*inputs, **options)
        return spoil(made) if isinstance(made, Tensor) else lambda *x: spoil(made(*x))

    (monkeypatch.setitem if of_dict else monkeypatch.setattr)(owner, attribute, wrong)
    done = run(PROGRAMS[name], tmp_path / "out.json")
    assert done.exit_code == 1
    told = " ".join((done.output + repr(done.exception)).split())
    assert re.search("wrong|beyond the certain bound|not finite|no kernel", told), told


@pytest.mark.parametrize(
    ("main", "options", "told"),
    [
        (cli.app, "--set nothing", "nothing"),
        (cli.app, "--dtype float8", "no dtype 'float8'"),
        (cli.app, "--mode x", "burst, sustained"),
        (cli.app, "--algo bogus", "no rung 'bogus' on this device; there are: auto, all, naive,"),
        (cli.app, "--algo naive --algo hopper", "no rung 'hopper' on this device"),
        (cli.app, "--precision double", "no precision 'double'; there are: ieee, tf32, fp16x3"),
        (cli.app, "--precision fp16x3", "a CPU computes 'ieee', and has no 'fp16x3' to measure"),
        (cli.app, "--threads 0", "Invalid value for '--threads'"),
        (cli.app, "--budget nan", "nan is not above 0"),
        (cli.app, "--limit 0", "0 is not above 0"),
        (cli.app, "--device bogus", "no device 'bogus'; there are: auto, cpu, cuda, cuda:N"),
        (cli.app, "--device cuda:1000", "GPU that torch can use"),
        (cli.app, "--share --set small", "--share takes --device, --threads and --json alone"),
        (cli.app, "ladder --threads 0", "--threads"),
        (grouped.main, "--device cpu --only E65", "no case has all of"),
        (scaled.main, "--device cpu --only E65", "no case has all of"),
        *((m.main, "--only x", "no part x") for m in (models, eager, compiled, rivals, scale)),
        *((m.main, "", "this machine has no GPU") for m in (training, decode, out_of_core)),
        *((cpu_groups, o, "") for o in ("--threads 2,0", "--budget 0", "--groups x")),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(
    quick, monkeypatch, tmp_path, main, options, told
):
    path = tmp_path / "results" / "out.json"
    monkeypatch.setattr(cli, "run_problems", lambda *_: pytest.fail("something is measured"))
    done = run(Program(main, options, "", 0), path)
    assert done.exit_code == 2 and not path.parent.exists()
    assert told in " ".join(re.sub("[│╭╮╰╯─]", " ", done.output).split())


def missing(*_: object) -> Tensor:
    raise NotImplementedError("tiled_mm: no kernel of 'fp16x3' here\nand a trace")


def test_a_precision_without_a_kernel_is_refused():
    """As a GPU refuses it; here the device does not matter."""
    operator = StandIn()
    operator.call = lambda *_: missing
    with pytest.raises(typer.BadParameter, match=r"^tiled_mm: no kernel .* here$"):
        arguments.check_kernel(operator, CPU, "fp16x3")
    arguments.check_kernel(operator, CPU, "ieee")


def test_the_three_errors_and_a_peer_that_fails(monkeypatch):
    a, b = torch.full((4, 8), 2.0), torch.ones(8, 5)
    exact, magnitude = errors.reference(a, b)
    c = a @ b
    c[1, 2] -= 16.0  # by one unit of |A||B|
    found = errors.compare(c, exact, magnitude, 8)
    assert found["frobenius"] == pytest.approx(math.sqrt(1 / 20))
    assert (found["largest"], found["bias"]) == (2.0**24, pytest.approx(-(2.0**24) / 20 / 8))
    # Towards zero is below zero for negative sums too.
    assert errors.compare(-c, -exact, magnitude, 8) == found
    x = torch.cat([torch.randn(4000), 1 + torch.arange(64) * 2.0**-11])
    assert torch.equal(errors.to_tf32(torch.cat([x, -x])), gates.to_tf32(torch.cat([x, -x])))
    monkeypatch.setattr(errors, "CHUNK", 7)  # of K
    a, b = torch.randn(5, 23), torch.randn(23, 6)
    torch.testing.assert_close(errors.reference(a, b)[0], a.double() @ b.double())
    monkeypatch.setattr(errors, "peer", refuse)
    document = make_document([])
    document["errors"] = [errors.measure("ieee", "normal", 16, 256, CPU)]
    assert results.failures(document) == []


def test_what_routers_and_layers_are_drawn():
    def largest(router: str) -> int:
        case = grouped.Case(64, 8, 4096, 768, 2048, router=router)
        ends = grouped.drawn_ends(case, 7)
        assert ends == grouped.drawn_ends(case, 7) != grouped.drawn_ends(case, 8)
        assert len(ends) == 64 and ends == sorted(ends) and ends[-1] == 4096 * 8
        return max(e - b for b, e in itertools.pairwise([0, *ends]))

    flat, skewed = map(largest, grouped.ROUTERS)
    assert flat < 1.3 * 4096 * 8 / 64 < skewed
    assert decode.drawn() == decode.drawn() and not {*decode.drawn()} & {*decode.NAMED}
    assert scaled.drawn_layers(7) == scaled.drawn_layers(7) != scaled.drawn_layers(8)
    for cases in (list(grouped.cases()), list(scaled.cases(7))):
        assert len({case.name for case in cases}) == len(cases)
    for p in itertools.chain(*out_of_core.products(1).values()):  # a host of 128 GiB has them
        assert (2 if p.host == "pageable" else 1) * p.bytes < 100 * 2**30
    for m in (1, 16, 512, 513, 65536):
        assert all(0 <= r.start < r.stop <= m for r in out_of_core.checked_rows(m))


@pytest.mark.cuda
@pytest.mark.parametrize("work", grouped.PASSES)
def test_a_grouped_case_is_measured_on_a_gpu(work: str) -> None:
    case = grouped.divided(grouped.Case(8, 2, 128, 14336, 4096, work=work), 64)
    found = grouped.measure(case, torch.device("cuda"), 7, Rounds(2, 2, 0.01), Limits())
    assert results.problems(found, schema.Grouped) == []


@pytest.mark.cuda
@pytest.mark.scaled
@pytest.mark.parametrize(
    "case",
    [
        *(c for c in scaled.cases(7) if c.experts or c.work != "product"),
        *(scaled.Case("product", r, 64 * m, 8192, 8192) for r in scaled.RECIPES for m in (96, 2)),
    ],
    ids=lambda case: case.name,
)
def test_a_scaled_case_is_measured_on_a_gpu(case: scaled.Case) -> None:
    found = scaled.measure(
        scaled.divided(case, 64), torch.device("cuda"), 7, Rounds(2, 2, 0.01), Limits()
    )
    assert results.problems(found, schema.Scaled) == []
    assert (found["ratio"] is None) == ("torch" not in found["seconds"])


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["bfloat16", "float32", *decode.PRECISIONS])
def test_few_rows_are_measured_on_a_gpu(name: str) -> None:
    stopwatch = CudaStopwatch(torch.device("cuda", 0))
    weights = decode.weights_of(stopwatch, 256, 512, "nt", decode.torch_dtype(name))
    found = decode.measure(stopwatch, weights, 3, random.Random(7), name)
    assert found["changed"]["tiled"] is False
    place = {"dtype": name, "layout": "nt", "m": 3, "n": 256, "k": 512, "drawn": False}
    assert results.problems(place | found, schema.Decode) == []


@pytest.mark.cuda
def test_the_triton_product() -> None:
    from bench.triton_product import product

    for dtype in (torch.bfloat16, torch.float32):
        a = torch.randint(-3, 4, (130, 100), device="cuda").to(dtype)
        b = torch.randint(-3, 4, (77, 100), device="cuda").to(dtype).t()
        assert torch.equal(product(a, b), a @ b)
        assert torch.equal(product(a[:3], b), product(a, b)[:3])


def test_changes_of_bits_are_counted(quick, monkeypatch):
    monkeypatch.setattr(rivals, "BF16", ((96, 64),))
    monkeypatch.setattr(rivals, "SQUARES", (33,))
    found = rivals.changed("tiled", CPU)
    assert found == {"bf16": [0, 9], "fp32": [0, 8], "squares": [0, 27]}
    monkeypatch.setattr(rivals, "SPEEDS", ((2, 3, 4),))
    monkeypatch.setattr("bench.timing.CudaStopwatch", lambda device: CpuStopwatch())
    rows = rivals.speeds(("torch", "tiled"), CPU)
    assert results.problems({"rivals-speed": rows}, schema.Models) == []
    monkeypatch.setattr(rivals, "product_of", lambda name: lambda a, b: (a @ b) * len(a))
    assert rivals.changed("torch", CPU) == {"bf16": [9, 9], "fp32": [8, 8], "squares": [27, 27]}


def test_every_setting_is_a_set_of_inductors_options() -> None:
    from torch._inductor import config

    for options, more in compiled.settings().values():
        assert set(options or {}) <= set(config.get_config_copy()) and set(more) == {"dynamic"}


@pytest.mark.parametrize("work", [STACK, MLP], ids=lambda w: w.name)
def test_a_step_has_the_gradients_of_autograd_and_every_product_is_checked(work):
    network, operands = training._operands(replace(work, dtype="float64"), CPU)
    done = networks.step(network, networks.tiled_arithmetic().linear, operands.a, operands.b)
    x = y = operands.a
    for i, weight in enumerate(network.weights):
        x = functional.gelu(y) if i and work.mlp else y
        y = functional.linear(x, weight, network.biases[i] if work.mlp else None)
    leaves = [*network.weights, *network.biases, *([] if work.mlp else [operands.a])]
    found = [*done.weight_grads, *done.bias_grads, *done.input_grads[:1]]
    wanted = torch.autograd.grad(y, leaves, operands.b)
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
    def setting() -> tuple[str, str]:
        return tiled_mm.get_float32_precision(), torch.backends.cuda.matmul.fp32_precision

    def linear(right: networks.Linear, *inputs: Tensor) -> Tensor:
        y = right(*inputs)
        seen.append(setting())
        y.register_hook(lambda gradient: seen.append(setting()))
        return y

    seen, before = [], setting()
    network, operands = training._operands(MLP, CPU)
    for arithmetic in training.rivals(MLP, torch.device("cuda")):
        with arithmetic.precision():
            networks.step(network, partial(linear, arithmetic.linear), operands.a, operands.b)
    assert len(seen) == 18 and setting() == before
    wanted = [("fp16x3", before[1]), (before[0], "ieee"), (before[0], "tf32")]
    assert [set(seen[i : i + 6]) for i in (0, 6, 12)] == [{one} for one in wanted]


def test_curves_fall_come_back_the_same_and_fail_where_a_loss_is_not_finite(monkeypatch, tmp_path):
    task = curves.Regression(rows=32, width=16, batches=2, steps=40, learning_rate=3e-3)
    right = networks.torch_arithmetic("ours")
    infinite = replace(right, ours=True, linear=lambda *x: right.linear(*x) / 0)
    chosen = [networks.torch_arithmetic("torch fp32"), networks.tiled_arithmetic()]
    chosen += [infinite, replace(infinite, name="theirs", ours=False)]
    monkeypatch.setattr(curves, "arithmetics", lambda device: chosen)
    found = curves.run_curves(task, CPU)
    assert found == curves.run_curves(task, CPU)
    assert [len(c["losses"]) for c in found] == [task.steps] * 2 + [0, 0]
    first, second = (c["losses"] for c in found[:2])
    assert first[-1] < 0.5 * first[0] and second == pytest.approx(first, rel=1e-2)
    document = make_document([])
    document["curves"] = found
    assert results.failures(document) == ["curve of ours: the loss of step 1 is not finite"]
    document["curves"] = [found[0]] * 2  # lines that coincide are drawn too
    assert [p.name for p in plot.plot_document(document, tmp_path)] == ["loss-curves.svg"]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_share_says_nothing_of_who_sends_it(monkeypatch, tmp_path, device):
    for name, value in (("CPU", SHORT), ("GPU", SHORT), ("ERRORS", ((16, 64),))):
        monkeypatch.setattr(share, name, value)
    path = tmp_path / "out.json"
    done = invoke(cli.app, "--share", "--device", device, "--json", path)
    assert done.exit_code == 0, done.output
    document = results.read(path)
    shared, wanted = document["share"], [s.to_json() for part in SHORT for s in part.shapes()]
    assert [case["shape"] for case in document["cases"]] == wanted
    assert shared["self_test"]["ok"] and all(p["plan"] and not p["error"] for p in shared["plans"])
    # Why nvcc was not found is said with no path either.
    text = json.dumps(document)
    assert str(Path.home()) not in text and str(ROOT) not in text


def test_share_keeps_what_is_wrong(monkeypatch):
    def ends(*_: object, **__: object) -> subprocess.CompletedProcess:
        return subprocess.CompletedProcess([], 1, "a\n", 'File "/home/x"\nWRONG: x\n')

    def hangs(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired([], 1)

    document = make_document([])
    document["share"] = {"self_test": None}
    for ended, told in ((ends, "a; WRONG: x"), (hangs, "stopped after 60 s")):
        monkeypatch.setattr(subprocess, "run", ended)
        document["share"]["self_test"] = share.self_test()
        assert results.failures(document) == [f"self-test: {told}"]
    path = share.default_path(make_document([], gpu="NVIDIA GeForce RTX 4090"))
    assert path.name == "share-nvidia-geforce-rtx-4090.json"
    assert share.refusal("ieee", CPU) is None
    monkeypatch.setattr(tiled_mm, "plan", refuse)
    assert share.plan(Shape(8, 8, 8), None, CPU)["error"] == "RuntimeError: no kernel"


def test_another_library_is_the_one_that_records_or_nothing_is(tmp_path: Path) -> None:
    library, where = tiled_mm._load.LIBRARY, "import tiled_mm; print(tiled_mm._load.LIBRARY)"
    env = bits.environment_with(library, tmp_path)
    found = subprocess.run([sys.executable, "-c", where], env=env, capture_output=True, text=True)
    assert found.stdout.strip() == str(tmp_path.resolve() / "tiled_mm" / "lib" / library.name)
    gone = tmp_path / "libtiled_mm.so"
    gone.write_bytes(b"no library")
    record = ("record", tmp_path / "bits.json", "--device", "cpu", "--library", gone)
    assert invoke(bits.app, *record).exit_code and not record[1].exists()
