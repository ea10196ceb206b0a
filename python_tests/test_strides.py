"""Small operands of any strides: matrices that stand side by side, overlap, or repeat an element.

Torch allows every stride of a dimension of size 1, and 0, 1 or 2 where they mean an overlap, so a
kernel may read nothing into the order or the size of strides. Cases of the same sizes go to the
reference as one batch.
"""

from __future__ import annotations

import itertools
import math
import random

import cases
import pytest
import rungs
import tiled_mm
import torch
from cases import each
from golden import assert_same_bits
from rungs import Run, each_run

# Thousands of products too small to share out.
pytestmark = pytest.mark.usefixtures("one_thread")

# Repeated, side by side, overlapping, odd, and of whole 16 bytes in every dtype.
STRIDES = (0, 1, 2, 7, 64)
MEMORY = 32768  # elements
PAIRS = 20  # of drawn strides, for each of the drawn sizes


class Products:
    """A rung's product of many pairs of views, beside torch's and its own of contiguous copies."""

    def __init__(self, run: Run):
        self.run, self.dtype = run, run.dtype
        self.compared = 0
        # Sums of 64 products of these are exact in every dtype.
        digits = torch.randint(
            0 if run.dtype == torch.uint8 else -1, 2, (MEMORY,), device=run.device
        )
        self.exact = digits.to(run.dtype)
        self.ordinary = run.fill(1, MEMORY)[0]

    def check(self, pairs: list[tuple[torch.Tensor, torch.Tensor]], exact: bool) -> None:
        """All A of one shape, all B of one shape, both of two dimensions or both of three."""
        mm = self.run.mm if pairs[0][0].dim() == 2 else self.run.bmm
        pairs = [pair for pair in pairs if self.run.takes(*pair)]
        if not pairs:
            return
        self.compared += len(pairs)
        products = torch.stack([mm(a, b) for a, b in pairs])
        a, b = (torch.stack(x) for x in zip(*pairs, strict=True))
        a3, b3 = (x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:]) for x in (a, b))
        asked = {"algo": self.run.algo, "precision": self.run.precision}
        if not self.run.any_layout:
            asked["algo"] = rungs.ANY_LAYOUT_TENSOR_RUNGS[0]
        expected = tiled_mm.bmm(a3, b3, **asked).view(products.shape)
        assert_same_bits(products, expected, self.of(pairs))
        if exact:
            wide = torch.complex128 if self.dtype.is_complex else torch.float64
            expected = torch.bmm(a3.to(wide), b3.to(wide)).to(self.dtype).view(products.shape)
            wrong = (products != expected).flatten(1).any(1)
            assert not wrong.any(), self.of([p for p, w in zip(pairs, wrong, strict=True) if w])

    @staticmethod
    def of(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> str:
        a, b = pairs[0]
        strides = [(a.stride(), b.stride()) for a, b in pairs[:4]]
        return f"{tuple(a.shape)} x {tuple(b.shape)}, first of strides {strides}"


@each_run()
def test_sizes_0_to_2_of_all_strides(run: Run) -> None:
    """One operand of any strides, the other contiguous, both ways round."""
    products = Products(run)
    for batch, m, n, k in itertools.product((None, 0, 1, 2), *[(0, 1, 2)] * 3):
        entries = () if batch is None else (batch,)
        shapes = ((*entries, m, k), (*entries, k, n))
        # Strides of nothing are many ways to say it.
        values = STRIDES if 0 not in (batch, m, n, k) else (0, 7)
        for strided in (0, 1):
            other = products.exact[: math.prod(shapes[1 - strided])].view(shapes[1 - strided])
            views = [
                products.exact.as_strided(shapes[strided], strides)
                for strides in itertools.product(values, repeat=len(shapes[strided]))
            ]
            products.check([(other, x) if strided else (x, other) for x in views], exact=True)
    assert products.compared > 0


@each_run()
def test_drawn_strides(run: Run) -> None:
    """Of both operands, which begin anywhere; up to 64 rows, columns and k."""
    products = Products(run)
    draw = random.Random(0)
    # 5,000 pairs where operands may go through TMA, else as many of all dtypes together.
    on_tensor_cores = run.dtype in cases.HALVES or run.precision or run.algo == rungs.PARTS_RUNG
    for _ in range(250 if run.device == "cuda" and on_tensor_cores else 25):
        batch = draw.choice((1, 2, 3, 8))
        m, n, k = (draw.choice((1, 1, 2, 3, 8, 17, 64)) for _ in range(3))

        def view(memory: torch.Tensor, *shape: int) -> torch.Tensor:
            strides = [draw.choice((0, 1, 1, 2, 3, 7, 8, 16, 64, 65, 128)) for _ in shape]
            return memory.as_strided(shape, strides, draw.choice((0, 0, 1, 8, 16)))

        for memory in (products.exact, products.ordinary):
            pairs = [
                (view(memory, batch, m, k), view(memory, batch, k, n)) for _ in range(PAIRS // 2)
            ]
            products.check(pairs, exact=memory is products.exact)
    assert products.compared > 0


@each("dtype", cases.HALVES)
@pytest.mark.cuda
def test_batches_of_single_elements(dtype: torch.dtype) -> None:
    """Entries of [batch, 1, 1] are one element apart, and TMA's steps are of whole 16 bytes."""
    for m, n in itertools.product((1, 32, 64), repeat=2):
        a = torch.arange(16 * m, device="cuda").remainder(11).to(dtype).view(16, m, 1)
        b = torch.arange(16 * n, device="cuda").remainder(7).to(dtype).view(16, 1, n)
        assert torch.equal(tiled_mm.bmm(a, b), a * b), (m, n)
