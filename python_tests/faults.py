"""Do the tests notice a missing wait? Libraries with one fault each, and what tests say of them.

    python python_tests/faults.py build    # needs nvcc: build/faults/libtiled_mm_<name>.so
    python python_tests/faults.py check    # needs a Hopper GPU

The faults are in ops/cuda/parts/launch/fault.cuh: one instance of a kernel without one of its
waits, or of the steps that keep what is another's apart.
`check` runs the tests of bits with each. Every fault must fail them, by wrong bits, an error, or a
time that runs out where a lost wait leaves the kernel hanging. The sound ones must pass. What each
did on an H200: docs/decisions/071.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "build" / "faults"
PACKAGE = ROOT / "ops" / "tiled_mm"
ENGINE = "ops/cuda/engine"
FOLDER = BUILT / "build"
INSTANCES = f"{FOLDER}/generated/{ENGINE}"  # which the build writes


@dataclass(frozen=True)
class Place:
    """A kernel that can be built with a fault, and the tests that look for it."""

    source: str  # or several, by semicolons
    files: tuple[str, ...]
    tests: str  # of these files: pytest's -k


# A tile whose consumers take turns, and one of a single consumer.
HOPPER_TILES = ";".join(f"{INSTANCES}/hopper/{tile}.cu" for tile in ("Ping128x192", "Deep64x64"))
HOPPER = Place(
    HOPPER_TILES,
    ("test_tensor_cores.py", "test_tensor_cores_streams.py"),
    "bfloat16 and (every_tile or slices or 100_repeats or rows_of_a_large or chain_of_products)",
)
GROUPED = Place(
    HOPPER_TILES,
    ("test_grouped_bits.py",),
    "(cuda and (drawn or cut_by)) or many_steps",
)
CLEAR = "ops/cuda/parts/schedule/clear_words.cu"
STREAM_K = Place(
    f"{ENGINE}/register_tile/register_tile_stream_k.cu;{CLEAR}",
    ("test_stream_k.py",),
    "cut and not fp64",
)
STREAM_K_DOUBLES = Place(
    f"{ENGINE}/mma_tile/mma_tile_fp64_stream_k.cu;{CLEAR}",
    ("test_stream_k.py",),
    "cut and fp64",
)
FEW_ROWS = Place(
    f"{ENGINE}/few_rows/few_rows_16.cu",
    ("test_few_rows.py",),
    "bfloat16",
)
FEW_ROWS_LANES = Place(
    f"{ENGINE}/few_rows/lanes.cu",
    ("test_few_rows.py",),
    "float32 and stores",
)
FEW_ROWS_DOUBLES = Place(
    f"{ENGINE}/few_rows/few_rows_fp64.cu",
    ("test_few_rows.py",),
    "float64",
)
FEW_ROWS_PATCHES = Place(
    f"{ENGINE}/few_rows/patches.cu",
    ("test_split_k.py",),
    "float32 and every_way",
)
SUMS = Place(
    "ops/cuda/parts/schedule/sum_segments.cu",
    ("test_split_k.py",),
    "in_turn",
)
# One that copies operands past the registers, and one for any alignment.
ASYNC_MMA_TILES = ";".join(
    f"{INSTANCES}/async_mma/{tile}.cu" for tile in ("Async128x128", "Any128x128")
)
ASYNC_MMA = Place(
    ASYNC_MMA_TILES,
    ("test_async_mma.py",),
    "bfloat16",
)
ASYNC_MMA_TF32 = Place(
    ASYNC_MMA_TILES,
    ("test_async_mma.py",),
    "tf32 and not int8",
)
HOPPER_BYTES = Place(
    HOPPER_TILES,
    ("test_hopper_int8.py",),
    "int8 and (every_way or many_tiles)",
)
ASYNC_MMA_BYTES = Place(
    ASYNC_MMA_TILES,
    ("test_async_mma.py",),
    "int8",
)
TALL = Place(
    f"{ENGINE}/tall/tall_tensor.cu",
    ("test_tall.py",),
    "bfloat16",
)
TALL_CHAINS = Place(
    f"{ENGINE}/tall/tall_fp32.cu",
    ("test_tall.py",),
    "float32",
)
SPLIT = Place(
    f"{ENGINE}/fp16x3/split_beside.cu",
    ("test_tensor_cores.py", "test_fp16x3_tiles.py"),
    "fp16x3 and (all_layouts or scales_that_are_known or every_tile)",
)
FP16X3_FILES = ("test_fp16x3_tiles.py", "test_tensor_cores_streams.py")
FP16X3_TESTS = "fp16x3 and (every_tile or many_tiles or 100_repeats or chain_of_products)"
FP16X3 = Place(f"{ENGINE}/fp16x3/fp16x3.cu", FP16X3_FILES, FP16X3_TESTS)
FP16X3_DIRECT = Place(f"{ENGINE}/fp16x3/direct.cu", FP16X3_FILES, FP16X3_TESTS)
FP16X3_FEW_ROWS = Place(f"{ENGINE}/fp16x3/few_rows.cu", FP16X3_FILES, FP16X3_TESTS)
FP16X3_CUT = Place(
    f"{ENGINE}/fp16x3/fp16x3.cu",
    ("test_fp16x3_cut.py",),
    "equal_to_whole or beside or graph",
)
# What clears the words by which tiles that are cut are handed over.
FP16X3_CLEAR = Place(f"{ENGINE}/fp16x3/split.cu", FP16X3_CUT.files, FP16X3_CUT.tests)
FP16X3_ASYNC = Place(
    f"{ENGINE}/fp16x3/async.cu",
    ("test_fp16x3_tiles.py",),
    "every_tile",
)


@dataclass(frozen=True)
class Build:
    fault: str  # one of fault.cuh
    place: Place
    rare: bool = False  # what it does is not seen on every machine: reported, and not judged

    @property
    def sound(self) -> bool:
        """Whether the tests must pass."""
        return self.fault in ("None", "Delays")


RING = "Delays NoEmptyWait NoFullWait"
HAND_OVER = "Delays NoHandOverWait NoHandOverBarrier"
TABLE = (  # the begin of the builds' names, their place, the faults
    ("", HOPPER, f"None {RING} NoTurnWait NoSliceWait NoSliceBarrier NoDependencyWait"),
    ("Bytes", HOPPER_BYTES, f"{RING} NoSliceWait NoSliceBarrier"),
    ("Grouped", GROUPED, f"{RING} NoTailClear"),
    ("StreamK", STREAM_K, f"{HAND_OVER} NoClear"),
    ("StreamKDoubles", STREAM_K_DOUBLES, f"{HAND_OVER} NoClear"),
    ("FewRows", FEW_ROWS, f"{RING} NoDependencyWait"),
    ("FewRowsLanes", FEW_ROWS_LANES, "NoReadWait"),
    ("FewRowsDoubles", FEW_ROWS_DOUBLES, RING),
    ("FewRowsPatches", FEW_ROWS_PATCHES, RING),
    ("Sums", SUMS, "NoDependencyWait"),
    ("AsyncMma", ASYNC_MMA, RING),
    ("AsyncMmaTf32", ASYNC_MMA_TF32, RING),
    ("AsyncMmaBytes", ASYNC_MMA_BYTES, RING),
    ("Fp16x3", FP16X3, f"{RING} NoTurnWait NoDependencyWait"),
    ("Fp16x3Direct", FP16X3_DIRECT, f"{RING} NoDependencyWait"),
    ("Fp16x3FewRows", FP16X3_FEW_ROWS, "NoDependencyWait"),
    ("Fp16x3Cut", FP16X3_CUT, HAND_OVER),
    ("Fp16x3Cut", FP16X3_CLEAR, "NoClear"),
    ("Fp16x3Async", FP16X3_ASYNC, RING),
    ("Tall", TALL, "Delays NoFullWait"),
    ("TallChains", TALL_CHAINS, "Delays NoFullWait"),
    ("Split", SPLIT, "NoDependencyWait"),
)
BUILDS = {
    name + fault: Build(fault, place, rare=fault == "NoReadWait")
    for name, place, faults in TABLE
    for fault in faults.split()
}

app = typer.Typer(add_completion=False, help=__doc__)


def tool(name: str) -> str:
    """Of this Python's environment, as the Makefile has it, or else of the PATH."""
    own = Path(sys.executable).parent / name
    return str(own) if own.exists() else name


