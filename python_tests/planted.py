"""Do the tests notice a bug? Those of planted.txt are planted in a copy of the tree, one by one.

    python python_tests/planted.py              # all of them; no GPU is needed
    python python_tests/planted.py NAME ...     # some of them

The copy has a build folder of its own; both stay where temporary files are, for the next time. The
tests must pass there before anything is planted, and each bug must make one of its tests fail. Bugs
of kernels run in software, for which CUDA's headers are needed: without these they are left out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPY = Path(tempfile.gettempdir()) / f"tiled-mm-planted-{os.getuid()}"
SECONDS = 600  # for the tests of one bug: what hangs has been noticed


@dataclass(frozen=True)
class Bug:
    """A text that stands once in a file, what it becomes, and the tests that should notice."""

    name: str
    file: str
    test: str  # in python_tests, or a program of cpp_tests: x, x::name
    old: str
    new: str

    @property
    def is_of_program(self) -> bool:
        return ".py" not in self.test

    @property
    def target(self) -> str:
        """What its tests need, of the build."""
        return self.test.partition("::")[0] if self.is_of_program else "tiled_mm"


def read_bugs(text: str) -> list[Bug]:
    """A name, `file | test`, `- old` and `+ new` are a bug; empty lines stand between them."""
    found = []
    for block in text.strip().split("\n\n"):
        name, place, old, new = block.splitlines()
        assert old.startswith("- ") and new.startswith("+ "), block
        found.append(Bug(name, *place.split(" | "), old[2:], new[2:]))
    return found


BUGS = read_bugs((ROOT / "python_tests" / "planted.txt").read_text())


def tool(name: str) -> str:
    """Of this Python's environment, as the Makefile has it, or else of the PATH."""
    own = Path(sys.executable).parent / name
    return str(own) if own.exists() else name


def run(*command: str, seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """In the copy, as a machine without a GPU has it."""
    environment = {**os.environ, "FORCE_CUDA": "0", "PYTHONPATH": str(COPY / "ops")}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    return subprocess.run(
        command, cwd=COPY, env=environment, capture_output=True, text=True, timeout=seconds
    )


def output_of(*command: str) -> str:
    """Of a command that must succeed."""
    done = run(*command)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def copy_tree() -> None:
    """Makes the copy what the working tree is. Files that are the same stay as old as they are."""
    COPY.mkdir(parents=True, exist_ok=True)
    files = ("ls-files", "-z", "--exclude-standard", "--others")
    for name in output_of("git", "-C", str(ROOT), *files, "--cached").split("\0")[:-1]:
        source, target = ROOT / name, COPY / name
        if source.exists() and not (target.exists() and source.read_bytes() == target.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    # What the copy has and the tree has not: the index is the tree's.
    index = (
        f"--git-dir={output_of('git', '-C', str(ROOT), 'rev-parse', '--absolute-git-dir').strip()}",
    )
    left = output_of("git", *index, f"--work-tree={COPY}", *files, "--cached")
    for name in left.split("\0")[:-1]:
        if not (ROOT / name).exists():
            (COPY / name).unlink(missing_ok=True)


def configure() -> str:
    """The targets of the copy's build."""
    options = {
        "TILED_MM_TESTS": "ON",
        "CMAKE_MAKE_PROGRAM": tool("ninja"),
        "Python3_EXECUTABLE": sys.executable,
    }
    output_of(
        tool("cmake"),
        *("-S", ".", "-B", "build", "-G", "Ninja"),
        *(f"-D{k}={v}" for k, v in options.items()),
    )
    return output_of(tool("cmake"), "--build", "build", "--target", "help")


def build(bug: Bug) -> None:
    """What the bug's tests run: their program, or the library where Python finds it."""
    output_of(tool("cmake"), "--build", "build", "--target", bug.target)
    for more in () if bug.is_of_program else ((), ("--component", "python")):
        output_of(tool("cmake"), "--install", "build", "--prefix", "ops/tiled_mm", *more)


def failing(tests: Sequence[str]) -> list[str]:
    """What fails of tests in Python, or of one program. Not to end is to fail."""
    if ".py" in tests[0]:
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
        command += [f"python_tests/{test}" for test in tests]
        failed = r"^FAILED python_tests/(.+?)(?: - |$)"
    else:
        program, _, name = tests[0].partition("::")
        command = [f"build/cpp_tests/{program}", "--gtest_brief=1", f"--gtest_filter={name or '*'}"]
        failed = r"^\[  FAILED  \] (\w+[\w/]*\.[\w/]+)"
    try:
        done = run(*command, seconds=SECONDS)
    except subprocess.TimeoutExpired:
        return [f"{tests[0]}: no end within {SECONDS} s"]
    found = list(dict.fromkeys(re.findall(failed, done.stdout, re.MULTILINE)))
    if done.returncode < 0 and not found:
        return [f"{tests[0]}: signal {-done.returncode}"]
    if done.returncode != 0 and not found:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return found


def noticed(bug: Bug) -> list[str]:
    """The tests that fail while the bug is in the copy."""
    path = COPY / bug.file
    sound = path.read_text()
    assert sound.count(bug.old) == 1, f"{bug.name}: {bug.file} has another text now"
    path.write_text(sound.replace(bug.old, bug.new))
    try:
        build(bug)
        return failing([bug.test])
    finally:
        path.write_text(sound)


def main(names: Sequence[str]) -> int:
    """Prints a row for each bug; 1 where one was not noticed, or a test fails without any."""
    if unknown := set(names) - {bug.name for bug in BUGS}:
        sys.exit(f"no such bug: {', '.join(sorted(unknown))}")
    begin = time.monotonic()
    copy_tree()
    targets = configure()
    bugs = [bug for bug in BUGS if bug.name in names or not names]
    left_out = [bug for bug in bugs if bug.is_of_program and f"\n{bug.target}:" not in targets]
    bugs = [bug for bug in bugs if bug not in left_out]
    for bug in {bug.target: bug for bug in bugs}.values():
        build(bug)
    suites = sorted({bug.test for bug in bugs if not bug.is_of_program})
    programs = sorted({bug.test for bug in bugs if bug.is_of_program})
    for tests in ([suites] if suites else []) + [[program] for program in programs]:
        if wrong := failing(tests):
            sys.exit(f"without any bug these fail: {', '.join(wrong)}")
    print(f"Without a bug all tests pass ({time.monotonic() - begin:.0f} s).\n")
    print("| bug | in | caught by | seconds |\n| --- | --- | --- | ---: |", flush=True)
    missed = 0
    for bug in bugs:
        begin = time.monotonic()
        found = noticed(bug)
        missed += not found
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        caught = f"`{found[0]}`{more}" if found else "**nothing**"
        seconds = time.monotonic() - begin
        print(f"| {bug.name} | `{bug.file}` | {caught} | {seconds:.0f} |", flush=True)
    for bug in left_out:
        print(f"| {bug.name} | `{bug.file}` | left out: no CUDA headers | - |")
    print(f"\n{len(bugs) - missed} of {len(bugs)} bugs were caught.")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
