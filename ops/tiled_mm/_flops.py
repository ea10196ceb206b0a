"""What torch.utils.flop_counter counts for the products: a multiply-add as two, of the product
alone, as it does for torch's own."""

from __future__ import annotations

import math
from typing import Any

import torch


def _product(a: Any, b: Any, *args: Any, **options: Any) -> int:
    """[..., M, K] x [..., K, N]; or weight's gradient, of [..., N] and [..., K]."""
    return 2 * math.prod(a) * b[-1]


def _added_to(input: Any, a: Any, b: Any, *args: Any, **options: Any) -> int:
    """The same behind what the product is added to."""
    return _product(a, b)


def _linear(x: Any, weight: Any, *args: Any, **options: Any) -> int:
    """[..., K] and [N, K] or [K]."""
    return 2 * math.prod(x) * math.prod(weight[:-1])


def _grouped(a: Any, b: Any, *args: Any, **options: Any) -> int:
    """[T, K] x [E, K, N], [E, M, K] x [K, T], [M, T] x [T, N] or [E, M, K] x [E, K, N]. Where
    groups end is data: all of what they share out counts, as for torch's own."""
    rows_of_all = len(a) == 3 and len(b) == 2  # of which each is multiplied by one group's columns
    return 2 * math.prod(a[1:] if rows_of_all else a) * b[-1]


def _scaled(a: Any, b: Any, _a: Any, _b: Any, offs: Any = None, *args: Any, **options: Any) -> int:
    """The same; and [M, K] x [K, N], where there are no groups."""
    return _product(a, b) if offs is None else _grouped(a, b)


def _scaled_added(sum: Any, *args: Any, **options: Any) -> int:
    return _scaled(*args, **options)


def _grouped_added(sum: Any, left: Any, right: Any, *args: Any, **options: Any) -> int:
    """[T, P] and [T, Q], added to [E, P, Q]."""
    return 2 * math.prod(left) * right[-1]


def register_flop_formulas() -> None:
    """Registers them where they are not registered yet."""
    from torch.utils.flop_counter import flop_registry, register_flop_formula

    tiled = torch.ops.tiled
    for formula, operators in {
        _product: (tiled.mm, tiled.bmm, tiled.fp16x3_recomputed, tiled._linear_weight_grad),
        _added_to: (
            *(tiled.addmm, tiled.baddbmm, tiled._addmm_with_pre_activation),
            tiled._add_linear_weight_grad,
        ),
        _grouped: (
            *(tiled.grouped_mm, tiled._grouped_mm_with_pre_activation),
            tiled._grouped_mm_into_main_grad,
        ),
        _scaled: (tiled.scaled_mm,),
        _scaled_added: (tiled._add_scaled_mm,),
        _grouped_added: (tiled._add_grouped_weight_grad,),
        _linear: (tiled.linear, tiled._linear_with_pre_activation, tiled._linear_into_main_grad),
    }.items():
        for operator in operators:
            if operator not in flop_registry:
                register_flop_formula(operator)(formula)
