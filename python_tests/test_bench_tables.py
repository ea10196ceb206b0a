"""One row of each kind of table, from a document of which it can be worked out by hand: ours takes
a millisecond and torch's two, where nothing else is said."""

from __future__ import annotations

import copy
import re

import pytest
import rungs
from benchmark import make_case, make_document

from bench import ladder_tables, mma_sync_table, regimes, report, results, schema
from bench.shapes import Shape

TIMES = {"tiled": 1e-3, "torch": 2e-3}
MS = {"tiled.mm": 1e-3, "torch.mm": 2e-3}
RATIO = "2.00 (2.00-2.00) | 0.27"
CUBE, LARGE = Shape(512, 512, 512), Shape(4096, 4096, 4096)
HALF = Shape(512, 512, 512, dtype="bfloat16")
PART = regimes.REGIMES["large"].parts[0]
H100, H200 = regimes.CARDS.values()


def case(set_name: str, shape: Shape, times: dict | None = None, **more: object) -> dict:
    """`checked` changes our record, and the others the case."""
    checked = more.pop("checked", {})
    made = make_case(set_name, shape, times or MS, **more)
    made["candidates"][0] |= checked
    return {"cases": [made]}


def of_modes(set_name: str, shape: Shape) -> dict:
    modes = ("burst", "sustained")
    return {"cases": [case(set_name, shape, mode=mode)["cases"][0] for mode in modes]}


def host(times: dict) -> dict:
    above = {"above_floor": {"median": 0.5e-6}}
    cases = [case("host", CUBE, times, grad=g, checked=above)["cases"][0] for g in (False, True)]
    return {"cases": cases}


def cpu(spread: float = 1.1) -> dict:
    """A group whose geometric mean meets its goal and whose least ratio does not, and how far the
    third quartiles are above the ratios."""
    line = {"group": "fp32", "geomean": 2.0, "least": 0.5, "where": "64³", "met": False}
    line["goal"] = {"geomean": 1.5, "least": 0.6}
    sizes = {"group": "fp32", "m": 256, "n": 256, "k": 256, "layout": "nn"}
    cases = [
        sizes
        | {"ratio": r, "ratio_q1": 0.9 * r, "ratio_q3": spread * r}
        | {"tiled_gflops": 20 * r, "torch_gflops": 20.0}
        for r in (0.5, 2.0)
    ]
    return {
        "cpu": {"threads": 1, "peak_gflops": {"fp32": 40.0}, "summary": [line], "cases": cases}
        | {"tiny": {"fp32": {"8": 4.0, "16": 1.0, "64": 0.1}}}
    }


def errors(key: str, ours: float, theirs: float, data: str = "normal") -> dict:
    both = [dict.fromkeys(("frobenius", "largest", "bias"), x) for x in (ours, theirs)]
    sides = {s: b | {"error": None} for s, b in zip(("tiled", "torch"), both, strict=True)}
    place = {"arithmetic": "ieee", "data": data, "m": 64, "n": 64, "k": 16}
    return {"errors": [place | sides]}


def decode(*changed: bool, split_k: bool = True, **more: object) -> dict:
    place = {"dtype": "bfloat16", "layout": "nt", "m": 8, "n": 8192, "k": 8192, "drawn": False}
    found = [place | {"seconds": TIMES, "changed": {"tiled": False, "torch": c}} for c in changed]
    return {"decode": [c | more for c in found], "settings": {"split_k": split_k}}


def model(part: str, *rows: dict) -> dict:
    timed = {"seconds": TIMES} if "seconds" in schema.MODELS[part].__annotations__ else {}
    return {"models": {part: [timed | row for row in rows]}}


def streamed(**more: object) -> dict:
    link = dict.fromkeys(("to_device", "to_host", "both_ways_each"), 50e9)
    link |= dict.fromkeys(("pageable_to_device", "pageable_to_host", "host_copy"), 5e9)
    one = dict.fromkeys(("m", "n", "k"), 64) | {
        "name": "deep",
        "dtype": "float32",
        "host": "pinned",
    }
    one |= {"overlap": True, "memory": 8 * 2**30, "devices": 1, "tiles": 4, "bytes_in": 9}
    one |= {"bytes_out": 4, "seconds": 2.0, "arithmetic_s": 1.8, "link_s": 1.0, "share": 0.9}
    one |= {"equal": True, "error": None} | more
    return {"out_of_core": {"link": link, "arithmetic": {}, "products": [one]}}


