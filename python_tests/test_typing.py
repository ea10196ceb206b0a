"""What static checkers know: the names in _names.py are those that the library knows, the public
functions have them, and decorators keep the types of what they decorate."""

from __future__ import annotations

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import tiled_mm
import torch
from tiled_mm import _names
from tiled_mm import distributed as tiled_distributed

ROOT = Path(__file__).resolve().parents[1]
A = torch.ones(2, 2)


def known(call: Callable[[], object]) -> list[str]:
    """The names that a refusal lists."""
    with pytest.raises((RuntimeError, ValueError)) as refused:
        call()
    _, found, listed = str(refused.value).splitlines()[0].partition("expected ")
    assert found
    return re.findall(r"\w+", listed.removeprefix("one of").replace(" or ", " "))


EIGHT = A.to(torch.float8_e4m3fn)
LISTED: dict[str, list[Callable[[], object]]] = {
    "Activation": [
        lambda: tiled_mm.addmm(A, A, A, activation="?"),
        lambda: tiled_mm.nn.Linear(1, 1, activation="?"),
    ],
    "Peak": [lambda: tiled_mm.roofline("h100", bytes=1, flops=1, peak="?")],
    "Precision": [
        lambda: tiled_mm.mm(A, A, precision="?"),
        lambda: tiled_mm.set_float32_precision("?"),
    ],
    "Recipe": [
        lambda: tiled_mm.quantize(A, "?"),
        lambda: tiled_mm.scaled_mm(EIGHT, EIGHT, A, A, scale_recipe_a="?"),
    ],
    "Reduction": [lambda: tiled_distributed.cross_entropy(A, torch.zeros(2).long(), reduction="?")],
}


@pytest.mark.parametrize("name", LISTED)
def test_names_are_those_that_a_refusal_lists(name: str) -> None:
    for call in LISTED[name]:
        assert known(call) == list(get_args(getattr(_names, name)))


def test_algos_are_the_rungs_of_the_ladder() -> None:
    text = (ROOT / "ops" / "core" / "ladder.inc").read_text()
    rungs = re.findall(r"^[A-Z]+_RUNG\(\w+, (\w+), ", text, re.MULTILINE)
    assert sorted(rungs) == sorted(get_args(_names.Algo))
    for algo in get_args(_names.Algo):
        try:
            tiled_mm.mm(A, A, algo=algo)
        except RuntimeError as error:
            assert f"algo '{algo}' is not for these inputs" in str(error)


def test_sum_orders_are_those_that_can_be_set() -> None:
    leaves = {2**i + j for i in range(18) for j in (-1, 0, 1)}
    candidates = ["chain", "tree", "tree:", "?", *(f"tree:{leaf}" for leaf in sorted(leaves))]

    def can_be_set(order: str) -> bool:
        try:
            with tiled_mm.sum_order(order):
                return True
        except RuntimeError:
            return False

    assert list(filter(can_be_set, candidates)) == list(get_args(_names.SumOrder))
    assert get_args(_names.SumOrder) == ("chain", *get_args(_names.Tree))


# What a parameter of this name is annotated with, wherever it is public.
TYPES = {
    "activation": "Activation",
    "algo": "Algo",
    "layout": "Layout",
    "order": "SumOrder",
    "peak": "Peak",
    "precision": "Precision",
    "recipe": "Recipe",
    "reduction": "Reduction",
    "scale_recipe_a": "Recipe",
    "scale_recipe_b": "Recipe",
    "sum_order": "SumOrder",
}
# A parallel style and a loss that is shared out take trees alone.
TREES = {"ColwiseParallel", "RowwiseParallel", "cross_entropy"}


def public() -> dict[str, Any]:
    places = (tiled_mm, tiled_distributed, tiled_mm.nn)
    return {name: getattr(place, name) for place in places for name in place.__all__}


def test_public_functions_take_the_names() -> None:
    seen = set()
    for name, function in public().items():
        if not callable(function):
            continue
        try:
            parameters = inspect.signature(function).parameters.values()
        except ValueError:  # of a class that has none
            continue
        for parameter in parameters:
            if parameter.name not in TYPES:
                continue
            seen.add(parameter.name)
            wanted = TYPES[parameter.name]
            if wanted == "SumOrder" and name in TREES:
                wanted = "Tree"
            given = parameter.annotation
            if isinstance(given, str):
                assert wanted in given.split(" | "), f"{name}({parameter}): {wanted}"
            else:  # an annotation that is a value
                members = set(get_args(getattr(_names, wanted)))
                assert members <= {m for part in get_args(given) for m in get_args(part)}, name
    assert seen == set(TYPES)


PROGRAM = """
import torch
import tiled_mm

a = torch.ones(2, 2)
tiled_mm.addmm(a, a, a, activation="gelu", precision="ieee", algo="naive", sum_order="tree:64")
tiled_mm.quantize(a, "RowWise")


@tiled_mm.override("cpu")
def step(x: torch.Tensor, times: int = 1) -> float:
    return float(x.sum()) * times


reveal_type(step)
reveal_type(tiled_mm.set_sum_order)
reveal_type(tiled_mm.convert(torch.nn.Linear(1, 1)))
tiled_mm.mm(a, a, precision="iee")
tiled_mm.linear(a, a, activation="gello")
tiled_mm.plan(a, a, sum_order="tree:17")
step("a")
tiled_mm.mmm
"""


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed here")
def test_mypy_sees_the_names_and_through_decorators(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-incremental", "--follow-imports=silent", "program.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(ROOT / "ops")},
    )
    said = [line for line in result.stdout.splitlines() if line.startswith("program.py")]
    revealed = [line for line in said if "Revealed type" in line]
    errors = [line for line in said if ": error: " in line]
    assert "Tensor, times: int =) -> float" in revealed[0], result.stdout
    assert "order: " in revealed[1] and "'tree:16384'" in revealed[1]
    assert "torch.nn.modules.linear.Linear" in revealed[2]
    wrong = ("'iee'", "'gello'", "'tree:17'", '"str"; expected "Tensor"', 'no attribute "mmm"')
    assert len(errors) == len(wrong), result.stdout
    for text, error in zip(wrong, errors, strict=True):
        assert text in error
