"""How wrong may a product be: the two error gates, and exactness for integers.

Gate 1 holds for any data, element by element, against a reference R of higher precision:

    |C - R| <= u_out |R| + g u_acc (|A| |B|)[i, j] + smallest subnormal,   g = min(K, 8 sqrt(K))

u = 2^-p is the unit roundoff of p bits. g = K is the certain bound of a chain of K roundings;
8 sqrt(K) is the one that holds with overwhelming probability where roundings are not correlated
(Higham and Mary, 2019). Data built to be the worst case asks for the certain one.

Gate 2 knows more, so it is far tighter: on independent zero-mean normal data a partial sum of k
products has the variance k s^2, so the roundings add up to a variance that can be worked out
(`allowed_rms`). It is this gate that sees inputs rounded to TF32, 16-bit partial sums, truncation
and a chain that is not cut into segments. No single element may be off by more than 16 u |A||B|, or
by five of those variances' roots where that is more: in long chains that truncate.

Sums of positive products on tensor cores are neither: every cut is towards zero, so their errors do
not cancel, and a long chain goes beyond 8 sqrt(K). `check_positive` holds them to g = K, and to how
far truncation lets them lean.

A complex product is two real ones of 2K terms, [Ar -Ai] [Br; Bi] and [Ar Ai] [Bi; Br], and each
must pass by itself. NaN where the reference has none fails, and so does its absence.

Four arithmetics (ops/core/problem.h):

    fma     every term is rounded to nearest
    tensor  16-bit inputs on tensor cores, which truncate: u_acc counts twice, and gate 2 allows the
            errors, and the lean towards zero, that `truncation` works out
    tf32    fp32 inputs on tensor cores. The reference is the product of the operands rounded to
            tf32, which makes it `tensor` with other steps. Beside it gate 1 holds against the
            operands as they are: each is off by at most 2^-11 of itself, so a product is by at most
            (1 + 2^-11)^2 - 1 = 2 * 2^-11 + 2^-22, and R by that much of |A||B|.
    fp16x3  fp32 inputs in two fp16 parts each, on tensor cores, in chains of 64 that are added up
            in fp32. Gate 1 takes fma's u. Gate 2 allows what `in_parts` works out, which is less
            than fma's from K = 2048 or so on. Where K is below 64 it is computed in fp64, and
            held to fma's gates.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch
from cases import INTEGERS

# The library's cuts of K, ops/core/segments.h: none below DEEP_K, from there on every SEGMENT_K.
SEGMENT_K, DEEP_K = 4096, 32768

UNIT_ROUNDOFF = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
}

# Terms that one step of the tensor cores adds to the accumulator.
TENSOR_STEP = {"tensor": 16, "tf32": 8}
PARTS_CHAIN = 64  # fp16x3: terms of a chain
TF32_BITS = 11  # of a number, the leading one counted
TF32_PRODUCT_ERROR = 2 * 2.0**-TF32_BITS + 2.0 ** (-2 * TF32_BITS)  # relative


def segment_size(k: int) -> int:
    """The longest chain of a sum of k products."""
    return k if k < DEEP_K else SEGMENT_K


@dataclass(frozen=True)
class Precision:
    """Of one real product: what it is stored in, what it is summed in, and how."""

    out: torch.dtype
    accumulator: torch.dtype
    arithmetic: str = "fma"

    @property
    def u_out(self) -> float:
        return UNIT_ROUNDOFF[self.out]

    @property
    def u_acc(self) -> float:
        """Twice the unit roundoff where sums are truncated."""
        return UNIT_ROUNDOFF[self.accumulator] * (2 if self.truncates else 1)

    @property
    def truncates(self) -> bool:
        return self.arithmetic in TENSOR_STEP

    @property
    def smallest_subnormal(self) -> float:
        return torch.finfo(self.out).smallest_normal * 2 * self.u_out


@dataclass(frozen=True)
class Product:
    """One real product C = A B beside its reference."""

    name: str
    precision: Precision
    terms: int  # products that are added up for one element
    chain: int  # the longest run of them that is added up without a cut
    c: np.ndarray  # [M, N]
    reference: np.ndarray  # [M, N], A B
    magnitude: np.ndarray  # [M, N], |A| |B|
    input_error: float = (
        0.0  # of a product of two elements, relative: of operands that were rounded
    )

    @property
    def cuts(self) -> int:
        return -(-self.terms // self.chain) if self.terms else 0

    @property
    def error(self) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return self.c - self.reference

    @property
    def bound(self) -> np.ndarray:
        """Gate 1's, with the probable g."""
        return self.bound_with(min(self.terms, 8 * math.sqrt(self.terms)))

    def bound_with(self, g: float) -> np.ndarray:
        p = self.precision
        with np.errstate(invalid="ignore"):
            rounding = p.u_out * np.abs(self.reference)
            sums = (g * p.u_acc + self.input_error) * self.magnitude
            return rounding + sums + p.smallest_subnormal


