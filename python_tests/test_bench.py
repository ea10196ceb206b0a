"""The benchmark's own machinery: problems, checks, records, documents, pages and plots. A stand-in
takes the library's place, so nothing here measures anything."""

from __future__ import annotations

import functools
import json
import lzma
import math
import re
import time
from dataclasses import replace

import pytest
import torch
from benchmark import CPU, StandIn, invoke, ladder_document, make_case, make_document, refuse
from torch import Tensor

from bench import (
    bounds,
    candidates,
    check,
    cli,
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
from bench.runner import Bench, Settings, run_case
from bench.shapes import BYTES, DTYPES, LAYOUTS, SETS, Shape, named_set
from bench.timing import CpuStopwatch, Rounds

SMALL = Shape(12, 13, 14)


def test_every_set_is_made_of_valid_shapes_with_a_source():
    for name, chosen in SETS.items():
        shapes = chosen.shapes()
        assert name == chosen.name and chosen.about and chosen.source and shapes
        assert len(set(shapes)) == len(shapes), f"{name} has a shape twice"
        assert all(s.dtype in DTYPES and s.layout in LAYOUTS for s in shapes)
        assert all(Shape.from_json(json.loads(json.dumps(s.to_json()))) == s for s in shapes)
    assert all(torch.empty((), dtype=getattr(torch, d)).itemsize == BYTES[d] for d in DTYPES)
    for device in ("cpu", "cuda"):
        problems = cli.overview(torch.device(device), ())
        assert len(problems) >= 10
        assert all(shape in named_set(name).shapes((shape.dtype,)) for name, shape in problems)
    assert Shape(2, 3, 4, dtype="complex64").flops == 4 * Shape(2, 3, 4).flops == 192
    assert Shape(2, 3, 4, dtype="bfloat16", batch=5).bytes == 5 * 2 * (8 + 12 + 6)


def test_invalid_shapes_are_refused():
    for key, value in ("m", 0), ("layout", "nx"), ("dtype", "float8"), ("batch", 0), ("data", "x"):
        with pytest.raises(ValueError, match="must be"):
            replace(SMALL, **{key: value})
    with pytest.raises(ValueError, match="of floats"):
        replace(SMALL, data="gelu", dtype="int8")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [1, 3])
def test_operands_have_the_layout_and_are_random(dtype, layout, batch):
    first, second = data.make_sets(Shape(25, 26, 27, layout, dtype, batch), CPU, 2, seed=1)
    lead = (batch,) * (batch > 1)
    assert first.a.shape == (*lead, 25, 27) and first.b.shape == (*lead, 27, 26)
    assert (first.a.stride(-1) == 1) == (layout[0] == "n")
    assert (first.b.stride(-1) == 1) == (layout[1] == "n")
    assert len(set(first.a.flatten().tolist())) > 100 and not torch.equal(first.a, second.a)
    first.out.zero_()
    data.poison(first.out)
    assert (first.out != 0).all()
    if dtype == "float32":
        assert first.out.isnan().all()
        # Along the rows of A, and with the same B.
        shape = Shape(25, 26, 27, layout, dtype, batch, data="softmax")
        (softmax,) = data.make_sets(shape, CPU, 1, seed=1)
        torch.testing.assert_close(softmax.a.sum(-1), torch.ones(*lead, 25))
        assert torch.equal(softmax.b, first.b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(70, 65, 300), (600, 600, 8), (9, 9, 9, "nn", 4)], ids=str)
def test_right_results_pass_and_wrong_ones_fail(dtype, sizes):
    m, n, k, *more = sizes
    (s,) = data.make_sets(Shape(m, n, k, "nn", dtype, *more[1:]), CPU, 1, seed=3)
    right = s.a.double() @ s.b.double() if s.a.dtype.is_floating_point else s.a @ s.b

    def verdict(c: Tensor) -> check.Check:
        return check.check_result(c.to(s.a.dtype), s.a, s.b, tensor_cores=False)

    assert verdict(right).ok and not verdict(right).nan_count
    wrong = [torch.zeros_like(right)]
    if s.a.itemsize > 2 or not s.a.dtype.is_floating_point:
        wrong.append(right.clone())
        wrong[-1][..., -1, -1] += 1
    if s.a.dtype.is_floating_point:
        wrong += [right.bfloat16()] * (dtype != "bfloat16")
        rows = check.sample_indices(m, check.SAMPLES, torch.Generator().manual_seed(0)).tolist()
        for row in {m - 1, next((i for i in range(m) if i not in rows), 0)}:  # sampled, and not
            wrong.append(right.clone())
            wrong[-1][..., row, :] = math.nan
    for c in wrong:
        assert not verdict(c).ok and json.dumps(verdict(c).to_json(), allow_nan=False)


