"""Tables, of the documents in bench/results/, whose rows the pages hold for anyone to look at:
test_bench.py compares the pages whole. Here is which document a table takes, and how it says what
went wrong."""

from __future__ import annotations

import copy
import functools
import re

import pytest
import rungs
from benchmark import make_case, make_document

from bench import ladder_tables, regimes, report, results
from bench.cells import of_gpu
from bench.shapes import Shape

PART = regimes.REGIMES["large"].parts[0]
H100, H200 = regimes.CARDS.values()


@functools.cache
def committed() -> list[dict]:
    return results.read_all(report.RESULTS)


def elsewhere(document: dict, **environment: object) -> dict:
    """The same measurements of another machine or day."""
    return document | {"environment": document["environment"] | environment}


@pytest.mark.parametrize("name", report.TABLES)
def test_a_table_shows_the_newest_measurement_of_its_device(name):
    table_of, documents = report.TABLES[name], committed()
    table = table_of(documents)
    assert table != report.NOT_MEASURED, "no page can show it"
    older = [
        elsewhere(d, date=f"2020{d['environment']['date'][4:]}", commit="0ld") for d in documents
    ]
    assert table_of([*older, *documents]) == table_of([*documents, *older][::-1]) == table
    gpu = table_of([d for d in documents if of_gpu(d)]) == table
    of_kind = [d for d in documents if of_gpu(d) == gpu]
    assert table_of(of_kind) == table
    other = None if gpu else {"name": "A GPU", "driver": "1"}
    if not name.startswith(("models", "decode", "cpu-", "headline", "regimes")):
        assert table_of([elsewhere(d, gpu=other) for d in of_kind]) == report.NOT_MEASURED
    lines = [line for line in table.splitlines() if line.startswith("|")]
    assert len({line.replace(r"\|", "").count("|") for line in lines}) <= 1
    if name.startswith(("models", "scale")):
        small = [document | {"settings": {"small": True}} for document in documents]
        assert table_of(small) == report.NOT_MEASURED


@pytest.mark.parametrize("name", report.TABLES)
def test_every_table_says_where_nothing_is_measured(name):
    table = report.TABLES[name]([make_document([])])
    assert table == report.NOT_MEASURED or (name == "headline" and table.count("| - |") >= 8)


@pytest.mark.parametrize("name", ["squares-bfloat16", "shapes-odd", "fp16x3", "linear-stack"])
def test_a_wrong_result_has_no_speed(name):
    assert "**wrong**" not in report.TABLES[name](committed())
    made = copy.deepcopy(committed())
    for candidate in (c for d in made for case in d["cases"] for c in case["candidates"]):
        candidate["check"] = candidate["check"] and candidate["check"] | {"ok": False}
    assert "**wrong**" in report.TABLES[name](made)


def test_a_wrong_or_failed_product_is_told_in_its_table_and_fails_its_document():
    def last_with(key: str) -> dict:
        return copy.deepcopy([d for d in committed() if d.get(key) and of_gpu(d)][-1])

    made = last_with("out_of_core")
    assert results.failures(made) == []
    wrong, failed, *_ = made["out_of_core"]["products"]
    wrong["equal"] = False
    failed |= {"seconds": None, "equal": None, "error": "no kernel"}
    table = report.TABLES["out-of-core"]([made])
    assert "| **wrong** | - | - | - |" in table and "| - | - | - | - |" in table
    assert len(results.failures(made)) == 2
    made = last_with("errors")
    made["errors"][0]["tiled"]["error"] = "beyond the bound"
    assert report.TABLES["errors-largest"]([made]).count("**wrong** / ") == 1
    assert len(results.failures(made)) == 1


