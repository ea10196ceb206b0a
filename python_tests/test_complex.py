"""Complex products: four real ones, in an order that is the same when A and B change places; and
factors that are real or imaginary."""

from __future__ import annotations

import math

import cases
import pytest
import rungs
import tiled_mm
import torch
from cases import COMPLEX, column_major, each
from golden import assert_same_bits
from rungs import each_rung_and

each_complex_rung = each_rung_and(COMPLEX)

SIZES = (
    *((1, 1, 1), (2, 3, 4), (33, 20, 50), (7, 1, 300), (1, 7, 300), (65, 130, 700)),
    *((130, 67, 4097), (5, 9, 32767), (9, 5, 32768), (3, 7, 36864 + 3), (3, 2, 0)),
)


def spread(x: torch.Tensor) -> torch.Tensor:
    """The same matrix, whose elements are not neighbours."""
    return cases.in_a_hole(x, 2, 3)


@each("size", SIZES)
@each_complex_rung
def test_swapped_operands(device: str, algo: str | None, dtype: torch.dtype, size) -> None:
    a, b = cases.pair(*size, dtype, device)
    c = tiled_mm.mm(a, b, algo=algo)
    for lay_a in (torch.clone, column_major, spread):
        for lay_b in (torch.clone, column_major, spread):
            x, y = lay_a(a), lay_b(b)
            what = f"{lay_a.__name__}, {lay_b.__name__}"
            assert_same_bits(tiled_mm.mm(x, y, algo=algo), c, what)
            assert_same_bits(tiled_mm.mm(y.t(), x.t(), algo=algo).t(), c, f"{what}, swapped")


