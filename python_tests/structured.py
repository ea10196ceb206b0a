"""Structured data against precision='fp16x3': many products at once, rows made of classes.

Ordinary data, however wide its range, never meets the corners of an arithmetic in two parts: they
need one row's largest element to meet the other's zeros, sizes within a bit of a threshold, and
sums that cancel. So here the positions k of a product fall into SLOTS slots, and in every slot a
row of A and a column of B have a class of their own:

    size       an exponent after scaling ('scaled', see split.cu: the row's largest element lies
               in [2^14, 2^15)), nearly always on one of the thresholds of split and guard; or
               zeros, fp32's subnormal numbers, a wide spread
    mantissa   a power of two, few bits, 11, 12, 24 bits, all ones, one single low bit
    sign       either, at random, in turn

A product has one pattern of slots (single positions, steps of 16, chains of 64, ...) and one table
of classes, which some of its rows leave. On top of that, by product: pairs of terms that cancel, to
the last bit or nearly, main products alone among them; sums whose terms round all alike; fp32's
subnormal numbers; results near the largest number of fp32, and NaN and Inf; and the rows' scales,
over all of fp32's range.

Everything is drawn from one generator, so (seed, size, device) say it all. Torch's generators
differ from device to device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SLOTS = 4
INF, NAN = float("inf"), float("nan")
LARGEST = 2.0**128 - 2.0**104  # number of fp32

# Sizes that are no exponent.
ZERO, SPREAD, PLAIN, SUBNORMAL, LEAST = -1000, -1001, -1002, -1003, -1004
NAMES = {ZERO: "zero", SPREAD: "spread", PLAIN: "plain", SUBNORMAL: "subnormal", LEAST: "2^-149"}

# Scaled exponents: the largest; what is left of an element's lower part, as it may be subnormal
# (-2 ... -4, -11 ... -13); its upper part subnormal (-14), zero (-24 ... -26); the lower part's
# last place and zero (-34 ... -37); a unit of what is lost (-43 ... -46); and far below. 'Just
# below' 2^e is all ones at e - 1.
EXPONENTS = (
    *(14, 14, 13, 10, 7, 4, 0, -1),
    *(-2, -3, -4, -10, -11, -12, -13, -14, -15, -16, -20),
    *(-23, -24, -25, -26, -27, -30, -33, -34, -35, -36, -37, -38),
    *(-43, -44, -45, -46, -60, -100),
)
SIZES = (*EXPONENTS, *(4 * (ZERO,)), *(2 * (SPREAD,)), *(2 * (PLAIN,)), SUBNORMAL, SUBNORMAL, LEAST)
MANTISSAS = (
    *("power of two", "3 bits", "11 bits", "12 bits", "24 bits", "all ones"),
    *("one low bit", "below the next power in 11 bits", "ones and one low bit"),
)
SIGNS = ("plus", "minus", "random", "in turn")
PATTERNS = ("first", "anywhere", "in turn", "steps", "chains", "random")

# Exponents of a row's largest element: at fp32's ends and where the scale changes its way. With
# e = 14 - this: e = -113, -60, 60, 83, 90, 127, 163.
SCALES = (
    *(127, 126, 100, 78, 75, 74, 73, 40, 0, -40, -45, -46, -47, -68, -69, -70, -75, -76, -77),
    *(-97, -98, -99, -105, -112, -113, -114, -125, -126, -127, -135, -148, -149),
)
# Exponents of the largest product of two rows. From 128 on only sums that cancel are numbers.
PRODUCTS = (
    0,
    20,
    100,
    118,
    122,
    125,
    127,
    128,
    150,
    200,
    240,
    -20,
    -100,
    -120,
    -126,
    -140,
    -148,
    -155,
)


@dataclass(frozen=True)
class Size:
    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m} x {self.n} x {self.k}"


@dataclass
class Side:
    """The classes of A's rows, or of B's columns."""

    sizes: Tensor  # [B, rows, SLOTS]
    mantissas: Tensor
    signs: Tensor
    alike: Tensor  # bool: all elements of the slot are the same
    scale: Tensor  # [B, rows], exponent of the largest

    def describe(self, entry: int, row: int) -> str:
        def one(slot: int) -> str:
            at = (entry, row, slot)
            size = int(self.sizes[at])
            name = NAMES.get(size, f"2^{size}")
            return (
                f"{name}, {MANTISSAS[int(self.mantissas[at])]}, {SIGNS[int(self.signs[at])]}"
                f"{', alike' if self.alike[at] else ''}"
            )

        slots = "; ".join(one(slot) for slot in range(SLOTS))
        return f"largest 2^{int(self.scale[entry, row])}, scaled: {slots}"


@dataclass
class Batch:
    a: Tensor  # [B, M, K]
    b: Tensor  # [B, K, N]
    of_a: Side
    of_b: Side
    pattern: Tensor  # [B]
    notes: dict[str, Tensor]  # what else was done, [B]

    def describe(self, of_a: int, row: int, of_b: int, column: int) -> str:
        """A row of A's entry and a column of B's."""

        def notes(entry: int) -> str:
            found = [f"{name} {int(x[entry])}" for name, x in self.notes.items() if x[entry]]
            return f"slots {PATTERNS[int(self.pattern[entry])]}; {', '.join(found) or 'plain'}"

        return (
            f"A: {notes(of_a)}; {self.of_a.describe(of_a, row)}\n"
            f"  B: {notes(of_b)}; {self.of_b.describe(of_b, column)}"
        )


def power_of_two(exponent: Tensor) -> Tensor:
    """2^exponent in fp64, exactly, for exponents of normal numbers."""
    return ((exponent.long() + 1023) << 52).view(torch.float64)


class Draw:
    """Random numbers of one generator."""

    def __init__(self, seed: int, device: torch.device | str) -> None:
        self.device = torch.device(device)
        self.generator = torch.Generator(self.device).manual_seed(seed)

    def integers(self, low: int, high: int, *size: int) -> Tensor:
        """From low to high, both included."""
        return torch.randint(low, high + 1, size, generator=self.generator, device=self.device)

    def uniform(self, *size: int) -> Tensor:
        return torch.rand(size, generator=self.generator, device=self.device)

    def chance(self, share: float, *size: int) -> Tensor:
        return self.uniform(*size) < share

    def one_of(self, values: tuple[int, ...], *size: int) -> Tensor:
        table = torch.tensor(values, device=self.device)
        return table[self.integers(0, len(values) - 1, *size)]


def slots_of(draw: Draw, pattern: Tensor, k: int) -> Tensor:
    """[B, K]: the slot of each position. The last has all that single positions leave."""
    count = len(pattern)
    at = torch.arange(k, device=draw.device).expand(count, k)
    order = draw.uniform(count, k).argsort(1)
    last = SLOTS - 1
    kinds = torch.stack(
        [
            at.clamp(max=last),
            order.clamp(max=last),
            at % SLOTS,
            at // 16 % SLOTS,
            at // 64 % SLOTS,
            draw.integers(0, last, count, k),
        ]
    )
    return kinds.gather(0, pattern[None, :, None].expand(1, count, k))[0]


def classes(draw: Draw, count: int, rows: int, values: tuple[int, ...]) -> Tensor:
    """[B, rows, SLOTS]: one for all rows of a product, but a quarter of the rows have others."""
    common = draw.one_of(values, count, 1, SLOTS)
    return torch.where(
        draw.chance(0.25, count, rows, SLOTS), draw.one_of(values, count, rows, SLOTS), common
    )


def side(draw: Draw, count: int, rows: int, scale: Tensor) -> Side:
    jitter = draw.integers(-2, 2, count, rows) * draw.chance(0.5, count, 1)
    return Side(
        sizes=classes(draw, count, rows, SIZES),
        mantissas=classes(draw, count, rows, tuple(range(len(MANTISSAS)))),
        signs=classes(draw, count, rows, tuple(range(len(SIGNS)))),
        alike=draw.chance(0.5, count, rows, SLOTS),
        scale=(scale[:, None] + jitter).clamp(-149, 127),
    )


def scales(draw: Draw, count: int) -> tuple[Tensor, Tensor]:
    """Exponents of the largest elements of A and B: moderate, or at the ends of something."""
    one = draw.one_of(SCALES, count)
    other = (draw.one_of(PRODUCTS, count) - one).clamp(-149, 127)
    swapped = draw.chance(0.5, count)
    one, other = torch.where(swapped, other, one), torch.where(swapped, one, other)
    moderate = draw.chance(0.4, count)
    return torch.where(moderate, 0, one), torch.where(moderate, 0, other)


def meet_zeros(draw: Draw, of_a: Side, of_b: Side) -> Tensor:
    """The largest of A meets zeros of B, in slot 0; and the other way round, in slot 1."""
    count = len(of_a.sizes)
    kinds = draw.integers(0, 5, count)  # none, A's, A's, B's, both, A's, tiny beside B's zeros
    for of_large, of_zero, slot, which in (
        (of_a, of_b, 0, (kinds == 1) | (kinds == 2) | (kinds == 4) | (kinds == 5)),
        (of_b, of_a, 1, (kinds == 3) | (kinds == 4)),
    ):
        of_large.sizes[which, :, slot] = 14
        of_zero.sizes[which, :, slot] = ZERO
    # All rows have a largest element of the size that it is said to be, else slot 0's is random.
    some = draw.chance(0.5, count) & (kinds == 0)
    of_a.sizes[some, :, 0] = 14
    of_b.sizes[some, :, 0] = 14
    return kinds


def round_alike(draw: Draw, of_a: Side, of_b: Side, which: Tensor) -> None:
    """Many products a little more than half of the last place of the one before: each of a chain's
    roundings to 24 bits goes the same way."""
    count = len(which)
    of_one, of_other = (draw.integers(-45, 14, count) for _ in range(2))
    of_many = draw.integers(-45, 14, count)
    below = draw.integers(-25, -22, count)
    sizes = {1: (of_one, of_other), 2: (of_many, of_one + of_other + below - of_many)}
    sizes[3] = sizes[2]
    mantissa = draw.one_of((0, MANTISSAS.index("one low bit")), count)
    for slot, pair in sizes.items():
        for one, size in zip((of_a, of_b), pair, strict=True):
            one.sizes[which, :, slot] = size[which].clamp(-120, 14)[:, None]
            one.signs[which, :, slot] = 0
            one.alike[which, :, slot] = True
            one.mantissas[which, :, slot] = 0
    for slot in (2, 3):
        of_a.mantissas[which, :, slot] = mantissa[which][:, None]


def leave_cross_products(draw: Draw, of_a: Side, of_b: Side, which: Tensor) -> Tensor:
    """With cancel(): chains without the row's largest elements, whose main products cancel, so that
    cross products of small lower parts are all that is left. Nothing counts as lost. Of which
    products it is A whose elements are the smaller ones, and off by units of the last place."""
    swapped = draw.chance(0.5, len(which))
    for of_small, of_plain, chosen in (
        (of_a, of_b, which & ~swapped),
        (of_b, of_a, which & swapped),
    ):
        size = draw.integers(-13, -1, len(which))
        of_small.sizes[chosen] = size[chosen][:, None, None]
        of_plain.sizes[chosen] = PLAIN
        of_small.sizes[chosen, :, 0] = 14
        of_plain.sizes[chosen, :, 0] = ZERO
        for one in (of_small, of_plain):  # numbers without a lower part
            short = draw.one_of((0, 1, MANTISSAS.index("11 bits")), len(which))
            one.mantissas[chosen] = short[chosen][:, None, None]
            one.alike[chosen] = False
    return ~swapped


def subnormal_elements(draw: Draw, of_a: Side, of_b: Side, which: Tensor) -> None:
    """Rows of small numbers, fp32's subnormal ones among them, whose largest meet zeros; the other
    rows are large enough to show it."""
    swapped = draw.chance(0.5, len(which))
    for of_small, of_large, chosen in (
        (of_a, of_b, which & ~swapped),
        (of_b, of_a, which & swapped),
    ):
        scale = draw.integers(-110, -96, len(which))[chosen]
        sizes = draw.one_of((SUBNORMAL, LEAST, LEAST), len(which), 1, SLOTS)
        of_small.scale[chosen] = scale[:, None]
        of_large.scale[chosen] = draw.integers(90, 127, len(which))[chosen][:, None]
        of_small.sizes[chosen] = sizes[chosen].expand(-1, of_small.sizes.shape[1], SLOTS)
        of_large.sizes[chosen] = PLAIN
        of_small.sizes[chosen, :, 0] = 14
        of_large.sizes[chosen, :, 0] = ZERO


def beyond_fp64(draw: Draw, of_a: Side, of_b: Side, which: Tensor) -> None:
    """With cancel(): terms so large that what fp64 rounds off them is beyond fp32; and some so
    small that they are lost."""
    all_bits = MANTISSAS.index("24 bits")
    for one in (of_a, of_b):
        one.scale[which] = draw.integers(100, 127, len(which))[which][:, None]
        one.mantissas[which] = all_bits
        one.sizes[which] = draw.integers(-16, 14, len(which), 1, SLOTS)[which]
        one.sizes[which, :, 0] = 14


def values(draw: Draw, of: Side, slots: Tensor) -> Tensor:
    """[B, rows, K] in fp32."""
    count, rows, _ = of.sizes.shape
    k = slots.shape[1]
    index = slots[:, None, :].expand(count, rows, k)

    def spread_out(x: Tensor) -> Tensor:
        return x.gather(2, index)

    size, mantissa, sign = spread_out(of.sizes), spread_out(of.mantissas), spread_out(of.signs)
    own, common = draw.uniform(count, rows, k), draw.uniform(count, rows, SLOTS)
    r = torch.where(spread_out(of.alike), spread_out(common), own).double()

    exponent = torch.where(size == PLAIN, (14 * r).long(), size)
    exponent = torch.where(size == SPREAD, 13 - (64 * own).long(), exponent)
    exponent = exponent - 14 + of.scale[:, :, None]

    low = power_of_two(-5 - (19 * r).long())  # 2^-5 ... 2^-23
    few, eleven, twelve = (8 * r).floor(), (2**10 * r).floor(), (2**10 * r).floor()
    fraction = torch.stack(
        [
            torch.zeros_like(r),
            few / 8,
            eleven / 2**10,
            (2 * twelve + 1) / 2**11,
            (2**23 * r).floor() / 2**23,
            torch.full_like(r, 1 - 2.0**-23),
            low,
            torch.full_like(r, 1 - 2.0**-11),
            (1 - 2.0**-10 + low).clamp(max=1 - 2.0**-23),
        ]
    )
    fraction = fraction.gather(0, mantissa[None])[0]
    x = (1 + fraction) * power_of_two(exponent.clamp(-300, 127))
    x = torch.where(size == ZERO, 0.0, x)
    x = torch.where(size == LEAST, 2.0**-149, x)
    x = torch.where(size == SUBNORMAL, (2**23 * r).floor() * 2.0**-149, x)

    at = torch.arange(k, device=draw.device)
    negative = torch.stack(
        [
            torch.zeros_like(own, dtype=torch.bool),
            torch.ones_like(own, dtype=torch.bool),
            draw.chance(0.5, count, rows, k),
            (at % 2 == 1).expand(count, rows, k),
        ]
    )
    negative = negative.gather(0, sign[None])[0]
    return torch.where(negative, -x, x).float()


def cancel(
    draw: Draw, a: Tensor, b: Tensor, exactly: Tensor, nearly: Tensor, in_a: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Of some products each second term is the other's negative: one place on, in the next step,
    the next chain, the other half of K; of some it is off by some units of A's last place or B's.
    Certainly of those that are said to, [B], and nearly in the operand that is said."""
    count, _, k = a.shape
    chosen = draw.chance(0.4, count) | exactly | nearly
    distance = draw.one_of((1, 2, 16, 64, max(k // 2, 1)), count)
    distance = torch.where(nearly, draw.one_of((1, 2, 4, 8), count), distance)[:, None]
    at = torch.arange(k, device=draw.device)
    second = chosen[:, None] & (at // distance % 2 == 1)
    source = torch.where(second, at - distance, at)
    a = a.gather(2, source[:, None].expand_as(a))
    b = b.gather(1, source[:, :, None].expand_as(b))
    b = torch.where(second[:, :, None], -b, b)

    units = draw.one_of((0, 0, 1, -1, 2**11, 2**12, 2**12 + 1, -3), count)
    units = torch.where(exactly, 0, units)
    units = torch.where(nearly, draw.one_of((1, -1, 2, 3, 16, 257, 2**11 - 1), count), units)
    where = second & draw.chance(0.5, count, k) & (units != 0)[:, None]
    in_a = torch.where(nearly, in_a, draw.chance(0.5, count))

    def off(x: Tensor, which: Tensor) -> Tensor:
        bits = x.view(torch.int32)
        magnitude = bits & 0x7FFFFFFF
        inside = (magnitude > 2**13) & (magnitude < 0x7F000000)
        return torch.where(which & inside, bits + units.int()[:, None, None], bits).view(x.dtype)

    a = off(a.contiguous(), (where & in_a[:, None])[:, None, :])
    b = off(b.contiguous(), (where & ~in_a[:, None])[:, :, None])
    return a, b, torch.where(chosen, distance[:, 0], 0)


def near_the_largest(draw: Draw, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """B's columns of some products by factors that bring one result of each to fp32's end."""
    count = len(a)
    chosen = draw.chance(0.15, count)
    row = draw.integers(0, a.shape[1] - 1, count)
    of_row = a.gather(1, row[:, None, None].expand(count, 1, a.shape[2])).double()
    result = torch.bmm(of_row, b.double())[:, 0]  # [B, N]
    off = 1 - draw.one_of((1, -1), count, b.shape[2]) * power_of_two(
        -draw.one_of((7, 8, 12, 20, 23, 24, 25, 40), count, b.shape[2])
    )
    factor = LARGEST * off / result.abs()
    factor = torch.minimum(factor, LARGEST / b.double().abs().amax(1))
    usable = chosen[:, None] & (result != 0) & factor.isfinite() & (factor > 0)
    factor = torch.where(usable, factor, 1.0)[:, None]
    return (b.double() * factor).clamp(-LARGEST, LARGEST).float(), chosen


def add_specials(draw: Draw, x: Tensor) -> Tensor:
    """One NaN or Inf or two, in place; which products have them, as 1 or 2."""
    count = len(x)
    found = draw.integers(1, 2, count) * draw.chance(0.05, count)
    flat = x.view(count, -1)
    for i in range(2):
        at = draw.integers(0, flat.shape[1] - 1, count, 1)
        kind = draw.integers(0, 2, count, 1)
        table = torch.tensor([NAN, INF, -INF], device=x.device)
        special = torch.where((found > i)[:, None], table[kind], flat.gather(1, at))
        flat.scatter_(1, at, special)
    return found


def make(count: int, size: Size, seed: int, device: torch.device | str = "cpu") -> Batch:
    """`count` products of one size."""
    draw = Draw(seed, device)
    pattern = draw.integers(0, len(PATTERNS) - 1, count)
    scale_a, scale_b = scales(draw, count)
    of_a, of_b = side(draw, count, size.m, scale_a), side(draw, count, size.n, scale_b)
    zeros = meet_zeros(draw, of_a, of_b)
    alike = draw.chance(0.15, count)
    round_alike(draw, of_a, of_b, alike)
    pattern = torch.where(alike & draw.chance(0.8, count), 0, pattern)
    special = draw.integers(0, 19, count)
    cross, small, beyond = special <= 1, special == 2, special == 3
    in_a = leave_cross_products(draw, of_a, of_b, cross)
    pattern = torch.where(cross, PATTERNS.index("chains"), pattern)
    subnormal_elements(draw, of_a, of_b, small)
    beyond_fp64(draw, of_a, of_b, beyond)
    slots = slots_of(draw, pattern, size.k)
    a = values(draw, of_a, slots)
    b = values(draw, of_b, slots).mT.contiguous()
    a, b, distance = cancel(draw, a, b, exactly=beyond, nearly=cross, in_a=in_a)
    b, at_the_end = near_the_largest(draw, a, b)
    a = a.contiguous()
    specials = 10 * add_specials(draw, a) + add_specials(draw, b)
    notes = {
        "meet zeros": zeros,
        "round alike": alike,
        "cross products left": cross,
        "subnormal elements": small,
        "beyond fp64": beyond,
        "cancel at distance": distance,
        "near the largest number": at_the_end,
        "NaN or Inf in A and B": specials,
    }
    return Batch(a, b, of_a, of_b, pattern, notes)
