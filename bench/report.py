"""The tables of README.md and of the pages in docs/, from the documents in bench/results/ alone; of
a page that has a folder of its own there (docs/tables/h100.md has h100/), from that folder's. The
tables of bench.regimes show several cards, and take the documents of all folders.

A table stands between <!-- bench:NAME --> and <!-- /bench:NAME -->. Each is made from the newest
document that has its cases, so a new run of one part replaces that part's tables only.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from bench import results
from bench.cells import (
    NOT_MEASURED,
    error_text,
    newest,
    rate_text,
    ratio_text,
    sizes_text,
    table,
    time_text,
    wrong,
)
from bench.decode_table import TABLES as DECODE_TABLES
from bench.errors_table import TABLES as ERRORS_TABLES
from bench.fp8_training_table import TABLES as FP8_TRAINING_TABLES
from bench.groups_table import groups_table, peak_table, tiny_table
from bench.ladder_tables import TABLES as LADDER_TABLES
from bench.machine import ROOT
from bench.mma_sync_table import mma_sync_table
from bench.models_table import TABLES as MODELS_TABLES
from bench.out_of_core_table import TABLES as OUT_OF_CORE_TABLES
from bench.regimes import TABLES as REGIME_TABLES
from bench.scale_table import TABLES as SCALE_TABLES
from bench.scaled_table import TABLES as SCALED_TABLES
from bench.shapes import SETS, Shape
from bench.training_tables import curves_table, step_table

RESULTS = ROOT / "bench" / "results"
PLOTS = ROOT / "docs" / "plots"

AUTO = "tiled.mm"

_MARKED = re.compile(r"<!-- bench:([\w-]+) -->\n(.*?)<!-- /bench:\1 -->", re.DOTALL)
_MARKER = re.compile(r"<!-- /?bench:")


# ---- tables ------------------------------------------------------------------------------------


def squares_table(documents: Sequence[dict], *, dtype: str) -> str:
    def wanted(case: dict) -> bool:
        return case["set"] == "squares" and case["shape"]["dtype"] == dtype

    document, cases = newest(documents, wanted)
    header = [f"N, {dtype}"]
    for mode in ("burst", "sustained"):
        header += [f"{mode}: ratio", "tiled TF/s", "torch TF/s"]
    header += ["error, tiled", "torch"]
    rows = []
    for n in sorted({c["shape"]["n"] for c in cases}):
        row, errors = [str(n)], ["-", "-"]
        for mode in ("burst", "sustained"):
            case = next((c for c in cases if c["shape"]["n"] == n and c["mode"] == mode), None)
            mine = results.find(case, AUTO) if case else None
            peer = results.find(case, case["peer"]) if case else None
            row += [ratio_text(mine), rate_text(mine, 1e12), rate_text(peer, 1e12)]
            if mine is not None and errors == ["-", "-"]:
                errors = [error_text(mine), error_text(peer)]
        rows.append(row + errors)
    return table(header, rows, document)


def host_table(documents: Sequence[dict], *, gpu: bool = True) -> str:
    document, cases = newest(documents, lambda c: c["set"] == "host", gpu=gpu)
    if not cases:
        return NOT_MEASURED
    size = cases[0]["shape"]["n"]
    header = [f"host time of a {size} x {size} call" if gpu else f"a {size} x {size} call"]
    for grad in ("without gradient", "with gradient"):
        header += [f"{grad}, µs", "above the floor, µs", "of torch.mm's"]
    names = list(dict.fromkeys(c["name"] for case in cases for c in case["candidates"]))
    rows = []
    for name in names:
        row = [f"`{name}`" if "." in name else name]
        for grad in (False, True):
            case = next((c for c in cases if c["grad"] is grad), None)
            record = results.find(case, name) if case else None
            if record is None:
                row += ["-", "-", "-"]
                continue
            row.append(f"{record['seconds']['median'] * 1e6:.2f}")
            above = record["above_floor"]
            row.append("-" if above is None else f"{above['median'] * 1e6:.2f}")
            # The other tables' ratio turned over: here less is better, and says so.
            row.append("-" if record["ratio"] is None else f"{1 / record['ratio']['median']:.2f}")
        rows.append(row)
    return table(header, rows, document)


def _shape_rows(cases: Sequence[dict]) -> list[list[str]]:
    rows = []
    for case in cases:
        mine, peer = results.find(case, AUTO), results.find(case, case["peer"] or "")
        others = [
            f"{c['name']} {time_text(c)}"
            for c in case["candidates"]
            if not c["ours"] and c["name"] != case["peer"] and c["seconds"]
        ]
        rows.append(
            [
                Shape.from_json(case["shape"]).label,
                ratio_text(mine),
                time_text(mine),
                time_text(peer),
                rate_text(mine, 1e12),
                rate_text(peer, 1e12),
                f"{error_text(mine)} / {error_text(peer)}",
                "; ".join(others) or case["note"] or "-",
            ]
        )
    return rows


def set_table(documents: Sequence[dict], *, set_name: str) -> str:
    """Every case of a set, one a row."""

    def wanted(case: dict) -> bool:
        return case["set"] == set_name and case["mode"] == "burst" and case["cache"] == "cold"

    document, cases = newest(documents, wanted)
    header = ["mxnxk", "ratio", "tiled", "torch", "tiled TF/s", "torch TF/s"]
    header += ["error, tiled / torch", "beside"]
    return table(header, _shape_rows(cases), document)


def grid_table(
    documents: Sequence[dict],
    *,
    set_name: str,
    dtype: str,
    mode: str,
    beside: str | None = None,
    errors: bool = False,
    recomputed: bool = False,
) -> str:
    """A set that holds every shape in several layouts: a row a shape, ratios and TF/s by layout,
    and the geometric mean and the least ratio of each layout above them. `beside` is another
    candidate whose TF/s are shown; `errors` appends the largest Frobenius errors of a row, and
    `recomputed` the largest share of C that fp16x3 computed again."""

    def wanted(case: dict) -> bool:
        chosen = case["set"] == set_name and case["shape"]["dtype"] == dtype
        return chosen and case["mode"] == mode

    def sides(case: dict | None) -> list[dict | None]:
        """The records of ours, of the peer, and of the one beside them."""
        if case is None:
            return [None] * (3 if beside else 2)
        ours = next((c for c in case["candidates"] if c["ours"]), None)
        peer = results.find(case, case["peer"] or "")
        return [ours, peer, *([results.find(case, beside)] if beside else [])]

    document, cases = newest(documents, wanted)
    if not cases:
        return NOT_MEASURED
    by_place = {(_sizes(c["shape"]), c["shape"]["layout"]): sides(c) for c in cases}
    layouts = list(dict.fromkeys(layout for _, layout in by_place))
    names = ["tiled", "torch", *([beside] if beside else [])]
    header = [f"{dtype}, {mode}"]
    for layout in layouts:
        header += [f"{layout}: ratio", *(f"{name} TF/s" for name in names)]
    header += ["error, tiled", *names[1:]] * errors + ["computed again"] * recomputed
    rows = []
    for name, summary in (("**geometric mean**", statistics.geometric_mean), ("**least**", min)):
        row = [name]
        for layout in layouts:
            of_layout = [ours for (_, at), (ours, *_) in by_place.items() if at == layout]
            right = [r for r in of_layout if r is not None and r["ratio"] and not wrong(r)]
            ratios = [r["ratio"]["median"] for r in right]
            row += [f"**{summary(ratios):.2f}**" if ratios else "-", *("" for _ in names)]
        rows.append(row + [""] * (len(header) - len(row)))
    for sizes in dict.fromkeys(s for s, _ in by_place):
        row = [sizes]
        for layout in layouts:
            records = by_place.get((sizes, layout), sides(None))
            ratio = records[0]["ratio"] if records[0] else None
            row.append(f"{ratio['median']:.2f}" if ratio else "-")
            row += [rate_text(record, 1e12) for record in records]
        of_row = list(
            zip(*(found for (at, _), found in by_place.items() if at == sizes), strict=True)
        )
        row += [_largest_error(of_side) for of_side in of_row] * errors
        rows.append(row + [_largest_share(of_row[0])] * recomputed)
    return table(header, rows, document)


def _largest_error(records: Iterable[dict | None]) -> str:
    """Of those whose error is known, as error_text."""
    found = [r for r in records if error_text(r) != "-"]
    return error_text(max(found, key=lambda r: r["check"]["frobenius"], default=None))


def _largest_share(records: Iterable[dict | None]) -> str:
    """Of C, as a percentage."""
    shares = [r["recomputed"] for r in records if r and r.get("recomputed") is not None]
    return f"{100 * max(shares):.2g} %" if shares else "-"


def _sizes(shape: dict) -> str:
    data, sizes = shape.get("data", "normal"), sizes_text(shape["m"], shape["n"], shape["k"])
    return sizes if data == "normal" else f"{sizes} {data}"


TABLES: dict[str, Callable[[Sequence[dict]], str]] = {
    **REGIME_TABLES,
    **LADDER_TABLES,
    **{f"squares-{d}": partial(squares_table, dtype=d) for d in SETS["squares"].dtypes},
    "host": host_table,
    "host-cpu": partial(host_table, gpu=False),
    "cpu-groups": groups_table,
    "cpu-drawn": partial(groups_table, kind="drawn"),
    "cpu-host": partial(groups_table, kind="host"),
    "cpu-peak": peak_table,
    "cpu-tiny": tiny_table,
    **{
        f"{name}-{dtype}": partial(grid_table, set_name=name, dtype=dtype, mode=mode)
        for name, mode in (
            ("large16", "sustained"),
            ("large16_drawn", "sustained"),
            ("middle16", "burst"),
            ("middle16_drawn", "burst"),
            ("unaligned16", "burst"),
            ("ieee_drawn", "burst"),
            ("fp64_drawn", "burst"),
            ("complex", "burst"),
            ("deep", "burst"),
            ("tall", "burst"),
        )
        for dtype in SETS[name].dtypes
    },
    "tf32": partial(grid_table, set_name="tf32", dtype="float32", mode="burst"),
    **{
        f"{name}{suffix}": partial(
            grid_table, set_name=name, dtype=dtype, mode=mode, errors=True, **columns
        )
        for suffix, mode in (("", "burst"), ("-sustained", "sustained"))
        for name, dtype, columns in (
            ("fp16x3", "float32", {"beside": "torch.mm tf32"}),
            ("activations", "float32", {"beside": "torch.mm tf32", "recomputed": True}),
            ("ieee", "float32", {}),
            ("fp64", "float64", {}),
        )
    },
    **{name: step_table(name) for name in ("linear-stack", "mlp-step")},
    "loss-curves": curves_table,
    **ERRORS_TABLES,
    **DECODE_TABLES,
    **MODELS_TABLES,
    **OUT_OF_CORE_TABLES,
    **SCALE_TABLES,
    **SCALED_TABLES,
    **FP8_TRAINING_TABLES,
    "mma-sync": mma_sync_table,
    **{f"shapes-{s}": partial(set_table, set_name=s) for s in ("odd", "few_rows", "integers")},
}


SUMMARY = ("host", "ladder", *(f"squares-{d}" for d in SETS["squares"].dtypes))


# ---- the pages ---------------------------------------------------------------------------------


def pages(root: Path = ROOT) -> list[Path]:
    """Every page that may hold tables."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def folder_of(page: Path, folder: Path = RESULTS) -> Path:
    """Where a page's tables come from."""
    own = folder / page.stem
    return own if own.is_dir() else folder