def scale(part: str, **row: object) -> dict:
    rows = [{"part": part, "what": "forward", "mode": "graph"} | row]
    return {"scale": {"processes": 2, "rows": rows}}


def scaled(work: str, **more: object) -> dict:
    one = {"name": "x", "work": work, "recipe": "rowwise", "refused": "", "experts": 4, "seed": 7}
    one |= {"m": 4096, "n": 64, "k": 128, "ratio": 2.0, "beside_copy": 0.9, "of_copy": 1.0}
    one |= {"tflops": 70.0, "gbs": 80.0, "seconds": TIMES | {"fast": 1.5e-3}}
    return {"scaled": [one | more]}


def training(**more: object) -> dict:
    curves = [
        {"name": n, "ours": n != "torch", "error": None, "losses": [x] * 4}
        for n, x in (("torch", 4.0), ("tiled", 4.5))
    ]
    task = {"steps": 4, "layers": 3, "width": 16, "rows": 32}
    settings = {"linear-stack": {"layers": 4}, "loss-curves": task}
    return {"curves": curves, "settings": settings} | case("linear-stack", HALF, **more)


PLACE = {"model": "gpt2", "what": "prompt", "tokens": 8}
BITS = {"model": "gpt2", "batch": 2, "of": 200, "largest": 0.5}
COMPILED = {"differ": 1, "setting": "x", "eager": 0, "kernels": 1, "seconds": 1.0}
KINDS = ("bf16", "fp32", "squares")
CHANGED = [{"candidate": "x", "kind": kind, "changed": 1, "of": 9} for kind in KINDS]
OPTIONS = TIMES | {"default": 1e-3}
EPILOGUES = {"tiled": 4e-3, "epilogues": 2e-3, "torch": 3e-3, "max-autotune": 1e-3}
RIVALS = {"triton": 3e-3, "cut cuBLAS": 8e-3, "tiled beside cut cuBLAS": 2e-3}
LINEAR = {"what": "x", "shape": [2, 3, 4]}
GELU = {"mm": 1e-3, "gelu": 1.02e-3}
MMA = Shape(*next(iter(mma_sync_table.CUTLASS)), dtype="bfloat16")
TF32 = {"tiled.mm": 1e-3, "torch.mm tf32": 5e-4, "torch.mm": 2e-3}

