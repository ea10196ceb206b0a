"""The README's figures, the ladder's tables, and what tables of several documents say of them."""

from __future__ import annotations

import re
import statistics

import rungs
from test_bench import make_case, make_document

from bench import cells, ladder_tables, mma_sync_table, regimes, report
from bench.cpu_table import document_of
from bench.shapes import Shape

GPU = "A GPU"


def rows_of(table: str) -> dict[str, list[str]]:
    """A table's rows by their first cell."""
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:] if line[:1] == "|"]
    return {row[0]: row[1:] for row in rows}


def part_case(part: regimes.Products, m: int, n: int, k: int, ratio: float, **more) -> dict:
    """A case of a part, in which torch.mm takes `ratio` seconds and ours one."""
    shape = Shape(m, n, k, "nn", part.dtype)
    times = {"tiled.mm": 1.0, "torch.mm": ratio}
    return {**make_case(part.set_name, shape, times, mode=part.mode), **more}


LARGE = regimes.REGIMES["large"].parts[0]
H100, H200 = regimes.CARDS.values()


def test_the_headline_is_short_and_complete():
    assert len(regimes.HEADLINE) <= 8
    rows = rows_of(report.TABLES["headline"](report.every_document()))
    assert list(rows) == [regimes.REGIMES[name].parts[0].what for name in regimes.HEADLINE]
    assert [what for what, row in rows.items() if "-" in row] == [], "each row is measured"
    means = [float(row[1].split()[0]) for row in rows.values()]
    assert min(means) < 1 < max(means), "losses are shown too"


def test_a_regime_is_of_the_newest_document_of_a_card():
    old = make_document([part_case(LARGE, 64, 64, 64, 8.0)], gpu=H100, date="2026-01-01")
    cases = [part_case(LARGE, 64, 64, 64, 2.0), part_case(LARGE, 128, 64, 64, 0.5)]
    new = make_document(cases, gpu=H100, date="2026-02-01")
    other = make_document([part_case(LARGE, 64, 64, 64, 3.0)], gpu=H200, date="2026-03-01")
    row = rows_of(report.TABLES["regimes"]([new, other, old]))[LARGE.what]
    assert row == ["1.00 (2)", "0.50", "128x64x64 nn", "3.00 (1)", "3.00", "64³ nn"]
    headline = rows_of(report.TABLES["headline"]([new, other, old]))
    assert headline[LARGE.what][:4] == ["H100", "1.00 (2)", "0.50", "128x64x64 nn"]
    only = rows_of(report.TABLES["headline"]([other]))
    assert only[LARGE.what][:2] == ["H200", "3.00 (1)"], "another card where it is the only one"
    assert report.TABLES["regimes"]([]) == report.NOT_MEASURED


def test_wrong_results_and_other_modes_have_no_part_in_a_regime():
    wrong = part_case(LARGE, 64, 64, 64, 9.0)
    wrong["candidates"][0]["check"]["ok"] = False
    others = [
        part_case(LARGE, 64, 64, 64, 9.0, mode="burst"),
        part_case(LARGE, 64, 64, 64, 9.0, cache="warm"),
        part_case(LARGE, 64, 64, 64, 9.0, set="middle16"),
    ]
    right = part_case(LARGE, 64, 64, 64, 2.0)
    document = make_document([wrong, *others, right], gpu=H100)
    assert [p.ratio for p in LARGE.find([document], "H100").points] == [2.0]
    assert LARGE.find([make_document([wrong, *others], gpu=H100)], "H100") is None


def cpu_document(
    group: str, ratios: list[float], threads: int, commit: str, goal: tuple[float, float] = (1, 1)
) -> dict:
    case = {"group": group, "m": 64, "n": 64, "k": 64, "layout": "nn"}
    cases = [{**case, "ratio": r, "tiled_gflops": 10 * r, "torch_gflops": 10.0} for r in ratios]
    line = {
        "group": group,
        "geomean": statistics.geometric_mean(ratios),
        "least": min(ratios),
        "where": "64³",
        "met": False,
        "goal": {"geomean": float(goal[0]), "least": float(goal[1])},
    }
    document = document_of(cases, [line], threads, {}, {})
    document["environment"]["commit"] = commit
    return document


def test_a_cpu_regime_is_of_the_newest_with_its_threads():
    device = next(iter(regimes.CPUS))
    name, threads = regimes.CPUS[device]
    part = regimes.REGIMES["cpu"].parts[0]
    documents = [
        cpu_document(part.groups[0], [2.0, 8.0], threads, "aaa"),
        cpu_document(part.groups[0], [9.0], 1, "bbb"),
    ]
    for document in documents:
        document["environment"]["cpu"]["model"] = name
    row = rows_of(report.TABLES["regimes-cpu"](documents))[part.what]
    assert row[:3] == ["4.00 (2)", "2.00", "64³ nn"]


