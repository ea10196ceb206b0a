"""`python -m bench.compare`: two builds of the library in turns."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from bench.compare import INSTALLED, ROOT, problems


def test_problems_are_those_of_the_sets_with_a_precision_for_float32() -> None:
    found = list(problems(["fp16x3:fp16x3", "small"]))
    assert {precision for name, _, precision in found if name == "fp16x3:fp16x3"} == {"fp16x3"}
    assert {precision for name, _, precision in found if name == "small"} == {None}


def test_a_library_beside_itself(tmp_path: Path) -> None:
    path = tmp_path / "compared.json"
    command = [
        sys.executable,
        "-m",
        "bench.compare",
        str(INSTALLED),
        "--set",
        "cpu",
        "--turns",
        "2",
    ]
    done = subprocess.run(
        [*command, "--only", "^(12x12x64|64³) nn float32", "--json", str(path)],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(path.read_text())
    assert len(document["cases"]) == 2 and document["environment"]["gpu"] is None
    for case in document["cases"]:
        assert 0 < case["least"] <= case["ratio"] <= case["most"]
        assert 0 < case["old_s"] < 1 and 0 < case["new_s"] < 1
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and re.fullmatch(
        r" *[\d.]+ geometric mean, [\d.]+ least: cpu", lines[-1]
    )


def test_a_library_that_does_not_load_is_told(tmp_path: Path) -> None:
    broken = tmp_path / "libtiled_mm.so"
    broken.write_bytes(b"no library")
    done = subprocess.run(
        [sys.executable, "-m", "bench.compare", str(broken), "--set", "cpu"],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode != 0 and "library's process has ended" in done.stderr
