"""The tables of bench.scaled's documents."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.cells import newest, table

FEW = 16  # rows, up to which a rate is the memory's
BESIDE = "torch's time / ours"


def _newest(documents: Sequence[dict], *works: str) -> tuple[dict, list[dict]]:
    """The newest document of a GPU with such work, and its cases."""
    return newest(documents, lambda r: r["work"] in works, part="scaled")


def _spread(values: Sequence[float | None]) -> list[str]:
    """Geomean and least of what there is."""
    values = [v for v in values if v is not None]
    return (
        [f"{statistics.geometric_mean(values):.2f}", f"{min(values):.2f}"] if values else ["-", "-"]
    )


def products_table(documents: Sequence[dict]) -> str:
    """The drawn layers, by rows and recipe."""
    document, cases = _newest(documents, "product")
    rows = []
    for m, recipe in dict.fromkeys((r["m"], r["recipe"]) for r in cases):
        of_kind = [r for r in cases if (r["m"], r["recipe"]) == (m, recipe)]
        few = m <= FEW
        rate = statistics.median(r["gbs" if few else "tflops"] for r in of_kind)
        times = [r["seconds"] for r in of_kind]
        fast = [t["fast"] / t["tiled"] if "fast" in t else None for t in times]
        row = [str(m), recipe, f"{rate:.0f} {'GB/s' if few else 'TF/s'}"]
        row += [*_spread([r["ratio"] for r in of_kind]), _spread(fast)[0]]
        rows.append([*row, *_spread([r["beside_copy"] for r in of_kind])])
    header = ["rows", "recipe", "median", BESIDE, "least", "with fast accumulation"]
    header += ["a copy's time / ours", "least"]
    return table(header, rows, document, texts=2)


def groups_table(documents: Sequence[dict]) -> str:
    document, cases = _newest(documents, "groups", "weight_grad")
    rows = []
    for r in cases:
        ratio = "-" if r["ratio"] is None else f"{r['ratio']:.2f}"
        what = "forward" if r["work"] == "groups" else "weight gradient"
        sizes = [str(r[key]) for key in ("experts", "m", "n", "k")]
        rows.append([what, r["recipe"], *sizes, f"{r['tflops']:.0f}", f"{r['gbs']:.0f}", ratio])
    header = ["pass", "recipe", "experts", "rows", "N", "K", "TF/s", "GB/s", BESIDE]
    return table(header, rows, document, texts=2)


def quantize_table(documents: Sequence[dict]) -> str:
    document, cases = _newest(documents, "quantize")
    rows = []
    for r in cases:
        recipe = "1x128, and the transpose" if r["recipe"] == "both" else r["recipe"]
        rows.append([recipe, f"{r['m']} x {r['k']}", f"{r['gbs']:.0f}", f"{r['beside_copy']:.2f}"])
    header = ["scales", "tensor", "GB/s", "a copy's time / ours"]
    return table(header, rows, document, texts=2)


TABLES = {
    "fp8-products": products_table,
    "fp8-groups": groups_table,
    "fp8-quantize": quantize_table,
}
