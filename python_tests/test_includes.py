"""Includes point downward, rungs are named below the planner alone, and what looks after that
notices when one is not."""

from pathlib import Path

import includes
import pytest
import torch

FILES = includes.sources(includes.OPS)


def test_includes_point_downward() -> None:
    assert len(FILES) > 100
    assert includes.problems(FILES) == []


PLANTED = [
    ("core/problem.h", '"cuda/plan/architectures.h"', "does not lie below it"),
    ("cpu/blocked.cpp", '"cuda/plan/device.h"', "does not lie below it"),
    ("cuda/plan/plan.cpp", '"cuda/parts/launch/hopper_arguments.h"', "does not lie below it"),
    ("cuda/plan/plan.cpp", '"explain/report.h"', "does not lie below it"),
    ("cuda/ptx/mma.cuh", '"core/problem.h"', "does not lie below it"),
    ("cuda/parts/copy/repack.cu", '"cuda/engine/hopper/plan.h"', "does not lie below it"),
    ("cuda/lessons/1_naive/naive.cu", '"cuda/launch/launch.h"', "does not lie below it"),
    ("torch/precision.cpp", '"cuda/engine/fp16x3/plan.h"', "does not lie below it"),
    ("cuda/engine/tall/tall.cuh", '"cuda/lessons/4_mma_tile/tiles.h"', "does not lie below it"),
    ("cuda/lessons/1_naive/naive.cu", '"cuda/engine/hopper/hopper.cuh"', "does not lie below it"),
    ("cuda/launch/launch.cpp", '"torch/check.h"', "does not lie below it"),
    ("explain/report.cpp", '"tiled_mm.h"', "does not lie below it"),
    ("torch/schema.cpp", '"out_of_core/door.h"', "does not lie below it"),
    ("cuda/launch/launch.cpp", "<ATen/core/Tensor.h>", "to know ATen"),
    ("cpu/blocked.cpp", "<c10/util/Half.h>", "to know ATen"),
    ("explain/report.cpp", "<torch/library.h>", "to know ATen"),
    ("core/segments.h", "<core/text.h>", "stand in quotes"),
    ("core/segments.h", '"problem.h"', "no file below ops/"),
    ("core/problem.h", '"core/segments.h"', None),  # downward: nothing is wrong
    ("torch/check.h", "<c10/util/Half.h>", None),
    ("out_of_core/device.h", '"torch/check.h"', None),
    ("cuda/lessons/1_naive/naive.cu", '"cuda/parts/arithmetic/thread_tile.cuh"', None),
]


@pytest.mark.parametrize(("file", "include", "wrong"), PLANTED)
def test_a_wrong_include_is_found(file: str, include: str, wrong: str | None) -> None:
    planted = {**FILES, file: f"{FILES[file]}\n#include {include}\n"}
    found = includes.problems(planted)
    assert len(found) == (wrong is not None)
    if wrong is not None:
        assert found[0].startswith(f"{file}: includes ") and include.strip('<>"') in found[0]
        assert wrong in found[0]


def test_a_circle_is_found() -> None:
    files = {
        "core/a.h": '#include "core/b.h"',
        "core/b.h": '  #  include "core/c.h"',
        "core/c.h": '#include "core/b.h"',
    }
    assert includes.problems(files) == ["a circle: core/b.h -> core/c.h -> core/b.h"]
    files["core/c.h"] = '// #include "core/b.h"'
    assert includes.problems(files) == []


@pytest.mark.parametrize("file", ("torch/check.h", "scale/plan.cpp", "out_of_core/plan.cpp"))
def test_a_named_rung_is_found(file: str) -> None:
    planted = {**FILES, file: f"{FILES[file]}\nbool f(Algo x) {{ return x == Algo::Hopper; }}\n"}
    assert includes.problems(planted) == [f"{file}: names Algo::Hopper, a rung"]


def test_a_file_of_no_room_is_found() -> None:
    assert includes.problems({"cuda/other.h": ""}) == ["cuda/other.h: no room of ROOMS"]


def test_no_header_hides_one_of_torchs() -> None:
    """ops/ is searched for headers before torch's folders, so ops/torch/library.h would be found
    in the place of <torch/library.h>."""
    root = Path(torch.__file__).parent / "include"
    folders = [root / "torch", root / "torch/csrc/api/include/torch"]
    torchs = {p.relative_to(folder).as_posix() for folder in folders for p in folder.rglob("*.h")}
    assert "library.h" in torchs
    ours = {name.removeprefix("torch/") for name in FILES if name.startswith("torch/")}
    assert len(ours) > 10
    assert ours & torchs == set()
