"""The benchmark's own machinery: problems, checks, rounds, records, documents and pages. Stand-ins
take a device's and the library's place, so nothing here measures anything. Tables are tested by
those that the pages show: a table that is made otherwise makes its page stale."""

from __future__ import annotations

import functools
import json
import math
import re
import time

import pytest
import rungs
import torch
from benchmark import (
    CPU,
    StandIn,
    invoke,
    ladder_document,
    make_bench,
    make_case,
    make_document,
)
from torch import Tensor

from bench import (
    arguments,
    bounds,
    candidates,
    cells,
    check,
    cli,
    compact,
    data,
    ladder_tables,
    machine,
    plot,
    regime_plots,
    regimes,
    report,
    results,
)
from bench import out_of_core_trace as trace
from bench.runner import run_case
from bench.shapes import BYTES, DTYPES, LAYOUTS, SETS, Shape, named_set

SMALL = Shape(12, 13, 14)

# ---- problems ----------------------------------------------------------------------------------


def test_every_set_is_made_of_valid_shapes_with_a_source():
    for name, chosen in SETS.items():
        shapes = chosen.shapes()
        assert name == chosen.name and chosen.about and chosen.source and shapes
        assert len(set(shapes)) == len(shapes), f"{name} has a shape twice"
        for shape in shapes:
            assert shape.dtype in DTYPES and shape.layout in LAYOUTS
            assert Shape.from_json(json.loads(json.dumps(shape.to_json()))) == shape
    assert all(torch.empty((), dtype=getattr(torch, d)).itemsize == BYTES[d] for d in DTYPES)
    for device in ("cpu", "cuda"):
        problems = cli.overview(torch.device(device), ())
        assert len(problems) >= 10
        assert all(shape in named_set(name).shapes((shape.dtype,)) for name, shape in problems)


@pytest.mark.parametrize(
    "wrong",
    [
        {"m": 0},
        {"layout": "nx"},
        {"dtype": "float8"},
        {"batch": 0},
        {"data": "relu"},
        {"data": "gelu", "dtype": "int8"},
    ],
    ids=str,
)
def test_invalid_shapes_are_refused(wrong):
    with pytest.raises(ValueError, match=r"must be|of floats"):
        Shape(**{"m": 1, "n": 1, "k": 1, **wrong})


def test_counts_of_operations_and_bytes():
    assert Shape(2, 3, 4).flops == 48
    assert Shape(2, 3, 4, dtype="complex64").flops == 192
    assert Shape(2, 3, 4, dtype="bfloat16", batch=5).bytes == 5 * 2 * (8 + 12 + 6)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_operands_have_the_layout_and_are_random(dtype, layout):
    for batch in (1, 3):
        first, second = data.make_sets(Shape(25, 26, 27, layout, dtype, batch), CPU, 2, seed=1)
        lead = () if batch == 1 else (batch,)
        assert first.a.shape == (*lead, 25, 27) and first.b.shape == (*lead, 27, 26)
        assert (first.a.stride(-1) == 1) == (layout[0] == "n")
        assert (first.b.stride(-1) == 1) == (layout[1] == "n")
        assert len(set(first.a.flatten().tolist())) > 100 and not torch.equal(first.a, second.a)
        first.out.zero_()
        data.poison(first.out)
        floating = first.out.dtype.is_floating_point or first.out.dtype.is_complex
        assert first.out.isnan().all() if floating else (first.out != 0).all()


# ---- checks ------------------------------------------------------------------------------------


def one_off(c: Tensor) -> Tensor:
    return c.index_put((torch.tensor(-1), torch.tensor(-1)), c[-1, -1] + 1)


