"""A model of precision='fp16x3' on any device, element by element: the arithmetic that the proof of
its bound speaks of (docs/fp16x3.md), with the holes that it once had to be put back. It shares no
line with the kernels. It is for the tests of the tests, and for the search of data that breaks the
rule before a GPU is asked.

A tensor core takes 16 products and its accumulator at a time, each in the worst way that the chip
was seen to (test_hopper_facts.py):

    E      the largest of the sums of the two factors' exponents, a subnormal factor counting as
           -14 and a zero not at all, and of the accumulator's exponent
    each   of the 17 is cut, towards zero, to multiples of 2^(E - 25)
    sum    exact, and cut, towards zero, to fp32

What follows the accumulators is IEEE's fp32. A chain of fp64 is the exact sum here, rounded once:
it is off by 2^-29 of what the checks allow.
"""

from __future__ import annotations

from dataclasses import dataclass

import promise
import torch
from structured import power_of_two
from torch import Tensor

LEAST_K, CHAIN, STEP = 64, 64, 16
SEGMENT_K, DEEP_K = 4096, 32768
UNIT = 2.0**-44  # of what parts lose
HOLES = (
    "alignment",  # only what the parts leave out counts: not lo lo, nor how subnormals are aligned
    "subnormal rows",  # rows up to 2^-98 count nothing: fp32's subnormals are taken for normal
    "overflow",  # an infinite C is never small beside what was lost
    "fp32 chain",  # what is computed again is so by a chain of fp32
    "few rows",  # which keep a chunk's own scale where lower parts may be subnormal
)


@dataclass(frozen=True)
class Rows:
    """[E, K] rows of A or columns of B after the split."""

    hi: Tensor  # fp64, of fp16's numbers
    lo: Tensor
    exponent: Tensor  # [E]
    lost: Tensor  # [E]


def floor_log2(x: Tensor) -> Tensor:
    """The exponent of a number in fp64; of zero, one below all."""
    exponent = torch.frexp(x.abs())[1].long() - 1
    return torch.where(x == 0, -5000, exponent)


def scale_of(most: Tensor) -> Tensor:
    """e for a largest element (fp64): it lies in [2^14, 2^15) after times 2^e."""
    return torch.where((most == 0) | ~most.isfinite(), 0, 14 - floor_log2(most))


def parts(scaled: Tensor) -> tuple[Tensor, Tensor]:
    """hi and lo, of fp32's numbers."""
    x = scaled.float()
    hi = x.half().float()
    return hi.double(), ((x - hi) * 2.0**11).half().double()


def split(x: Tensor, hole: str | None = None) -> Rows:
    """Of rows of fp32 numbers [E, K]."""
    wide = x.double()
    most = wide.abs().amax(1)
    finite = most.isfinite()
    exponent = scale_of(most)
    scaled = torch.where(finite[:, None], wide * power_of_two(exponent)[:, None], 0.0)
    hi, lo = parts(scaled)
    units = ((scaled - hi - lo * 2.0**-11).abs() / UNIT).ceil()
    if hole != "alignment":
        units = units + 512
    counts = (scaled.abs() < 2.0**-14) & (scaled != 0)
    if hole == "subnormal rows":
        of_all = torch.where(wide == 0, 5000, floor_log2(wide).clamp(min=-127))
        plain = (exponent <= 127) & (of_all.amin(1) + exponent >= -14)
        counts = counts & ~plain[:, None]
    lost = torch.where(counts, units, 0.0).sum(1) * UNIT
    return Rows(hi, lo, exponent, torch.where(finite, lost, torch.inf))


def cut(x: Tensor, quantum: Tensor) -> Tensor:
    return (x / quantum).trunc() * quantum


