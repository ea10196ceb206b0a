"""The table behind the CPU's blockings, ops/cpu/budgets.inc, as text and in the library."""

from __future__ import annotations

import re

import torch

from bench.machine import ROOT

TABLE = ROOT / "ops" / "cpu" / "budgets.inc"
COLUMNS = ("base", "avx2", "avx512", "avx512_bf16", "amx")  # named after their lowest level
_NUMBER = re.compile(r"^NUMBER\((\w+), (.*)\)$", re.MULTILINE)

Column = dict[str, int]


def columns_in(text: str) -> dict[str, Column]:
    """{column: {number: value}}."""
    found: dict[str, Column] = {column: {} for column in COLUMNS}
    for name, values in _NUMBER.findall(text):
        for column, value in zip(COLUMNS, values.split(", "), strict=True):
            found[column][name] = int(value)
    return found


def with_column(text: str, column: str, values: Column, origin: str) -> str:
    """The table with other values in one column, and in its head where they come from."""

    def line(match: re.Match) -> str:
        row = match[2].split(", ")
        row[COLUMNS.index(column)] = str(values[match[1]])
        return f"NUMBER({match[1]}, {', '.join(row)})"

    head = re.compile(rf"^// {column}: .*$", re.MULTILINE)
    if len(head.findall(text)) != 1:
        raise ValueError(f"the table's head has no line for {column}")
    return head.sub(lambda _: f"// {column}: {origin}", _NUMBER.sub(line, text))


def use_table(text: str) -> None:
    """What a build with this table would choose."""
    for column, values in columns_in(text).items():
        Library(column).use(values)


class Library:
    """A column of the library that is loaded."""

    def __init__(self, column: str) -> None:
        self._column = COLUMNS.index(column)
        self._names = list(columns_in(TABLE.read_text())[column])
        self.values = {
            name: torch.ops.tiled_debug.cpu_budget(number, self._column)
            for number, name in enumerate(self._names)
        }

    def use(self, values: Column) -> None:
        for number, name in enumerate(self._names):
            if values[name] != self.values[name]:
                torch.ops.tiled_debug.cpu_budget(number, self._column, values[name])
        self.values = dict(values)