def test_missed_goals_are_bold_and_each_part_names_its_commit():
    documents = [
        cpu_document("fp32", [0.5, 2.0], 1, "aaa", goal=(1, 0.6)),
        cpu_document("fp64", [3.0], 1, "bbb", goal=(4, 1)),
    ]
    text = report.TABLES["cpu-groups"](documents)
    rows = rows_of(text)
    assert rows["`fp32`"][2:] == ["1.00", "**0.50**", "64³"]
    assert rows["`fp64`"][2:] == ["**3.00**", "3.00", "64³"]
    assert "`fp32` (1): " in text and text.count("commit aaa") == text.count("commit bbb") == 1


def test_sources_that_agree_are_named_once():
    document = make_document([], gpu=GPU)
    assert cells.captions([("a", document), ("b", document)]) == cells.caption(document)
    other = make_document([], gpu="Another")
    both = cells.captions([("a", document), ("b", other)])
    assert both.count("Another") == both.count(GPU) == 1


def ladder(dtype: str, seconds: dict[str, float], n: int = ladder_tables.SIZE) -> dict:
    case = make_case("ladder", Shape(n, n, n, dtype=dtype), {**seconds, "torch.mm": 1.0})
    return make_document([case], gpu=GPU)


def test_every_rung_has_a_section_that_begins_with_its_idea():
    on_gpus = {rung.name for rung in rungs.TABLE if rung.device == "cuda"}
    assert {re.sub(r"_[0-9]+$", "", name) for name in on_gpus} == set(ladder_tables.IDEAS)


def test_every_rung_has_a_row_with_its_idea_and_its_widths():
    documents = [
        ladder("float32", {"naive": 10.0, "shared_tile_8": 5.0, "shared_tile_16": 4.0}),
        ladder("bfloat16", {"naive": 20.0, "hopper": 0.5}),
    ]
    rows = rows_of(report.TABLES["rungs"](documents))
    assert len(rows) == len(ladder_tables.IDEAS)
    by_rung = dict(zip(ladder_tables.IDEAS, rows.values(), strict=True))
    assert by_rung["naive"] == [ladder_tables.IDEAS["naive"], "10.0 %", "5.0 %"]
    assert by_rung["shared_tile"][1:] == ["20.0 %, 25.0 %", "-"]
    assert by_rung["hopper"][1:] == ["-", "200.0 %"]
    of_rung = rows_of(report.TABLES["rung-shared_tile"](documents))
    assert [row[1] for row in of_rung.values()] == ["20.0 %", "25.0 %"]
    assert list(rows_of(report.TABLES["rung-naive"](documents))) == [
        "`naive`, float32",
        "`naive`, bfloat16",
    ]
    small = [ladder("float32", {"naive": 10.0}, n=64)]
    assert report.TABLES["rungs"](small) == report.NOT_MEASURED
    assert report.TABLES["rung-naive"](small) == report.NOT_MEASURED


def test_small_ratios_keep_two_digits():
    shown = {
        1.2345: "1.23",
        0.5: "0.50",
        0.1: "0.10",
        0.0999: "0.10",
        0.0331: "0.033",
        0.002: "0.002",
    }
    assert {x: cells.ratio_number(x) for x in shown} == shown


def mma_sync_document(dtype: str, name: str, rate: float, date: str = "2026-01-01") -> dict:
    """All of the table's problems at so many TF/s, but for the first at half of that."""
    cases = []
    for i, (m, n, k) in enumerate(mma_sync_table.CUTLASS):
        seconds = 2 * m * n * k / (rate * 1e12) * (2 if i == 0 else 1)
        for layout in mma_sync_table.LAYOUTS:
            shape = Shape(m, n, k, layout, dtype)
            cases.append(make_case("mma_sync", shape, {name: seconds, "torch.mm": seconds}))
    return make_document(cases, gpu=GPU, date=date)


def test_mma_sync_stands_beside_cutlass():
    bf16 = mma_sync_document("bfloat16", "async_mma", 400.0)
    text = report.TABLES["mma-sync"]([bf16])
    rows = rows_of(text)
    assert rows["512³"] == ["200"] * 3 + ["27"] and rows["4096³"] == ["400"] * 3 + ["414"]
    peers = list(mma_sync_table.CUTLASS.values())
    ratios = [200 / peers[0], *(400 / peer for peer in peers[1:])]
    mean = statistics.geometric_mean(ratios)
    assert f"bf16 over CUTLASS's: {mean:.2f} in the geometric mean, 0.90 at least." in text


def test_mma_sync_in_tf32_is_held_to_half_of_that():
    """A document of its own, since a run has one precision."""
    bf16 = mma_sync_document("bfloat16", "async_mma", 400.0)
    tf32 = mma_sync_document("float32", "async_mma tf32", 217.0, date="2026-02-01")
    text = report.TABLES["mma-sync"]([bf16, tf32])
    assert rows_of(text)["8192³"] == ["400"] * 3 + ["434"] + ["217"] * 3
    assert "tf32 over 0.5 of CUTLASS's in bf16: " in text and " 0.97 at least." in text
    assert "bf16: 2026-01-01" in text and "tf32: 2026-02-01" in text
    assert report.TABLES["mma-sync"]([]) == report.NOT_MEASURED
