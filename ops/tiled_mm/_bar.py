"""A line that shows how far a program is."""

from __future__ import annotations

import sys


class Bar:
    """A line on stderr: a bar, and some words behind it. Where stderr is missing, closed or goes
    away, there is no line: no program ends for want of it.

    ``shown`` says whether to show it; None: where stderr is a terminal. ``steps`` are those that
    :meth:`step` counts."""

    WIDTH = 30

    def __init__(self, shown: bool | None, steps: int = 1) -> None:
        self.shown = _on_terminal() if shown is None else shown
        self._steps, self._begun = steps, 0
        self._drawn = False

    def step(self, what: str) -> None:
        """One more step has begun."""
        self._begun += 1
        self.draw(self._begun / self._steps, f"{what:<40.40}")

    def draw(self, share: float, words: str) -> None:
        if self.shown:
            full = round(share * self.WIDTH)
            self._drawn = self._write(f"\r[{'#' * full}{'.' * (self.WIDTH - full)}] {words}")

    def end(self, *, keep: bool = False) -> None:
        """The line stays, or is wiped out."""
        if self._drawn:
            self._write("\n" if keep else "\r" + " " * 74 + "\r")

    def _write(self, text: str) -> bool:
        try:
            if sys.stderr is None:
                return False
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            return False
        return True


def _on_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it is closed
        return False
