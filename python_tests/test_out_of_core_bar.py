"""The bar of out_of_core where stderr is missing, closed or gone: the product does not notice."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable

import cases
import pytest
import tiled_mm
import torch
from cases import each
from streaming import MIB, on_cpu, same


class Gone(io.StringIO):
    """A terminal that goes away after so many calls."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.left -= 1
        if self.left < 0:
            raise BrokenPipeError(32, "Broken pipe")
        return super().write(text)


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


STREAMS: dict[str, Callable] = {
    "none": lambda: None,
    "closed": closed,
    "gone": lambda: Gone(0),
    "gone-later": lambda: Gone(1),
}


@pytest.mark.usefixtures("nothing_left")
@each("asked", (None, True))
@each("stderr", tuple(STREAMS))
def test_a_bar_without_a_terminal_ends_nothing(
    stderr: str, asked: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = cases.pair(100, 100, 1000, torch.float32, "cpu")
    expected = tiled_mm.mm(a, b)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", STREAMS[stderr]())
        found = on_cpu(a, b, capacities=(MIB,), progress=asked)
    same(found, expected)


@pytest.mark.usefixtures("nothing_left")
def test_a_bar_into_a_pipe_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = cases.pair(100, 100, 1000, torch.float32, "cpu")
    expected = tiled_mm.mm(a, b)
    reader, writer = os.pipe()
    os.close(reader)
    stream = open(writer, "w")  # noqa: SIM115, closing it raises
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        found = on_cpu(a, b, capacities=(MIB,), progress=True)
    with pytest.raises(BrokenPipeError):
        stream.close()
    same(found, expected)
