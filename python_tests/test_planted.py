"""The bugs of planted.txt can still be planted: planted.py, which builds, is no test itself."""

from __future__ import annotations

import re

import planted
import pytest
from planted import BUGS, ROOT, Bug


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_is_one_change_and_its_test_is_there(bug: Bug) -> None:
    assert (ROOT / bug.file).read_text().count(bug.old) == 1
    assert bug.new != bug.old
    file, _, name = bug.test.partition("::")
    if bug.is_of_program:  # test_x, or test_x_fault_NoFullWait of test_x_fault.cpp
        file = re.sub("_fault_.*", "_fault", file) + ".cpp"
    text = (ROOT / ("cpp_tests" if bug.is_of_program else "python_tests") / file).read_text()
    says = "TEST(" + name.replace(".", ", ") if bug.is_of_program else f"def {name.split('[')[0]}"
    assert not name or says + ("(" if ".py" in file else ")") in text


def test_bugs_have_names_of_their_own() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 10


def test_a_text_that_is_no_bug_is_refused() -> None:
    with pytest.raises((AssertionError, ValueError)):
        planted.read_bugs("name\nfile | test\n- old\nnew\n")
