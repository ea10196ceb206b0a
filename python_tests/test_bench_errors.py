"""The benchmark of errors over K: what it computes, its command on the CPU, and its tables."""

from __future__ import annotations

import math

import gates
import pytest
import torch
import typer
from test_bench import CPU, make_document
from torch import Tensor
from typer.testing import CliRunner

from bench import errors, errors_table, report, results


def one_more(c: Tensor) -> Tensor:
    """One element off by one unit of |A||B|, of twos times ones."""
    c = c.clone()
    c[1, 2] -= 16.0
    return c


def test_the_three_errors():
    a, b = torch.full((4, 8), 2.0), torch.ones(8, 5)
    exact, magnitude = errors.reference(a, b)
    assert (exact == 16).all() and torch.equal(exact, magnitude)
    found = errors.compare(one_more(a @ b), exact, magnitude, 8)
    assert found["frobenius"] == pytest.approx(math.sqrt(1 / 20))
    assert found["largest"] == 2.0**24
    assert found["bias"] == pytest.approx(-(2.0**24) / 20 / 8)
    # Towards zero is below zero for negative sums too.
    assert errors.compare(-one_more(a @ b), -exact, magnitude, 8) == found
    for special in (math.nan, math.inf):
        c = a @ b
        c[3, 4] = special
        with pytest.raises(ArithmeticError):
            errors.compare(c, exact, magnitude, 8)


def test_the_reference_is_exact_over_all_chunks(monkeypatch):
    monkeypatch.setattr(errors, "CHUNK", 7)
    a, b = torch.randn(5, 23), torch.randn(23, 6)
    product, magnitude = errors.reference(a, b)
    torch.testing.assert_close(product, a.double() @ b.double(), rtol=1e-14, atol=1e-14)
    torch.testing.assert_close(magnitude, a.abs().double() @ b.abs().double())


@pytest.mark.parametrize("name", errors.SUMS)
@pytest.mark.parametrize("data", errors.DATA)
def test_operands(name, data):
    a, b = errors.operands(errors.SUMS[name], data, 6, 500, CPU)
    assert a.shape == (6, 500) and b.shape == (500, 6)
    assert a.dtype == b.dtype == errors.SUMS[name].dtype
    assert (a.min() >= 0) == (data == "uniform") and (a != 0).sum() > 2900
    if name == "tf32":
        assert (a.view(torch.int32) & 0x1FFF == 0).all()
        plain = errors.operands(errors.SUMS["ieee"], data, 6, 500, CPU)[0]
        assert 0 < ((a - plain) / plain).abs().max() <= 2.0**-11


def test_rounding_to_tf32_is_that_of_the_gates():
    x = torch.cat([torch.randn(4000), 1 + torch.arange(64) * 2.0**-11])
    assert torch.equal(errors.to_tf32(torch.cat([x, -x])), gates.to_tf32(torch.cat([x, -x])))


@pytest.mark.parametrize("name", errors.SUMS)
def test_a_problem_is_measured(name):
    record = errors.measure(name, "uniform", 16, 256, CPU)
    assert record["tiled"]["error"] is None and record["torch"]["error"] is None
    assert 0 < record["tiled"]["largest"] < 64 and 0 < record["torch"]["frobenius"] < 1e-5
    document = make_document([])
    document["errors"] = [record]
    assert results.validate(document) == [] and results.failures(document) == []


def fail(*operands) -> Tensor:
    raise RuntimeError("no kernel")


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda s, a, b: (a @ b).zero_(), "beyond the certain bound, 257 u |A||B|"),
        (lambda s, a, b: a @ b * math.nan, "ArithmeticError: the result is not finite"),
        (fail, "RuntimeError: no kernel"),
    ],
)
def test_a_wrong_result_of_ours_is_a_failure_and_of_a_peer_is_not(monkeypatch, spoil, error):
    for side, failures in (("tiled", 1), ("peer", 0)):
        with monkeypatch.context() as patch:
            patch.setattr(errors, side, spoil)
            document = make_document([], gpu="A GPU")
            document["errors"] = [errors.measure("ieee", "normal", 16, 256, CPU)]
        assert results.validate(document) == []
        found = results.failures(document)
        assert found == [f"errors of ieee normal 16 16 256: {error}"][:failures]
        if side == "tiled":
            assert "| **wrong** / " in report.TABLES["errors"]([document])


def test_the_tables_set_ours_beside_torchs():
    document = make_document([], gpu="A GPU")
    document["errors"] = [
        {
            "arithmetic": "bfloat16",
            "data": data,
            **{"m": 64, "n": 64, "k": k},
            "tiled": {"frobenius": k * 2.0**-24, "largest": 3.14, "bias": -0.1234, "error": None},
            "torch": {"frobenius": 2.0**-23, "largest": 0.25, "bias": -1e-9, "error": None},
        }
        for data in ("normal", "uniform")
        for k in (16, 3)
    ]
    document["errors"][3]["torch"] = dict.fromkeys(("frobenius", "largest", "bias")) | {
        "error": "no kernel"
    }
    assert results.validate(document) == []
    older = make_document([], gpu="A GPU", date="2025-01-01")
    tables = {n: report.TABLES[n]([document, older]).splitlines() for n in errors_table.TABLES}
    frobenius, largest, bias = tables.values()
    assert frobenius[0] == "| ‖C - AB‖, in u ‖AB‖ | data | M = N | K = 3 | K = 16 |"
    assert frobenius[2] == "| `bfloat16` | normal | 64 | 3.0 / 2.0 | **16 / 2.0** |"
    assert frobenius[3] == "| `bfloat16` | uniform | 64 | 3.0 / - | **16 / 2.0** |"
    assert largest[2] == "| `bfloat16` | normal | 64 | **3.1 / 0.25** | **3.1 / 0.25** |"
    assert bias[2] == "| `bfloat16` | uniform | 64 | -0.123 / - | -0.123 / 0 |"
    assert all(lines[-1].startswith("<sub>A GPU, driver 1.2.3") for lines in tables.values())
    for name in errors_table.TABLES:
        assert report.TABLES[name]([older, make_document([])]) == report.NOT_MEASURED


def test_the_command_measures_and_writes(tmp_path):
    app = typer.Typer()
    app.command()(errors.main)
    path = tmp_path / "out.json"
    done = CliRunner().invoke(app, ["--device", "cpu", "--divide", "64", "--json", str(path)])
    assert done.exit_code == 0, done.output
    document = results.read(path)
    ran = [(r["arithmetic"], r["data"], r["n"], r["k"]) for r in document["errors"]]
    sizes, depths = document["settings"]["sizes"], document["settings"]["depths"]
    assert len(sizes) == len(errors.SIZES) and len(depths) == len(errors.DEPTHS)
    sums = ("bfloat16", "float16", "ieee")  # the others are of tensor cores
    wanted = [(s, d, n, k) for s in sums for d in errors.DATA for n in sizes for k in depths]
    assert ran == wanted
    assert done.output.count("| `bfloat16` | uniform |") == 3 * len(sizes)
    assert results.failures(document) == []
