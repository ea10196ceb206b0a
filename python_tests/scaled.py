"""Scaled products for the tests: operands and scales of every recipe, the exact product and the
contract's error bound."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
FP8 = (E4M3, E5M2)
RECIPES = ("TensorWise", "RowWise", "BlockWise1x128", "BlockWise128x128")
BLOCK = 128
# Hopper's, and how many blocks of a cluster share an operand.
TILES = ("Coop256x128", "Coop192x128", "Coop128x128", "Deep64x64", "Solo64x32", "Solo64x16")
CLUSTERS = ((1, 1), (2, 1), (1, 2), (4, 1), (1, 4))
# Of results.
UNIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24}
SMALLEST = {torch.bfloat16: 2.0**-133, torch.float16: 2.0**-24, torch.float32: 2.0**-149}


def blocks(size: int) -> int:
    return -(-size // BLOCK)


def scale_shape(recipe: str, rows: int, k: int) -> tuple[int, ...]:
    """Of A's scales."""
    return {
        "TensorWise": (1,),
        "RowWise": (rows, 1),
        "BlockWise1x128": (rows, blocks(k)),
        "BlockWise128x128": (blocks(rows), blocks(k)),
    }[recipe]


def spread(scale: Tensor, recipe: str, rows: int, k: int) -> Tensor:
    """A's scales for each element, [rows, k], float64."""
    scale = scale.double()
    if recipe == "TensorWise":
        return scale.reshape(1, 1).expand(rows, k)
    if recipe == "RowWise":
        return scale.expand(rows, k)
    scale = scale.repeat_interleave(BLOCK, 1)[:, :k]
    return scale if recipe == "BlockWise1x128" else scale.repeat_interleave(BLOCK, 0)[:rows]


@dataclass(frozen=True)
class Operands:
    """``b`` and ``scale_b`` are the transposes of tensors that lie as A's do."""

    a: Tensor
    b: Tensor
    scale_a: Tensor
    scale_b: Tensor
    recipe_a: str
    recipe_b: str

    def all(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.a, self.b, self.scale_a, self.scale_b

    def exact(self) -> tuple[Tensor, Tensor]:
        """The product and that of the magnitudes, of which errors are counted, float64."""
        m, k = self.a.shape
        n = self.b.shape[1]
        a = self.a.double() * spread(self.scale_a, self.recipe_a, m, k)
        b = self.b.double() * spread(self.scale_b.t(), self.recipe_b, n, k).T
        return a @ b, a.abs() @ b.abs()

    def bound(
        self, dtype: torch.dtype, *, on_tensor_cores: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """The exact product, and how far off an element of this dtype may be (docs/contract.md,
        "fp8"): on the CPU, or on tensor cores, g being given."""
        exact, magnitude = self.exact()
        k = self.a.shape[1]
        chain = min(k, BLOCK) * 2.0**-24 if on_tensor_cores is None else on_tensor_cores * 2.0**-13
        sums = chain + (blocks(k) + 3) * 2.0**-24
        least = SMALLEST[dtype] + 2.0**-149 * k
        # Scales are multiplied in fp32 here, exactly there: what that leaves out is of 2nd order.
        return exact, UNIT[dtype] * exact.abs() + (1 + 2.0**-10) * sums * magnitude + least


def matrix(rows: int, cols: int, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    if dtype == torch.int8:
        return torch.randint(-128, 128, (rows, cols), dtype=dtype, generator=generator)
    return torch.randn(rows, cols, generator=generator).to(dtype)


def make(
    m: int,
    n: int,
    k: int,
    recipe_a: str,
    recipe_b: str,
    dtypes: tuple[torch.dtype, torch.dtype] = (E4M3, E4M3),
    *,
    seed: int = 0,
    device: str = "cpu",
) -> Operands:
    generator = torch.Generator().manual_seed(seed)

    def scale(recipe: str, rows: int) -> Tensor:
        shape = scale_shape(recipe, rows, k)
        return torch.rand(shape, generator=generator).add_(0.1).to(device)

    return Operands(
        matrix(m, k, dtypes[0], generator).to(device),
        matrix(n, k, dtypes[1], generator).to(device).t(),
        scale(recipe_a, m),
        scale(recipe_b, n).mT if recipe_b != "TensorWise" else scale(recipe_b, n),
        recipe_a,
        recipe_b,
    )


def by_every_way(o: Operands, dtype: torch.dtype) -> Iterator[tuple[tuple, Tensor]]:
    """(tile, swap_ab, cluster) and the product, on Hopper."""
    for way in itertools.product(TILES, (False, True), CLUSTERS):
        tile, swap_ab, cluster = way
        try:
            c = torch.ops.tiled_debug.scaled_with_tile(
                *o.all(), tile, swap_ab, *cluster, out_dtype=dtype
            )
        except RuntimeError as error:  # a cluster cannot share so few rows
            assert "has no way" in str(error)
            continue
        yield way, c
