"""A line that shows how far a program of several steps is."""

from __future__ import annotations

import sys


class Bar:
    """How many of so many steps have begun, and which one goes on, on one line of stderr.

    ``shown`` says whether to show it; None: where stderr is a terminal."""

    def __init__(self, count: int, shown: bool | None) -> None:
        self.count, self.done = count, 0
        self.shown = sys.stderr.isatty() if shown is None else shown

    def step(self, what: str) -> None:
        self.done += 1
        if self.shown:
            filled = 30 * self.done // self.count
            bar = "#" * filled + "." * (30 - filled)
            print(f"\r[{bar}] {what:<40.40}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.shown:
            print("\r" + " " * 74 + "\r", end="", file=sys.stderr, flush=True)
