"""The numbers behind the CPU's blockings (ops/cpu/budgets.inc), the program that finds them, and
the threads that the blockings are for. That no number changes a bit is shown in C++
(cpp_tests/test_cpu_core.cpp)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiled_mm
import torch

from bench import cpu_blocking, cpu_budgets, machine

TEXT = cpu_budgets.TABLE.read_text()
COLUMNS = cpu_budgets.columns_in(TEXT)


@pytest.mark.parametrize("column", cpu_budgets.COLUMNS)
def test_the_library_has_the_table_s_numbers(column: str) -> None:
    assert cpu_budgets.Library(column).values == COLUMNS[column]
    assert len(COLUMNS[column]) > 20


def test_a_column_is_written_and_nothing_else_changes() -> None:
    other = {name: value + 1 for name, value in COLUMNS["avx512"].items()}
    text = cpu_budgets.with_column(TEXT, "avx512", other, "a processor, a day")
    assert cpu_budgets.columns_in(text) == {**COLUMNS, "avx512": other}
    assert "// avx512: a processor, a day\n" in text
    again = cpu_budgets.with_column(text, "avx512", COLUMNS["avx512"], "")
    said = [line for line in TEXT.splitlines() if not line.startswith("// avx512:")]
    assert [line for line in again.splitlines() if not line.startswith("// avx512:")] == said
    with pytest.raises(ValueError, match="no line for avx512"):
        cpu_budgets.with_column(TEXT.replace("// avx512:", "//"), "avx512", other, "")


def test_a_number_decides_the_blocking_and_is_restored() -> None:
    a = torch.ones(600, 600)
    level = tiled_mm.plan(a, a).level
    library = cpu_budgets.Library(level)
    shipped = dict(library.values)
    before = tiled_mm.plan(a, a).blocking.block_k
    try:
        library.use({**shipped, "BLOCK_K": 64})
        assert tiled_mm.plan(a, a).blocking.block_k == 64 != before
    finally:
        library.use(shipped)
    assert tiled_mm.plan(a, a).blocking.block_k == before


def test_what_is_no_number_of_the_table_is_refused() -> None:
    for value in (-1, 1 << 41):
        with pytest.raises(RuntimeError, match="a value from"):
            torch.ops.tiled_debug.cpu_budget(0, 0, value)
    for place in ((len(COLUMNS["avx2"]), 0), (0, len(COLUMNS)), (-1, 0), (0, -1)):
        with pytest.raises(RuntimeError, match="no such"):
            torch.ops.tiled_debug.cpu_budget(*place)


def test_a_gain_of_one_product_alone_proves_nothing() -> None:
    one = cpu_blocking.Gain([0.5] + [0.0] * 99, [0.0] * 100, 1)
    all_of_them = cpu_blocking.Gain([0.005 + 0.001 * (i % 2) for i in range(100)], [0.0] * 100, 100)
    assert one.mean < 2 * one.error
    assert all_of_them.mean > 2 * all_of_them.error


def test_the_program_fits_and_judges_a_column(tmp_path: Path) -> None:
    table = tmp_path / "budgets.inc"
    table.write_text(TEXT)
    command = [sys.executable, "-m", "bench.cpu_blocking", "--table", table, "--json", tmp_path]
    command += ["--products", "6", "--minutes", "0.02"]
    path = os.pathsep.join([str(machine.ROOT), *filter(None, sys.path)])
    level = cpu_blocking.levels_here()[-1]
    subprocess.run(
        [*map(str, command), "--levels", level],
        env={**os.environ, "PYTHONPATH": path},
        check=True,
        cwd=tmp_path,
    )
    record = json.loads((tmp_path / f"cpu_blocking_{level}.json").read_text())
    assert record["held_out"]["products"] == 6
    written = cpu_budgets.columns_in(table.read_text())
    assert written == {**COLUMNS, level: record["new" if record["written"] else "old"]}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted by Linux")
def test_products_run_on_torchs_own_threads() -> None:
    """A second pool would wait beside the first one's threads on the same cores."""
    counted = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, torch, tiled_mm; torch.set_num_threads(3); a = torch.ones(900, 900)\n"
            "torch.mm(a, a); before = len(os.listdir('/proc/self/task'))\n"
            "tiled_mm.mm(a, a); print(before, len(os.listdir('/proc/self/task')))",
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert counted[0] == counted[1]
    assert int(counted[0]) >= 3
