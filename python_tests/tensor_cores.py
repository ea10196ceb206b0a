"""What the tests of 16-bit inputs and tf32 on tensor cores share."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import rungs
import tiled_mm
import torch
from cases import each

# Inputs that run on tensor cores: float32 does where it asks for tf32.
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
each_dtype = each("dtype", DTYPES)
EVERY_RUNG = (None, *rungs.TENSOR_RUNGS)
TF32_RUNGS = (None, *rungs.names("tf32"))
each_rung_and_dtype = pytest.mark.parametrize(
    ("algo", "dtype"),
    [(algo, dtype) for dtype in DTYPES for algo in (None, *rungs.tensor_rungs(dtype))],
)
ANY_LAYOUT = (None, *rungs.ANY_LAYOUT_TENSOR_RUNGS)


def asked(dtype: torch.dtype) -> dict:
    """The keywords with which inputs of this dtype run on tensor cores."""
    return {"precision": "tf32"} if dtype == torch.float32 else {}


def arithmetic(dtype: torch.dtype) -> str:
    return "tf32" if dtype == torch.float32 else "tensor"


def mm(a: torch.Tensor, b: torch.Tensor, algo: str | None = None, **keywords) -> torch.Tensor:
    return tiled_mm.mm(a, b, algo=algo, **asked(a.dtype), **keywords)


def rungs_for(a: torch.Tensor, b: torch.Tensor) -> list[str]:
    """The tensor-core rungs that take these operands."""
    found = tiled_mm.algos(a, b, **asked(a.dtype))
    return [name for name in found if name in rungs.TENSOR_RUNGS]


def hopper_with_totals(a: torch.Tensor, b: torch.Tensor) -> Callable:
    """hopper, its blocks going through all of K: the totals of a deep one in the workspace."""
    ways = rungs.ways_of(a, b, "hopper", **asked(a.dtype))
    whole = next(way for way in ways if way[1:] == (False, 1, 1, False))
    return lambda x, y: torch.ops.tiled_debug.mm_with_tile(x, y, *whole, **asked(x.dtype))


def ways(a: torch.Tensor, b: torch.Tensor) -> list[Callable]:
    """The planner's choice, every rung that takes these operands, and the one above."""
    algos = (None, *rungs_for(a, b))
    return [*(functools.partial(mm, algo=algo) for algo in algos), hopper_with_totals(a, b)]


def normal(*size: int, dtype: torch.dtype) -> torch.Tensor:
    """Made on the GPU: these matrices are large."""
    return torch.randn(*size, device="cuda").to(dtype)