def test_operands_in_tf32_and_few_large_terms_have_gates_of_their_own():
    def tf32(x: Tensor) -> Tensor:  # keeps 10 of the 23 bits of the fraction
        return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)

    (s,) = data.make_sets(Shape(70, 65, 2000), CPU, 1, seed=3)
    c = (tf32(s.a).double() @ tf32(s.b).double()).float()
    assert not check.check_result(c, s.a, s.b, tensor_cores=False).ok
    assert check.check_result(c, s.a, s.b, tensor_cores=False, tf32=True).ok
    (s,) = data.make_sets(Shape(40, 40, 4096, data="softmax"), CPU, 1, seed=1)
    chain = torch.zeros(40, 40)
    for k in range(4096):
        chain += s.a[:, k : k + 1] * s.b[k : k + 1]
    gate = check.any_data_gate(4096)
    assert gate == 512 and not check.check_result(chain, s.a, s.b, tensor_cores=False).ok
    assert check.check_result(chain, s.a, s.b, tensor_cores=False, gate=gate).ok
    for c in (chain * 0, chain * (1 + 2.0**-8), chain + math.nan):
        assert not check.check_result(c, s.a, s.b, tensor_cores=False, gate=gate).ok


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
    for layout in LAYOUTS:
        (s,) = data.make_sets(Shape(13, 21, 35, layout), CPU, 1, seed=1)
        c = candidates.torch_mm_padded(Shape(13, 21, 35, layout))(s.a, s.b, s.out)
        assert check.check_result(c, s.a, s.b, tensor_cores=False).ok
        sizes = {"nn": (3, 8, 8), "nt": (3, 8, 8), "tn": (8, 8, 7), "tt": (8, 8, 8)}[layout]
        assert candidates.padded_sizes(Shape(3, 5, 7, layout, "bfloat16")) == sizes
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


def measured(shape: Shape, rung: candidates.Call | None = None, **settings: object) -> dict:
    """A valid record of a case."""
    chosen = Settings(rounds=Rounds(least=3, most=3, budget_s=1), **settings)
    watch, begin = CpuStopwatch(region_s=1e-6), time.monotonic() - 1
    bench = Bench(CPU, watch, StandIn(rung), chosen, machine.PowerLog(CPU), begin)
    case = run_case(bench, "small", shape)
    assert results.validate(make_document([case])) == []
    return case


@pytest.mark.parametrize(
    "shape",
    [SMALL, replace(SMALL, dtype="int32"), replace(SMALL, batch=2), replace(SMALL, data="softmax")],
    ids=lambda s: s.label,
)
def test_a_case_is_a_whole_record(shape):
    case = measured(shape, algos=("auto", "all"), precision="fp16x3")
    assert results.failures(make_document([case])) == []
    by_name = {c["name"].removesuffix(" fp16x3"): c for c in case["candidates"]}
    mine, naive, peer = (by_name[name] for name in ("tiled.mm", "naive", case["peer"]))
    assert len(by_name) == 4 and peer["ratio"]["median"] == 1.0 and peer["recomputed"] is None
    for c in by_name.values():
        assert c["check"]["ok"]
        assert c["check"]["gate"] == (14.0 if shape.data == "softmax" else check.GATE)
        assert 0 < c["ratio"]["q1"] <= c["ratio"]["median"] <= c["ratio"]["q3"]
        assert c["flops"] == pytest.approx(shape.flops / c["seconds"]["median"])
    assert (naive["intensity"], mine["intensity"]) == (0.25, None)
    assert mine["recomputed"] == (0.5 if shape.dtype == "float32" else None)