# A table, the document's parts, and cells of a row. 2 x 4096³ operations in a millisecond are 137
# Tflop/s; 8192 x 8192 x 2 bytes are 134 MB.
# fmt: off
ROWS: list[tuple[str, dict, str]] = [
    ("ladder", case("ladder", LARGE, {"naive": 1e-2, "torch.mm": 1e-3}), "`naive` | 13.7 | 10.0 %"),
    ("rungs", case("ladder", LARGE, {"naive": 4, "torch.mm": 1}), "| 25.0 % | - |"),
    ("mma-sync", case("mma_sync", MMA, {"async_mma": 1e-5, "torch.mm": 1}), "³ | 27 | - | - | 27"),
    ("squares-bfloat16", of_modes("squares", HALF), f"| 512 | {RATIO} | 0.13 | {RATIO} | 0.13 |"),
    ("host", host({"tiled.mm": 6e-6, "torch.mm": 8e-6}), "`tiled.mm` | 6.00 | 0.50 | 0.75 | 6.00"),
    ("shapes-odd", case("odd", HALF), "512³ nn bfloat16 | 2.00 (2.00-2.00) | 1 ms | 2 ms | 0.27"),
    ("deep-float32", case("deep", CUBE), "| 512³ | 2.00 | 0.27 | 0.13 |"),
    ("fp16x3", case("fp16x3", LARGE, TF32), "| 4096³ | 2.00 | 137 | 68.7 | 275 | 1.0e-07 |"),
    ("activations", case("activations", CUBE, checked={"recomputed": 2e-3}), "| - | 0.2 % |"),
    ("linear-stack", training(mode="burst"), "2.00 (2.00-2.00) | 1.00 | 0.27 | 1.0e-07"),
    ("loss-curves", training(), "| `tiled` | 4.5 | 4.5 | 4.5 | 4.5 | 1.2e-01 |"),
    ("errors", errors("frobenius", 3 * 2.0**-24, 2.0**-24), "| normal | 64 | **3.0 / 1.0**"),
    ("errors-largest", errors("largest", 3.14, 2), "| `ieee` | normal | 64 | 3.1 / 2.0 |"),
    ("errors-bias", errors("bias", -0.1234, 0, "uniform"), "| uniform | 64 | -0.123 / 0 |"),
    ("decode", decode(True), "bfloat16 | nt | 100 MB and more, GB/s | 134 |"),
    ("decode-no-split", decode(True, split_k=False), "| N >= 2048, geomean | 2.00 |"),
    ("decode-bits", decode(True, False, True), "| bfloat16 | 3 | 0 | 2 | - |"),
    ("models-bits", model("bits", BITS | {"arithmetic": "torch", "differ": 50},
                          BITS | {"arithmetic": "tiled", "differ": 0}),
     "| GPT-2 | 2 | equal | 25 % differ, by 0.5 |"),
    ("models-speed", model("speed", PLACE), "| GPT-2 | prompt | 8 | 2.00 | 1 ms | 2 ms |"),
    ("models-finished", model("linear", LINEAR | {"seconds": GELU}), "| gelu | 1.02 ms | +2.0 % |"),
    ("models-linear", model("linear", LINEAR), "| x | 2 x 3 x 4 | 2.00 | 1 ms | 2 ms |"),
    ("models-host", model("host", {"what": "x", "grad": True}), "| x | yes | 2.00 | 1 ms | 2 ms |"),
    ("models-compiled", model("compiled-rows", BITS | COMPILED), "| change in batches 2, by 0.5 |"),
    ("models-compiled-speed", model("compiled-speed", PLACE | {"seconds": OPTIONS}),
     "| 8 | 2.00 | 1 ms | 2 ms | 0.50 |"),
    ("models-compiled-epilogues", model("compiled-epilogues", PLACE | {"seconds": EPILOGUES}),
     "| 8 | 2 ms | 2.00 | 1.50 | 0.50 |"),
    ("models-rivals", model("rivals-bits", *CHANGED),
     "| x | 1 of 9 | 1 of 9 | 1 of 9 |"),
    ("models-rivals-speed", model("rivals-speed", {"shape": [2, 3, 4], "seconds": TIMES | RIVALS}),
     "| 2 x 3 x 4 | 1 ms | 2.00 | 4.00 | 3.00 |"),
    ("models-eager", model("eager-calls", {"what": "mm", "grad": False}), "| mm | 2.00 | 1 ms |"),
    ("out-of-core-link", streamed(), "| pageable, to the device | 5.0 |"),
    ("out-of-core", streamed(), "float32 | pinned | 8 GiB | 1 | 2 s | 1.8 s | 1 s | 90.0% |"),
    ("out-of-core-sweep", streamed(name="sweep"), "| 64 | - | - | - | 2 s | - |"),
    ("scale-tp", scale("tp", seconds=TIMES, tokens=64), "| forward | graph | 64 | 2 ms | 2.00 |"),
    ("scale-bits", scale("bits", values={"differ": 0.5003}), "| 2 | 50 % |"),
    ("scale-steps", scale("steps", values={"again": [7, 132]}), "| 2 | forward | 7 of 132 |"),
    ("fp8-products", scaled("product"), "rowwise | 70 TF/s | 2.00 | 2.00 | 1.50 | 0.90 | 0.90 |"),
    ("fp8-groups", scaled("weight_grad"), "| rowwise | 4 | 4096 | 64 | 128 | 70 | 80 | 2.00 |"),
    ("fp8-quantize", scaled("quantize", recipe="both"), "transpose | 4096 x 128 | 80 | 0.90 |"),
]
OF_CPUS: list[tuple[str, dict, str]] = [
    ("cpu", case("cpu", HALF, cache="warm"), "bfloat16 | 2.00 (2.00-2.00) | 1 ms | 2 ms | 268 |"),
    ("host-cpu", host(MS), "`tiled.mm` | 1000.00 | 0.50 | 0.50 |"),
    ("cpu-groups", cpu(), "| `fp32` | 1.5 | 0.6 | 2.00 | **0.50** (0.45-0.55) | 64³ |"),
    ("cpu-host", cpu() | {"settings": {"host": True}}, "| `fp32` | 1.5 | 0.6 | 2.00 |"),
    ("cpu-peak", cpu(), "| `fp32` | 1 | 40 | 0.50 | 0.25 | 0.50 | 0.50 |"),
    ("cpu-tiny", cpu(), "| `fp32` | 2.00 | 1.00 | 16³ |"),
    ("models-cpu", model("cpu", LINEAR), "| x | 2 x 3 x 4 | 2.00 | 1 ms | 2 ms |"),
]
# fmt: on
CELLS = {name: (parts, row) for name, parts, row in [*ROWS, *OF_CPUS]}


