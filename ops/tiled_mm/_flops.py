"""What torch.utils.flop_counter counts for the products: a multiply-add as two, of the product
alone, as it does for torch's own."""

from __future__ import annotations

import math
from typing import Any

import torch

from ._after_import import when_imported


def _product(a: Any, b: Any, *args: Any, **options: Any) -> int:
    """[..., M, K] x [..., K, N]; or weight's gradient, of [..., N] and [..., K]."""
    return 2 * math.prod(a) * b[-1]


def _added_to(input: Any, a: Any, b: Any, *args: Any, **options: Any) -> int:
    """The same behind what the product is added to."""
    return _product(a, b)


def _linear(x: Any, weight: Any, *args: Any, **options: Any) -> int:
    """[..., K] and [N, K] or [K]."""
    return 2 * math.prod(x) * math.prod(weight[:-1])


def _register() -> None:
    from torch.utils.flop_counter import flop_registry, register_flop_formula

    tiled = torch.ops.tiled
    for formula, operators in {
        _product: (tiled.mm, tiled.bmm, tiled.fp16x3_recomputed, tiled._linear_weight_grad),
        _added_to: (
            *(tiled.addmm, tiled.baddbmm, tiled._addmm_with_before),
            tiled._add_linear_weight_grad,
        ),
        _linear: (tiled.linear, tiled._linear_with_before, tiled._linear_into_main_grad),
    }.items():
        for operator in operators:
            if operator not in flop_registry:
                register_flop_formula(operator)(formula)


def register_flop_formulas() -> None:
    """Register them once torch.utils.flop_counter is imported."""
    when_imported("torch.utils.flop_counter", _register)