def slow(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    time.sleep(0.01)
    return torch.mm(a, b, out=out)


def unwritten(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    return out


@pytest.mark.parametrize(("rung", "told"), [(unwritten, "wrong result"), (refuse, "no kernel")])
def test_an_error_costs_its_own_candidate(rung, told):
    case = measured(SMALL, rung, algos=("all",))
    (failure,) = results.failures(make_document([case]))
    assert told in failure and results.find(case, "register_tile")["check"]["ok"]
    case = measured(SMALL, algos=("broken",))
    assert results.failures(make_document([case]))[0].endswith("RuntimeError: no such rung")


def test_a_slow_one_has_a_ratio_below_one_and_is_left_out_of_sustained_runs():
    case = measured(SMALL, slow, algos=("naive",))
    assert 0 < results.find(case, "naive")["ratio"]["median"] < 0.1
    case = measured(SMALL, slow, algos=("naive",), mode="sustained")
    assert case["note"] == "not run: ours is below half the peer's speed"
    case = measured(SMALL, limit_s=0.5)
    assert case["note"] == "not run: out of time" and not case["candidates"]


@pytest.fixture
def document() -> dict:
    return make_document([make_case("small", SMALL, {"tiled.mm": 1.0, "torch.mm": 2})])


def test_documents_are_written_and_read(document, tmp_path):
    del document["cases"][0]["shape"]["data"]  # as older files have it
    path = tmp_path / "new" / "a.json"
    results.write(document, path)
    summary = results.read(path)
    mine, peer = summary["cases"][0]["candidates"]
    assert mine["ratio"] == {"median": 2.0, "q1": 2.0, "q3": 2.0}
    assert mine["seconds"] == {"median": 1.0} and mine["check"] == {"frobenius": 1e-7, "ok": True}
    assert [c["flops"] for c in (mine, peer)] == [SMALL.flops, SMALL.flops / 2], "worked out again"
    results.write(summary, path)
    assert results.read(path) == summary, "a summary is its own"
    later = make_document([], date="2027-01-01")
    results.write(later, path.parent / "0.json")
    assert results.read_all(path.parent) == [summary, later] and len([*path.parent.iterdir()]) == 2
    kept = tmp_path / "kept"
    for _ in range(2):
        cli.distil_command([path], kept)
        path = kept / "a.json.xz"
        assert results.read_all(kept) == [summary] and [*kept.iterdir()] == [path]
    assert lzma.decompress(path.read_bytes()) == (tmp_path / "new" / "a.json").read_bytes()


MISSING = object()
INVALID = [
    ("cases", MISSING, "cases: Field required"),
    ("extra", 1, "extra: Extra"),
    ("schema", 9, "schema 9"),
    ("environment.gpu", MISSING, "environment.gpu"),
    ("environment.torch", None, "environment.torch"),
    ("cases.0.grad", 0, "grad"),
    ("cases.0.shape.m", "4", "shape.m"),
    ("cases.0.candidates.0.flops", True, "flops"),
    ("cases.0.candidates.0.flops", math.nan, "flops"),
    ("cases.0.candidates.0.seconds.median", math.inf, "seconds"),
    ("cases.0.candidates.0.check.ok", MISSING, "check.ok"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "told"), INVALID)
def test_invalid_documents_are_refused(document, path, value, told, tmp_path):
    assert results.validate(document) == []
    inner, (*keys, last) = document, path.split(".")
    for key in keys:
        inner = inner[int(key) if key.isdigit() else key]
    inner[last] = value
    if value is MISSING:
        del inner[last]
    assert any(told in problem for problem in results.validate(document))
    with pytest.raises(ValueError, match="not a valid result"):
        results.write(document, tmp_path / "a.json")


def test_the_environment_names_what_a_reader_needs(monkeypatch):
    monkeypatch.setenv("TILED_MM_COMMIT", "abc123-dirty")
    found = machine.environment(CPU)
    assert (found["commit"], found["dirty"]) == ("abc123", True)
    assert found["torch"] == torch.__version__ and found["gpu"] is None


PAGE = """# A title
<!-- bench:ladder -->
old
<!-- /bench:ladder -->
<!-- bench:host-cpu -->
<!-- /bench:host-cpu -->
after
"""


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
    assert text.startswith("# A title\n") and text.endswith("after\n")
    results.write(ladder_document(seconds=3.0), folder / "card" / "ladder.json")
    assert status("--check") == 1, "one stale page is enough"
    assert report.update(page, folder, check=True), "the other has its figures from its own folder"
    for wrong in (("/bench:host", "/bench:x"), ("bench:host", "bench:x"), ("/bench:host-cpu", "")):
        with pytest.raises(ValueError, match=r"bench:NAME|no table named"):
            report.rewrite(PAGE.replace(*wrong), [])


def test_the_pages_are_current(monkeypatch):
    monkeypatch.setattr(results, "read_all", functools.cache(results.read_all))
    for page in report.pages():
        assert report.update(page, check=True), f"{page} is stale: run `make tables`"


def test_committed_results_are_valid():
    folders = {report.RESULTS, *map(report.folder_of, report.pages())}
    for path in sorted(path for folder in folders for path in results.files_in(folder)):
        assert path.suffix == ".xz", f"python -m bench distil {path}"
        document = results.read(path)
        assert results.failures(document) == [], path


def test_every_rung_has_a_line_of_its_own_and_a_plot_is_the_same_file_each_time(tmp_path):
    names = [name for name in ladder_tables.IDEAS if name != "shared_tile"]
    names += ["shared_tile_8", "shared_tile_16", "shared_tile_32", "tiled.mm", "torch.mm"]
    times = {name: 0.75**i for i, name in enumerate(names)}
    cases = [make_case("ladder", Shape(n, n, n), times) for n in (512, 1024)]
    document = make_document(cases, gpu="A GPU")
    document["ceilings"] = {"copy_bytes_per_s": 4e12, "fp32_flops": 6e13, "fp32_source": "told"}
    cases[-1]["candidates"][0]["intensity"] = 0.25
    (axes,) = plot.rate(document["cases"], "title").axes
    assert [line.get_label() for line in axes.lines] == names and axes.get_yscale() == "log"
    styles = {(line.get_marker(), line.get_color()) for line in axes.lines}
    assert len(styles) == len({marker for marker, _ in styles}) == len(names)
    first, second = (
        {p.name: p.read_text() for p in plot.plot_document(document, tmp_path)} for _ in range(2)
    )
    kinds = ("run-time", "rate", "roofline")
    assert first.keys() == {f"{kind}-ladder-float32.svg" for kind in kinds}
    assert first == second and "date" not in "".join(first.values())
    assert plot.copies([{"host": "pinned", "overlap": True, "n": 8, "seconds": 1, "equal": 1}], "")
    assert plot.ticks((1023, 1024, 1025, 4095, 4096)) == [1024, 4096]


def test_the_committed_plots_are_of_the_documents_of_the_tables():
    """Else a plot lacks rungs or cases that its table has."""
    documents = results.read_all(report.RESULTS)
    wanted = {}
    for document in documents:  # the last is the newest
        on_gpu = document["environment"]["gpu"] is not None
        for name in {c["shape"]["dtype"] for c in document["cases"] if c["set"] == "ladder"}:
            for kind in ("rate", "run-time", "roofline") if on_gpu else ():
                wanted[f"{kind}-ladder-{name}"] = [document]
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


@pytest.mark.parametrize("width", [200, 80, 60, 10])
def test_printed_numbers_are_whole_and_no_line_is_wider_than_the_terminal(
    monkeypatch, capsys, width
):
    names = ("h200_shapes", "h200_fp16x3_burst", "h200_integers")  # the widest
    files = [report.RESULTS / f"{name}.json.xz" for name in names]
    cases = [c for file in files for c in results.read(file)["cases"]]
    monkeypatch.setattr(cli, "console", cli.Console(width=width))
    cli.print_cases(cases, "a title", gpu=True)
    text = capsys.readouterr().out
    assert "…" not in text and (width < 60 or max(map(len, text.splitlines())) <= width)
    lines = iter(text.splitlines())
    for record in (record for case in cases for record in case["candidates"]):
        found = cli._numbers(record, 1e-12)
        assert any(found["ratio"] in x and found["time"] in x for x in lines), record


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
        {"cat": category, "name": name, "args": {"bytes": 100}}
        | {"ts": begin * 1e6, "dur": (end - begin) * 1e6}
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
