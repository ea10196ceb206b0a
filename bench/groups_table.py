"""The tables of bench.cpu_table's documents: groups of cases; fractions of the peak; tiny sizes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from bench.cells import NOT_MEASURED, device_name, table, unsteady_mark


def _of_last_cpu(documents: Sequence[dict], what: str) -> list[dict]:
    """The documents, oldest first, with this entry, of the CPU that the newest of them is of."""
    found = [d for d in documents if d.get("cpu") and d["cpu"].get(what)]
    found.sort(key=lambda d: d["environment"]["date"])
    return [d for d in found if device_name(d) == device_name(found[-1])]


def groups_table(documents: Sequence[dict], *, kind: str = "") -> str:
    """Of every group, for each number of threads, the newest document of the CPU that the newest of
    all is of: groups may have been measured by processes of their own. `kind`: "host" of the groups
    for a server's cores, "drawn" of those that seeds draw, else of the others. In bold what misses
    its goal. Behind the least stand its quartiles, and `~` where those of any case of the group
    span more than a factor of two."""
    of_kind = [d for d in documents if _kind_of(d["settings"]) == kind]
    found = _of_last_cpu(of_kind, "summary")
    by_place: dict[tuple[str, int], dict] = {}
    sources: dict[tuple[str, int], dict] = {}
    for document in found:
        for line in document["cpu"]["summary"]:
            place = line["group"], document["cpu"]["threads"]
            by_place[place], sources[place] = line, document
    threads = sorted({count for _, count in by_place})
    header = ["torch.mm's time / ours", "goal: geomean", "least"]
    for count in threads:
        named = "1 thread" if count == 1 else f"{count} threads"
        header += [f"{named}: geomean", "least", "at"]
    rows = []
    for group in dict.fromkeys(group for group, _ in by_place):
        lines = [by_place.get((group, count)) for count in threads]
        cases = [_cases_of(sources.get((group, count)), group) for count in threads]
        goal = next(line["goal"] for line in lines if line)
        row = [f"`{group}`", f"{goal['geomean']:g}", f"{goal['least']:g}" if goal["least"] else "-"]
        for line, measured in zip(lines, cases, strict=True):
            if line is None:
                row += ["-", "-", "-"]
            else:
                geomean, least = (_beside_goal(line, q) for q in ("geomean", "least"))
                row += [geomean, f"{least} {_spread(measured)}", line["where"]]
        rows.append(row)
    parts = [(f"`{group}` ({count})", sources[group, count]) for group, count in sorted(sources)]
    return table(header, rows, parts, threads=False)


def _kind_of(settings: dict) -> str:
    return next((kind for kind in ("host", "drawn") if settings.get(kind)), "")


def _cases_of(document: dict | None, group: str) -> list[dict]:
    return [c for c in document["cpu"]["cases"] if c["group"] == group] if document else []


def _spread(cases: Sequence[dict]) -> str:
    """The quartiles of the least ratio, and a mark where any case was measured badly."""
    worst = min(cases, key=lambda c: c["ratio"])
    mark = max(unsteady_mark(c["ratio_q1"], c["ratio_q3"]) for c in cases)
    return f"({worst['ratio_q1']:.2f}-{worst['ratio_q3']:.2f}){mark}"


def _beside_goal(line: dict, quantity: str) -> str:
    """A ratio, in bold where it misses its goal."""
    text = f"{line[quantity]:.2f}"
    return text if line[quantity] >= line["goal"][quantity] else f"**{text}**"


LEAST_SIZE = 256  # of the squares whose fraction of the peak counts


def peak_table(documents: Sequence[dict]) -> str:
    """Squares' speeds as fractions of the FMA peak that was measured beside them."""
    found = _of_last_cpu(documents, "peak_gflops")
    rows = {}
    for document in found:
        cpu = document["cpu"]
        for kind, peak in cpu["peak_gflops"].items():
            cases = [c for c in cpu["cases"] if c["group"] == kind and c["m"] >= LEAST_SIZE]
            if cases:
                row = [f"`{kind}`", str(cpu["threads"]), f"{peak:.0f}"]
                for side in ("tiled", "torch"):
                    of_peak = [c[f"{side}_gflops"] / peak for c in cases]
                    row += [f"{statistics.geometric_mean(of_peak):.2f}", f"{min(of_peak):.2f}"]
                rows[kind, cpu["threads"]] = row
    header = [f"squares of {LEAST_SIZE} and more", "threads", "peak, GF/s"]
    header += ["tiled: geomean", "least", "torch: geomean", "least"]
    return table(header, list(rows.values()), found[-1] if found else {}, threads=False)


TINY = 32  # the largest size that counts


def tiny_table(documents: Sequence[dict]) -> str:
    """Tiny squares, called from C++."""
    found = _of_last_cpu(documents, "tiny")
    if not found:
        return NOT_MEASURED
    rows, logs = [], []
    for dtype, ratios in found[-1]["cpu"]["tiny"].items():
        counted = {int(size): ratio for size, ratio in ratios.items() if int(size) <= TINY}
        logs += [math.log(ratio) for ratio in counted.values()]
        where = min(counted, key=counted.__getitem__)
        geomean = statistics.geometric_mean(counted.values())
        rows.append([f"`{dtype}`", f"{geomean:.2f}", f"{counted[where]:.2f}", f"{where}³"])
    rows.append(["**all**", f"**{math.exp(statistics.fmean(logs)):.2f}**", "", ""])
    header = [f"at::mm's time / tiled::mm's, 1 … {TINY}", "geomean", "least", "at"]
    return table(header, rows, found[-1], threads=False)
