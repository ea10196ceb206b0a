"""The benchmark's table on a terminal, or in a pipe.

A number is shown whole or not at all. Where the table is wider than its place, columns are left
out, the least important first (LEFT_OUT_FIRST), and a line under the table says which. Text may go
on on a further line. A pipe is taken to be 80 columns wide, unless COLUMNS says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

# Problem, candidate, ratio and time always stay.
LEFT_OUT_FIRST = ("GB/s", "quartiles", "error", "rate")

_TEXTS = ("problem", "candidate")
_LEAST_TEXT = 8  # columns of a text that goes on on a further line


@dataclass(frozen=True)
class Row:
    cells: dict[str, str]  # by column
    ours: bool = False
    begins_case: bool = False


def show(console: Console, rows: Sequence[Row], titles: dict[str, str]) -> None:
    """Prints the rows. `titles` names the columns, in their order."""
    everything = _table(rows, titles)
    kept, left_out, table = dict(titles), [], everything
    for column in LEFT_OUT_FIRST:
        if _width(console, table) <= console.width:
            break
        if column in kept:
            left_out.append(kept.pop(column))
            table = _table(rows, kept)
    least = Measurement.get(console, _unlimited(console), table).minimum
    table.width = max(least, min(_width(console, table), console.width))
    console.print(table, crop=False)
    if left_out:
        all_of_it = f"COLUMNS={_width(console, everything)} shows all"
        say(console, f"left out for width: {', '.join(left_out)} ({all_of_it})")


def say(console: Console, line: str, style: str | None = None, *, unbroken: bool = False) -> None:
    """A line as it is, broken between words; one with a path had better be `unbroken`."""
    console.print(line, style=style, markup=False, highlight=False, soft_wrap=unbroken)


def _table(rows: Sequence[Row], titles: dict[str, str]) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column, title in titles.items():
        if column in _TEXTS:
            table.add_column(title, overflow="fold", min_width=_LEAST_TEXT)
        else:
            cells = [title, *(row.cells.get(column, "") for row in rows)]
            width = max(map(len, cells))
            table.add_column(title, justify="right", no_wrap=True, min_width=width)
    for i, row in enumerate(rows):
        if row.begins_case and i:
            table.add_section()
        cells = (row.cells.get(column, "") for column in titles)
        table.add_row(*cells, style="bold" if row.ours else None)
    return table


def _unlimited(console: Console):
    return console.options.update(width=10_000)


def _width(console: Console, table: Table) -> int:
    """That the table has if no text goes on on a further line."""
    return Measurement.get(console, _unlimited(console), table).maximum
