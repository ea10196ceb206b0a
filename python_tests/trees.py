"""A tree of sums by hand (docs/contract.md), and by every way of the kernels that sum one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import rungs
import tiled_mm
import torch
from cases import HALVES
from torch import Tensor

# Tiles of rung hopper whose kernels sum a tree of operands of 16 bits, and their clusters.
TILES = ("Coop128x128", "Deep64x64", "Solo64x16")
CLUSTERS = ((1, 1), (2, 1), (1, 2))

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


def can_share(m: int, n: int, k: int, leaf: int) -> bool:
    """Whether the leaves' sums are few enough to be shared out, whatever the dtype."""
    return m * n * (k // leaf) <= 1 << 16


def by_every_way(
    a: Tensor, b: Tensor, leaf: int, laid: Callable[[int, int, int], tuple[Tensor, Tensor]]
) -> Iterator[tuple[tuple[str, Way], Tensor]]:
    """(rung, way) and the product, in which leaves are shared out, and of hopper's tiles where each
    block has all of them too. laid(m, n, k): operands in the layouts of A and B."""
    (m, k), n = a.shape, b.shape[1]
    shares = can_share(m, n, k, leaf)
    ways: list[tuple[str, Way]] = []
    if a.dtype in HALVES and rungs.has_tensor_core_kernels("cuda"):
        every = itertools.product(TILES, (False, True), CLUSTERS, (False, True)[: 1 + shares])
        ways += [("hopper", (tile, turned, *c, share)) for tile, turned, c, share in every]
    algo = SPLIT_K[a.dtype]
    if shares and (algo != "mma_tile" or rungs.has_tensor_core_kernels("cuda")):
        found = [way for way in rungs.ways_of(*laid(m, n, 32768), algo) if way[-1]]
        assert found
        ways += [(algo, way) for way in found]
    for algo, way in ways:
        asked = {"algo": algo, "sum_order": f"tree:{leaf}"}
        try:
            c = torch.ops.tiled_debug.mm_with_tile(a, b, *way, **asked)
        except RuntimeError as error:  # such as a copy, of what is aligned with this K
            assert "has no way" in str(error)
            continue
        yield (algo, way), c