def document(parts: dict, gpu: str | None = "A GPU", date: str = "2026-01-02") -> dict:
    made = make_document([], gpu=gpu, date=date) | copy.deepcopy(parts)
    assert results.validate(made) == []
    return made


@pytest.mark.parametrize("name", CELLS)
def test_a_table_shows_the_newest_measurement_of_its_device(name):
    parts, row = CELLS[name]
    gpu = None if name in {row[0] for row in OF_CPUS} else "A GPU"
    new, old = document(parts, gpu), document(parts, gpu, "2025-01-01")
    table = report.TABLES[name]([new])
    assert row in table and "2026-01-02, commit 0123456789ab" in table
    assert report.TABLES[name]([new, old]) == report.TABLES[name]([old, new]) == table
    lines = [line for line in table.splitlines() if line.startswith("|")]
    assert len({line.replace(r"\|", "").count("|") for line in lines}) == 1
    if not name.startswith(("models", "decode", "cpu-")):
        other = document(parts, "A GPU" if gpu is None else None)
        assert report.TABLES[name]([other]) == report.NOT_MEASURED
    if name.startswith(("models", "scale")):
        assert report.TABLES[name]([new | {"settings": {"small": True}}]) == report.NOT_MEASURED


@pytest.mark.parametrize("name", report.TABLES)
def test_every_table_says_where_nothing_is_measured(name):
    table = report.TABLES[name]([make_document([])])
    assert table == report.NOT_MEASURED or (name == "headline" and table.count("| - |") >= 8)


@pytest.mark.parametrize("name", ["squares-bfloat16", "shapes-odd", "fp16x3", "linear-stack"])
def test_a_wrong_result_has_no_speed(name):
    made = document(CELLS[name][0])
    for found in made["cases"]:
        found["candidates"][0]["check"]["ok"] = False
    table = report.TABLES[name]([made])
    assert "**wrong**" in table and CELLS[name][1] not in table
    made = document(streamed(equal=False) | errors("largest", 1, 1))
    made["errors"][0]["tiled"]["error"] = "beyond the bound"
    assert "| **wrong** | - | - | - |" in report.TABLES["out-of-core"]([made])
    assert "| **wrong** / 1.0 |" in report.TABLES["errors-largest"]([made])
    assert len(results.failures(made)) == 2
    assert len(results.failures(document(streamed(equal=None, error="no kernel")))) == 1


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
    assert f"| H100 | {row} |" in report.TABLES["headline"]([new, other, old])
    assert "| H200 | 3.00 (1) | 3.00 |" in report.TABLES["headline"]([other])
    for more in ({"mode": "burst"}, {"cache": "warm"}, {"set": "middle16"}):
        assert PART.find([found("2026-04-01", H100, 9, **more)], "H100") is None
    new["cases"][0]["candidates"][0]["check"]["ok"] = False
    assert [p.ratio for p in PART.find([new], "H100").points] == [0.5]
    name, threads = next(iter(regimes.CPUS.values()))
    made = document(cpu(), None)
    made["environment"]["cpu"]["model"], made["cpu"]["threads"] = name, threads
    assert "| 1.00 (2) | 0.50 | 256³ nn |" in report.TABLES["regimes-cpu"]([made])


def test_the_headline_is_short_and_shows_losses():
    lines = report.TABLES["headline"](report.every_document()).splitlines()[2:]
    rows = [line.strip("| ").split(" | ") for line in lines if line[:1] == "|"]
    assert len(rows) == len(regimes.HEADLINE) <= 8 and all("-" not in row for row in rows)
    means = [float(row[2].split()[0]) for row in rows]
    assert min(means) < 1 < max(means)


def test_every_rung_has_its_idea():
    on_gpus = {rung.name for rung in rungs.TABLE if rung.device == "cuda"}
    assert {re.sub(r"_[0-9]+$", "", name) for name in on_gpus} == set(ladder_tables.IDEAS)


def test_a_ratio_whose_quartiles_span_more_than_a_factor_of_two_is_marked() -> None:
    assert "**0.50** (0.45-1.00)~ |" in report.TABLES["cpu-groups"]([document(cpu(2.0), None)])
    assert "~" not in report.TABLES["cpu-groups"]([document(cpu(1.8), None)])
