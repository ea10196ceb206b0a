"""The tables of bench.training's documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench import results
from bench.cells import NOT_MEASURED, error_text, newest, rate_text, ratio_text, table, wrong

Table = tuple[list[str], list[list[str]]]  # a header and rows


def step_table(set_name: str) -> Callable[[Sequence[dict]], str]:
    """A row each candidate of a step, sustained beside burst."""

    def of_newest(documents: Sequence[dict]) -> str:
        document, cases = newest(documents, lambda c: c["set"] == set_name)
        if not cases:
            return NOT_MEASURED
        shape = cases[0]["shape"]
        layers = document["settings"][set_name]["layers"]
        header = [f"{layers} layers {shape['n']} wide, {shape['m']} rows, {shape['dtype']}"]
        modes = [m for m in ("sustained", "burst") if any(c["mode"] == m for c in cases)]
        for mode in modes:
            header += [f"{mode}: ratio", "ms a step", "TF/s"]
        rows = []
        for name in dict.fromkeys(c["name"] for case in cases for c in case["candidates"]):
            row, error = [f"`{name}`"], "-"
            for mode in modes:
                case = next(c for c in cases if c["mode"] == mode)
                record = results.find(case, name)
                row += [ratio_text(record), _milliseconds(record), rate_text(record, 1e12)]
                error = error_text(record) if error == "-" else error
            rows.append([*row, error])
        return table([*header, "error"], rows, document)

    return of_newest


def _milliseconds(record: dict | None) -> str:
    if record is None:
        return "-"
    if record["ours"] and wrong(record):
        return "**wrong**"
    return f"{record['seconds']['median'] * 1e3:.2f}"


def distances(curves: Sequence[dict]) -> dict[str, list[float]]:
    """By name, |loss - L| / |L| of every step, L being the loss of the first curve."""
    first = curves[0]["losses"]
    return {
        c["name"]: [abs(x - y) / abs(y) for x, y in zip(c["losses"], first, strict=False) if y]
        for c in curves
    }


def curves_rows(task: dict, curves: Sequence[dict]) -> Table:
    """Losses at the beginning, the quarters and the end, and the largest distance."""
    last = task["steps"]
    marks = [m for m in dict.fromkeys((1, last // 4, last // 2, 3 * last // 4, last)) if m]
    header = [f"loss, {task['layers']} layers {task['width']} wide, {task['rows']} rows"]
    header += [f"step {mark}" for mark in marks]
    header.append(f"farthest from {curves[0]['name']}")
    apart = distances(curves)
    rows = []
    for curve in curves:
        losses, of_curve = curve["losses"], apart[curve["name"]]
        row = [f"`{curve['name']}`"]
        row += [f"{losses[m - 1]:.5g}" if len(losses) >= m else "-" for m in marks]
        far = "-" if curve is curves[0] or not of_curve else f"{max(of_curve):.1e}"
        rows.append([*row, "**failed**" if curve["error"] else far])
    return header, rows


def curves_table(documents: Sequence[dict]) -> str:
    """From the newest document of a GPU that has curves."""
    document, curves = newest(documents, part="curves")
    if not curves:
        return NOT_MEASURED
    return table(*curves_rows(document["settings"]["loss-curves"], curves), document)
