"""What the tables are made of: which document speaks, and its numbers as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

NOT_MEASURED = "*Not measured yet.*"


# ---- reading documents -------------------------------------------------------------------------


def device_name(document: dict) -> str:
    gpu = document["environment"]["gpu"]
    return gpu["name"] if gpu else document["environment"]["cpu"]["model"]


def of_gpu(document: dict) -> bool:
    return document["environment"]["gpu"] is not None


def last(documents: Iterable[dict]) -> dict | None:
    """The newest of them."""
    return max(documents, key=lambda d: d["environment"]["date"], default=None)


def source(document: dict) -> str:
    """Where its numbers come from, on one line."""
    return f"{_machine(document, True)}, {_run(document)}"


def captions(documents: Sequence[tuple[str, dict]], *, threads: bool = True) -> str:
    """The same of a table whose parts, here by name, come from several documents; on a CPU with its
    threads, unless the table has them."""
    by_source: dict[str, dict[str, list[str]]] = {}
    for part, document in documents:
        runs = by_source.setdefault(_machine(document, threads), {})
        runs.setdefault(_run(document), []).append(part)
    sources = []
    for source, runs in by_source.items():
        if len(runs) == 1:
            sources.append(f"{source}, {next(iter(runs))}")
        else:
            sources.append(
                f"{source}; " + "; ".join(f"{', '.join(p)}: {r}" for r, p in runs.items())
            )
    return f"<sub>{'; '.join(sources)}</sub>"


def _machine(document: dict, threads: bool) -> str:
    e = document["environment"]
    parts = [device_name(document)]
    if e["gpu"]:
        parts.append(f"driver {e['gpu']['driver']}")
    else:
        count = e["cpu"]["threads"]
        parts += [f"{count} thread" + "s" * (count != 1)] * threads + [e["cpu"]["capability"]]
    parts.append(f"torch {e['torch']}")
    if e["cublas"]:
        parts.append(f"cuBLAS {e['cublas']}")
    return ", ".join(parts)


def _run(document: dict) -> str:
    e = document["environment"]
    if not e["commit"]:
        return e["date"][:10]
    changed = " with changes" if e["dirty"] else ""
    return f"{e['date'][:10]}, commit {e['commit'][:12]}{changed}"


def measured(case: dict) -> bool:
    return any(c["seconds"] for c in case["candidates"])


def cubes(document: dict) -> list[tuple[str, str, str, list[dict]]]:
    """(set, dtype, mode, cases) of square row-major problems of at least two sizes: what can be
    drawn over N."""
    groups: dict[tuple[str, str, str], list[dict]] = {}
    for case in document["cases"]:
        s = case["shape"]
        square = s["m"] == s["n"] == s["k"] and s["batch"] == 1 and s["layout"] == "nn"
        # On a GPU "warm" is a study of its own; on a CPU there is nothing else.
        cache = "warm" if document["environment"]["gpu"] is None else "cold"
        if square and case["set"] != "host" and case["cache"] == cache and measured(case):
            groups.setdefault((case["set"], s["dtype"], case["mode"]), []).append(case)
    return [(*key, cases) for key, cases in groups.items() if len(cases) > 1]


def newest(
    documents: Iterable[dict],
    wanted: Callable[[dict], bool] = lambda record: True,
    *,
    part: str = "cases",
    gpu: bool = True,
) -> tuple[dict, list[dict]]:
    """The newest document of a device kind that has wanted records in this part, and those records,
    of cases the measured ones; an empty document and none if there is no such document."""

    def found(document: dict) -> list[dict]:
        records = [r for r in document.get(part) or () if wanted(r)]
        return [c for c in records if measured(c)] if part == "cases" else records

    document = last(d for d in documents if of_gpu(d) == gpu and found(d))
    return ({}, []) if document is None else (document, found(document))


# ---- numbers as text ---------------------------------------------------------------------------


def ratio_number(ratio: float) -> str:
    """Two places after the point; below a tenth, two digits."""
    return f"{ratio:.2f}" if ratio >= 0.0995 else f"{ratio:.2g}"


def unsteady_mark(q1: float, q3: float) -> str:
    """Behind a ratio that says little, by its quartiles: another process ran beside it, or the
    clocks changed."""
    return "~" if q3 > 2 * q1 else ""


def ratio_text(record: dict | None) -> str:
    """Median and quartiles of the ratios by round."""
    if record is None or record["ratio"] is None:
        return "-"
    r = record["ratio"]
    mark = unsteady_mark(r["q1"], r["q3"])
    return "{}{mark} ({}-{})".format(
        *(ratio_number(r[q]) for q in ("median", "q1", "q3")), mark=mark
    )


def wrong(record: dict | None) -> bool:
    return record is not None and (record["check"] is None or not record["check"]["ok"])


def rate_text(record: dict | None, unit: float) -> str:
    """Operations per second in `unit`; a wrong result has no speed."""
    if record is None or record["flops"] is None:
        return "-"
    if record["ours"] and wrong(record):
        return "**wrong**"
    rate = record["flops"] / unit
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.1f}" if rate >= 1 else f"{rate:.2f}"


def sizes_text(m: int, n: int, k: int) -> str:
    return f"{m}³" if m == n == k else f"{m}x{n}x{k}"


def seconds_text(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def time_text(record: dict | None) -> str:
    if record is None or record["seconds"] is None:
        return "-"
    if record["ours"] and wrong(record):
        return "**wrong**"
    return seconds_text(record["seconds"]["median"])


def error_text(record: dict | None) -> str:
    """Relative Frobenius error."""
    if record is None or record["check"] is None or record["check"]["frobenius"] is None:
        return "-"
    error = record["check"]["frobenius"]
    return "exact" if error == 0 else f"{error:.1e}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """A table whose first `texts` columns are text and the others numbers."""
    rule = ["---"] * texts + ["---:"] * (len(header) - texts)
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    sources: dict | Sequence[tuple[str, dict]],
    *,
    texts: int = 1,
    threads: bool = True,
) -> str:
    """The same with its captions below: of one document, or of the parts' by name."""
    if not rows:
        return NOT_MEASURED
    named = [("", sources)] if isinstance(sources, dict) else sources
    return markdown(header, rows, texts) + "\n\n" + captions(named, threads=threads)
