"""Small operands of any strides: matrices that stand side by side, overlap, or repeat an element.

Torch allows every stride of a dimension of size 1, and 0, 1 or 2 where they mean an overlap, so a
kernel may read nothing into the order or the size of strides. Cases of the same sizes go to the
reference as one batch.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

import cases
import pytest
import tiled_mm
import torch
from cases import each
from golden import assert_same_bits

# Repeated, side by side, overlapping, odd, and of whole 16 bytes in every dtype.
STRIDES = (0, 1, 2, 7, 64)
MEMORY = 32768  # elements
PAIRS = 20  # of drawn strides, for each of the drawn sizes


def _variants() -> list:
    """(device, rung, dtype, precision): all that take any strides, and those that TMA must be able
    to read for, which are asked where they can."""
    marked = cases.each_rung_and(cases.DTYPES).mark.args[1]
    variants = [pytest.param(*p.values, None, marks=p.marks, id=p.id) for p in marked]
    marks = (pytest.mark.cuda, pytest.mark.tensor_cores)
    for dtype in (*cases.HALVES, torch.float32):
        precision = "tf32" if dtype == torch.float32 else None
        rungs = (None, *cases.TENSOR_RUNGS) if precision else ("tma_wgmma", "warp_specialized")
        for algo in rungs:
            name = f"{algo or 'tensor'}-{precision or str(dtype).removeprefix('torch.')}"
            variants.append(pytest.param("cuda", algo, dtype, precision, marks=marks, id=name))
    return variants


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Thousands of products too small to share out."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


each_variant = pytest.mark.parametrize(("device", "algo", "dtype", "precision"), _variants())


class Products:
    """A rung's product of many pairs of views, beside torch's and its own of contiguous copies."""

    def __init__(self, device: str, algo: str | None, dtype: torch.dtype, precision: str | None):
        self.asked = {"algo": algo, "precision": precision}
        self.dtype, self.device = dtype, device
        self.needs_tma = algo in ("tma_wgmma", "warp_specialized")
        self.compared = 0
        # Sums of 64 products of these are exact in every dtype.
        digits = torch.randint(0 if dtype == torch.uint8 else -1, 2, (MEMORY,), device=device)
        self.exact = digits.to(dtype)
        self.ordinary = cases.fill(1, MEMORY, dtype, device)[0]

    def check(self, pairs: list[tuple[torch.Tensor, torch.Tensor]], exact: bool) -> None:
        """All A of one shape, all B of one shape, both of two dimensions or both of three."""
        mm = tiled_mm.mm if pairs[0][0].dim() == 2 else tiled_mm.bmm
        if self.needs_tma:
            pairs = [pair for pair in pairs if self.takes(*pair)]
            if not pairs:
                return
        self.compared += len(pairs)
        products = torch.stack([mm(a, b, **self.asked) for a, b in pairs])
        a, b = (torch.stack(x) for x in zip(*pairs, strict=True))
        a3, b3 = (x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:]) for x in (a, b))
        asked = self.asked | ({"algo": "mma_tile"} if self.needs_tma else {})
        assert_same_bits(
            products, tiled_mm.bmm(a3, b3, **asked).view(products.shape), self.of(pairs)
        )
        if exact:
            wide = torch.complex128 if self.dtype.is_complex else torch.float64
            expected = torch.bmm(a3.to(wide), b3.to(wide)).to(self.dtype).view(products.shape)
            wrong = (products != expected).flatten(1).any(1)
            assert not wrong.any(), self.of([p for p, w in zip(pairs, wrong, strict=True) if w])

    def takes(self, a: torch.Tensor, b: torch.Tensor) -> bool:
        return self.asked["algo"] in tiled_mm.algos(a, b, precision=self.asked["precision"])

    @staticmethod
    def of(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> str:
        a, b = pairs[0]
        strides = [(a.stride(), b.stride()) for a, b in pairs[:4]]
        return f"{tuple(a.shape)} x {tuple(b.shape)}, first of strides {strides}"


@each_variant
def test_sizes_0_to_2_of_all_strides(device, algo, dtype, precision) -> None:
    """One operand of any strides, the other contiguous, both ways round."""
    products = Products(device, algo, dtype, precision)
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


@each_variant
def test_drawn_strides(device, algo, dtype, precision) -> None:
    """Of both operands, which begin anywhere; up to 64 rows, columns and k."""
    products = Products(device, algo, dtype, precision)
    draw = random.Random(0)
    # 5,000 pairs where operands may go through TMA, else as many of all dtypes together.
    on_tensor_cores = dtype in cases.HALVES or precision or algo == cases.PARTS_RUNG
    for _ in range(250 if device == "cuda" and on_tensor_cores else 25):
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