def every_document(folder: Path = RESULTS) -> list[dict]:
    """The documents of the folder and of the pages' own."""
    folders = {folder, *(folder_of(page, folder) for page in pages())}
    return [d for each in sorted(folders) for d in results.read_all(each)]


def rewrite(
    text: str, documents: Sequence[dict], everything: Callable[[], Sequence[dict]] = list
) -> str:
    """`text` with every marked table made anew. `everything` reads the documents of all folders,
    for the tables that show several cards."""
    if 2 * len(_MARKED.findall(text)) != len(_MARKER.findall(text)):
        raise ValueError(
            "every <!-- bench:NAME --> needs a line of its own and a <!-- /bench:NAME --> after it"
        )

    def table(match: re.Match[str]) -> str:
        name = match[1]
        if name not in TABLES:
            raise ValueError(f"no table named {name!r}; there are: {', '.join(TABLES)}")
        chosen = everything() if name in REGIME_TABLES else documents
        return f"<!-- bench:{name} -->\n{TABLES[name](chosen)}\n<!-- /bench:{name} -->"

    return _MARKED.sub(table, text)


def update(page: Path, folder: Path = RESULTS, *, check: bool = False) -> bool:
    """Rewrites the tables of a page (or with `check` only looks); whether they were current."""
    text = page.read_text()
    everything = partial(every_document, folder)
    wanted = rewrite(text, results.read_all(folder_of(page, folder)), everything)
    if wanted == text:
        return True
    if not check:
        page.write_text(wanted)
    return False
