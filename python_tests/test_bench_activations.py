"""The benchmark's problems whose A comes out of a softmax or a GELU."""

from __future__ import annotations

import math

import pytest
import torch
from test_bench import CPU, StandIn, make_bench, make_case, make_document
from torch import Tensor

from bench import check, cli, data, report, results
from bench.runner import run_case
from bench.shapes import SETS, Shape


class Counting(StandIn):
    """A stand-in of which a share of C was computed again."""

    def recomputed(self, a: Tensor, b: Tensor) -> float | None:
        return 0.25


def test_a_shape_names_its_data_and_old_records_are_normal():
    shape = Shape(4, 5, 6, "nt", data="softmax")
    assert shape.label == "4x5x6 nt softmax float32"
    assert Shape.from_json(shape.to_json()) == shape
    old = {key: value for key, value in Shape(4, 5, 6).to_json().items() if key != "data"}
    assert Shape.from_json(old) == Shape(4, 5, 6)
    case = make_case("small", Shape(4, 5, 6), {"tiled.mm": 1.0, "torch.mm": 2.0})
    for spoil, problems in ((lambda: case.update(shape=old), 0), (lambda: old.update(data=1), 1)):
        spoil()
        assert len(results.validate(make_document([case]))) == problems
    with pytest.raises(ValueError, match="data must be one of"):
        Shape(4, 5, 6, data="relu")
    with pytest.raises(ValueError, match="of floats"):
        Shape(4, 5, 6, data="gelu", dtype="int8")


@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
@pytest.mark.parametrize("batch", [1, 2])
def test_activations_lie_along_the_rows_of_a(layout, batch):
    softmax = data.make_sets(Shape(50, 6, 70, layout, batch=batch, data="softmax"), CPU, 1, seed=1)
    a = softmax[0].a
    assert a.shape[-2:] == (50, 70) and (a > 0).all()
    torch.testing.assert_close(a.sum(-1), torch.ones(a.shape[:-1]))
    assert (a.stride(-1) == 1) == (layout[0] == "n")
    a = data.make_sets(Shape(50, 6, 70, layout, batch=batch, data="gelu"), CPU, 1, seed=1)[0].a
    assert a.min() > -0.18 and ((a < 0) & (a > -1e-4)).any() and a.max() > 5
    normal = data.make_sets(Shape(50, 6, 70, layout, batch=batch), CPU, 1, seed=1)[0]
    assert torch.equal(normal.b, softmax[0].b), "B is what it would be beside normal data"


def test_few_large_terms_are_held_to_the_gate_of_any_data():
    s = data.make_sets(Shape(40, 40, 4096, data="softmax"), CPU, 1, seed=1)[0]
    chain = torch.zeros(40, 40)
    for k in range(4096):
        chain += s.a[:, k : k + 1] * s.b[k : k + 1]
    gate = check.any_data_gate(4096)
    assert gate == 512 and check.any_data_gate(16) == 16
    assert not check.check_result(chain, s.a, s.b, tensor_cores=False).ok
    found = check.check_result(chain, s.a, s.b, tensor_cores=False, gate=gate)
    assert found.ok and found.to_json()["gate"] == 512
    for spoil in (torch.zeros_like, lambda c: c * (1 + 2.0**-8), lambda c: c + math.nan):
        assert not check.check_result(spoil(chain), s.a, s.b, tensor_cores=False, gate=gate).ok


@pytest.mark.parametrize(("kind", "gate"), [("normal", check.GATE), ("softmax", 40.0)])
def test_a_case_records_its_gate_and_what_was_computed_again(kind, gate):
    shape = Shape(12, 13, 40, data=kind)
    case = run_case(make_bench(Counting(), precision="fp16x3"), "activations", shape)
    assert results.validate(make_document([case])) == [] and case["error"] is None
    mine, peer = case["candidates"]
    assert mine["check"]["ok"] and mine["check"]["gate"] == peer["check"]["gate"] == gate
    assert mine["recomputed"] == 0.25 and peer["recomputed"] is None
    # Of another precision or dtype nothing is counted, and a stand-in that cannot is not asked.
    for settings, other in (({}, shape), ({"precision": "fp16x3"}, Shape(9, 9, 9, dtype="int8"))):
        case = run_case(make_bench(StandIn(), **settings), "activations", other)
        assert case["error"] is None and case["candidates"][0]["recomputed"] is None


def test_the_set_is_run_and_shown():
    arguments, _ = cli._PARTS["activations"]
    assert arguments[:4] == ["--set", "activations", "--precision", "fp16x3"]
    cases = []
    for shape in SETS["activations"].shapes():
        times = {"tiled.mm fp16x3": 1e-3, "torch.mm": 2e-3}
        case = make_case("activations", shape, times)
        case["candidates"][0]["recomputed"] = 0.0 if shape.layout == "nn" else 1.5e-6
        cases.append(case)
    table = report.TABLES["activations"]([make_document(cases, gpu="A GPU")])
    header, _, mean, least, softmax, gelu = table.splitlines()[:6]
    assert header.endswith("| error, tiled | torch | torch.mm tf32 | computed again |")
    assert softmax.startswith("| 4096x128x4096 softmax | 2.00 |") and softmax.endswith(
        "0.00015 % |"
    )
    assert gelu.startswith("| 4096x4096x16384 gelu | 2.00 |")
    assert len({line.count("|") for line in (header, mean, least, softmax, gelu)}) == 1
    for case in cases:
        del case["candidates"][0]["recomputed"]
    assert report.TABLES["activations"]([make_document(cases, gpu="A GPU")]).count("| - |") >= 2
