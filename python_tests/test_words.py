"""The lint of words finds what was retired, over line ends too, and nothing in names of code."""

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
        ("a.py", '"""Tiles\n    cut in time."""\n# cut in time\n', 2),
        ("a.md", "Tiles are cut in time.\n", 1),
        ("a.h", "// Where segments of K are shared out.\n", 1),
        ("a.h", "// Groups share out rows.\nbool shares_segments;\n", 0),
        ("a.md", "Tiles are split in time slices.\n", 0),
    ],
)
def test_phrases_are_found_in_what_is_read(name, text, count):
    assert len(words.problems(Path(name), text)) == count


def test_every_rule_names_a_better_word():
    assert all(better.strip() for better in words.RETIRED.values())
    assert all((words.ROOT / name).exists() or "include" in name for name in words.LEFT_OUT)