def library(name: str) -> Path:
    return BUILT / f"libtiled_mm_{name}.so"


@app.command()
def build(only: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Builds the library once for each of these (of those named, or all)."""
    for name in only or BUILDS:
        options = {
            "TILED_MM_FAULT": BUILDS[name].fault,
            "TILED_MM_FAULT_IN": BUILDS[name].place.source,
            "CMAKE_MAKE_PROGRAM": tool("ninja"),
            "Python3_EXECUTABLE": sys.executable,
        }
        configure = [tool("cmake"), "-S", ROOT, "-B", FOLDER, "-G", "Ninja"]
        subprocess.run([*configure, *(f"-D{k}={v}" for k, v in options.items())], check=True)
        subprocess.run([tool("cmake"), "--build", FOLDER, "--target", "tiled_mm"], check=True)
        shutil.copy(FOLDER / "libtiled_mm.so", library(name))
        print(f"{name}: {library(name)}", flush=True)


def passes(name: str, seconds: float) -> bool:
    """Whether the tests pass with this library, put in the place of the package's own."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "tiled_mm"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("lib", "__pycache__"))
        (copy / "lib").mkdir()
        shutil.copy(library(name), copy / "lib" / "libtiled_mm.so")
        place = BUILDS[name].place
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "-k",
            place.tests,
            *place.files,
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
            print(f"{name}: no end within {seconds:g} s")
            return False
    lines = done.stdout.strip().splitlines() or ["no output"]
    print(f"{name}: {lines[-1]}", flush=True)
    return done.returncode == 0


@app.command()
def check(
    only: Annotated[list[str] | None, typer.Argument()] = None,
    seconds: Annotated[float, typer.Option(help="for the tests of one library")] = 180,
) -> None:
    """Runs the tests with each of these libraries (those named, or all), which must be built."""
    names = only or list(BUILDS)
    if missing := [name for name in names if not library(name).is_file()]:
        sys.exit(f"not built: {', '.join(missing)}")
    done = {name: passes(name, seconds) for name in names}
    if wrong := [n for n in names if done[n] != BUILDS[n].sound and not BUILDS[n].rare]:
        sys.exit(f"not as they should be: {', '.join(wrong)}")


if __name__ == "__main__":
    app()
