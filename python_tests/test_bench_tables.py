"""The README's figures, the ladder's tables, and what tables of several documents say of them."""

from __future__ import annotations

import re
import statistics

import rungs
from test_bench import make_case, make_document

from bench import cells, headline, ladder_tables, mma_sync_table, report, results
from bench.cpu_table import document_of
from bench.shapes import Shape

GPU = "A GPU"


def rows_of(table: str) -> dict[str, list[str]]:
    """A table's rows by their first cell."""
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:] if line[:1] == "|"]
    return {row[0]: row[1:] for row in rows}


def product_case(row: headline.Product, ours: float, theirs: float) -> dict:
    shape = Shape(*row.sizes, row.layout, row.dtype)
    return make_case(row.set_name, shape, {"tiled.mm": ours, "torch.mm": theirs}, mode=row.mode)


PRODUCTS = [row for row in headline.ROWS if isinstance(row, headline.Product)]


def test_the_headline_is_short_and_complete():
    assert len(headline.ROWS) <= 12
    assert len({row.what for row in headline.ROWS}) == len(headline.ROWS)
    rows = rows_of(report.TABLES["headline"](results.read_all(report.RESULTS)))
    assert list(rows) == [row.what for row in headline.ROWS]
    assert [what for what, row in rows.items() if "-" in row] == [], "each row is measured"
    ratios = [float(row[2]) for row in rows.values()]
    assert min(ratios) < 1 < max(ratios), "losses are shown too"


def test_a_headline_row_is_one_case_of_the_newest_document():
    first, second = PRODUCTS[:2]
    old = make_document([product_case(first, 1.0, 4.0)], gpu=GPU, date="2026-01-01")
    new = make_document([product_case(first, 1.0, 3.0)], gpu=GPU, date="2026-02-01")
    other = make_document([product_case(second, 2.0, 1.0)], gpu=GPU, date="2026-03-01")
    text = report.TABLES["headline"]([new, old, other])
    rows = rows_of(text)
    assert rows[first.what][2:] == ["3.00", GPU] and rows[second.what][2:] == ["0.50", GPU]
    assert rows[headline.ROWS[-1].what] == ["-"] * 4
    assert "the results of 2026-01-01 to 2026-03-01" in text


def test_a_case_of_another_mode_layout_or_size_is_not_a_headline():
    row = next(r for r in PRODUCTS if r.mode == "sustained")
    m, n, k = row.sizes
    times = {"tiled.mm": 1.0, "torch.mm": 3.0}
    others = [
        {**product_case(row, 1.0, 3.0), "mode": "burst"},
        {**product_case(row, 1.0, 3.0), "cache": "warm"},
        make_case(row.set_name, Shape(m, n, k, "tt", row.dtype), times),
        make_case(
            row.set_name, Shape(m, n, k + 1, dtype=row.dtype), {"tiled.mm": 1, "torch.mm": 3}
        ),
    ]
    for case in others[2:]:
        case["mode"] = "sustained"
    rows = rows_of(report.TABLES["headline"]([make_document(others, gpu=GPU)]))
    assert rows[row.what] == ["-"] * 4


def test_a_wrong_result_is_no_headline():
    case = product_case(PRODUCTS[0], 1.0, 3.0)
    case["candidates"][0]["check"]["ok"] = False
    rows = rows_of(report.TABLES["headline"]([make_document([case], gpu=GPU)]))
    assert rows[PRODUCTS[0].what][0] == "**wrong**" and rows[PRODUCTS[0].what][2] == "-"


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


def test_a_cpu_headline_is_a_mean_on_the_most_threads():
    row = next(r for r in headline.ROWS if isinstance(r, headline.CpuGroup))
    documents = [
        cpu_document(row.group, [2.0, 8.0], 4, "aaa"),
        cpu_document(row.group, [9.0], 1, "bbb"),
    ]
    ours, theirs, ratio, device = rows_of(report.TABLES["headline"](documents))[row.what]
    assert (ours, theirs, ratio) == ("40 GF/s", "10 GF/s", "4.00")
    assert device.endswith(", 4 threads")


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
