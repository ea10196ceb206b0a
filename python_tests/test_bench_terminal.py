"""What the benchmark prints: whole numbers at every width, and at the end where its files lie."""

from __future__ import annotations

import functools
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from test_bench import ROOT, StandIn
from typer.testing import CliRunner

from bench import cli, report, results, terminal
from bench.shapes import Shape

# Committed results: the widest labels and numbers that there are.
DOCUMENTS = ("h200_shapes.json", "h200_fp16x3_cut.json", "h200_host.json", "h200_integers.json")
NUMBERS = ("ratio", "quartiles", "time", "rate", "GB/s", "error")


@functools.cache
def committed_cases() -> list[dict]:
    cases = []
    for name in DOCUMENTS:
        cases += results.read(report.RESULTS / name)["cases"]
    return cases


def printed(monkeypatch, cases: list[dict], width: int) -> str:
    file = io.StringIO()
    monkeypatch.setattr(cli, "console", Console(file=file, width=width))
    cli.print_cases(cases, "a title", gpu=True)
    return file.getvalue()


def columns_of(text: str) -> list[str]:
    """The titles of the table."""
    return next(line for line in text.splitlines() if line.startswith("problem")).split()


def numbers(record: dict, titles: list[str]) -> list[str]:
    found = cli._numbers(record, 1e-12)
    shown = {"TF/s": "rate"}
    return [found[shown.get(t, t)] for t in titles if shown.get(t, t) in NUMBERS]


@pytest.mark.parametrize("width", [200, 80, 60, 40, 10])
def test_numbers_are_whole_at_every_width(monkeypatch, width):
    cases = committed_cases()
    text = printed(monkeypatch, cases, width)
    assert "…" not in text
    titles = columns_of(text)
    assert titles[:3] == ["problem", "candidate", "ratio"] and "time" in titles
    # A candidate's numbers stand at the end of its line, in the order of the titles.
    found = [" ".join(line.split()) for line in text.splitlines()]
    wanted = [" ".join(numbers(r, titles)) for case in cases for r in case["candidates"]]
    assert len(wanted) > 400
    lines = iter(found)
    for row in wanted:
        assert any(line.endswith(row) for line in lines), f"{row} is not printed, or not in order"


@pytest.mark.parametrize("width", [200, 80, 60])
def test_no_line_is_wider_than_the_terminal(monkeypatch, width):
    text = printed(monkeypatch, committed_cases(), width)
    assert max(map(len, text.splitlines())) <= width


def test_columns_go_in_the_stated_order_and_are_named(monkeypatch):
    cases = committed_cases()[::20]
    unit = {"rate": "TF/s"}
    order = [unit.get(c, c) for c in terminal.LEFT_OUT_FIRST]
    everything = columns_of(printed(monkeypatch, cases, 1000))
    counts = set()
    for width in range(40, 130, 3):
        text = printed(monkeypatch, cases, width)
        missing = [c for c in order if c not in columns_of(text)]
        counts.add(len(missing))
        assert missing == order[: len(missing)], f"at {width}"
        assert set(columns_of(text)) | set(missing) == set(everything)
        if missing:
            flat = " ".join(text.split())
            told = re.search(r"left out for width: ([^(]*) \(COLUMNS=(\d+) shows all\)", flat)
            assert told and told[1] == ", ".join(missing)
            assert columns_of(printed(monkeypatch, cases, int(told[2]))) == everything
            assert columns_of(printed(monkeypatch, cases, int(told[2]) - 1)) != everything
    assert counts == set(range(len(order) + 1)), "each count of columns is seen"


def test_a_pipe_has_whole_numbers_and_eighty_columns():
    program = (
        "from bench import cli, report, results\n"
        f"for name in {DOCUMENTS!r}:\n"
        "    cases = results.read(report.RESULTS / name)['cases']\n"
        "    cli.print_cases(cases, name, gpu=True)\n"
    )
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert len(lines) > 500 and max(map(len, lines)) <= 80
    assert "…" not in done.stdout and "\x1b" not in done.stdout


def test_remarks_stand_under_the_table_once(monkeypatch):
    cases = committed_cases()
    text = printed(monkeypatch, cases, 200)
    assert text.count("torch.mm padded: padding timed\n") == 1, "of all problems: no list"
    (line,) = (x for x in text.splitlines() if x.endswith("no int32 product on CUDA"))
    assert line.startswith("1024³ nn int32, 4096³ nn int32: no peer")


def ended(monkeypatch, folder: Path, *arguments: str, spoil=lambda out: None):
    """The exit status and the lines of a run of the smallest problems, from `folder`."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(cli, "OUT", folder / "bench" / "out")
    monkeypatch.setattr(cli, "load_operator", lambda: StandIn(spoil))
    common = ("--device", "cpu", "--budget", "0.001", "--set", "small")
    done = CliRunner().invoke(cli.app, [*common, *arguments])
    return done.exit_code, done.output.splitlines()


def squares(*_: object) -> list[tuple[str, Shape]]:
    """Two of them: as many as a plot needs."""
    return [("small", Shape(n, n, n)) for n in (4, 8)]


def test_a_run_ends_with_where_its_files_lie(monkeypatch, tmp_path):
    monkeypatch.setattr(cli, "expand", squares)
    status, lines = ended(monkeypatch, tmp_path)
    assert status == 0
    plots = [f"plot: bench/out/{kind}-small-float32.svg" for kind in ("run-time", "rate")]
    assert lines[-3:] == ["results: bench/out/run.json", *plots]
    for line in lines[-3:]:
        assert (tmp_path / line.split(": ")[1]).is_file()


def test_a_run_that_is_told_where_leaves_nothing_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setattr(cli, "expand", squares)
    status, lines = ended(monkeypatch, tmp_path, "--json", "here.json")
    assert status == 0 and lines[-1] == "results: here.json"
    assert [p.name for p in tmp_path.iterdir()] == ["here.json"]


def test_failures_stand_before_the_files(monkeypatch, tmp_path):
    monkeypatch.setattr(cli, "expand", squares)
    status, lines = ended(monkeypatch, tmp_path, spoil=lambda out: out.zero_())
    assert status == 1
    failed = [i for i, line in enumerate(lines) if line.startswith("failed: ")]
    assert len(failed) == 2
    assert max(failed) < lines.index("results: bench/out/run.json")