def one_nan(c: Tensor) -> Tensor:
    return c.index_put((torch.tensor(33), torch.tensor(31)), torch.tensor(math.nan).to(c.dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_right_results_pass_and_wrong_ones_fail(dtype):
    a, b = (x := data.make_sets(Shape(70, 65, 300, dtype=dtype), CPU, 1, seed=3)[0]).a, x.b

    def verdict(spoil=lambda c: c) -> check.Check:
        c = spoil(a.double() @ b.double() if a.dtype.is_floating_point else a @ b)
        return check.check_result(c.to(a.dtype), a, b, tensor_cores=False)

    found = verdict()
    assert found.ok and found.nan_count == 0 and found.frobenius < 0.01
    assert not verdict(torch.zeros_like).ok
    if a.itemsize > 2 or not a.dtype.is_floating_point:
        assert not verdict(one_off).ok
    if a.dtype.is_floating_point:
        assert not verdict(one_nan).ok
        assert dtype == "bfloat16" or not verdict(lambda c: c.bfloat16().double()).ok


def test_tf32_inputs_fail_unless_they_are_asked_for():
    def tf32(x: Tensor) -> Tensor:  # keeps 10 of the 23 bits of the fraction
        return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)

    s = data.make_sets(Shape(70, 65, 2000), CPU, 1, seed=3)[0]
    c = (tf32(s.a).double() @ tf32(s.b).double()).float()
    assert not check.check_result(c, s.a, s.b, tensor_cores=False).ok
    assert check.check_result(c, s.a, s.b, tensor_cores=False, tf32=True).ok


@pytest.mark.parametrize("batch", [1, 4])
def test_what_is_outside_the_sample_is_checked_for_nan_and_every_batch_for_all(batch):
    s = data.make_sets(Shape(600, 600, 8, batch=batch), CPU, 1, seed=3)[0]
    c = s.a @ s.b
    rows = check.sample_indices(600, check.SAMPLES, torch.Generator().manual_seed(0)).tolist()
    assert rows == sorted(set(rows)) and {0, 599} <= set(rows) and len(rows) == check.SAMPLES
    c[..., next(i for i in range(600) if i not in rows), :] = math.nan
    found = check.check_result(c, s.a, s.b, tensor_cores=False)
    assert found.nan_count == 600 * batch and not found.ok
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["nan_count"] == found.nan_count
    if batch > 1:
        c = s.a @ s.b
        c[3] += 1
        assert not check.check_result(c, s.a, s.b, tensor_cores=False).ok


def test_few_large_terms_are_held_to_the_gate_of_any_data():
    s = data.make_sets(Shape(40, 40, 4096, data="softmax"), CPU, 1, seed=1)[0]
    chain = torch.zeros(40, 40)
    for k in range(4096):
        chain += s.a[:, k : k + 1] * s.b[k : k + 1]
    gate = check.any_data_gate(4096)
    assert gate == 512 and not check.check_result(chain, s.a, s.b, tensor_cores=False).ok
    assert check.check_result(chain, s.a, s.b, tensor_cores=False, gate=gate).ok
    for spoil in (torch.zeros_like, lambda c: c * (1 + 2.0**-8), lambda c: c + math.nan):
        assert not check.check_result(spoil(chain), s.a, s.b, tensor_cores=False, gate=gate).ok


# ---- candidates --------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_padded_peer_computes_the_product(layout):
    shape = Shape(13, 21, 35, layout)
    s = data.make_sets(shape, CPU, 1, seed=1)[0]
    c = candidates.torch_mm_padded(shape)(s.a, s.b, s.out)
    assert check.check_result(c, s.a, s.b, tensor_cores=False).ok
    sizes = candidates.padded_sizes(Shape(3, 5, 7, layout, "bfloat16"))
    assert sizes == {"nn": (3, 8, 8), "nt": (3, 8, 8), "tn": (8, 8, 7), "tt": (8, 8, 8)}[layout]


def test_peers_are_the_real_rivals_and_rungs_are_asked_for_once():
    def names(n: int, dtype: str, device: str, precision: str | None = None, batch: int = 1):
        shape = Shape(64, 64, n, dtype=dtype, batch=batch)
        return [c.name for c in candidates.peers(shape, device, precision)]

    assert names(64, "float32", "cuda") == names(64, "float32", "cuda", "ieee") == ["torch.mm"]
    assert names(64, "float32", "cuda", "tf32") == ["torch.mm tf32", "torch.mm"]
    assert names(64, "float32", "cuda", "fp16x3") == ["torch.mm", "torch.mm tf32"]
    assert names(63, "bfloat16", "cuda") == ["torch.mm", "torch.mm padded"]
    assert names(63, "bfloat16", "cpu") == names(64, "int32", "cpu") == ["torch.mm"]
    assert names(64, "int8", "cuda") == ["torch._int_mm"]
    assert names(63, "int8", "cuda") == names(64, "int32", "cuda") == []
    assert names(4, "float32", "cuda", batch=2) == ["torch.bmm"]
    a = torch.ones(2, 2)
    found = candidates.ours(StandIn(), ["auto", "all", "naive"], "tf32", a, a)
    assert [c.name for c in found] == ["tiled.mm tf32", "naive tf32", "register_tile tf32"]
    assert all(c.ours and c.tf32 for c in found)
    found = candidates.ours(StandIn(), ["auto"], "tf32", a.double(), a.double())
    assert [c.name for c in found] == ["tiled.mm"] and not found[0].tf32


@pytest.mark.cuda
def test_every_rung_of_the_ladder_is_known_on_hopper():
    """Else a rung that is there could not be asked for."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("this GPU has not all rungs")
    widths = [f"shared_tile_{width}" for width in (8, 16, 32)]
    expected = {*ladder_tables.IDEAS, *widths} - {"shared_tile"}
    assert set(candidates.TiledOperator().rungs(torch.device("cuda"))) == expected


# ---- cases -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape",
    [
        SMALL,
        Shape(12, 13, 14, "nt", "int32"),
        Shape(5, 5, 5, dtype="float64", batch=2),
        Shape(12, 13, 40, data="softmax"),
    ],
    ids=lambda s: s.label,
)
def test_a_case_is_a_valid_record(shape):
    case = run_case(make_bench(algos=("auto", "all"), precision="fp16x3"), "small", shape)
    document = make_document([case])
    assert results.validate(document) == results.failures(document) == [] and not case["error"]
    by_name = {c["name"].removesuffix(" fp16x3"): c for c in case["candidates"]}
    peer = by_name[case["peer"]]
    assert by_name.keys() == {"tiled.mm", "naive", "register_tile", case["peer"]}
    assert peer["ratio"]["median"] == 1.0 and peer["recomputed"] is None
    for c in by_name.values():
        assert c["rounds"] == 3 and c["check"]["ok"]
        assert c["check"]["gate"] == (40.0 if shape.data == "softmax" else check.GATE)
        assert 0 < c["ratio"]["q1"] <= c["ratio"]["median"] <= c["ratio"]["q3"]
        assert c["flops"] == pytest.approx(shape.flops / c["seconds"]["median"])
    assert by_name["naive"]["intensity"] == 0.25 and by_name["tiled.mm"]["intensity"] is None
    recomputed = 0.5 if shape.dtype == "float32" else None
    assert by_name["tiled.mm"]["recomputed"] == recomputed


def slow(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    time.sleep(0.01)
    return torch.mm(a, b, out=out)


def test_a_slower_one_of_ours_has_a_ratio_below_one_and_is_left_out_of_sustained_runs():
    case = run_case(make_bench(StandIn(rung=slow), algos=("naive",)), "small", SMALL)
    assert 0 < results.find(case, "naive")["ratio"]["median"] < 0.1
    bench = make_bench(StandIn(rung=slow), algos=("naive",), mode="sustained")
    case = run_case(bench, "small", SMALL)
    assert case["note"] == "not run: ours is below half the peer's speed"
    assert results.validate(make_document([case])) == []


@pytest.mark.parametrize(
    "spoil",
    [lambda out: out.zero_(), lambda out: out[-1].fill_(math.nan), data.poison],
    ids=["zeros", "NaN", "not written"],
)
def test_a_wrong_result_of_ours_is_a_failure(spoil):
    case = run_case(make_bench(StandIn(spoil)), "small", SMALL)
    document = make_document([case])
    assert results.validate(document) == []
    (failure,) = results.failures(document)
    assert "wrong result" in failure
    assert cells.rate_text(case["candidates"][0], 1e12) == "**wrong**"


def refuses(*_: object) -> Tensor:
    raise RuntimeError("no kernel\nwith a long story")


def test_errors_are_recorded_and_cost_only_their_own():
    case = run_case(make_bench(StandIn(rung=refuses), algos=("all",)), "small", SMALL)
    by_name = {c["name"]: c for c in case["candidates"]}
    assert by_name["naive"]["error"] == "RuntimeError: no kernel"
    assert by_name["naive"]["seconds"] is None and by_name["register_tile"]["check"]["ok"]
    assert len(results.failures(make_document([case]))) == 1
    case = run_case(make_bench(algos=("broken",)), "small", SMALL)
    assert case["error"] == "RuntimeError: no such rung" and case["candidates"] == []
    assert len(results.failures(make_document([case]))) == 1
    bench = make_bench(limit_s=0.0)
    bench.begin -= 1
    case = run_case(bench, "small", SMALL)
    assert case["note"] == "not run: out of time" and not case["candidates"]


# ---- documents ---------------------------------------------------------------------------------


def test_documents_are_written_and_read(tmp_path):
    document = make_document([make_case("small", SMALL, {"tiled.mm": 1.0, "torch.mm": 2})])
    path = tmp_path / "new" / "a.json"
    results.write(document, path)
    summary = results.read(path)
    assert list(path.parent.iterdir()) == [path]
    mine, peer = summary["cases"][0]["candidates"]
    assert mine["ratio"] == {"median": 2.0, "q1": 2.0, "q3": 2.0}
    assert mine["seconds"] == {"median": 1.0} and mine["check"] == {"frobenius": 1e-7, "ok": True}
    assert [c["flops"] for c in (mine, peer)] == [SMALL.flops, SMALL.flops / 2], "worked out again"
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


@pytest.mark.parametrize(
    "records", [RECORDS, [], [{"a.b": 1}, {"a": {"b": 1}}], [{"a": {"b": None}}], [1]]
)
def test_records_come_back_from_their_table_as_they_were(records):
    packed = json.loads(compact.text(compact.packed({"deep": {"records": records}})))
    assert "columns" in packed["deep"]["records"] or records is not RECORDS
    found = compact.unpacked(packed)["deep"]["records"]
    assert json.dumps(found) == json.dumps(records), "with the types and the order of their keys"


def candidate_of(document: dict) -> dict:
    return document["cases"][0]["candidates"][0]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda d: d.pop("cases"), "cases: Field required"),
        (lambda d: d.update(extra=1), "extra: Extra"),
        (lambda d: d.update(schema=9), "schema 9"),
        (lambda d: d["environment"].pop("gpu"), "environment.gpu"),
        (lambda d: d["environment"].update(torch=None), "environment.torch"),
        (lambda d: d["cases"][0].update(grad=0), "grad"),
        (lambda d: d["cases"][0]["shape"].update(m="4"), "shape.m"),
        (lambda d: candidate_of(d).update(flops=True), "flops"),
        (lambda d: candidate_of(d).update(flops=math.nan), "flops"),
        (lambda d: candidate_of(d)["seconds"].update(median=math.inf), "seconds"),
        (lambda d: candidate_of(d)["check"].pop("ok"), "check.ok"),
    ],
)
def test_invalid_documents_are_refused(spoil, told, tmp_path):
    document = make_document([make_case("small", SMALL, {"tiled.mm": 1.0, "torch.mm": 2})])
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


# ---- tables and pages --------------------------------------------------------------------------


@pytest.mark.parametrize("name", report.TABLES)
def test_every_table_says_where_nothing_is_measured(name):
    table = report.TABLES[name]([make_document([])])
    assert table == report.NOT_MEASURED or (name == "headline" and table.count("| - |") >= 8)


def test_a_regime_is_of_the_newest_right_results_of_a_card():
    part = regimes.REGIMES["large"].parts[0]
    h100, h200 = regimes.CARDS.values()

    def documents_of(date: str, gpu: str, *ratios: float, **more: object) -> dict:
        shapes = (Shape(64 * 2**i, 64, 64, "nn", part.dtype) for i in range(len(ratios)))
        cases = [
            make_case(part.set_name, s, {"tiled.mm": 1.0, "torch.mm": r}, mode=part.mode) | more
            for s, r in zip(shapes, ratios, strict=True)
        ]
        return make_document(cases, gpu=gpu, date=date)

    old, new = documents_of("2026-01-01", h100, 8), documents_of("2026-02-01", h100, 2, 0.5)
    other = documents_of("2026-03-01", h200, 3)
    (row,) = (
        line.strip("| ").split(" | ")[1:]
        for line in report.TABLES["regimes"]([new, other, old]).splitlines()
        if part.what in line
    )
    assert row == ["1.00 (2)", "0.50", "128x64x64 nn", "3.00 (1)", "3.00", "64³ nn"]
    for more in ({"mode": "burst"}, {"cache": "warm"}, {"set": "middle16"}):
        assert part.find([documents_of("2026-04-01", h100, 9, **more)], "H100") is None
    candidate_of(new)["check"]["ok"] = False
    assert [p.ratio for p in part.find([new], "H100").points] == [0.5]


PAGE = """# A title
<!-- bench:ladder -->
old
<!-- /bench:ladder -->
between
<!-- bench:cpu -->
<!-- /bench:cpu -->
after
"""


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


def test_report_command_finds_and_mends_stale_tables(tmp_path, monkeypatch):
    folder, page, own = tmp_path / "results", tmp_path / "README.md", tmp_path / "docs" / "card.md"
    own.parent.mkdir()
    for path in (page, own):
        path.write_text(PAGE)
    assert report.pages(tmp_path) == [page, own]
    monkeypatch.setattr(report, "pages", lambda: [page, own])
    results.write(ladder_document(), folder / "ladder.json")

    def status(*more: str) -> int:
        return invoke(cli.app, "report", "--results", folder, *more).exit_code

    assert status("--check") == 1 and page.read_text() == own.read_text() == PAGE
    assert status() == 0 and status("--check") == 0
    text = page.read_text()
    assert text == own.read_text() and report.NOT_MEASURED in text and "old" not in text
    assert {"# A title", "between", "after"} <= set(text.splitlines())
    results.write(ladder_document(seconds=3.0), folder / "card" / "ladder.json")
    assert status("--check") == 1, "one stale page is enough"
    assert report.update(page, folder, check=True), "the other has its figures from its own folder"


def test_the_pages_are_current(monkeypatch):
    monkeypatch.setattr(results, "read_all", functools.cache(results.read_all))
    for page in report.pages():
        assert report.update(page, check=True), f"{page} is stale: run `make tables`"


def test_committed_results_are_valid():
    folders = {report.RESULTS, *map(report.folder_of, report.pages())}
    for path in sorted(path for folder in folders for path in folder.glob("*.json")):
        assert results.failures(results.read(path)) == [], path


def test_the_headline_is_short_and_shows_losses():
    assert len(regimes.HEADLINE) <= 8
    lines = report.TABLES["headline"](report.every_document()).splitlines()[2:]
    rows = [line.strip("| ").split(" | ") for line in lines if line[:1] == "|"]
    assert [row[0] for row in rows] == [
        regimes.REGIMES[n].parts[0].what for n in regimes.HEADLINE
    ], "each row is measured"
    means = [float(row[2].split()[0]) for row in rows]
    assert min(means) < 1 < max(means)


def test_every_rung_has_its_idea():
    on_gpus = {rung.name for rung in rungs.TABLE if rung.device == "cuda"}
    assert {re.sub(r"_[0-9]+$", "", name) for name in on_gpus} == set(ladder_tables.IDEAS)


# ---- plots -------------------------------------------------------------------------------------


def test_every_rung_has_a_line_of_its_own_and_a_plot_is_the_same_file_each_time(tmp_path):
    names = [name for name in ladder_tables.IDEAS if name != "shared_tile"]
    names += ["shared_tile_8", "shared_tile_16", "shared_tile_32", "tiled.mm", "torch.mm"]
    times = {name: 0.75**i for i, name in enumerate(names)}
    cases = [make_case("ladder", Shape(n, n, n), times) for n in (512, 1024)]
    document = make_document(cases, gpu="A GPU")
    document["ceilings"] = {"copy_bytes_per_s": 4e12, "fp32_flops": 6e13, "fp32_source": "told"}
    cases[-1]["candidates"][0]["intensity"] = 0.25
    (axes,) = plot.rate(document["cases"], "title").axes
    assert [line.get_label() for line in axes.lines] == names
    styles = {(line.get_marker(), line.get_color()) for line in axes.lines}
    assert len(styles) == len({marker for marker, _ in styles}) == len(names)
    first, second = (
        {p.name: p.read_text() for p in plot.plot_document(document, tmp_path)} for _ in range(2)
    )
    kinds = ("run-time", "rate", "roofline")
    assert first.keys() == {f"{kind}-ladder-float32.svg" for kind in kinds}
    assert first == second and "date" not in "".join(first.values())


def test_the_committed_plots_are_of_the_documents_of_the_tables():
    """Else a plot lacks rungs or cases that its table has."""
    documents = results.read_all(report.RESULTS)
    wanted = {}
    for dtype in ladder_tables.DTYPES:
        of_dtype = cells.newest(
            documents,
            lambda c, d=dtype: c["set"] == "ladder" and c["shape"]["dtype"] == d,
            gpu=True,
        )
        for kind in ("rate", "run-time", "roofline"):
            wanted[f"{kind}-ladder-{dtype}"] = [of_dtype[0]]
    for document in documents:  # the last is the newest
        if document.get("curves"):
            wanted["loss-curves"] = [document]
        streamed = (document.get("out_of_core") or {}).get("products", [])
        if any(product["name"] == "sweep" for product in streamed):
            wanted["copies-float32"] = [document]
    everything = report.every_document()
    drawn = {
        f"regime-{name}": regime_plots.regime(name, everything)[1] for name in regimes.REGIMES
    } | {"regimes": regime_plots.overview(everything)[1]}
    plot.plt.close("all")
    committed = sorted(report.PLOTS.iterdir())
    assert {*drawn, "rate-ladder-bfloat16", "loss-curves"} <= {path.stem for path in committed}
    for path in committed:
        told = re.search(r"<desc>(.*)</desc>", path.read_text(encoding="utf-8"))[1]
        found = plot.sources((wanted | drawn)[path.stem])
        assert told == found, f"make {path.name} anew: make tables"
        assert path.suffix == ".svg" and path.stat().st_size <= 25_000, path.name


# ---- commands ----------------------------------------------------------------------------------


def run_bench(monkeypatch, *more: object, operator: StandIn | None = None):
    """`python -m bench` on the CPU; the GPU of a machine that has one is not for these tests."""
    monkeypatch.setattr(cli, "load_operator", lambda: operator or StandIn())
    return invoke(cli.app, "--device", "cpu", "--budget", "0.001", *more)


def test_the_command_measures_and_says_where_its_files_are(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "OUT", tmp_path / "out")
    squares = [("small", Shape(n, n, n)) for n in (4, 8)]  # as many as a plot needs
    monkeypatch.setattr(cli, "expand", lambda *_: squares)
    done = run_bench(monkeypatch, "--set", "small", "--algo", "auto", "--algo", "naive")
    assert done.exit_code == 0, done.output
    said = [line.split(": ")[1] for line in done.output.splitlines()[-3:]]
    plots = [f"out/{kind}-small-float32.svg" for kind in ("run-time", "rate")]
    assert said == ["out/run.json", *plots]
    assert sorted(p.relative_to(tmp_path).as_posix() for p in (tmp_path / "out").iterdir()) == (
        sorted(said)
    )
    document = results.read(tmp_path / said[0])
    assert document["settings"]["algos"] == ["auto", "naive"] and len(document["cases"]) == 2


def test_the_command_fails_when_ours_is_wrong_but_leaves_its_results(monkeypatch, tmp_path):
    path = tmp_path / "out.json"
    wrong = StandIn(lambda out: out.zero_())
    done = run_bench(monkeypatch, "--set", "small", "--json", path, operator=wrong)
    assert done.exit_code == 1 and "wrong result" in done.output
    assert len(results.failures(results.read(path))) == len(SETS["small"].shapes())
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


REFUSED = [
    ("--set nothing", "nothing"),
    ("--dtype float8", "no dtype 'float8'"),
    ("--mode x", "burst, sustained"),
    ("--algo bogus", "no rung 'bogus' on this device; there are: auto, all, naive,"),
    ("--algo naive --algo hopper", "no rung 'hopper' on this device"),
    ("--precision double", "no precision 'double'; there are: ieee, tf32, fp16x3"),
    ("--precision fp16x3", "a CPU computes 'ieee', and has no 'fp16x3' to measure"),
    ("--threads 0", "Invalid value for '--threads'"),
    ("--budget nan", "nan is not above 0"),
    ("--limit 0", "0 is not above 0"),
    ("--device bogus", "no device 'bogus'; there are: auto, cpu, cuda, cuda:N"),
    ("--device cuda:1000", "GPU that torch can use|no device 'cuda:1000'; the last is"),
    ("--share", "--share takes --device, --threads and --json alone"),
    ("ladder --threads 0", "--threads"),
    ("cpu --budget 0", "0 is not above 0|0.0 is not above 0"),
]


@pytest.mark.parametrize(("asked", "told"), REFUSED, ids=[asked for asked, _ in REFUSED])
def test_what_cannot_be_measured_is_refused_before_anything_is(monkeypatch, tmp_path, asked, told):
    path = tmp_path / "out.json"
    monkeypatch.setattr(cli, "run_problems", lambda *_: pytest.fail("something is measured"))
    done = run_bench(monkeypatch, "--set", "small", "--json", path, *asked.split())
    assert done.exit_code == 2 and not path.exists()
    output = " ".join(re.sub("[│╭╮╰╯─]", " ", done.output).split())
    assert re.search(told, output), output


def test_a_precision_without_a_kernel_is_refused():
    """As a GPU refuses it; here the device does not matter."""

    def no_kernel(*_: object) -> Tensor:
        raise NotImplementedError("tiled_mm: no kernel of 'fp16x3' here\nand a trace")

    operator = StandIn()
    operator.call = lambda algo, precision: no_kernel
    with pytest.raises(arguments.typer.BadParameter, match=r"^tiled_mm: no kernel .* here$"):
        arguments.check_kernel(operator, CPU, "fp16x3")
    arguments.check_kernel(operator, CPU, "ieee")


@pytest.mark.parametrize("width", [200, 80, 60, 10])
def test_printed_numbers_are_whole_and_no_line_is_wider_than_the_terminal(
    monkeypatch, capsys, width
):
    names = ("h200_shapes.json", "h200_fp16x3_cut.json", "h200_integers.json")  # the widest
    cases = [c for name in names for c in results.read(report.RESULTS / name)["cases"]]
    monkeypatch.setattr(cli, "console", cli.Console(width=width))
    cli.print_cases(cases, "a title", gpu=True)
    text = capsys.readouterr().out
    assert "…" not in text and (width < 60 or max(map(len, text.splitlines())) <= width)
    lines = iter(text.splitlines())
    records = [record for case in cases for record in case["candidates"]]
    assert len(records) > 300
    for record in records:
        found = cli._numbers(record, 1e-12)
        assert any(found["ratio"] in x and found["time"] in x for x in lines), record


# ---- what other tools say ----------------------------------------------------------------------


def test_counters_are_read_from_a_raw_report():
    columns = {"ID": ("", "0"), "Kernel Name": ("", "naive<float>(Problem)")}
    columns |= {metric: ("%", str(10 * i)) for i, metric in enumerate(bounds.UNITS.values())}
    stall = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    columns |= {stall.format("long_scoreboard"): ("inst", "6"), stall.format("wait"): ("inst", "2")}
    lines = [
        ",".join(f'"{x}"' for x in row) for row in (columns, *zip(*columns.values(), strict=True))
    ]
    found = bounds.parse("==PROF== Connected\n" + "\n".join(lines) + "\n")
    assert found["kernel"] == "naive<float>" and found["units"]["DRAM"] == 50
    assert found["stalls"] == {"long_scoreboard": 0.75, "wait": 0.25}
    with pytest.raises(ValueError, match="no kernel"):
        bounds.parse("==PROF== Connected\n==ERROR== nothing\n")


def test_every_moment_of_a_trace_is_counted_once():
    events = [
        {
            **{"cat": category, "name": name, "ts": begin * 1e6, "dur": (end - begin) * 1e6},
            "args": {"bytes": 100},
        }
        for category, name, begin, end in (
            ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 10, 14),
            ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 14, 18),
            ("kernel", "product", 14, 20),
            ("kernel", "product", 21, 24),
            ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 20, 22),
            ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 25, 27),
            ("cuda_runtime", "cudaMemcpyAsync", 0, 100),
        )
    ]
    found = trace.split([*events, {"name": "process_name"}])
    assert found["total"] == pytest.approx(17)
    assert found["once"] == pytest.approx({"products": 9, "link in": 4, "link out": 3, "idle": 1})
    link = found["stages"]["link in"]
    assert (link["busy"], link["bytes"], link["first"]) == pytest.approx((8, 200, 0))
    assert found["kernels"] == {"product": pytest.approx([6, 3])}
