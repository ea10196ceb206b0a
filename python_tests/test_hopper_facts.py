"""What precision='fp16x3' rests on: how Hopper's tensor cores add up fp16 products, seen through
the library's own kernels. On a chip where one of these fails, fp16x3's error bound has no proof.

A step adds 16 products to the accumulator. 2^E being the largest of the products' powers of two
(the sum of the two factors' exponents, a subnormal factor counting as -14, a zero not at all) and
the accumulator's:

    1. each of the 17 loses less than 2^-25 of 2^E
    2. that is so for products of subnormal numbers too
    3. a product with a zero, however large the other factor, costs the others nothing
    4. the sum is cut to fp32, towards zero
    5. nothing overflows within a step

The tests assert the weakest form of it that the proof takes, and print what they see.
"""

from __future__ import annotations

import pytest
import rungs
import tiled_mm
import torch
from cases import each
from structured import Draw, power_of_two
from torch import Tensor

pytestmark = [pytest.mark.cuda, pytest.mark.tensor_cores]

STEP = 16
KEPT = 25  # bits below 2^E, at least
each_rung = each("algo", rungs.TENSOR_RUNGS)


def multiply(a: Tensor, b: Tensor, algo: str) -> Tensor:
    return tiled_mm.mm(a, b, algo=algo, out_dtype=torch.float32)


