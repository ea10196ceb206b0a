"""The precision of a layer whose gradients are computed apart from its products."""

from __future__ import annotations

import functools

import torch

from ._inspect import plan
from ._precision import get_float32_precision


@torch.compiler.assume_constant_result
def precision_of(dtype: torch.dtype, device: torch.device) -> str | None:
    """What products of such operands run now where they ask for none: what a backward asks for that
    is to be as its forward was. None where there is no choice. Compiled code keeps it."""
    if dtype != torch.float32:
        return None
    if device.type != "cuda":
        return "ieee"
    setting = get_float32_precision() or torch.backends.cuda.matmul.fp32_precision
    return _served(setting, str(device))


@functools.cache
def _served(setting: str, device: str) -> str:
    """By a GPU, while this is set: what it has no kernel for, or gains nothing by, is 'ieee'."""
    a = torch.empty(16, 16, device="meta")
    arithmetic = plan(a, a, sum_order="chain", device=device)["arithmetic"]
    return {"fma": "ieee"}.get(arithmetic, arithmetic)
