"""precision='fp16x3' under structured data: a short attack.py in every run, the holes that there
once were by name, and the tests of these tests, which put the holes back into a model."""

from __future__ import annotations

from collections.abc import Iterator

import attack
import cases
import fp16x3_model
import promise
import pytest
import structured
import torch
from cases import each
from structured import INF, LARGEST, NAN, Size
from torch import Tensor

on_gpu = (pytest.mark.cuda, pytest.mark.tensor_cores)


# The model's operations are small: where the processors are busy, threads that wait for each other
# after each of them take twenty times as long.
pytestmark = pytest.mark.usefixtures("one_thread")


def gpu(test):
    for mark in on_gpu:
        test = mark(test)
    return test


# ---- the holes, by name -------------------------------------------------------------------------

Pair = tuple[list[float], list[float]]


def repeated(first: list[float], rest: float, k: int) -> list[float]:
    return first + [rest] * (k - len(first))


def many_halves_of_a_last_place() -> Pair:
    """p q is a little more than half of 1's last place."""
    p, q = 2.0**-12 * (1 + 2.0**-10), 2.0**-12
    return repeated([2.0**60, 1], p, 5000), repeated([0, 1], q, 5000)


def nearly_the_largest_number() -> Pair:
    x = 2.0**34 * (1 + 0.51 * 2.0**-5)
    return repeated([2.0**78], x, 64), repeated([0], 2.0**128 * (1 - 2.0**-8) / (63 * x), 64)


def overflow_of_fp32() -> Pair:
    return repeated([2.0**100, 2.0**100], 1, 64), repeated([2.0**60, -(2.0**60)], 1, 64)


def cross_products_alone(exponent: int) -> Pair:
    """A's lower part is one bit, subnormal beside the largest element, which meets a zero. All main
    products cancel, and so do the cross products but for the last, which is small."""
    x = 2.0**exponent
    bit, b, c = x * (1 + 2.0**-23), 2.0**14, 2.0**-1 * (1 + 2.0**-10)
    first = [bit, x, bit, x, bit, x]
    rows = repeated([*first, *[0] * 58, 2.0**14], 0, 128)
    return rows, repeated([b, -b, -b, b, c, -c], 0, 128)


# name -> (the hole in fp16x3_model.HOLES, a row of A and a column of B)
NAMED: dict[str, tuple[str, Pair]] = {
    "both small where the other's large meets a zero": (
        "alignment",
        (repeated([1, 0], 2.0**-40, 64), repeated([0, 1], 2.0**-40, 64)),
    ),
    "12 bits, of which the second's are dropped": (
        "alignment",
        (repeated([1], 2.0**-40, 64), repeated([0], 1 + 2.0**-11, 64)),
    ),
    "a small row with fp32's subnormal numbers": (
        "subnormal rows",
        (repeated([2.0**-99], 2.0**-149, 64), repeated([0], 2.0**100, 64)),
    ),
    "rounded up beyond the largest number": ("overflow", nearly_the_largest_number()),
    "many roundings alike": ("fp32 chain", many_halves_of_a_last_place()),
    "two terms beyond fp32 that cancel": ("fp32 chain", overflow_of_fp32()),
    **{
        f"cross products alone, 2^{e}": ("few rows", cross_products_alone(e))
        for e in (-12, -8, -4, -3)
    },
}


def as_fp32(pair: Pair) -> tuple[Tensor, Tensor]:
    """[1, K] each. B's numbers may be rounded."""
    return torch.tensor(pair[0])[None].float(), torch.tensor(pair[1])[None].float()


def found_in(a: Tensor, b: Tensor, hole: str | None) -> list[str]:
    """What the checks find in the model's results, of rows [E, K] and columns [E, K]: what is
    promised, and the bits of the kernel of few rows, either operand being the large one."""
    x, y = a[:, None], b[:, :, None]
    c = fp16x3_model.dot(a, b, hole).c[:, None, None]
    found = promise.check(c, promise.reference(x, y))
    kinds = [kind for kind, count in found.counts().items() if count]
    for large in "ab" if a.shape[1] <= 128 else "":
        other = fp16x3_model.dot(a, b, hole, large).c[:, None, None]
        if promise.different(c, other).any():
            kinds.append("bits")
    return kinds


@each("name", tuple(NAMED))
def test_a_hole_by_name_is_found_in_the_model(name: str) -> None:
    """Put back it is, and mended nothing is; also the other way round."""
    hole, pair = NAMED[name]
    a, b = as_fp32(pair)
    for x, y in ((a, b), (b, a), (-a, b)):
        assert found_in(x, y, hole), "put back, but not found"
        assert not found_in(x, y, None), "mended, but found"


