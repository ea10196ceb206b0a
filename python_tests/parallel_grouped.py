"""Cases of test_distributed.py: products of groups on DTensors, whichever way every operand is
placed. The offsets are everywhere as a whole."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import pytest
import tiled_mm
import torch
from parallel_products import check_everywhere, ways_of
from processes import Cases, equal, mesh, placed, whole_numbers
from torch import Tensor, distributed

CASES = Cases()


def everywhere(ends: tuple[int, ...], beside: Tensor) -> Tensor:
    """The offsets where `beside` is."""
    from torch.distributed.tensor import DTensor, Replicate

    offs = torch.tensor(ends, dtype=torch.int32, device=beside.device)
    if not isinstance(beside, DTensor):
        return offs
    on = beside.device_mesh
    return DTensor.from_local(offs, on, [Replicate()] * on.ndim, run_check=False)


def check_groups(
    ends: tuple[int, ...] | None, sizes: tuple, *, partial: bool = True, **options
) -> None:
    def product(grouped_mm: Callable, *tensors: Tensor, **options) -> Tensor:
        offs = None if ends is None else everywhere(ends, tensors[0])
        bias = {"bias": tensors[2]} if len(tensors) > 2 else {}
        return grouped_mm(*tensors[:2], offs=offs, **bias, **options)

    ours = functools.partial(product, tiled_mm.grouped_mm, **options)
    torchs = functools.partial(product, torch.nn.functional.grouped_mm)
    check_everywhere(ours, torchs, sizes, partial=partial)


@CASES
def groups_of_rows() -> None:
    check_groups((0, 3, 5), ((6, 4), (3, 4, 5)))


@CASES
def groups_of_columns() -> None:
    check_groups((0, 3, 5), ((3, 4, 5), (5, 6)))


@CASES
def groups_of_k() -> None:
    check_groups((0, 3, 5), ((4, 6), (6, 5)))


@CASES
def a_batch() -> None:
    check_groups(None, ((4, 2, 4), (4, 4, 2)))


@CASES
def groups_with_a_bias() -> None:
    for options in ({}, {"activation": "relu"}):
        check_groups((2, 2, 6), ((6, 4), (3, 4, 5), (3, 5)), partial=False, **options)


@CASES
def sums_of_groups_are_written() -> None:
    """main_grad's."""
    torch.manual_seed(3)
    ends = (2, 2, 6)
    sum, left, right = (whole_numbers(*size) for size in ((3, 4, 5), (6, 4), (6, 5)))
    expected = sum.clone()
    add = torch.ops.tiled._add_grouped_weight_grad
    add(expected, left, right, everywhere(ends, left))
    from torch.distributed.tensor import Shard

    wrong = [
        placed(t, mesh(), (w,)) for t, w in zip((sum, left), (Shard(0), Shard(1)), strict=True)
    ]
    with pytest.raises(RuntimeError, match="no placement of the operands gives an out"):
        add(*wrong, placed(right, mesh(), (Shard(0),)), everywhere(ends, wrong[0]))
    sums = [way for way in ways_of(3)[:-1] if way != Shard(0)]
    kinds = sums, ways_of(2, partial=False), ways_of(2, partial=False)
    step = distributed.get_world_size() // 2
    for ways in itertools.islice(itertools.product(*kinds), 0, None, step):
        parts = [
            placed(t.clone(), mesh(), (w,)) for t, w in zip((sum, left, right), ways, strict=True)
        ]
        before = parts[0].placements
        add(*parts, everywhere(ends, parts[1]))
        assert parts[0].placements == before
        equal(parts[0].full_tensor(), expected)
