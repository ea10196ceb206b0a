"""tiled_mm.check_invariance: it names the operator that changes with the batch, and none where none
does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import culprits
import pytest
import tiled_mm
import torch
from torch import nn

BATCHES = (1, 2, 7, 16, 64)


def check(case: culprits.Case) -> tiled_mm.invariance.Report:
    torch.manual_seed(0)
    program = case.program()
    with tiled_mm.override():
        return tiled_mm.check_invariance(
            program, *case.inputs(), **{"batches": BATCHES, **(case.options or {})}
        )


@pytest.mark.parametrize("name", culprits.CULPRITS)
def test_the_culprit_is_named(name: str) -> None:
    case = culprits.CULPRITS[name]
    report = check(case)
    assert not report.invariant
    named = report.first or report.findings[0]
    assert case.operator in named.operator
    assert named.kind in case.kinds
    assert named.advice
    if "::" in case.operator:  # nothing else changes by itself
        assert {f.operator for f in report.findings} == {case.operator}


@pytest.mark.parametrize("name", culprits.CLEAN)
def test_a_clean_program_has_no_culprit(name: str) -> None:
    report = check(culprits.CLEAN[name])
    assert report.findings == []
    assert report.invariant and report.first is None
    assert report.operators > 0


def test_there_are_enough_of_both() -> None:
    assert len(culprits.CULPRITS) >= 30 and len(culprits.CLEAN) >= 10


# ---- what a report says --------------------------------------------------------------------------


class Two(nn.Module):
    """The same norm in two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(culprits.Around(torch.ops.culprits.norm) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def report_of_two() -> tiled_mm.invariance.Report:
    torch.manual_seed(0)
    with tiled_mm.override():
        return tiled_mm.check_invariance(Two(), *culprits.vectors(), batches=(7, 16, 64))


def test_a_finding_says_where_and_by_how_much() -> None:
    report = report_of_two()
    (found,) = report.findings
    assert found.first and found.module == "layers.0.step" and found.alike == ["layers.1.step"]
    assert found.line.startswith("culprits.py:")
    assert found.shapes == "[64, 24] -> [64, 24]" and found.dtype == "float32"
    assert found.batches == [7, 16]  # 64 rows have another block than 20 and fewer
    assert 0 < found.largest < 1e-5 and 0 < found.differ < found.of


def test_the_table_fits_80_columns_and_the_json_has_all_of_it() -> None:
    report = report_of_two()
    text = str(report)
    assert max(map(len, text.splitlines())) <= 80
    for word in ("ROWS CHANGE", "culprits::norm", "layers.0.step", "instead", "batches  7, 16"):
        assert word in text
    found = json.loads(report.json())
    assert found["invariant"] is False and found["findings"][0]["operator"] == "culprits::norm"
    assert found["batches"] == [7, 16, 64]


def test_assert_batch_invariant() -> None:
    net, x = nn.Linear(8, 8), torch.randn(3, 8)
    with tiled_mm.override():
        tiled_mm.assert_batch_invariant(net, x, batches=(1, 3))
    with pytest.raises(AssertionError, match="culprits::norm"):
        tiled_mm.assert_batch_invariant(culprits.norm, *culprits.vectors(), batches=(1, 64))


def test_gradients_of_inputs_and_weights() -> None:
    with tiled_mm.override():
        report = tiled_mm.check_invariance(
            nn.Linear(24, 9), *culprits.vectors(), backward=True, batches=BATCHES
        )
    assert report.invariant
    assert report.results == {
        "output": "equal",
        "gradient of input 0": "equal",
        "gradient of weight weight": "over the batch",
        "gradient of weight bias": "over the batch",
    }
    assert "sum over the batch" in str(report)


def test_a_backward_names_the_module_of_its_forward() -> None:
    case = culprits.CULPRITS["a backward of blocks by rows"]
    assert check(case).first.module == "step (_BlockedBackwardBackward)"


def test_columns() -> None:
    """A product of which each column depends on how many there are."""

    def uneven(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        block = 3 if b.shape[1] > 8 else 8
        return torch.stack([culprits.in_blocks(a * c, block) for c in b.T], -1)

    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("mm", uneven, "CPU")
        x, weight = torch.randn(64, 24), torch.randn(24, 10)
        report = tiled_mm.check_invariance(lambda x: x @ weight, x, columns=True)
    (found,) = report.findings
    assert (found.operator, found.kind) == ("mm", "columns")
    assert found.shapes == "[24, 10] cut to 5 columns" and found.largest > 0
    assert report.invariant  # its rows do not change


def test_torchs_own_products_are_named_where_they_change() -> None:
    """Whether they change is the machine's: what is said is what is seen of the results."""
    net, x = nn.Linear(300, 200), torch.randn(64, 300)
    report = tiled_mm.check_invariance(net, x)
    with tiled_mm.override():
        assert tiled_mm.check_invariance(net, x).invariant
    assert report.invariant == (report.findings == [])
    for found in report.findings:
        assert found.operator == "addmm" and "override" in found.advice


def test_nan_is_no_answer() -> None:
    report = tiled_mm.check_invariance(lambda x: x * float("nan"), torch.ones(4, 3), batches=(1, 4))
    assert not report.invariant and report.results == {"output": "nan"}


def test_a_result_without_rows_is_said() -> None:
    report = tiled_mm.check_invariance(
        lambda x: x[x[:, 0] > 0], torch.randn(64, 3), batches=(3, 16)
    )
    assert report.results == {"output": "no rows to compare"} and not report.invariant


def test_nothing_of_the_caller_is_changed() -> None:
    net = nn.Sequential(nn.Linear(24, 24), nn.BatchNorm1d(24))
    x = torch.randn(5, 24, requires_grad=True)
    before = {n: t.clone() for n, t in net.state_dict().items()}
    state, counts = torch.get_rng_state(), len(torch.nn.modules.module._global_forward_hooks)
    tiled_mm.check_invariance(net, x, batches=(2, 5), backward=True)
    assert all(torch.equal(t, before[n]) for n, t in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert x.grad is None and all(p.grad is None for p in net.parameters())
    assert len(torch.nn.modules.module._global_forward_hooks) == counts


def test_a_compiled_program_is_compared_as_it_is() -> None:
    """One that its backend makes wrong: its operators, run eagerly, are clean."""

    def backend(graph: torch.fx.GraphModule, inputs: list) -> torch.fx.GraphModule:
        return lambda *args: tuple(y * (1 + args[-1].shape[0]) for y in graph(*args))

    net = culprits.Around(lambda x: x)
    x = torch.randn(16, 24)
    with tiled_mm.override("cpu"):
        clean = tiled_mm.check_invariance(torch.compile(net, backend="eager"), x, batches=(2, 16))
        report = tiled_mm.check_invariance(torch.compile(net, backend=backend), x, batches=(2, 16))
    assert clean.compiled is True and clean.invariant and clean.findings == []
    assert report.compiled is False
    assert report.first.operator == "torch.compile" and report.first.kind == "cannot see inside"
    assert "runs eagerly" in str(report)


def test_the_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.randn(4, 8)
    tiled_mm.check_invariance(torch.relu, x, batches=(1, 4))
    assert capsys.readouterr().err == ""  # no terminal
    tiled_mm.check_invariance(torch.relu, x, batches=(1, 4), progress=True)
    shown = capsys.readouterr().err
    assert "batch 4, operator by operator" in shown and max(map(len, shown.split("\r"))) <= 80


WRONG = {
    "no tensor": (lambda: tiled_mm.check_invariance(torch.relu), ValueError, "needs a tensor"),
    "one size": (
        lambda: tiled_mm.check_invariance(torch.relu, torch.ones(2), batches=(4, 4)),
        ValueError,
        "two sizes",
    ),
    "no rows": (
        lambda: tiled_mm.check_invariance(torch.relu, torch.ones(0, 2)),
        ValueError,
        "at least one row",
    ),
    "axis": (
        lambda: tiled_mm.check_invariance(torch.relu, torch.ones(2), batch_dim=1),
        IndexError,
        "Dimension out of range",
    ),
    "no output": (
        lambda: tiled_mm.check_invariance(lambda x: None, torch.ones(2)),
        ValueError,
        "returns no tensor",
    ),
    "no gradient": (
        lambda: tiled_mm.check_invariance(torch.argsort, torch.ones(2, 2), backward=True),
        ValueError,
        "requires a gradient",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str) -> None:
    call, kind, words = WRONG[name]
    with pytest.raises(kind, match=words):
        call()


# ---- hashes --------------------------------------------------------------------------------------


def test_hashes_tell_rows_apart() -> None:
    from tiled_mm.invariance._rows import hashes

    x = torch.randn(64, 1001)
    found = hashes(x)
    assert len(set(found.tolist())) == 64
    assert torch.equal(hashes(x[:7].clone()), found[:7])
    assert torch.equal(hashes(x[5:9]), found[5:9])  # not aligned to eight bytes
    y = x.clone()
    y[3, 500] = torch.nextafter(y[3, 500], torch.tensor(9.0))
    y[4, :2] = y[4, :2].flip(0)
    assert (hashes(y) != found).nonzero().flatten().tolist() == [3, 4]
    zeros = torch.zeros(2, 4)
    assert hashes(torch.stack([zeros[0], -zeros[1]])).unique().numel() == 2  # 0 and -0
    for dtype in (torch.bfloat16, torch.float64, torch.complex64, torch.int64, torch.uint8):
        z = torch.randint(2, 90, (3, 5)).to(dtype)
        assert torch.equal(hashes(z)[1:2], hashes(z[1:2].clone()))


# ---- models of transformers ----------------------------------------------------------------------

# What docs/models.md's table says of a CPU: these may change in their last bits. On a GPU nothing
# in these models does.
ON_A_CPU = {"silu", "gelu", "tanh", "sigmoid", "rsqrt", "pow.Tensor_Scalar", "exp"}
MODELS = ("llama", "gpt2", "qwen3", "mixtral")


def hugging_face(name: str) -> nn.Module:
    """A small model with random weights, of sizes that fill no vector (but for experts, whose rows
    torch wants in multiples of 16 bytes, 8 numbers of 16 bits)."""
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    hidden = 168 if name == "mixtral" else 171
    sizes = dict(
        hidden_size=120, intermediate_size=hidden, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=320, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    config = {
        "llama": lambda: transformers.LlamaConfig(**sizes),
        "gpt2": lambda: transformers.GPT2Config(
            n_embd=120, n_inner=hidden, n_layer=2, n_head=4, vocab_size=320, bos_token_id=1,
            eos_token_id=2,
        ),
        "qwen3": lambda: transformers.Qwen3Config(**sizes, head_dim=30),
        "mixtral": lambda: transformers.MixtralConfig(**sizes, num_local_experts=4),
    }[name]()  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize("name", MODELS)
def test_models_of_transformers(name: str, device: str) -> None:
    from tiled_mm.invariance._cli import Logits

    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    model = Logits(hugging_face(name)).to(device, dtype)
    tokens = torch.randint(320, (64, 7), device=device)
    with tiled_mm.override():
        report = tiled_mm.check_invariance(model, tokens, batches=BATCHES)
    assert report.operators > 40
    allowed = ON_A_CPU if device == "cpu" else set()
    assert {f.operator for f in report.findings} <= allowed
    assert report.invariant or report.findings
    assert all(f.advice for f in report.findings)


def test_the_command(tmp_path: Path) -> None:
    hugging_face("llama").save_pretrained(tmp_path / "model")
    command = [sys.executable, "-m", "tiled_mm", "check", "--device", "cpu", "--length", "8"]
    command += ["--model", str(tmp_path / "model"), "--json", str(tmp_path / "report.json")]
    done = subprocess.run(command, capture_output=True, text=True)
    report = json.loads((tmp_path / "report.json").read_text())
    assert done.returncode == (0 if report["invariant"] else 1), done.stderr
    assert max(map(len, done.stdout.splitlines()[1:])) <= 80
    assert "operators" in done.stdout


def test_the_command_without_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tiled_mm.__main__ import main

    assert main(["check", "--model", str(tmp_path / "none")]) == 2
    error = capsys.readouterr().err
    assert "there is no folder" in error or "needs transformers" in error
    assert main(["chek"]) == 2 and "usage" in capsys.readouterr().err


def test_places_beyond_some_rows_are_not_tried() -> None:
    """An operator that finds rows by numbers of all of them is not called with fewer rows: on a GPU
    that would end the process."""
    tried = []

    schema = "(Tensor x, Tensor places) -> Tensor"

    @torch.library.custom_op("tiled_test::pick", mutates_args=(), schema=schema)
    def pick(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        tried.append((len(x), int(places.max())))
        return x[places] * 1

    @pick.register_fake
    def _(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    def turned(x: torch.Tensor) -> torch.Tensor:
        return pick(x + 1, torch.arange(len(x) - 1, -1, -1))

    tiled_mm.check_invariance(turned, torch.randn(64, 8))
    assert len(tried) > 1
    assert all(place < rows for rows, place in tried)