@gpu
@each("name", tuple(NAMED))
def test_a_hole_by_name_is_mended(name: str) -> None:
    """In every kernel and every layout, beside ordinary rows and columns, both ways round."""
    library = attack.Library("cuda")
    a, b = (x.cuda() for x in as_fp32(NAMED[name][1]))
    k = a.shape[1]
    some = torch.arange(40, device="cuda") % 3 == 0
    rows = torch.where(some[:, None], a, torch.randn(40, k, device="cuda"))
    columns = torch.where(some[:, None], b, torch.randn(40, k, device="cuda"))
    for x, y in ((rows, columns.t()), (columns, rows.t()), (-rows, columns.t())):
        check_all_ways(library, x, y)


def check_all_ways(library: attack.Library, a: Tensor, b: Tensor) -> None:
    c = library.bmm(a[None], b[None])[0]
    found = promise.check(c, promise.reference(a, b))
    assert not found.any(), f"{found.counts()}, {float(found.ratio.max())} times the bound"
    for what, other in all_ways(library, a, b):
        wrong = promise.different(other, c[: len(other), : other.shape[1]])
        assert not wrong.any(), f"{what}: {int(wrong.sum())} elements have other bits"


def all_ways(library: attack.Library, a: Tensor, b: Tensor) -> Iterator[tuple[str, Tensor]]:
    """(how, the first rows and columns of the product)"""
    yield from library.ways(a, b)
    for x in (a, cases.column_major(a)):
        for y in (b, cases.column_major(b)):
            for m, n in ((40, 40), (1, 40), (7, 40), (31, 40), (40, 1), (40, 16), (40, 31), (3, 2)):
                yield f"{m} x {n}, {x.stride()}", library.bmm(x[None, :m], y[None, :, :n])[0]


@gpu
def test_outliers_that_meet_zeros_of_a_relu() -> None:
    library = attack.Library("cuda")
    for outlier in (1e5, 1e8, 1e9, 1e10, 1e12):
        a = torch.randn(40, 256, device="cuda")
        b = torch.randn(256, 40, device="cuda").relu()
        a[:, 17] *= outlier
        b[17, ::2] = 0
        check_all_ways(library, a, b)
        check_all_ways(library, b.t(), a.t())


# ---- structured data ----------------------------------------------------------------------------


@gpu
def test_structured_products() -> None:
    """A short attack: every family of sizes, all ways to run them."""
    library = attack.Library("cuda")
    library.elements = 1_000_000
    tally = attack.attack(library, seed=20, rounds=attack.SEGMENTS_EVERY)
    assert sum(tally.products.values()) >= 2000
    assert tally.violations == 0, "\n".join(["", *tally.reports, attack.table(tally, 0)])


# ---- the tests of the tests ---------------------------------------------------------------------


class Modelled(attack.Library):
    """The model in the library's place, perhaps with a hole. Small: each element takes its time."""

    def __init__(self, hole: str | None) -> None:
        self.hole, self.device, self.on_gpu = hole, torch.device("cpu"), False
        self.elements, self.crossed = 200_000, 12
        self.families = {
            **dict.fromkeys(attack.FAMILIES, ((2, 3, 5), (2, 4), (64, 100, 128, 192))),
            "short K": ((1, 3), (2, 4), (2, 15, 63)),
        }
        self.known: dict[tuple[bytes, bytes], Tensor] = {}  # layouts are nothing to a model

    def large(self, a: Tensor, b: Tensor) -> str | None:
        """Which is, to the kernel of few rows; None: not its size."""
        m, n = a.shape[-2], b.shape[-1]
        return None if min(m, n) > 2 else "b" if m < n else "a"

    def bmm(self, a: Tensor, b: Tensor) -> Tensor:
        values = a.contiguous().numpy().tobytes(), b.contiguous().numpy().tobytes()
        if values not in self.known:
            self.known[values] = fp16x3_model.bmm(a, b, self.hole, self.large(a, b))
        return self.known[values]

    def in_fp64(self, a: Tensor, b: Tensor) -> Tensor:
        return fp16x3_model.bmm(a, b).double()  # rounded once

    def path(self, a: Tensor, b: Tensor) -> str:
        if a.shape[-1] < attack.LEAST_K:
            return "short K"
        return "planes" if self.large(a, b) is None else "few rows"


ROUNDS = 12


def test_an_attack_finds_nothing_in_the_mended_model() -> None:
    tally = attack.attack(Modelled(None), rounds=ROUNDS)
    assert tally.violations == 0, "\n".join(tally.reports)
    assert 0.1 < max(tally.worst.values()) < 1
    assert {"planes", "few rows", "short K"} <= set(tally.products)
    text = attack.table(tally, 1)
    assert f"{sum(tally.products.values())} products" in text and "0 violations" in text
    assert attack.as_json(tally, 1, {}, {})["violations"] == 0


