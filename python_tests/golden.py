"""An independent model of the library's arithmetic, and equality of bits.

The rule (ops/core/segments.h; docs/contract.md, "One answer"): K below 32768 is one segment, from
there on K is cut at every multiple of 4096; a segment is one chain of fused multiply-adds from +0,
k ascending; the segments' sums are added, ascending, to a total that starts from +0. Nothing here
shares a line with the library: the fused multiply-adds are made of ordinary IEEE operations.

    fp32, fp16, bf16   chains in fp32, the total rounded once to the output's dtype
    fp64               chains in fp64
    complex            four such chains of real numbers, whose ends make up a segment's sum:
                       (ar br) - (ai bi) and (ar bi) + (ai br)
"""

from __future__ import annotations

import itertools

import numpy as np
import torch

SEGMENT_K, DEEP_K = 4096, 32768


def round_to_odd_sum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y in fp64, rounded to odd: if inexact, the neighbour whose last bit is 1.

    A number rounded to odd keeps the knowledge of being inexact in its last bit, so that rounding
    it once more, to a format at least two bits shorter, gives what one rounding would have given.
    """
    total, error = two_sum(x, y)
    even = (total.view(np.int64) & 1) == 0
    move = (error != 0) & even & np.isfinite(total)
    return np.where(move, np.nextafter(total, np.copysign(np.inf, error)), total)


def two_sum(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x + y = total + error, exactly (Knuth)."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = x + y
        z = total - x
        return total, (x - (total - z)) + (y - z)


def two_product(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x y = product + error, exactly unless something over- or underflows (Dekker)."""

    def split(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scaled = 134217729.0 * v  # 2^27 + 1
        high = scaled - (scaled - v)
        return high, v - high

    product = x * y
    (xh, xl), (yh, yl) = split(x), split(y)
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a b + c in fp32, rounded once. The product of two fp32 numbers is exact in fp64."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        product = a.astype(np.float64) * b.astype(np.float64)
        return round_to_odd_sum(product, c.astype(np.float64)).astype(np.float32)


def fma64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a b + c in fp64, rounded once (Boldo and Melquiond, 2008), for data of moderate exponents."""
    high, low = two_product(a, b)
    sum_high, sum_low = two_sum(c, low)
    value_high, value_low = two_sum(high, sum_high)
    return value_high + round_to_odd_sum(sum_low, value_low)


def chain_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """One chain for each element of the products of matrices [..., M, K] and [..., K, N]."""
    fma = fma32 if a.dtype == np.float32 else fma64
    shape = (*a.shape[:-1], b.shape[-1])
    chain = np.zeros(shape, a.dtype)
    for i in range(a.shape[-1]):
        chain = fma(
            np.broadcast_to(a[..., i, None], shape),
            np.broadcast_to(b[..., i, None, :], shape),
            chain,
        )
    return chain


def complex_chain_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The same of complex numbers, in parts: [2, M, N], the real one first."""
    rr, ii, ri, ir = chain_sums(
        np.stack([a.real, a.imag, a.real, a.imag]), np.stack([b.real, b.imag, b.imag, b.real])
    )
    return np.stack([rr - ii, ri + ir])


def sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The total over all segments."""
    of_segment = complex_chain_sums if np.iscomplexobj(a) else chain_sums
    k = a.shape[-1]
    cuts = range(SEGMENT_K, k, SEGMENT_K) if k >= DEEP_K else ()
    segments = itertools.pairwise((0, *cuts, k))
    return sum((of_segment(a[:, i:j], b[i:j]) for i, j in segments), start=a.real.dtype.type(0))


def golden_mm(a: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype | None = None):
    """The product A B, bit for bit as the library promises it, on the CPU."""
    a, b = a.cpu().resolve_conj().resolve_neg(), b.cpu().resolve_conj().resolve_neg()
    if a.is_complex():
        return torch.complex(*torch.from_numpy(sums(a.numpy(), b.numpy())))
    if a.dtype == torch.float64:
        return torch.from_numpy(sums(a.numpy(), b.numpy()))
    total = sums(a.float().numpy(), b.float().numpy())
    return torch.from_numpy(total).to(out_dtype or a.dtype)


def bits(x: torch.Tensor) -> torch.Tensor:
    """The bits of each element as integers, on the CPU; every NaN the same one.

    The payload and sign of a NaN are no part of the contract: IEEE leaves them open.
    """
    x = x.detach().resolve_conj().resolve_neg().cpu()
    if x.is_complex():
        x = torch.view_as_real(x)
    if not x.is_floating_point():
        return x
    x = torch.where(x.isnan(), torch.full_like(x, torch.nan), x).contiguous()
    return x.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


def same_bits(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether x and y have the same shape, dtype and bits (on any devices)."""
    return x.shape == y.shape and x.dtype == y.dtype and torch.equal(bits(x), bits(y))


def assert_same_bits(x: torch.Tensor, y: torch.Tensor, what: str = "") -> None:
    """As same_bits, with the first difference in the message."""
    assert x.shape == y.shape, f"{what}: shapes {tuple(x.shape)} and {tuple(y.shape)}"
    assert x.dtype == y.dtype, f"{what}: {x.dtype} and {y.dtype}"
    different = (bits(x) != bits(y)).nonzero()
    if len(different):
        at = tuple(different[0][: x.dim()].tolist())
        raise AssertionError(
            f"{what}: {len(different)} of {x.numel()} differ, first at {at}: "
            f"{x[at].item()!r} and {y[at].item()!r}"
        )


def assert_equal(x: torch.Tensor, y: torch.Tensor, what: object = "") -> None:
    """Equality of bits, seen on the GPU where they are equal, for results that hold no -0."""
    if x.dtype != y.dtype or not torch.equal(x, y):
        assert_same_bits(x, y, str(what))
