"""The tables of bench.errors's documents: in a cell our error / torch.mm's, or our tree's / our
chain's, K along the columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from bench.cells import newest, table

U = 2.0**-24


def _two_digits(x: float) -> str:
    """Two significant digits or all before the point, never in powers of ten."""
    return f"{x:.0f}" if x >= 9.95 else f"{x:.1f}" if x >= 0.995 else f"{x:.2f}"


def _thousandths(x: float) -> str:
    return f"{round(x, 3) + 0.0:g}"  # + 0.0: no minus before a zero


@dataclass(frozen=True)
class Quantity:
    """One of the errors of a record, and how it is shown."""

    key: str
    title: str
    text: Callable[[float], str] = _two_digits
    unit: float = 1.0
    bold: float | None = None  # from so many times torch.mm's on
    data: tuple[str, ...] = ("normal", "uniform")
    sides: tuple[str, str] = ("tiled", "torch")
    every_size: bool = True  # of C; else the largest alone

    def cell(self, record: dict | None) -> str:
        """One side's / the other's; a result of ours that failed has no error to show."""
        if record is None:
            return "-"
        sides = (record[side] for side in self.sides)
        ours, theirs = (None if r["error"] else r[self.key] / self.unit for r in sides)
        shown = "**wrong**" if ours is None else self.text(ours)
        text = f"{shown} / {'-' if theirs is None else self.text(theirs)}"
        if self.bold is None or ours is None or theirs is None or ours < self.bold * theirs:
            return text
        return f"**{text}**"


def _table(quantity: Quantity, documents: Sequence[dict], *, gpu: bool = True) -> str:
    """From the newest document that has errors, of a GPU or of a CPU."""

    def wanted(record: dict) -> bool:
        return record["data"] in quantity.data and all(side in record for side in quantity.sides)

    document, shown = newest(documents, wanted, part="errors", gpu=gpu)
    largest = max((r["n"] for r in shown), default=0)
    shown = [r for r in shown if quantity.every_size or r["n"] == largest]
    by_place = {(r["arithmetic"], r["data"], r["n"], r["k"]): r for r in shown}
    depths = sorted({k for *_, k in by_place})
    rows = []
    for row in dict.fromkeys(place[:3] for place in by_place):
        cells = [quantity.cell(by_place.get((*row, k))) for k in depths]
        arithmetic, data, size = row
        rows.append([f"`{arithmetic}`", data, str(size), *cells])
    header = [quantity.title, "data", "M = N", *(f"K = {k}" for k in depths)]
    return table(header, rows, document, texts=2)


QUANTITIES = {
    "errors": Quantity("frobenius", "‖C - AB‖, in u ‖AB‖", unit=U, bold=2),
    "errors-largest": Quantity("largest", r"largest, in u \|A\|\|B\|", bold=2),
    "errors-tree": Quantity(
        "frobenius", "‖C - AB‖, in u ‖AB‖", unit=U, sides=("tree", "tiled"), every_size=False
    ),
    "errors-bias": Quantity("bias", r"mean, in K u \|A\|\|B\|", _thousandths, data=("uniform",)),
}
TABLES = {name: partial(_table, quantity) for name, quantity in QUANTITIES.items()}
