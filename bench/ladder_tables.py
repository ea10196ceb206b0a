"""The tables of the ladder: rungs over sizes, and rungs with their ideas."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench import results
from bench.cells import NOT_MEASURED, newest, rate_text, table
from bench.machine import ROOT

SIZES = (2048, 4096, 8192)
SIZE = 4096  # where one must do
DTYPES = ("float32", "bfloat16")
PAGE = "docs/ladder.md"


def ideas_of(page: Path) -> dict[str, str]:
    """What each rung adds to the one before it: the line in italics below its heading. None where
    the benchmark was carried to a machine without the pages."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    return dict(re.findall(r"^###? (\w+)\n\n\*(.+)\*$", text, re.MULTILINE))


IDEAS = ideas_of(ROOT / PAGE)

# What Nsight Compute calls the waits of a warp.
WAITS = {
    "long_scoreboard": "waits for memory",
    "short_scoreboard": "waits for shared memory",
    "mio_throttle": "waits to issue to shared memory",
    "lg_throttle": "waits to issue to memory",
    "barrier": "waits at barriers",
    "math_pipe_throttle": "waits for arithmetic units",
    "gmma": "waits for wgmma",
    "wait": "waits fixed latencies",
    "not_selected": "waits its turn",
    "sleeping": "sleeps at barriers",
    "no_inst": "waits for instructions",
    "no_instruction": "waits for instructions",
    "dispatch_stall": "waits for dispatch",
}


def _ladder(documents: Sequence[dict], dtype: str) -> tuple[dict, list[dict]]:
    def wanted(case: dict) -> bool:
        return case["set"] == "ladder" and case["shape"]["dtype"] == dtype

    return newest(documents, wanted)


def ladder_table(documents: Sequence[dict], *, dtype: str) -> str:
    document, cases = _ladder(documents, dtype)
    by_size = {c["shape"]["n"]: c for c in cases if c["shape"]["n"] in SIZES}
    names = list(dict.fromkeys(c["name"] for case in cases for c in case["candidates"]))
    header = [f"rung, {dtype}"]
    for n in by_size:
        header += [f"{n}³ TF/s", "of cuBLAS"]
    bounds = bounds_of(documents, dtype)
    if bounds:
        header.append(f"what keeps it there, {SIZE}³")
    rows = []
    for name in names:
        row = [f"`{name}`"]
        for case in by_size.values():
            record = results.find(case, name)
            row += [rate_text(record, 1e12), share_text(record)]
        rows.append(row + [bounds.get(name, "-")] * bool(bounds))
    return table(header, rows, document)


def share_text(record: dict | None) -> str:
    """Of the peer's speed."""
    share = record["ratio"]["median"] if record and record["ratio"] else None
    return "-" if share is None else f"{100 * share:.1f} %"


def bounds_of(documents: Sequence[dict], dtype: str) -> dict[str, str]:
    """For each rung the busiest unit, and what its warps wait for most, by the newest counters."""
    found: dict[str, str] = {}
    for document in sorted(documents, key=lambda d: d["environment"]["date"]):
        for c in document.get("counters", ()):
            if c["dtype"] != dtype:
                continue
            unit = max(c["units"], key=c["units"].get)
            text = f"{unit} {c['units'][unit]:.0f} %"
            waits = {reason: share for reason, share in c["stalls"].items() if reason != "selected"}
            if waits:
                wait = max(waits, key=waits.get)
                text += f"; {WAITS.get(wait, wait)} {100 * waits[wait]:.0f} %"
            found[c["algo"]] = text
    return found


def _at_size(documents: Sequence[dict], dtype: str) -> tuple[dict, dict] | None:
    """The newest document of a dtype's ladder and its case of SIZE."""
    document, cases = _ladder(documents, dtype)
    case = next((c for c in cases if c["shape"]["n"] == SIZE), None)
    return None if case is None else (document, case)


def _widths(case: dict, rung: str) -> list[dict]:
    """A rung's measured candidates: itself, or one for each width."""
    named = (c for c in case["candidates"] if c["name"] == rung or c["name"].startswith(f"{rung}_"))
    return [c for c in named if c["seconds"] is not None]


def rungs_table(documents: Sequence[dict]) -> str:
    """Every rung with its idea, and its speed beside cuBLAS's."""
    places = {dtype: _at_size(documents, dtype) for dtype in DTYPES}
    if not any(places.values()):
        return NOT_MEASURED
    header = ["rung", "idea", *(f"{dtype}, {SIZE}³: of cuBLAS" for dtype in DTYPES)]
    rows = []
    for rung, idea in IDEAS.items():
        row = [f"[`{rung}`](#{rung})", idea]
        for place in places.values():
            shares = [share_text(c) for c in _widths(place[1], rung)] if place else []
            row.append(", ".join(shares) or "-")
        rows.append(row)
    sources = [(dtype, place[0]) for dtype, place in places.items() if place]
    return table(header, rows, sources, texts=2)


TABLES: dict[str, Callable[[Sequence[dict]], str]] = {
    "ladder": partial(ladder_table, dtype="float32"),
    "ladder-bfloat16": partial(ladder_table, dtype="bfloat16"),
    "rungs": rungs_table,
}
