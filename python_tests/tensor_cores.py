"""What the tests of 16-bit inputs, tf32 and fp16x3 on tensor cores share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import fp16x3
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


@dataclass(frozen=True)
class Instance:
    """An arithmetic of tensor cores, how to ask for it, and its data: fp16x3 computes elements of
    hard data again."""

    name: str
    dtype: torch.dtype
    precision: str | None = None
    data: str = "normal"  # of fp16x3.DATA

    def __str__(self) -> str:
        return self.name

    @property
    def asked(self) -> dict:
        return {"precision": self.precision} if self.precision else {}

    @property
    def arithmetic(self) -> str:
        return self.precision or "tensor"

    def make(self, *size: int) -> torch.Tensor:
        return fp16x3.DATA[self.data](*size).to(self.dtype)

    def mm(self, a: torch.Tensor, b: torch.Tensor, algo: str | None = None, **keywords):
        return tiled_mm.mm(a, b, algo=algo, **self.asked, **keywords)

    def bmm(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return tiled_mm.bmm(a, b, **self.asked)

    def one(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """The product by one kernel that takes every layout; fp16x3 chooses its own."""
        return self.mm(a, b, None if self.precision == "fp16x3" else "mma_tile")

    def rungs(self, **has) -> tuple[str, ...]:
        return rungs.names(self.arithmetic, **has)

    def rungs_for(self, a: torch.Tensor, b: torch.Tensor) -> list[str]:
        """Those of them that take these operands."""
        return [x for x in tiled_mm.algos(a, b, **self.asked) if x in self.rungs()]

    def ways(self, a: torch.Tensor, b: torch.Tensor) -> list[Callable]:
        return [self.mm] if self.precision == "fp16x3" else ways(a, b)


PARTS = Instance("fp16x3", torch.float32, "fp16x3", "hard")
INSTANCES = (
    Instance("bfloat16", torch.bfloat16),
    Instance("float16", torch.float16),
    Instance("tf32", torch.float32, "tf32"),
    PARTS,
)
each_instance = each("instance", INSTANCES)