def rows_of(*rows: list[float], k: int = STEP) -> Tensor:
    """fp16 rows, exactly these numbers, zeros behind them. As many as all rungs take."""
    x = torch.zeros(max(8, -(-len(rows) // 8) * 8), k, dtype=torch.float64)
    for i, row in enumerate(rows):
        x[i, : len(row)] = torch.tensor(row, dtype=torch.float64)
    assert torch.equal(x.half().double(), x), "numbers of fp16"
    return x.half().cuda()


def dots(pairs: list[tuple[list[float], list[float]]], algo: str, k: int = STEP) -> list[float]:
    """a . b of each pair."""
    a, b = (rows_of(*side, k=k) for side in zip(*pairs, strict=True))
    return multiply(a, b.t(), algo).diagonal()[: len(pairs)].tolist()


def floor_log2(x: Tensor) -> Tensor:
    return torch.where(x == 0, -5000, torch.frexp(x.abs())[1].long() - 1)


def factor_exponents(x: Tensor) -> Tensor:
    """Of fp16 numbers, as the tensor core takes them."""
    return torch.where(x == 0, -5000, floor_log2(x.double()).clamp(min=-14))


def worst_loss(a: Tensor, b: Tensor, before: Tensor, after: Tensor) -> float:
    """One step from `before` to `after`, [M, 16] by [16, N]: the largest error, in units of what
    may be lost: 2^(E - 25) for each term that is not zero, and a last place of the sum."""
    worst = 0.0
    of_a, of_b, columns = factor_exponents(a), factor_exponents(b), b.double()
    for i in range(0, len(a), 128):  # so many rows at a time, for memory
        rows = slice(i, i + 128)
        products = a[rows, :, None].double() * columns  # exact
        exponents = (of_a[rows, :, None] + of_b).amax(1)
        start, end = before[rows].double(), after[rows].double()
        largest = torch.maximum(exponents, floor_log2(start)).clamp(min=-900)
        terms = (products != 0).sum(1) + (start != 0)
        last_place = torch.where(end == 0, 0.0, power_of_two(floor_log2(end).clamp(min=-900) - 23))
        allowed = terms * power_of_two(largest - KEPT) + last_place
        # Sums in fp64 are off by less than 2^-43 2^E.
        lost = (products.sum(1) + start - end).abs()
        right = (lost < allowed * (1 + 2.0**-18)) | ((terms == 0) & (end == 0))
        assert right.all(), f"{int((~right).sum())} steps lose more; {lost.max()}"
        worst = max(worst, float((lost / allowed.clamp(min=2.0**-900)).max()))
    return worst


# ---- 1, 2 and 4: any step -----------------------------------------------------------------------

SIZES = {
    "alike": (0, 0),
    "some binades": (-6, 6),
    "all normal numbers": (-14, 15),
    "all numbers": (-24, 15),
    "around the subnormal": (-18, -10),
    "subnormal": (-24, -15),
}


def factors(draw: Draw, rows: int, k: int, size: str, short: bool) -> Tensor:
    """fp16 numbers of any of these exponents, of few bits or all, a tenth of them zeros."""
    low, high = SIZES[size]
    exponent = draw.integers(low, high, rows, k)
    fraction = (draw.uniform(rows, k) * (2 if short else 2**10)).floor() / (2 if short else 2**10)
    x = (1 + fraction.double()) * power_of_two(exponent)
    x = torch.where(draw.chance(0.5, rows, k), -x, x).half()
    return torch.where(draw.chance(0.1, rows, k), torch.zeros_like(x), x)


def cancelling(draw: Draw, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Of each pair of neighbours in k the products are the same but for the sign, for a half of the
    pairs: what is lost by the other terms is then all that is seen."""
    a, b = a.clone(), b.clone()
    for k in range(0, a.shape[1], 2):
        if int(draw.integers(0, 1, 1)):
            a[:, k + 1], b[k + 1] = a[:, k], -b[k]
    return a, b


@each("sizes", tuple((x, y) for x in SIZES for y in SIZES))
@each_rung
def test_what_a_step_loses(algo: str, sizes: tuple[str, str]) -> None:
    """The first step of a chain, and a second: 4 x 147,456 of each rung and sizes."""
    worst = []
    for short in (False, True):
        for cancels in (False, True):
            draw = Draw(int(torch.randint(2**31, ())), "cuda")
            a = factors(draw, 384, 2 * STEP, sizes[0], short)
            b = factors(draw, 384, 2 * STEP, sizes[1], short).t().contiguous()
            if cancels:
                a, b = cancelling(draw, a, b)
            first = multiply(a[:, :STEP].contiguous(), b[:STEP], algo)
            both = multiply(a, b, algo)
            worst.append(worst_loss(a[:, :STEP], b[:STEP], torch.zeros_like(first), first))
            worst.append(worst_loss(a[:, STEP:], b[STEP:], first, both))
    print(f"{algo}, {sizes}: of what may be lost, {max(worst):.3f}")


# ---- 1: what is kept, seen bit by bit -----------------------------------------------------------


def smallest_kept(large: float, other: float, exponents: range, algo: str, steps: int = 1) -> int:
    """The smallest power of two that is left of +large other - large other + 2^e; all larger are
    left too. `steps` 2: the first of these alone, in a step before, to be the accumulator."""
    pairs = []
    for e in exponents:
        half = max(-14, e // 2) if e >= -38 else e // 2  # factors of fp16, normal if possible
        small = 2.0**half, 2.0 ** (e - half)
        a, b = [large, small[0]], [-other, small[1]]
        gap = [0.0] * (STEP - 1) if steps == 2 else []
        pairs.append(([large, *gap, *a], [other, *gap, *b]))
    found = dots(pairs, algo, k=steps * STEP)
    for e, c in zip(exponents, found, strict=True):
        assert c in (0, 2.0**e), f"2^{e} becomes {c}"
    kept = [e for e, c in zip(exponents, found, strict=True) if c != 0]
    assert kept and kept == [e for e in exponents if e >= min(kept)], "and all larger ones"
    return min(kept)


NEARLY_TWO = 2 - 2.0**-10


@each_rung
def test_what_is_kept_beside_large_products(algo: str) -> None:
    for large in (1.0, NEARLY_TWO):  # products of 1 and nearly 4: the factors' exponents are 0
        kept = smallest_kept(large, large, range(-32, -10), algo)
        print(f"{algo}: beside {large * large:.3f}, 2^{kept} is kept")
        assert kept <= -KEPT


@each_rung
def test_what_is_kept_beside_a_large_accumulator(algo: str) -> None:
    for large, exponent in ((1.0, 0), (NEARLY_TWO, 1)):
        kept = smallest_kept(large, large, range(-32, -10), algo, steps=2)
        print(f"{algo}: beside an accumulator of {large * large:.3f}, 2^{kept} is kept")
        assert kept <= exponent - KEPT


# ---- 2 and 3: subnormal factors and zeros -------------------------------------------------------


@each_rung
def test_a_subnormal_factor_counts_as_one_of_exponent_minus_14(algo: str) -> None:
    for small in (2.0**-24, 2.0**-20, 2.0**-15 + 2.0**-24, 2.0**-14 - 2.0**-24):
        for large, exponent in ((2.0**15, 15), (1.0, 0), (2.0**-14, -14)):
            probed = range(max(exponent - 44, -48), exponent - 25)  # 2^-48: the least product
            kept = smallest_kept(small, large, probed, algo)
            print(f"{algo}: beside {small:.3g} x {large:.3g}, 2^{kept} is kept")
            assert kept <= max(-14 + exponent - KEPT, -48)
            assert smallest_kept(large, small, probed, algo) == kept


@each_rung
def test_a_zero_does_not_count(algo: str) -> None:
    least = 2.0**-24
    for zero in (0.0, -0.0):
        for small in ([least, 2.0**-20], [3 * least, -least], [2.0**-14, 2.0**-24]):
            right = small[0] * least + small[1] * least
            a = [zero, *small]
            b = [2.0**15, least, least]
            both = dots([(a, b), (b, a), ([*a, 65504.0], [*b, zero])], algo)
            assert both == [right, right, right], (zero, small)


# ---- 4 and 5: the sum ---------------------------------------------------------------------------


@each_rung
def test_sums_are_cut_towards_zero(algo: str) -> None:
    u = 2.0**-24  # half of 1's last place
    for low in ([2 * u, u, u / 2], [u, u / 2], [2 * u, u]):
        cut = 1 + sum(low) // (2 * u) * 2 * u
        a, b = [1.0, *(2.0**-12 for _ in low)], [1.0, *(x * 2.0**12 for x in low)]
        found = dots([(a, b), ([-x for x in a], b), (a[::-1], b[::-1])], algo)
        assert found == [cut, -cut, cut], low


@each_rung
def test_nothing_overflows_within_a_step(algo: str) -> None:
    largest = [65504.0] * STEP
    negative, in_turn = [-x for x in largest], [65504.0, -65504.0] * (STEP // 2)
    found = dots([(largest, largest), (largest, negative), (largest, in_turn)], algo)
    total = STEP * 65504.0**2  # of 22 bits
    assert found == [total, -total, 0]