# How each shows, in data that knows nothing of it.
SHOWS = {
    "alignment": "bound",
    "subnormal rows": "bound",
    "overflow": "overflow",
    "fp32 chain": "bound",
    "few rows": "bits",
}


@each("hole", fp16x3_model.HOLES)
def test_an_attack_finds_each_hole(hole: str, capsys: pytest.CaptureFixture) -> None:
    kind = SHOWS[hole]
    tally = attack.attack(Modelled(hole), rounds=ROUNDS)
    assert kind in {kind for kind, _ in tally.wrong}, tally.wrong
    report = next(text for text in tally.reports if text.startswith(kind))
    assert report in capsys.readouterr().out
    assert "structured.make(" in report and "scaled: " in report


def test_a_report_tells_how_to_make_the_data_again() -> None:
    tally = attack.attack(Modelled("alignment"), rounds=ROUNDS)
    report = tally.reports[0]
    call, at = report[report.index("structured.make(") :].split(", .a[")
    batch = eval(call, {"structured": structured, "Size": Size})
    row, column = at.split(";")[0].split(" and .b")
    of_a, i = (int(x) for x in row.strip("[]").split(","))
    of_b, _, j = column.strip("[]").split(",")
    assert attack.terms_of(batch.a[of_a, i], batch.b[int(of_b), :, int(j)]) in report


def right_and_wrong() -> Iterator[tuple[str, float, float]]:
    """(kind, what belongs there, what is found): products of one term of 64, the others zeros."""
    yield "bound", 1.0, 0.0
    yield "bound", 1.0, 1 + 2.0**-17  # 65 u are allowed
    yield "bound", 2.0**-140, 0.0
    yield "bound", 2.0**-149, 3 * 2.0**-149
    yield "specials", 1.0, NAN
    yield "overflow", 1.0, INF
    yield "overflow", LARGEST, INF
    yield "overflow", LARGEST, -INF
    yield "specials", INF, LARGEST
    yield "specials", INF, -INF
    yield "specials", INF, NAN
    yield "specials", NAN, INF
    yield "specials", NAN, 0.0
    yield "zeros", 0.0, -0.0


@each("case", tuple(right_and_wrong()))
def test_a_wrong_element_is_found(case: tuple[str, float, float]) -> None:
    kind, right, wrong = case
    a, b = torch.zeros(3, 5, 64), torch.zeros(3, 64, 4)
    a[1, 2, 7], b[1, 7, 3] = right, 1
    expected = torch.zeros(3, 5, 4)
    if right == INF or right != right:
        expected[1, 2] = NAN  # times the other columns' zeros
    expected[1, 2, 3] = right
    found = promise.check(expected, promise.reference(a, b))
    assert not found.any() and float(found.ratio.max()) <= 1
    c = expected.clone()
    c[1, 2, 3] = wrong
    found = promise.check(c, promise.reference(a, b))
    assert found.counts() == {**dict.fromkeys(promise.KINDS, 0), kind: 1}
    assert found.wrong[kind][1, 2, 3]
    assert promise.different(c, expected).sum() == 1


def test_what_is_beyond_fp32_may_be_infinite_or_near_by() -> None:
    a, b = torch.zeros(1, 64), torch.zeros(64, 1)
    a[0, :2], b[:2, 0] = 2.0**64, torch.tensor([2.0**63, 2.0**63])  # 2^128
    for x, right in ((INF, True), (LARGEST, True), (-INF, False), (NAN, False), (1e38, False)):
        c = torch.tensor([[x]])
        found = promise.check(c, promise.reference(a, b))
        assert found.any() != right, x


def test_data_is_the_same_for_the_same_seed_and_has_what_it_says() -> None:
    one, same, other = (structured.make(50, Size(3, 4, 128), seed) for seed in (1, 1, 2))
    assert not promise.different(one.a, same.a).any() and not promise.different(one.b, same.b).any()
    assert promise.different(one.a, other.a).any()
    sizes = torch.cat([one.of_a.sizes, one.of_b.sizes], 1)
    assert {14, structured.ZERO, structured.SPREAD, structured.SUBNORMAL} <= set(
        sizes.flatten().tolist()
    )
    finite = [x[x.isfinite() & (x != 0)].abs() for x in (one.a, one.b)]
    assert min(float(x.min()) for x in finite) < 2.0**-126
    assert max(float(x.max()) for x in finite) > 2.0**120
    assert one.a.isnan().any() or one.b.isnan().any() or one.a.isinf().any()
    value = one.a.double() @ one.b.double()
    assert (value.abs() > 2.0**127).any() and (value == 0).any()
