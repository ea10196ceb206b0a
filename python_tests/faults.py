"""Do the tests notice a missing wait? Libraries with one fault each, and what tests say of them.

    python python_tests/faults.py build    # needs nvcc: build/faults/libtiled_mm_<fault>.so
    python python_tests/faults.py check    # needs a Hopper GPU

The faults are in ops/cuda/parts/fault.cuh: rung hopper, for bf16 with P along K, or fp16x3's
split of rows beside each other, without one of their waits. `check` runs the tests of bits with
each. Every fault must fail them, by wrong bits, an error, or a time that runs out where a lost wait
leaves the kernel hanging. `Delays`, `NoPatience` and `None` must pass.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "build" / "faults"
PACKAGE = ROOT / "ops" / "tiled_mm"
SOUND = ("None", "Delays", "NoPatience")
FAULTS = (
    "NoEmptyWait",
    "NoFullWait",
    "NoTurnWait",
    "NoSliceWait",
    "NoSliceBarrier",
    "NoDependencyWait",
    "NoTeamWait",
)
# fault -> the files with the tests that look for it, and which of them.
SPLIT = (
    ("test_fp16x3_answer.py", "test_fp16x3_tiles.py"),
    "all_layouts or scales_that_are_known or every_tile",
)
HOPPER = (
    ("test_tensor_cores.py", "test_tensor_cores_streams.py"),
    "bfloat16 and (every_tile or 100_repeats or rows_of_a_large or chain_of_products)",
)
TESTS = {"NoTeamWait": SPLIT, "NoPatience": SPLIT}

app = typer.Typer(add_completion=False, help=__doc__)


def tool(name: str) -> str:
    """Of this Python's environment, as the Makefile has it, or else of the PATH."""
    own = Path(sys.executable).parent / name
    return str(own) if own.exists() else name


def library(fault: str) -> Path:
    return BUILT / f"libtiled_mm_{fault}.so"


@app.command()
def build(only: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Builds the library once for each fault (of those named, or all)."""
    folder = BUILT / "build"
    for fault in only or (*SOUND, *FAULTS):
        options = {
            "TILED_MM_FAULT": fault,
            "CMAKE_MAKE_PROGRAM": tool("ninja"),
            "Python3_EXECUTABLE": sys.executable,
        }
        configure = [tool("cmake"), "-S", ROOT, "-B", folder, "-G", "Ninja"]
        subprocess.run([*configure, *(f"-D{k}={v}" for k, v in options.items())], check=True)
        subprocess.run([tool("cmake"), "--build", folder, "--target", "tiled_mm"], check=True)
        shutil.copy(folder / "libtiled_mm.so", library(fault))
        print(f"{fault}: {library(fault)}", flush=True)


def passes(fault: str, seconds: float) -> bool:
    """Whether the tests pass with this library, put in the place of the package's own."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "tiled_mm"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("lib", "__pycache__"))
        (copy / "lib").mkdir()
        shutil.copy(library(fault), copy / "lib" / "libtiled_mm.so")
        tests, choice = TESTS.get(fault, HOPPER)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "-k",
            choice,
            *tests,
        ]
        try:
            done = subprocess.run(
                command,
                cwd=ROOT / "python_tests",
                env={**os.environ, "PYTHONPATH": folder},
                capture_output=True,
                text=True,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            print(f"{fault}: no end within {seconds:g} s")
            return False
    lines = done.stdout.strip().splitlines() or ["no output"]
    print(f"{fault}: {lines[-1]}", flush=True)
    return done.returncode == 0


@app.command()
def check(
    seconds: Annotated[float, typer.Option(help="for the tests of one library")] = 60,
) -> None:
    """Runs the tests with every library that has been built."""
    built = [f for f in (*SOUND, *FAULTS) if library(f).is_file()]
    wrong = [f for f in built if passes(f, seconds) != (f in SOUND)]
    if wrong or not built:
        sys.exit(f"not as they should be: {', '.join(wrong) or 'no library has been built'}")


if __name__ == "__main__":
    app()
