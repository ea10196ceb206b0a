"""The lint of words finds what was retired, over line ends too: phrases in what is
read, names in code."""

from __future__ import annotations

from pathlib import Path

import pytest
import words


def test_no_retired_word_is_left():
    wrong = [p for path in words.files(words.ROOT) for p in words.problems(path, path.read_text())]
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("a.h", "// Tiles that are cut in\n// time here.\nint x;\n", 1),
        ("a.h", "int x;  // tiles cut in time\nint y;  // and no others\n", 1),
        ("a.h", 'auto s = "// cut in time";\nint cut_in_time;\n', 0),
        ("a.h", "// Of both operands.\nint x;\n", 1),
        ("a.h", "// Sizes.\n// Of both, it is the larger one.\nint x;\n", 0),
        ("a.h", "// What a block stores.\nint x;\n", 1),
        ("a.h", "// It stores\n// What it has. Whatever it is.\nint x;\n", 0),
        ("a.py", '"""Tiles\n    cut in time."""\n# cut in time\n', 2),
        ("a.md", "Tiles are cut in time.\n", 1),
        ("a.h", "// Where segments of K are shared out.\n", 1),
        ("a.h", "// Groups share out rows.\nbool split_k;\n", 0),
        ("a.md", "Tiles are split in time slices.\n", 0),
    ],
)
def test_phrases_are_found_in_what_is_read(name, text, count):
    assert len(words.problems(Path(name), text)) == count


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("a.h", "bool exchanged;\n", 1),
        ("a.h", "x = way.exchanged;  // as it was\n", 1),
        ("a.cpp", '.truth("share_segments", way.split_k)\n', 1),
        ("a.h", '#include "cuda/plan/wrap_around.h"\n', 1),
        ("a.cu", "ptx::forget(x);\n", 1),
        ("a.cpp", "e.before = 1;\nproblem.epilogue.before = {};\n", 1),
        ("a.inc", 'OPERATOR(AddmmWithBeforeOperator, "_addmm_with_before")\n', 2),
        ("a.cuh", "CutTurns<Schedule> turns;\nif constexpr (Turns::CUTS) {\n", 2),
        ("a.py", 'assert way["exchanged"]\n', 1),
        ("a.py", "torch.ops.tiled._linear_with_before(x)\n", 1),
        # Plain English, in a comment, a string or a docstring; parts of other names; pages.
        (
            "a.h",
            "// Rows are exchanged, those before wait.\nint x;  // given, taken, exchanged\n",
            0,
        ),
        ("a.cpp", 'auto what = "rows are exchanged";\n', 0),
        ("a.py", '"""Rows are\n    exchanged."""\n# exchanged\nx = f"are exchanged, {y}"\n', 0),
        ("a.py", "def test_sums_that_wrap_around(): _exchanged(before)\n", 0),
        ("a.py", 'x = "a // b"  # exchanged\ncuts = len(patch)\n', 0),
        ("a.h", "forget_rules();\nwait_for_kernels_before();\n", 0),
        ("a.md", "Its rows are exchanged.\n", 0),
    ],
)
def test_names_are_found_in_code(name, text, count):
    assert len(words.problems(Path(name), text)) == count


def test_a_planted_name_is_found(tmp_path):
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "a.cuh").write_text("// Sums.\n\nbool shares_segments;\n")
    assert words.main(tmp_path) == 1
    (tmp_path / "ops" / "a.cuh").write_text("// Sums.\n\nbool split_k;\n")
    assert words.main(tmp_path) == 0


def test_every_rule_names_a_better_word():
    assert all(better.strip() for better in (words.RETIRED | words.RETIRED_NAMES).values())
    assert all((words.ROOT / name).exists() or "include" in name for name in words.LEFT_OUT)
