"""A tree of sums by hand (docs/contract.md), and by every way of the kernels that sum one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import promise
import rungs
import tiled_mm
import torch
from cases import HALVES
from torch import Tensor

# The rungs that have split-K, at the segments of a deep K and at the leaves of a tree.
SPLIT_K = {
    torch.float32: "register_tile",
    torch.complex64: "register_tile",
    torch.float64: "mma_tile",
    torch.bfloat16: "async_mma",
    torch.float16: "async_mma",
}

Way = tuple[str, bool, int, int, bool]


def tree_of(sums: Callable[[slice], Tensor], k: int, leaf: int, unit: int = 16) -> Tensor:
    """What is added to what; `sums` gives a leaf's unrounded sums."""

    def node(begin: int, end: int) -> Tensor:
        size = end - begin
        if size < 2 * max(leaf, unit):
            return sums(slice(begin, end))
        half = begin + unit * -(-size // (2 * unit))
        return node(begin, half) + node(half, end)

    return node(0, k)


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in HALVES else dtype


def by_hand(a: Tensor, b: Tensor, leaf: int, unit: int = 16, **options: object) -> Tensor:
    """The root, unrounded, of leaves that are products of one chain."""
    product = tiled_mm.mm if a.dim() == 2 else tiled_mm.bmm

    def sums(k: slice) -> Tensor:
        return product(a[..., k], b[..., k, :], sum_dtype(a.dtype), sum_order="chain", **options)

    return tree_of(sums, a.shape[-1], leaf, unit)


def fp16x3_reference(a: Tensor, b: Tensor, leaf: int) -> promise.Reference:
    """What docs/contract.md promises of fp16x3 by a tree: of each leaf its own growth of its own
    |A||B|, and of each level of the tree one rounding of |A||B|, where a chain has K's growth of
    all."""
    a, b = a.double(), b.double()
    k, least = a.shape[-1], max(leaf, 64)
    magnitude, sums = torch.zeros(2, *a.shape[:-1], b.shape[-1], dtype=a.dtype, device=a.device)
    for part in tree_of(lambda part: [part], k, leaf, 64):  # lists, that are added up to one
        of_leaf = a[..., part].abs() @ b[..., part, :].abs()
        sums += promise.growth(part.stop - part.start) * of_leaf
        magnitude += of_leaf
    depth = 1 + math.log2(k / least) if k >= 2 * least else 0
    value = a @ b
    bound = promise.U * (value.abs() + sums + depth * magnitude) + 2.0**-149
    return promise.Reference(value, bound, (k + 2) * 2.0**-53 * magnitude)


def by_every_way(a: Tensor, b: Tensor, leaf: int) -> Iterator[tuple[tuple[str, Way], Tensor]]:
    """(rung, way) and the product, of every rung whose kernels sum such a tree."""
    for algo in ("hopper", "few_rows", SPLIT_K[a.dtype]):
        asked = {"algo": algo, "sum_order": f"tree:{leaf}"}
        try:
            plan = tiled_mm.plan(a, b, **asked)
        except RuntimeError:  # not for these inputs
            continue
        if plan.k < a.shape[1]:  # of a leaf: it does not sum this tree
            continue
        for way in rungs.ways_of(a, b, **asked):
            yield (algo, way), torch.ops.tiled_debug.mm_with_tile(a, b, *way, **asked)