def step(accumulator: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """[E]: onto the accumulator, x [E, 16] by y [E, 16]."""
    products = x * y
    factors = floor_log2(x).clamp(min=-14) + floor_log2(y).clamp(min=-14)
    largest = torch.where(products == 0, -5000, factors).amax(1)
    largest = torch.maximum(largest, floor_log2(accumulator))
    quantum = power_of_two(largest.clamp(min=-900) - 25)
    total = cut(products, quantum[:, None]).sum(1) + cut(accumulator, quantum)
    return cut(total, power_of_two(floor_log2(total).clamp(min=-900) - 23))


def add(x: Tensor, y: Tensor) -> Tensor:
    """In fp32, of its numbers: fp64 has more than twice the bits, so rounding twice is right."""
    return (x + y).float().double()


def terms(a: Rows, b: Rows) -> Tensor:
    """[E, chains]: main + 2^-11 cross of each 64 of k."""
    found = []
    for begin in range(0, a.hi.shape[1], CHAIN):
        main, cross = (torch.zeros_like(a.hi[:, 0]) for _ in range(2))
        for k in range(begin, min(begin + CHAIN, a.hi.shape[1]), STEP):
            at = slice(k, k + STEP)
            main = step(main, a.hi[:, at], b.hi[:, at])
            cross = step(cross, a.hi[:, at], b.lo[:, at])
            cross = step(cross, a.lo[:, at], b.hi[:, at])
        found.append(add(main, cross * 2.0**-11))
    return torch.stack(found, 1)


def add_up(found: Tensor, k: int) -> Tensor:
    chains = found.shape[1]
    of_segment = chains if k < DEEP_K else SEGMENT_K // CHAIN
    total = torch.zeros_like(found[:, 0])
    for begin in range(0, chains, of_segment):
        sum_ = torch.zeros_like(total)
        for chain in range(begin, min(begin + of_segment, chains)):
            sum_ = add(sum_, found[:, chain])
        total = add(total, sum_)
    return total


def by_fp64(a: Tensor, b: Tensor) -> Tensor:
    """In fp64, rounded once."""
    return (a.double() * b.double()).sum(1).float() + 0


def by_fp32_chain(a: Tensor, b: Tensor) -> Tensor:
    """Fused multiply-adds. A product is exact in fp64, and its sum, rounded to odd there, is what
    one rounding needs."""
    total = torch.zeros_like(a[:, 0])
    for k in range(a.shape[1]):
        x, y = a[:, k].double() * b[:, k].double(), total.double()
        s = x + y
        z = s - x
        error = (x - (s - z)) + (y - z)
        even = (s.view(torch.int64) & 1) == 0
        toward = torch.nextafter(s, torch.copysign(torch.full_like(s, torch.inf), error))
        total = torch.where((error != 0) & even & s.isfinite(), toward, s).float()
    return total + 0


def few_rows_terms(
    w: Tensor, of_w: Rows, of_x: Rows, w_is_a: bool, hole: str | None = None
) -> Tensor:
    """The terms where a chunk of W, the large operand, has its own scale, scaled back to the row's;
    unless one of its parts that are not zero is subnormal by the row's scale."""

    def in_order(w: Rows, x: Rows) -> Tensor:
        return terms(w, x) if w_is_a else terms(x, w)

    found = in_order(of_w, of_x)
    for i, begin in enumerate(range(0, w.shape[1], CHAIN)):
        at = slice(begin, begin + CHAIN)
        chunk = w[:, at].double()
        most = chunk.abs().amax(1)
        exponent = torch.where(most.isfinite() & (most != 0), scale_of(most), of_w.exponent)
        scaled = torch.where(most.isfinite()[:, None], chunk * power_of_two(exponent)[:, None], 0.0)
        hi, lo = parts(scaled)
        back = power_of_two(of_w.exponent - exponent)

        def least(x: Tensor, back: Tensor = back) -> Tensor:
            return torch.where(x == 0, torch.inf, x.abs()).amin(1) * back

        if hole == "few rows":
            own = least(scaled) >= 2.0**-12
        else:
            own = (least(scaled) >= 2.0**-14) & (least(lo) >= 2.0**-14)
        x = Rows(of_x.hi[:, at], of_x.lo[:, at], of_x.exponent, of_x.lost)
        term = in_order(Rows(hi, lo, exponent, of_w.lost), x)[:, 0] * back
        found[:, i] = torch.where(own, term, found[:, i])
    return found


@dataclass(frozen=True)
class Result:
    c: Tensor  # [E] fp32
    again: Tensor  # [E], computed again
    first: Tensor  # [E], before that


def tolerated(k: int) -> float:
    """What may be lost of |C| (docs/fp16x3.md)."""
    g = promise.growth(k)
    sums = -(-k // CHAIN) - 1 if k < DEEP_K else SEGMENT_K // CHAIN - 1 + -(-k // SEGMENT_K)
    return (g - (53.2 + sums)) * promise.U


def dot(a: Tensor, b: Tensor, hole: str | None = None, large: str | None = None) -> Result:
    """[E]: rows a [E, K] by columns b [E, K], all of them elements of their own. `large`: by the
    kernel of few rows, "a" or "b" being its large operand."""
    assert hole is None or hole in HOLES
    k = a.shape[1]

    def again_by(a: Tensor, b: Tensor) -> Tensor:
        return by_fp32_chain(a, b) if hole == "fp32 chain" else by_fp64(a, b)

    if k < LEAST_K:
        c = again_by(a, b)
        return Result(c, torch.ones_like(c, dtype=torch.bool), c)
    of_a, of_b = split(a, hole), split(b, hole)
    if large == "a":
        found = few_rows_terms(a, of_a, of_b, True, hole)
    elif large == "b":
        found = few_rows_terms(b, of_b, of_a, False, hole)
    else:
        found = terms(of_a, of_b)
    exponent = of_a.exponent + of_b.exponent
    first = (add_up(found, k) * power_of_two(-exponent)).float() + 0
    lost = of_a.lost + of_b.lost
    size = lost * 2.0**15
    tolerance = tolerated(k)
    small = size < tolerance * first.double().abs() * power_of_two(exponent)
    again = (lost > 0) & (size * power_of_two(-exponent) >= 2.0**-150) & ~small
    again = again | (first.isnan() if hole == "overflow" else ~first.isfinite())
    c = first
    if again.any():
        c = torch.where(again, again_by(a, b), first)
    return Result(c, again, first)


def bmm(a: Tensor, b: Tensor, hole: str | None = None, large: str | None = None) -> Tensor:
    """[B, M, N] of [B, M, K] and [B, K, N]. `large`: see dot()."""
    (count, m, k), n = a.shape, b.shape[2]
    rows = a[:, :, None, :].expand(count, m, n, k).reshape(-1, k)
    columns = b.mT[:, None].expand(count, m, n, k).reshape(-1, k)
    return dot(rows, columns, hole, large).c.view(count, m, n)
