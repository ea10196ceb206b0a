"""The benchmark of grouped products: its cases, what routers draw, and a small run."""

from __future__ import annotations

import pytest
import tiled_mm  # noqa: F401, registers the operators
import torch
import typer
from typer.testing import CliRunner

from bench import grouped, results, schema
from bench.grouped import Case
from bench.limits import Limits
from bench.timing import Rounds


def run(*arguments: str):
    app = typer.Typer()
    app.command()(grouped.main)
    return CliRunner().invoke(app, arguments)


def test_the_cases() -> None:
    cases = list(grouped.cases())
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    forward = [c for c in cases if c.dtype == "bfloat16" and c.work == "forward" and c.aligned]
    assert len(forward) == 2 * 16
    assert "E8 8192x2 N14336 K4096 forward bfloat16 flat" in names
    assert "E256 4096x8 N2048 K7168 main_grad bfloat16 skewed" in names
    assert "E128 8192x8 N1535 K4096 forward bfloat16 flat unaligned" in names
    assert sum(c.precision == "fp16x3" for c in cases) == 4 * 3


def test_what_routers_draw() -> None:
    flat, skewed = (Case(64, 8, 4096, 768, 2048, router=router) for router in grouped.ROUTERS)
    for case in (flat, skewed):
        ends = grouped.drawn_ends(case, 7)
        assert ends == grouped.drawn_ends(case, 7) != grouped.drawn_ends(case, 8)
        assert len(ends) == 64 and ends == sorted(ends) and ends[-1] == 4096 * 8

    def largest(case: Case) -> int:
        ends = grouped.drawn_ends(case, 7)
        return max(e - b for b, e in zip([0, *ends], ends, strict=False))

    assert largest(flat) < 1.3 * 4096 * 8 / 64 < largest(skewed)


@pytest.mark.parametrize("work", grouped.PASSES)
def test_a_case_is_measured(device: str, work: str) -> None:
    case = grouped.divided(Case(8, 2, 128, 14336, 4096, work=work), 64)
    found = grouped.measure(case, torch.device(device), 7, Rounds(2, 2, 0.01), Limits())
    assert results.problems(found, schema.Grouped) == []
    assert found["seconds"].keys() == {"tiled", "torch"} and found["rows"] == 4
    unaligned = grouped.divided(Case(8, 2, 128, 14335, 4096, aligned=False), 64)
    found = grouped.measure(unaligned, torch.device(device), 7, Rounds(2, 2, 0.01), Limits())
    assert found["n"] % 8 == 7 and found["seconds"].keys() == {"tiled", "aligned"}


def test_a_small_run(tmp_path) -> None:
    path = tmp_path / "grouped.json"
    options = ("--device", "cpu", "--divide", "64", "--budget", "0.01", "--json", str(path))
    ran = run(*options, "--only", "E64 flat bfloat16 forward")
    assert ran.exit_code == 0, ran.output
    document = results.read(path)
    assert len(document["grouped"]) == 4 + 4
    assert "forward bfloat16 flat few: geomean" in ran.output
    assert run(*options, "--only", "E65").exit_code == 2