@each("k", (1, 300, 4097, 32767))
@each_complex_rung
def test_is_four_real_products(device: str, algo: str | None, dtype: torch.dtype, k: int) -> None:
    """Where K is not cut; where it is, each segment is (test_bits.py)."""
    a, b = cases.pair(13, 21, k, dtype, device)

    def real(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return tiled_mm.mm(x, y, precision="ieee")

    expected = torch.complex(
        real(a.real, b.real) - real(a.imag, b.imag), real(a.real, b.imag) + real(a.imag, b.real)
    )
    assert_same_bits(tiled_mm.mm(a, b, algo=algo), expected)


@each("size", ((33, 20, 50), (7, 9, 36864 + 3)))
@each_complex_rung
def test_swapped_with_an_epilogue(device: str, algo: str | None, dtype, size) -> None:
    m, n, _ = size
    a, b = cases.pair(*size, dtype, device)
    c = cases.fill(m, n, dtype, device)
    asked = cases.factors(dtype)
    expected = tiled_mm.addmm(c, a, b, algo=algo, **asked)
    swapped = tiled_mm.addmm(c.t(), b.t(), a.t(), algo=algo, **asked).t()
    assert_same_bits(swapped, expected)
    out = torch.empty(n, m, dtype=dtype, device=device).t()
    assert_same_bits(tiled_mm.addmm(c, a, b, algo=algo, out=out, **asked), expected, "out")


@each("dtype", COMPLEX)
@each("size", ((33, 20, 50), (4, 6, 32768 + 5), (32768 + 5, 4, 6)))
def test_gradients_of_either_layout(device: str, dtype: torch.dtype, size) -> None:
    m, n, _ = size
    a, b = cases.pair(*size, dtype, device)
    g = cases.fill(m, n, dtype, device)
    found = []
    for lay in (torch.clone, column_major, spread):
        x, y = (lay(t).detach().requires_grad_() for t in (a, b))
        found.append(torch.autograd.grad(tiled_mm.mm(x, y), (x, y), lay(g)))
    for of_a, of_b in found[1:]:
        assert_same_bits(of_a, found[0][0], "A's")
        assert_same_bits(of_b, found[0][1], "B's")


TILES = {
    torch.complex64: ("Tile64x64WideComplex",),
    torch.complex128: ("Tile64x64Complex", "Tile32x32Complex"),
}


@pytest.mark.cuda
@each("dtype", COMPLEX)
@each("size", ((200, 150, 70), (65, 130, 9 * 4096 + 7)))
def test_every_tile_has_the_cpus_bits(dtype: torch.dtype, size) -> None:
    """With the segments of a tile one after the other, or shared out among blocks."""
    a, b = cases.pair(*size, dtype)
    expected = tiled_mm.mm(a, b)
    on_gpu, swapped = (a.cuda(), b.cuda()), (b.cuda().t(), a.cuda().t())
    for tile in TILES[dtype]:
        for shares in (False, True) if size[2] >= rungs.SHARED_K else (False,):
            asked = (tile, False, 1, 1, shares)
            product = torch.ops.tiled_debug.mm_with_tile
            c = product(*on_gpu, *asked, algo="register_tile")
            assert_same_bits(c.cpu(), expected, f"{tile}, {shares}")
            c = product(*swapped, *asked, algo="register_tile").t()
            assert_same_bits(c.cpu(), expected, f"{tile}, {shares}, swapped")


EINSUMS = {"bk,nk->nb": 1, "bik,nk->bni": 0, "bik,k->bi": 0, "bn,nk->kb": 1}  # where b is in C


@each("dtype", COMPLEX)
@each("equation", tuple(EINSUMS))
@each("k", (40, 32768 + 5))
def test_einsum_of_one(device: str, dtype: torch.dtype, equation: str, k: int) -> None:
    """torch exchanges the operands where a batch is 1; an entry's bits stay."""
    left, right = equation.split("->")[0].split(",")
    sizes = {"b": 9, "i": 3, "n": 5, "k": 6} | {left[-1]: k}
    batched, fixed = (
        torch.randn([sizes[i] for i in letters], dtype=dtype).to(device)
        for letters in (left, right)
    )
    where = EINSUMS[equation]
    with tiled_mm.override(device):
        tiled_mm.override_counts(reset=True)
        whole = torch.einsum(equation, batched, fixed)
        for i in range(9):
            one = torch.einsum(equation, batched[i : i + 1], fixed)
            assert_same_bits(one, whole.narrow(where, i, 1), f"{equation}, entry {i}")
        counts = tiled_mm.override_counts().values()
        assert sum(count["tiled"] for count in counts) == 10


def big(dtype: torch.dtype) -> float:
    return 1e30 if dtype == torch.complex64 else 1e200


@each_complex_rung
def test_a_factor_of_one_changes_nothing(device: str, algo: str | None, dtype) -> None:
    """Infinity stays what it is: (1 + 0i) (inf + 0i) has no infinity times 0."""
    size = (2, 2)
    large = torch.full(size, big(dtype), dtype=dtype, device=device)
    eye = torch.eye(2, dtype=dtype, device=device)
    zeros = torch.zeros(size, dtype=dtype, device=device)
    for value in (complex(math.inf, 0), complex(0, -math.inf), complex(-math.inf, 3)):
        infinite = torch.full(size, value, dtype=dtype, device=device)
        c = tiled_mm.addmm(infinite, eye, zeros, algo=algo)
        assert torch.equal(c, infinite), value
    overflow = torch.full(size, complex(math.inf, 0), dtype=dtype, device=device)
    assert torch.equal(tiled_mm.mm(large, large, algo=algo), overflow)
    assert torch.equal(tiled_mm.addmm(zeros, large, large, algo=algo), overflow)


REAL_AND_IMAGINARY = {  # factor: what becomes of infinity + 0i
    2: complex(math.inf, 0),
    -1: complex(-math.inf, 0),
    0.5 + 0j: complex(math.inf, 0),
    3j: complex(0, math.inf),
    -1j: complex(0, -math.inf),
}


@each("factor", tuple(REAL_AND_IMAGINARY))
@each_complex_rung
def test_real_and_imaginary_factors(device: str, algo: str | None, dtype, factor) -> None:
    size = (2, 3)
    infinite = torch.full(size, complex(math.inf, 0), dtype=dtype, device=device)
    large = torch.full((2, 2), big(dtype), dtype=dtype, device=device)
    b = torch.full((2, 3), big(dtype), dtype=dtype, device=device)
    zeros = torch.zeros(size, dtype=dtype, device=device)
    expected = torch.full(size, REAL_AND_IMAGINARY[factor], dtype=dtype, device=device)
    c = tiled_mm.addmm(infinite, large, torch.zeros_like(b), beta=factor, algo=algo)
    assert torch.equal(c, expected), "beta"
    assert torch.equal(tiled_mm.addmm(zeros, large, b, alpha=factor, algo=algo), expected), "alpha"


@each_complex_rung
def test_both_parts_of_a_factor(device: str, algo: str | None, dtype: torch.dtype) -> None:
    """A factor that has both multiplies by both, infinity too: as IEEE has it, NaN comes of it."""
    infinite = torch.full((2, 2), complex(math.inf, 0), dtype=dtype, device=device)
    zeros = torch.zeros(2, 2, dtype=dtype, device=device)
    c = tiled_mm.addmm(infinite, zeros, zeros, beta=1 + 1j, algo=algo)
    assert torch.equal(c, torch.full_like(c, complex(math.inf, math.inf)))