def to_numpy(x: torch.Tensor) -> np.ndarray:
    """The same values, exactly, in float64 or complex128."""
    wide = torch.complex128 if x.is_complex() else torch.float64
    return x.detach().resolve_conj().resolve_neg().cpu().to(wide).numpy()


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A B with NaN and Inf as IEEE has them: no library that might skip zeros where they matter."""
    with np.errstate(invalid="ignore", over="ignore"):
        if np.isfinite(a).all() and np.isfinite(b).all():
            return a @ b
        return np.einsum("ik,kj->ij", a, b, optimize=False)


def to_tf32(x: torch.Tensor) -> torch.Tensor:
    """fp32 numbers rounded to tf32, to nearest, ties to even; infinities and NaN as they are."""
    bits = x.detach().resolve_neg().cpu().contiguous().view(torch.int32).numpy().view(np.uint32)
    sign, magnitude = bits & np.uint32(0x80000000), bits & np.uint32(0x7FFFFFFF)
    dropped = 24 - TF32_BITS
    half = np.uint32((1 << (dropped - 1)) - 1) + (magnitude >> np.uint32(dropped) & np.uint32(1))
    rounded = (magnitude + half) & ~np.uint32((1 << dropped) - 1)
    result = sign | np.where(magnitude < 0x7F800000, rounded, magnitude)
    return torch.from_numpy(result.view(np.int32)).view(torch.float32).view(x.shape)


def with_sum(
    a: torch.Tensor, b: torch.Tensor, left: torch.Tensor, right: torch.Tensor, arithmetic: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """The operands of A B + left right as one product, of a longer K. Unlike A and B, `left` and
    `right` are not rounded: for tf32 they stand there in parts of 11 bits, each part of one beside
    each part of the other. (Those of ones and zeros have one part.)"""
    lefts, rights = ([x] if arithmetic != "tf32" else _tf32_parts(x) for x in (left, right))
    lefts, rights = zip(*itertools.product(lefts, rights), strict=True)
    return torch.cat([a, *lefts], 1), torch.cat([b, *rights])


def _tf32_parts(x: torch.Tensor) -> list[torch.Tensor]:
    """Tf32 numbers, three of each at most, that add up to x."""
    parts = []
    while x.any():
        parts.append(to_tf32(x).to(x.device))
        x = x - parts[-1]
    return parts


def products(
    c: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    arithmetic: str = "fma",
    *,
    round_operands: bool = True,
) -> list[Product]:
    """C = A B as one real product, or two where it is complex."""
    assert c.shape == (a.shape[0], b.shape[1]), f"C is {tuple(c.shape)}"
    double = a.dtype in (torch.float64, torch.complex128)
    # x86's 80-bit format has 11 bits more than fp64; elsewhere longdouble has at least as many.
    work = np.longdouble if double else np.float64
    assert np.finfo(work).nmant >= (63 if double else 52)
    part = c.real.dtype if c.is_complex() else c.dtype
    precision = Precision(part, torch.float64 if double else torch.float32, arithmetic)
    if arithmetic != "fma":
        halves = (torch.float16, torch.bfloat16)
        fits = halves if arithmetic == "tensor" else (torch.float32,)
        assert a.dtype in fits, f"{arithmetic} is not for {a.dtype}"
    input_error = 0.0
    if arithmetic == "tf32":
        if round_operands:
            a, b = to_tf32(a), to_tf32(b)
        else:
            input_error = TF32_PRODUCT_ERROR

    def product(name: str, c: np.ndarray, a: np.ndarray, b: np.ndarray, per_k: int) -> Product:
        a, b = a.astype(work), b.astype(work)
        return Product(
            name,
            precision,
            a.shape[1],
            max(1, per_k * segment_size(a.shape[1] // per_k)),
            c.astype(work),
            multiply(a, b),
            multiply(np.abs(a), np.abs(b)),
            input_error,
        )

    cc, aa, bb = to_numpy(c), to_numpy(a), to_numpy(b)
    if not a.is_complex():
        return [product("C", cc, aa, bb, 1)]
    by_real = np.concatenate([bb.real, bb.imag])
    by_imag = np.concatenate([bb.imag, bb.real])
    return [
        product("C.real", cc.real, np.concatenate([aa.real, -aa.imag], 1), by_real, 2),
        product("C.imag", cc.imag, np.concatenate([aa.real, aa.imag], 1), by_imag, 2),
    ]


def check_elements(
    c: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    arithmetic: str = "fma",
    *,
    worst_case: bool = False,
) -> None:
    """Gate 1. `worst_case` takes the certain bound, for data built to be the worst."""
    found = [("gate 1", p) for p in products(c, a, b, arithmetic)]
    if arithmetic == "tf32":
        unrounded = products(c, a, b, arithmetic, round_operands=False)
        found += [("gate 1, operands unrounded", p) for p in unrounded]
    for gate, p in found:
        bound = p.bound_with(p.terms) if worst_case else p.bound
        _check_within(p.name, p.c, p.reference, bound, p.precision.out, gate)


def check_random(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, arithmetic: str = "fma"
) -> None:
    """Gate 2, for A and B of independent zero-mean normal elements."""
    for p in products(c, a, b, arithmetic):
        count = p.c.size
        assert count >= 1024, "statistics of fewer elements say little"
        u_out, u_acc = p.precision.u_out, p.precision.u_acc
        excess = np.abs(p.error) - u_out * np.abs(p.reference)
        worst = float(np.max(excess / (u_acc * p.magnitude)))
        allowed = allowed_rms(p)
        largest = max(16.0, 5 * allowed / float(np.mean(u_acc * p.magnitude)))
        assert worst <= largest, (
            f"gate 2, largest: {p.name} is off by {worst:.3g} u |A||B|, not <= {largest:.3g}"
        )
        rms = float(np.sqrt(np.mean(sum_error(p) ** 2)))
        assert rms <= allowed, f"gate 2, RMS: {p.name} has {rms:.3g}, not <= {allowed:.3g}"

        # Roundings to nearest have no preferred sign, so the mean of `count` of them is within
        # five standard deviations of zero, in itself and along the sign of the result (which is
        # where truncation shows: there, and only downwards, a lean is allowed where sums are
        # truncated).
        limit = 5 * math.sqrt((allowed**2 + output_variance(p)) / count)
        lean = allowed_lean(p)
        for what, sign, low in (("mean", 1, 0), ("mean towards R", np.sign(p.reference), lean)):
            mean = float(np.mean(p.error * sign))
            assert -limit - low <= mean <= limit, (
                f"gate 2, {what}: {p.name} has {mean:.3g}, not {-limit - low:.3g} to {limit:.3g}"
            )


def check_positive(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, arithmetic: str) -> None:
    """For A and B of random elements, none below zero, on truncating tensor cores, and the sums in
    fp32: gate 1 with the certain g; and the mean error lies below zero, by `positive_lean` R at
    most."""
    check_elements(c, a, b, arithmetic, worst_case=True)
    for p in products(c, a, b, arithmetic):
        assert p.c.size >= 1024, "statistics of fewer elements say little"
        lean, limit = -float(np.mean(p.error / p.reference)), positive_lean(p)
        assert 0 <= lean <= limit, f"lean: {p.name} has {lean:.3g} of R, not 0 to {limit:.3g}"


def positive_lean(p: Product) -> float:
    """How far below R the mean of truncated sums of positive products may be, in units of R.

    As `truncation` has it, a step that ends with the sum S loses u S of it on average, and each of
    the w + 1 terms u/4 2^e, 2^e being the largest one's power of two. Where all are positive none
    is larger than S, and all losses have one sign: together u S (5 + w) / 4 at most. S is n/K of R
    after n terms of a chain of K. The sums of chains are rounded to nearest, to either side.
    """
    width = TENSOR_STEP[p.precision.arithmetic]
    steps = 0.0
    for begin in range(0, p.terms, p.chain):
        length = min(p.chain, p.terms - begin)
        steps += np.minimum(np.arange(width, length + width, width), length).sum()
    return UNIT_ROUNDOFF[p.precision.accumulator] * (5 + width) / 4 * float(steps) / p.terms


def allowed_rms(p: Product) -> float:
    """The RMS error of the sums, from the variances alone: `truncation`'s on tensor cores, for
    fp16x3 that of `in_parts`, and here where they are rounded to nearest, term by term.

    A rounding of x is off by at most u 2^e <= u |x|; spread evenly, its variance is at most
    u^2 x^2 / 3. The m-th partial sum of a chain has the variance m s^2, so a chain of L adds
    u^2 s^2 L^2 / 6, `cuts` chains as many times that, and the sums of the chains, m L s^2 each,
    u^2 s^2 L cuts^2 / 6: all together u^2 (K s^2) (L + cuts) / 6, where K s^2 is the mean of R^2.
    """
    if p.precision.truncates:
        return truncation(p)[0]
    if is_in_parts(p):
        return in_parts(p)[0]
    return p.precision.u_acc * math.sqrt(np.mean(p.reference**2) * (p.chain + p.cuts) / 6)


def allowed_lean(p: Product) -> float:
    """How far the mean error may lie towards zero."""
    return in_parts(p)[1] if is_in_parts(p) else truncation(p)[1]


def truncation(p: Product) -> tuple[float, float]:
    """(RMS error, mean lean towards zero) of the sums of truncating tensor cores; else zeros.

    A step adds w products (16, of tf32 8) to the accumulator: these w + 1 terms are cut, towards
    zero, to multiples of 2^-25 of the largest one's power of two, 2^e; added exactly; and the sum
    is cut to fp32. With u = 2^-24, s^2 the variance of a product and n the terms summed up to and
    with the step:

    - The sum S, of variance n s^2, loses 2u of its power of two at most, and spread evenly half of
      that: on average at most u |S|, with a variance of at most (2u S)^2 / 12 = u^2 S^2 / 3. The
      loss is towards zero and S changes slowly, so losses of a chain add up: by Minkowski's
      inequality the averages have an RMS of at most u s sum(sqrt(n)).
    - A term loses at most u/2 2^e, on average u/4 2^e, of mean square u^2/12 4^e; and 4^e is at
      most the sum of the terms' squares, n s^2 on average. The accumulator's loss adds up like the
      one above, a quarter of it; the products' signs are random, so theirs only add in variance:
      w u^2 n s^2 / 12, and as much as one of them for the accumulator.

    So a chain has an RMS error of at most u s (5/4 sum(sqrt(n)) + sqrt(sum(n (1/3 + (w+1)/12)))).
    Chains are independent, their squares add up; and so do the roundings, to nearest, of the sums
    of chains (`allowed_rms`), u^2 s^2 L cuts^2 / 6.

    The lean: since the products are alike, the mean of S sign(R) is n/K of the mean of |R|, which
    is at most r = sqrt(K) s; a product's sign has a mean of at most 1/sqrt(K) along R's, the
    accumulator's of at most sqrt(n/K) (for normal sums 2/pi arcsin of it). So S loses u r n/K
    towards zero, the accumulator u/4 r n/K, and the products w u/4 sqrt(n) s / sqrt(K) =
    w u/4 r sqrt(n)/K: together u r/K sum(5/4 n + w/4 sqrt(n)) over all steps of all chains.
    """
    if not p.precision.truncates or p.terms == 0:
        return 0.0, 0.0
    width = TENSOR_STEP[p.precision.arithmetic]
    u = UNIT_ROUNDOFF[p.precision.accumulator]
    r = math.sqrt(np.mean(p.reference**2))
    s = r / math.sqrt(p.terms)
    square, lean = p.chain * p.cuts**2 / 6, 0.0
    for begin in range(0, p.terms, p.chain):
        chain_square, chain_lean = truncated_chain(min(p.chain, p.terms - begin), width)
        square += chain_square
        lean += chain_lean
    return u * s * math.sqrt(square), u * r / p.terms * lean


def truncated_chain(length: int, width: int) -> tuple[float, float]:
    """What `truncation` says of one chain: (mean square in units of u^2 s^2, lean in u r / K)."""
    n = np.minimum(np.arange(width, length + width, width), length).astype(np.float64)
    losses = 1.25 * np.sqrt(n).sum()
    spread = math.sqrt(n.sum() * (1 / 3 + (width + 1) / 12))
    return (losses + spread) ** 2, (1.25 * n + width / 4 * np.sqrt(n)).sum()


def is_in_parts(p: Product) -> bool:
    return p.precision.arithmetic == "fp16x3" and p.terms >= PARTS_CHAIN


def in_parts(p: Product) -> tuple[float, float]:
    """(RMS error, mean lean towards zero) of fp16x3's sums.

    An element x of [2^e, 2^(e+1)) is hi + lo + what is left: hi has 11 bits, so it is at most
    2^(e-11) off, by up to 12 bits and a sign; lo has 11 of these. So there is something left only
    where |x - hi| has a 12th bit, and that is 1: of a quarter of the elements at most, and then it
    is 2^(e-23). With u = 2^-24, s^2 the variance of a product and K terms:

    - What is left of A and of B, of either sign: the mean square of each is at most
      (2u x)^2 / 4 = u^2 x^2, so together they add 2 K u^2 s^2.
    - The product that is not computed, of A's x - hi and B's: each spread evenly up to
      2^(e-11) <= 2^-11 |x|, so of mean square 2^-22 x^2 / 3: together 2^-44 K s^2 / 9 =
      16/9 K u^2 s^2.
    - A chain of 64 main products truncates as `truncation` says. The chain of cross products has
      128 terms of a third of the variance or less, so it loses less than twice as much, and it
      counts 2^-11 of that: 1 + 2^-10 times the main chain's covers both.
    - Both are added to one number, of variance 64 s^2, which is rounded to nearest: u^2 64 s^2 / 3
      each, K u^2 s^2 / 3 in all. (The last may be shorter, and then is less.)
    - These are added up, c of them in an uncut sum of L terms, to sums of variance 64 m s^2 that
      are rounded to nearest: 64 u^2 s^2 (c^2 + c) / 6. The sums of cuts, L cuts^2 u^2 s^2 / 6.

    The chains' losses are independent, so their squares add up. They lean towards zero as
    `truncation` says of chains of 64; roundings to nearest do not.
    """
    u, k = UNIT_ROUNDOFF[p.precision.accumulator], p.terms
    r = math.sqrt(np.mean(p.reference**2))
    s = r / math.sqrt(k)
    square, lean = (2 + 16 / 9 + 1 / 3) * k + p.chain * p.cuts**2 / 6, 0.0
    for begin in range(0, k, p.chain):
        length = min(p.chain, k - begin)
        count = -(-length // PARTS_CHAIN)
        square += PARTS_CHAIN * (count**2 + count) / 6
        for first in range(0, length, PARTS_CHAIN):
            losses, chain_lean = truncated_chain(min(PARTS_CHAIN, length - first), 16)
            square += (1 + 2**-10) ** 2 * losses
            lean += (1 + 2**-10) * chain_lean
    return u * s * math.sqrt(square), u * r / k * lean


def sum_error(p: Product) -> np.ndarray:
    """The error of the sums: C - R, less what a final rounding to a shorter format explains.

    Of a 16-bit C only the interval of numbers is known that round to it, so the error of the sum
    was at least R's distance from that interval. (C - R itself would be no good measure: where a
    sum lies close to a tie, the smallest error may change the rounding.)
    """
    if p.precision.out == p.precision.accumulator:
        return p.error
    c, r = np.abs(p.c), p.reference * np.where(np.signbit(p.c), -1, 1)
    mantissa, exponent = np.frexp(c)  # numbers in [2^(e-1), 2^e) are u 2^e apart
    above = np.where(c > 0, np.ldexp(p.precision.u_out, exponent), 0)
    below = np.where(mantissa == 0.5, above / 2, above)  # at a power of two
    above, below = (np.maximum(gap, p.precision.smallest_subnormal) for gap in (above, below))
    return np.maximum(np.where(r > c, r - c - above / 2, c - r - below / 2), 0)


def output_variance(p: Product) -> float:
    """The variance of a final rounding to a shorter format; 0 where there is none."""
    if p.precision.out == p.precision.accumulator:
        return 0.0
    return float(np.mean((_rounded(p.reference, p.precision.out) - p.reference) ** 2))


def check_integers(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """Exact, modulo 2^bits: int64 wraps by itself, and the cast drops the higher bits."""
    exact = a.cpu().long().numpy() @ b.cpu().long().numpy()
    exact = torch.from_numpy(exact).to(a.dtype)
    wrong = (c.cpu() != exact).nonzero()
    assert c.dtype == a.dtype and c.shape == exact.shape
    assert len(wrong) == 0, f"integers: {len(wrong)} elements differ, the first at {wrong[0]}"


def check(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, arithmetic: str = "fma") -> None:
    """Gate 1, or exactness: what holds for any data of any dtype."""
    if a.dtype in INTEGERS:
        check_integers(c, a, b)
    else:
        check_elements(c, a, b, arithmetic)


def check_agreement(
    c: torch.Tensor,
    peer: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    arithmetic: str = "fma",
) -> None:
    """C and a peer's product of the same matrices, each allowed gate 1's error of its arithmetic:
    what a peer runs is not known, so it counts as ours."""
    assert c.dtype == peer.dtype and c.shape == peer.shape
    if a.dtype in INTEGERS:
        assert torch.equal(c.cpu(), peer.cpu())
        return
    pairs = zip(products(c, a, b, arithmetic), products(peer, a, b, arithmetic), strict=True)
    for ours, theirs in pairs:
        bound = ours.bound + theirs.bound
        _check_within(ours.name, ours.c, theirs.c, bound, ours.precision.out, "agreement")


def _rounded(x: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    return torch.from_numpy(x.astype(np.float64)).to(dtype).double().numpy()


def _check_within(
    name: str,
    c: np.ndarray,
    reference: np.ndarray,
    bound: np.ndarray,
    out: torch.dtype,
    gate: str,
) -> None:
    """|C - R| <= bound where R is a number of C's dtype; the same infinity or NaN elsewhere."""
    rounded = _rounded(reference, out)
    finite = np.isfinite(rounded)
    same = np.where(np.isnan(rounded), np.isnan(c), c == rounded)
    with np.errstate(invalid="ignore"):
        # Written so that a NaN fails: every comparison with one is false.
        right = np.where(finite, np.abs(c - reference) <= bound, same)
    if right.all():
        return
    i, j = np.argwhere(~right)[0]
    raise AssertionError(
        f"{gate}: {np.sum(~right)} of {c.size} elements of {name} are wrong, the first at "
        f"[{i}, {j}]: {c[i, j]} for {reference[i, j]}, allowed +-{bound[i, j]:.3g}"
    )