def test_a_regime_is_of_the_newest_right_results_of_a_card():
    def found(date: str, gpu: str, *ratios: float, **more: object) -> dict:
        shapes = (Shape(64 * 2**i, 64, 64, "nn", PART.dtype) for i in range(len(ratios)))
        more = {"mode": PART.mode} | more
        cases = [
            make_case(PART.set_name, s, {"tiled.mm": 1.0, "torch.mm": r}, **more)
            for s, r in zip(shapes, ratios, strict=True)
        ]
        return make_document(cases, gpu=gpu, date=date)

    old, new = found("2026-01-01", H100, 8), found("2026-02-01", H100, 2, 0.5)
    other = found("2026-03-01", H200, 3)
    row = "1.00 (2) | 0.50 | 128x64x64 nn"
    assert f"{row} | 3.00 (1) | 3.00 | 64³ nn" in report.TABLES["regimes"]([new, other, old])
    assert "| 3.00 (1) | 0 | 3.00 | 64³ nn |" in report.TABLES["headline"]([new, other, old])
    assert "| 1.00 (2) | 1 | 0.50 | 128x64x64 nn |" in report.TABLES["headline"]([new, old])
    for more in ({"mode": "burst"}, {"cache": "warm"}, {"set": "middle16"}):
        assert PART.find([found("2026-04-01", H100, 9, **more)], "H100") is None
    new["cases"][0]["candidates"][0]["check"]["ok"] = False
    assert [p.ratio for p in PART.find([new], "H100").points] == [0.5]
    name, threads = next(iter(regimes.CPUS.values()))
    made = make_document([])
    made["environment"]["cpu"]["model"] = name
    sizes = {"group": "fp32", "m": 256, "n": 256, "k": 256, "layout": "nn"}
    speeds = [{"ratio": r, "tiled_gflops": 20 * r, "torch_gflops": 20.0} for r in (0.5, 2.0)]
    made["cpu"] = {"threads": threads, "cases": [sizes | speed for speed in speeds]}
    assert "| 1.00 (2) | 0.50 | 256³ nn |" in report.TABLES["regimes-cpu"]([made])


def test_scaled_products_are_a_regime_by_recipe_and_rows():
    """With what torch refused left out, and the newest document of a card."""
    large, tensorwise, others = regimes.REGIMES["scaled"].parts
    sizes = {"work": "product", "n": 512, "k": 256, "tflops": 6.0}
    cases = [
        sizes | {"recipe": recipe, "m": m, "ratio": ratio}
        for recipe, m, ratio in (
            *(("tensorwise", 4096, 2.0), ("rowwise", 4096, 0.5), ("tensorwise", 16, 0.75)),
            *(("rowwise", 1, 3.0), ("blockwise", 1, None)),
        )
    ]
    new = make_document([], gpu=H200, date="2026-02-01") | {"scaled": cases}
    old = make_document([], gpu=H200, date="2026-01-01") | {"scaled": cases[:1]}
    ratios = [
        [p.ratio for p in part.find([new, old], "H200").points]
        for part in regimes.REGIMES["scaled"].parts
    ]
    assert ratios == [[2.0, 0.5], [0.75], [3.0]]
    found = large.find([new], "H200")
    assert found.least.label == "4096x512x256 rowwise" and found.least.theirs == 12e12
    assert tensorwise.find([new], "H100") is None and others.find([old], "H200") is None


def test_the_headline_is_short_and_shows_losses():
    lines = report.TABLES["headline"](report.every_document()).splitlines()[2:]
    rows = [line.strip("| ").split(" | ") for line in lines if line[:1] == "|"]
    assert len(rows) == len(regimes.HEADLINE) <= 8 and all("-" not in row for row in rows)
    means = [float(row[1].split()[0]) for row in rows]
    assert min(means) < 1 < max(means)


def test_every_rung_has_its_idea():
    on_gpus = {rung.name for rung in rungs.TABLE if rung.device == "cuda"}
    assert {re.sub(r"_[0-9]+$", "", name) for name in on_gpus} == set(ladder_tables.IDEAS)


def test_a_ratio_whose_quartiles_span_more_than_a_factor_of_two_is_marked() -> None:
    made = copy.deepcopy([d for d in committed() if d.get("cpu") and d["cpu"]["summary"]][-1])
    made["settings"] |= {"host": False, "drawn": []}
    for case in made["cpu"]["cases"]:
        case |= {"ratio_q1": 0.9 * case["ratio"], "ratio_q3": 1.7 * case["ratio"]}
    assert "~" not in report.TABLES["cpu-groups"]([made])
    made["cpu"]["cases"][0]["ratio_q3"] *= 1.1
    assert "~" in report.TABLES["cpu-groups"]([made])


def test_each_table_of_groups_has_its_own_kind() -> None:
    made = copy.deepcopy([d for d in committed() if d.get("cpu") and d["cpu"]["summary"]][-1])
    kinds = {"cpu-groups": {}, "cpu-drawn": {"drawn": [101]}, "cpu-host": {"host": True}}
    for owner, settings in kinds.items():
        made["settings"] = settings
        for name in kinds:
            shown = report.TABLES[name]([made])
            assert (made["cpu"]["summary"][0]["group"] in shown) == (name == owner), (owner, name)
