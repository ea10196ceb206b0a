"""The tables of bench.decode's documents."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.cells import newest, table

LARGE = 2048  # columns, from which on memory bounds a product and not its longest chain
SIZES = {"float16": 2, "bfloat16": 2, "float32": 4, "tf32": 4, "fp16x3": 4, "float64": 8}  # bytes
HEAVY = 10**8  # bytes of a weight


def newest_decode(
    documents: Sequence[dict], dtype: str, *, split_k: bool
) -> tuple[dict, list[dict]]:
    """The newest document with this dtype, in which torch had split-K or had it not, and its
    cases."""
    of_kind = (d for d in documents if d["settings"].get("split_k") is split_k)
    return newest(of_kind, lambda c: c["dtype"] == dtype, part="decode")


def ratio(case: dict) -> float:
    """torch.mm's time over ours."""
    return case["seconds"]["torch"] / case["seconds"]["tiled"]


def rate(case: dict) -> float:
    """GB/s of the weight."""
    return case["n"] * case["k"] * SIZES[case["dtype"]] / case["seconds"]["tiled"] * 1e-9


def decode_table(documents: Sequence[dict], *, split_k: bool = True) -> str:
    """Ratios by rows: a line for the large weights, one for the least of them, one for the others,
    and the rate at which large weights are read."""
    rows, sources = [], []
    counts: list[int] = []
    for dtype in SIZES:
        document, cases = newest_decode(documents, dtype, split_k=split_k)
        sources += [(dtype, document)] * bool(cases)
        counts = sorted({c["m"] for c in cases} | set(counts))
        for layout in dict.fromkeys(c["layout"] for c in cases):
            of_layout = [c for c in cases if c["layout"] == layout]
            large = [c for c in of_layout if c["n"] >= LARGE]
            small = [c for c in of_layout if c["n"] < LARGE]
            heavy = [c for c in large if c["n"] * c["k"] * SIZES[dtype] >= HEAVY]
            for name, chosen, cell in (
                ("N >= 2048, geomean", large, lambda cs: _geomean(map(ratio, cs))),
                ("N >= 2048, least", large, lambda cs: f"{min(map(ratio, cs)):.2f}"),
                ("N < 2048, geomean", small, lambda cs: _geomean(map(ratio, cs))),
                (
                    "100 MB and more, GB/s",
                    heavy,
                    lambda cs: f"{statistics.median(map(rate, cs)):.0f}",
                ),
            ):
                by_rows = [[c for c in chosen if c["m"] == m] for m in counts]
                rows.append([dtype, layout, name, *(cell(cs) if cs else "-" for cs in by_rows)])
    header = ["inputs", "layout", "torch.mm's time / ours", *(f"M = {m}" for m in counts)]
    return table(header, rows, sources, texts=3)


def _geomean(values) -> str:
    return f"{statistics.geometric_mean(values):.2f}"


def bits_table(documents: Sequence[dict]) -> str:
    """Of how many problems rows had other bits among 1,024 rows."""
    rows, sources = [], []
    for dtype in SIZES:
        document, cases = newest_decode(documents, dtype, split_k=True)
        without, others = newest_decode(documents, dtype, split_k=False)
        if not cases:
            continue
        sources.append((dtype, document))
        row = [dtype, str(len(cases)), str(sum(c["changed"]["tiled"] for c in cases))]
        row.append(str(sum(c["changed"]["torch"] for c in cases)))
        sources += [(f"{dtype} without split-K", without)] * bool(others)
        changed = sum(c["changed"]["torch"] for c in others)
        rows.append([*row, f"{changed} of {len(others)}" if others else "-"])
    header = ["inputs", "problems", "tiled.mm", "torch.mm", "torch.mm without split-K"]
    return table(header, rows, sources)


TABLES = {
    "decode": decode_table,
    "decode-no-split": lambda documents: decode_table(documents, split_k=False),
    "decode-bits": bits_table,
}
