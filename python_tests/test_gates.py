"""The tests of the tests: each kind of wrong product must fail its gate, a right one passes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction

import cases
import gates
import golden
import numpy as np
import pytest
import torch

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
COMPLEX = (torch.complex64, torch.complex128)


def normal(m: int, n: int, k: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(m, k, dtype=wide).to(dtype), torch.randn(k, n, dtype=wide).to(dtype)


def exact(a: torch.Tensor, b: torch.Tensor, out: torch.dtype) -> torch.Tensor:
    """A product as good as its dtype allows: summed in a wider type, rounded."""
    wide = np.clongdouble if a.is_complex() else np.longdouble
    c = gates.to_numpy(a).astype(wide) @ gates.to_numpy(b).astype(wide)
    c = torch.from_numpy(c.astype(np.complex128 if a.is_complex() else np.float64))
    return c.to(out) if out in (torch.float64, torch.complex128) else narrow(c, out)


def narrow(c: torch.Tensor, out: torch.dtype) -> torch.Tensor:
    return c.to(torch.complex64 if out.is_complex else torch.float32).to(out)


def chain32(a: torch.Tensor, b: torch.Tensor, cut: int, truncate: bool = False) -> torch.Tensor:
    """fp32 sums term by term in chains of `cut`; `truncate` drops bits instead of rounding."""
    a, b = a.double().numpy(), b.double().numpy()
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for begin in range(0, a.shape[1], cut):
        chain = np.zeros_like(total)
        for k in range(begin, min(begin + cut, a.shape[1])):
            exact_sum = a[:, k, None] * b[None, k, :] + chain
            chain = exact_sum.astype(np.float32)
            if truncate:
                too_large = np.abs(chain) > np.abs(exact_sum)
                chain = np.where(too_large, np.nextafter(chain, np.float32(0)), chain)
        total = total + chain
    return torch.from_numpy(total)


def cut_to(x: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """x without what lies below a power of two, towards zero."""
    return np.trunc(x / grid) * grid


def tensor_cores(a: torch.Tensor, b: torch.Tensor, step: int, cut: int) -> torch.Tensor:
    """fp32 sums as the tensor cores of compute capability 9.0 make them: `step` products and the
    accumulator, cut to 25 bits below the largest one's first, are added exactly, and the sum is cut
    to fp32. Chains of `cut`."""
    a, b = a.double().numpy(), b.double().numpy()
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for begin in range(0, a.shape[1], cut):
        chain = np.zeros((a.shape[0], 1, b.shape[1]))
        end = min(begin + cut, a.shape[1])
        for k in range(begin, end, step):
            part = slice(k, min(k + step, end))
            terms = np.concatenate([a[:, part, None] * b[None, part], chain], 1)
            largest = np.frexp(np.abs(terms).max(1, keepdims=True))[1] - 1
            exact_sum = cut_to(terms, np.ldexp(1.0, largest - 25)).sum(1, keepdims=True)
            chain = cut_to(exact_sum, np.ldexp(1.0, np.frexp(exact_sum)[1] - 24))
        total = total + chain[:, 0].astype(np.float32)
    return torch.from_numpy(total)


# The arithmetics of tensor cores, with a dtype of the operands each.
TENSOR = (("tensor", torch.bfloat16), ("tensor", torch.float16), ("tf32", torch.float32))
each_tensor = pytest.mark.parametrize(("arithmetic", "dtype"), TENSOR, ids=str)


def run_tensor(a: torch.Tensor, b: torch.Tensor, arithmetic: str, cut: int | None = None):
    """The fp32 sums of a right product in this arithmetic, or of one cut elsewhere."""
    if arithmetic == "fp16x3":
        return in_parts(a, b)
    if arithmetic == "tf32":
        a, b = gates.to_tf32(a), gates.to_tf32(b)
    cut = cut or gates.segment_size(a.shape[1])
    return tensor_cores(a, b, gates.TENSOR_STEP[arithmetic], cut)


@pytest.mark.parametrize("k", [1, 2, 17, 300, 4096, 8195, 32767])
@each_tensor
def test_sums_of_tensor_cores_pass(arithmetic: str, dtype: torch.dtype, k: int) -> None:
    a, b = normal(32, 32, k, dtype)
    total = run_tensor(a, b, arithmetic)
    for c in {torch.float32: total, dtype: total.to(dtype)}.values():
        gates.check_elements(c, a, b, arithmetic)
        gates.check_elements(c, a, b, arithmetic, worst_case=True)
        gates.check_random(c, a, b, arithmetic)
        gates.check_agreement(c, c.clone(), a, b, arithmetic)


@pytest.mark.parametrize("k", [17, 300])
@each_tensor
def test_what_is_added_to_sums_of_tensor_cores_is_not_rounded(arithmetic: str, dtype, k) -> None:
    a, b = normal(32, 32, k, dtype)
    total = run_tensor(a, b, arithmetic)
    row, column, ones = torch.randn(1, 32), torch.randn(32, 1), torch.ones(32, 1)
    if arithmetic == "tensor":  # in the products' type the sum could not be told from a rounded one
        row, column = row.to(dtype), column.to(dtype)
    for left, right in ((ones, row), (column, ones.t())):
        longer = gates.with_sum(a, b, left.to(dtype), right.to(dtype), arithmetic)
        c = total + left.float() * right.float()
        gates.check_elements(c, *longer, arithmetic)
        gates.check_random(c, *longer, arithmetic)
        if arithmetic == "tf32":
            with pytest.raises(AssertionError, match="gate 2"):
                rounded = gates.to_tf32(left) * gates.to_tf32(right)
                gates.check_random(total + rounded, *longer, arithmetic)


# One chain, and the longest; and two K that are cut, whose chains are short.
POSITIVE_K = (300, 24576, 32767, 32768, 40000)


@pytest.mark.parametrize("k", POSITIVE_K)
@each_tensor
def test_positive_sums_lean_and_keep_the_certain_bound(arithmetic: str, dtype, k: int) -> None:
    """What docs/contract.md says of them: in a long chain of fp16 or tf32, unlike bf16's, whose
    shorter products lose less, all of them are beyond 8 sqrt(K)."""
    a, b = (torch.rand(*size).to(dtype) for size in ((32, k), (k, 32)))
    c = run_tensor(a, b, arithmetic)
    gates.check_positive(c, a, b, arithmetic)
    (p,) = gates.products(c, a, b, arithmetic)
    beyond = np.abs(p.error) > p.bound
    long_chain = 24576 <= k < gates.DEEP_K and dtype != torch.bfloat16
    assert beyond.all() if long_chain else not beyond.any()


@pytest.mark.parametrize("k", POSITIVE_K)
@each_tensor
def test_positive_sums_that_lean_too_far_or_not_at_all_fail(arithmetic: str, dtype, k: int) -> None:
    a, b = (torch.rand(*size).to(dtype) for size in ((32, k), (k, 32)))
    (p,) = gates.products(torch.zeros(32, 32), a, b, arithmetic)
    limit = gates.positive_lean(p)
    one_nan = p.reference.copy()
    one_nan[31, 0] = np.nan
    wrongs = [p.reference * (1 - 1.1 * limit), p.reference * (1 + 2.0**-20), one_nan]
    if k >= gates.DEEP_K:
        wrongs.append(run_tensor(a, b, arithmetic, cut=k).double().numpy())  # not cut
    for wrong in wrongs:
        with pytest.raises(AssertionError, match=r"lean|gate 1"):
            gates.check_positive(torch.from_numpy(wrong).float(), a, b, arithmetic)


@pytest.mark.parametrize("k", [1024, 4096])
@each_tensor
def test_sums_of_tensor_cores_fail_as_fma(arithmetic: str, dtype: torch.dtype, k: int) -> None:
    a, b = normal(32, 32, k, dtype)
    c = run_tensor(a, b, arithmetic)
    if arithmetic == "tf32":
        a, b = gates.to_tf32(a), gates.to_tf32(b)  # so that only the sums are at fault
    with pytest.raises(AssertionError, match="gate 2"):
        gates.check_random(c, a, b)


@each_tensor
def test_a_chain_of_tensor_cores_that_is_not_cut_fails_gate_2(arithmetic: str, dtype) -> None:
    a, b = normal(32, 32, 8 * 4096, dtype)
    gates.check_random(run_tensor(a, b, arithmetic), a, b, arithmetic)
    with pytest.raises(AssertionError, match="gate 2"):
        gates.check_random(run_tensor(a, b, arithmetic, cut=8 * 4096), a, b, arithmetic)


@pytest.mark.parametrize(("arithmetic", "dtype"), (*TENSOR, ("fp16x3", torch.float32)), ids=str)
def test_a_lean_beyond_truncation_or_away_from_zero_fails_gate_2(arithmetic: str, dtype) -> None:
    a, b = normal(64, 64, 4096, dtype)
    (p,) = gates.products(torch.zeros(64, 64), a, b, arithmetic)
    rms, lean = gates.in_parts(p) if arithmetic == "fp16x3" else gates.truncation(p)
    assert 0 < lean + 0.1 * rms < rms  # 0.1 is more than five standard deviations of the mean
    for part in (-(lean + 0.1 * rms), 0.1 * rms):
        c = p.reference + part * np.sign(p.reference)
        with pytest.raises(AssertionError, match="gate 2, mean towards R"):
            gates.check_random(torch.from_numpy(c).float(), a, b, arithmetic)


PLAIN = (*(("fma", dtype) for dtype in FLOATS + COMPLEX), *TENSOR, ("fp16x3", torch.float32))


@pytest.mark.parametrize(("arithmetic", "dtype"), PLAIN, ids=str)
def test_all_gates_fail_what_is_plainly_wrong(arithmetic: str, dtype: torch.dtype) -> None:
    a, b = normal(40, 48, 300, dtype)
    a[7, 299], b[299, 11] = 1, 1
    right = exact(a, b, dtype) if arithmetic == "fma" else run_tensor(a, b, arithmetic).to(dtype)
    one_nan, one_missing = right.clone(), right.clone()
    one_nan[39, 47] = torch.nan
    one_missing[7, 11] -= 1
    for wrong in (torch.zeros_like(right), one_nan, one_missing):
        for check, gate in ((gates.check_elements, "gate 1"), (gates.check_random, "gate 2")):
            with pytest.raises(AssertionError, match=gate):
                check(wrong, a, b, arithmetic)
        with pytest.raises(AssertionError, match="agreement"):
            gates.check_agreement(wrong, right, a, b, arithmetic)


@pytest.mark.parametrize("k", [256, 4096, 16384])
@each_tensor
def test_16_bit_partial_sums_fail_the_tensor_gates(arithmetic: str, dtype, k: int) -> None:
    a, b = normal(40, 48, k, dtype)
    for narrow_type in (torch.bfloat16, torch.float16):
        pieces = zip(a.chunk(8, 1), b.chunk(8, 0), strict=True)
        c = sum(exact(x, y, torch.float32).to(narrow_type).float() for x, y in pieces)
        with pytest.raises(AssertionError, match="gate 2"):
            gates.check_random(c, a, b, arithmetic)


@pytest.mark.parametrize("k", [64, 1024, 4096, 16384])
def test_tf32_operands_must_be_rounded_to_nearest(k: int) -> None:
    a, b = normal(40, 48, k, torch.float32)

    def truncated(x: torch.Tensor) -> torch.Tensor:
        return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)

    for wrong in (truncated, torch.Tensor.bfloat16):
        c = exact(wrong(a).float(), wrong(b).float(), torch.float32)
        with pytest.raises(AssertionError, match="gate 2"):
            gates.check_random(c, a, b, "tf32")
    with pytest.raises(AssertionError, match="gate 2"):  # not rounded at all
        gates.check_random(exact(a, b, torch.float32), a, b, "tf32")


def test_operands_rounded_to_bfloat16_fail_gate_1_of_tf32() -> None:
    """Of few terms: with many, the errors cancel and gate 2 is the one that sees it."""
    a, b = normal(40, 48, 1, torch.float32)
    c = exact(a.bfloat16().float(), b.bfloat16().float(), torch.float32)
    with pytest.raises(AssertionError, match="gate 1"):
        gates.check_elements(c, a, b, "tf32")


def test_rounding_to_tf32() -> None:
    """Against rational arithmetic: to nearest, ties to even; what is not finite stays."""
    rng = np.random.default_rng(9)
    ties = (1 + (2 * rng.integers(0, 1024, 500) + 1) * 2.0**-11) * 2.0 ** rng.integers(-90, 90, 500)
    near = np.nextafter(ties.astype(np.float32), np.float32(0))
    plain = rng.standard_normal(500)
    values = np.concatenate([ties, -ties, near, plain, [0.0, -0.0]]).astype(np.float32)
    found = gates.to_tf32(torch.from_numpy(values)).tolist()
    for x, y in zip(values.tolist(), found, strict=True):
        unit = Fraction(2) ** (int(np.frexp(x)[1]) - 11)
        assert y == round(Fraction(x) / unit) * unit
    assert np.signbit(found[-1]) and not np.signbit(found[-2])
    special = torch.tensor([torch.inf, -torch.inf, torch.nan])
    assert golden.same_bits(gates.to_tf32(special), special)
    assert golden.same_bits(gates.to_tf32(torch._neg_view(special)), -special)


def two_parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """hi, lo and exponent of each row of an fp32 matrix: x 2^exponent ~ hi + lo 2^-11, the largest
    of a row in [2^14, 2^15)."""
    exponent = 15 - np.frexp(np.abs(x).max(1, keepdims=True))[1]
    scaled = np.ldexp(x.astype(np.float64), exponent)
    hi = scaled.astype(np.float16).astype(np.float64)
    lo = ((scaled - hi) * 2**11).astype(np.float16).astype(np.float64)
    return hi, lo, exponent


def in_parts(a: torch.Tensor, b: torch.Tensor, chain: int = 64, without: tuple[str, ...] = ()):
    """A product of fp16x3, without the guard: `chain` terms in one pair of accumulators, added up
    in fp32, without some of the three products of parts."""
    a_hi, a_lo, a_exponent = two_parts(a.numpy())
    b_hi, b_lo, b_exponent = (x.T for x in two_parts(b.numpy().T))
    k = a.shape[1]

    def accumulate(pairs: list, begin: int, end: int) -> np.ndarray:
        """One chain of the products of these parts, in steps of 16 of each in turn."""
        steps = [slice(i, min(i + 16, end)) for i in range(begin, end, 16)]
        x = np.concatenate([x[:, step] for step in steps for x, _ in pairs], 1)
        y = np.concatenate([y[step] for step in steps for _, y in pairs])
        return tensor_cores(torch.from_numpy(x), torch.from_numpy(y), 16, x.shape[1]).numpy()

    crosses = {"hi lo": (a_hi, b_lo), "lo hi": (a_lo, b_hi)}
    crosses = [pair for name, pair in crosses.items() if name not in without]
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    segment = gates.segment_size(k)
    for first in range(0, k, segment):
        part = np.zeros_like(total)
        last = min(first + segment, k)
        for begin in range(first, last, chain):
            end = min(begin + chain, last)
            main = accumulate([(a_hi, b_hi)], begin, end)
            cross = accumulate(crosses, begin, end) if crosses else np.zeros_like(main)
            both = main.astype(np.float64) + cross.astype(np.float64) * 2.0**-11
            part = part + both.astype(np.float32)
        total = total + part
    return torch.from_numpy(np.ldexp(total, -(a_exponent + b_exponent)))


@pytest.mark.parametrize("k", [64, 100, 300, 1024, 4096, 8195, 32800])
def test_products_of_parts_pass(k: int) -> None:
    a, b = normal(32, 32, k, torch.float32)
    c = in_parts(a, b)
    gates.check_elements(c, a, b, "fp16x3")
    gates.check_elements(c, a, b, "fp16x3", worst_case=True)
    gates.check_random(c, a, b, "fp16x3")
    gates.check_agreement(c, exact(a, b, torch.float32), a, b, "fp16x3")


def test_gate_1_of_products_of_parts_is_fmas() -> None:
    for k in (1, 15, 16, 64, 1000):
        a, b = normal(40, 48, k, torch.float32)
        c = exact(a, b, torch.float32)
        (fma,), (parts,) = (gates.products(c, a, b, name) for name in ("fma", "fp16x3"))
        assert np.array_equal(parts.bound, fma.bound)


@pytest.mark.parametrize("k", [1, 2, 17, 63])
def test_short_sums_of_fp16x3_are_held_to_fmas_gate(k: int) -> None:
    a, b = normal(40, 48, k, torch.float32)
    gates.check_random(chain32(a, b, k), a, b, "fp16x3")
    with pytest.raises(AssertionError, match="gate 2"):
        gates.check_random(in_parts(a, b), a, b, "fp16x3")


def rounded_first(rounding: Callable) -> Callable:
    return lambda a, b: exact(rounding(a).float(), rounding(b).float(), torch.float32)


# Less than fp16x3 promises, likewise. A lost promotion is one chain of tensor cores: it truncates.
LESS_EXACT_IN_PARTS = {
    "lost promotion": ((1024, 4096, 8192), lambda a, b: in_parts(a, b, chain=a.shape[1])),
    **{
        f"without {' and '.join(crosses)}": (
            (64, 300, 4096),
            functools.partial(in_parts, without=crosses),
        )
        for crosses in (("hi lo",), ("lo hi",), ("hi lo", "lo hi"))
    },
    "tf32": ((16, 64, 1024, 16384), rounded_first(gates.to_tf32)),
    "fp16": ((16, 64, 1024, 16384), rounded_first(torch.Tensor.half)),
    "bf16": ((16, 64, 1024, 16384), rounded_first(torch.Tensor.bfloat16)),
}


@pytest.mark.parametrize("name", LESS_EXACT_IN_PARTS)
def test_what_is_less_exact_fails_gate_2_of_fp16x3(name: str) -> None:
    sizes, product = LESS_EXACT_IN_PARTS[name]
    for k in sizes:
        a, b = normal(32, 32, k, torch.float32)
        with pytest.raises(AssertionError, match="gate 2"):
            gates.check_random(product(a, b), a, b, "fp16x3")


def test_one_fp32_chain_fails_gate_2_of_fp16x3() -> None:
    """It is less exact than sums of 64 that are added up."""
    a, b = normal(32, 32, 4096, torch.float32)
    c = chain32(a, b, 4096)
    gates.check_random(c, a, b)
    with pytest.raises(AssertionError, match="gate 2, RMS"):
        gates.check_random(c, a, b, "fp16x3")


@pytest.mark.parametrize("k", [1, 2, 17, 300, 4096])
@pytest.mark.parametrize("dtype", FLOATS + COMPLEX, ids=str)
def test_right_products_pass(dtype: torch.dtype, k: int) -> None:
    a, b = normal(40, 48, k, dtype) if k < 4096 else normal(32, 32, k, dtype)
    c = exact(a, b, dtype)
    gates.check_elements(c, a, b)
    gates.check_elements(c, a, b, worst_case=True)
    gates.check_random(c, a, b)
    gates.check_agreement(c, c.clone(), a, b)


@pytest.mark.parametrize("k", [8 * 4096 - 1, 8 * 4096 + 1])
@pytest.mark.parametrize("out", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_chains_in_segments_pass(out: torch.dtype, k: int) -> None:
    a, b = normal(32, 32, k, torch.float32 if out == torch.float32 else out)
    c = chain32(a, b, gates.segment_size(k)).to(out)
    gates.check_elements(c, a, b)
    gates.check_random(c, a, b)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_the_error_of_a_16_bit_sum_begins_at_the_tie(dtype: torch.dtype) -> None:
    """For every pair of neighbours of the format, a little to either side of their middle."""
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype).double()
    values = every[every.isfinite()].unique().numpy()  # ascending
    tie = (values[:-1] + values[1:]) / 2
    little = np.diff(values) / 1024
    for c, away in ((values[:-1], 1), (values[1:], -1)):
        for r, error in ((tie - away * little, 0), (tie + away * little, little)):
            precision = gates.Precision(dtype, torch.float32)
            p = gates.Product("C", precision, 1, 1, c, r, np.abs(r))
            assert np.array_equal(gates.sum_error(p), np.broadcast_to(error, c.shape))


def test_one_element_too_wrong_for_random_data_fails_gate_2() -> None:
    a, b = normal(64, 64, 1024, torch.float64)
    c = exact(a, b, torch.float64)
    (p,) = gates.products(c, a, b)
    c[7, 11] += 20 * p.precision.u_acc * float(p.magnitude[7, 11])
    gates.check_elements(c, a, b)
    with pytest.raises(AssertionError, match="gate 2, largest"):
        gates.check_random(c, a, b)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_last_k_missing_fails_gate_1(dtype: torch.dtype) -> None:
    a, b = normal(40, 48, 301, dtype)
    with pytest.raises(AssertionError, match="gate 1"):
        gates.check_elements(exact(a[:, :-1], b[:-1], dtype), a, b)


@pytest.mark.parametrize("k", [256, 4096, 16384])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("parts", [2, 8])
def test_16_bit_partial_sums_fail_gate_2(dtype: torch.dtype, k: int, parts: int) -> None:
    a, b = normal(40, 48, k, dtype)
    pieces = zip(a.chunk(parts, 1), b.chunk(parts, 0), strict=True)
    c = sum(exact(x, y, dtype).float() for x, y in pieces)
    for pretended in (dtype, torch.float32):
        with pytest.raises(AssertionError, match="gate 2"):
            gates.check_random(c.to(pretended), a, b)


def truncated_to_16_bits(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    dropped = {torch.bfloat16: 16, torch.float16: 13}[a.dtype]
    total = exact(a, b, torch.float32).view(torch.int32)
    return ((total >> dropped) << dropped).view(torch.float32).to(a.dtype)


# Less than fma promises: the operands' dtype, some K, and what computes it.
LESS_EXACT = {
    "tf32 inputs": (
        torch.float32,
        (64, 1024, 4096, 16384),
        lambda a, b: exact(gates.to_tf32(a), gates.to_tf32(b), torch.float32),
    ),
    "fp32 arithmetic of fp64": (
        torch.float64,
        (64, 1024, 4096),
        lambda a, b: exact(a.float(), b.float(), torch.float32).double(),
    ),
    "C truncated to bf16": (torch.bfloat16, (300,), truncated_to_16_bits),
    "C truncated to fp16": (torch.float16, (300,), truncated_to_16_bits),
    "truncated sums": (
        torch.float32,
        (300, 4096),
        lambda a, b: chain32(a, b, gates.segment_size(a.shape[1]), truncate=True),
    ),
    "one long chain": (torch.float32, (8 * 4096,), lambda a, b: chain32(a, b, a.shape[1])),
}


@pytest.mark.parametrize("name", LESS_EXACT)
def test_what_is_less_exact_fails_gate_2(name: str) -> None:
    dtype, sizes, product = LESS_EXACT[name]
    for k in sizes:
        a, b = normal(32, 32, k, dtype)
        with pytest.raises(AssertionError, match="gate 2"):
            gates.check_random(product(a, b), a, b)


@pytest.mark.parametrize("towards_zero", [False, True])
def test_a_small_bias_fails_gate_2(towards_zero: bool) -> None:
    a, b = normal(64, 64, 1024, torch.float32)
    (p,) = gates.products(exact(a, b, torch.float32), a, b)
    bias = 0.3 * gates.allowed_rms(p)
    c = p.reference - bias * (np.sign(p.reference) if towards_zero else 1)
    mean = "mean towards R" if towards_zero else "mean:"
    with pytest.raises(AssertionError, match=f"gate 2, {mean}"):
        gates.check_random(torch.from_numpy(c).float(), a, b)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_complex_mistakes_fail_gate_1(dtype: torch.dtype) -> None:
    a, b = normal(20, 24, 30, dtype)
    for wrong in (exact(a.conj(), b, dtype), exact(a, b, dtype).real.to(dtype)):
        with pytest.raises(AssertionError, match="gate 1"):
            gates.check_elements(wrong, a, b)


def test_infinities_and_nans_must_be_where_ieee_has_them() -> None:
    a, b = torch.ones(3, 2), torch.ones(2, 3)
    a[0, 0], b[0, 0] = torch.inf, 0.0  # C[0, 0] = Inf 0 + 1, C[0, 1:] = Inf
    right = torch.full((3, 3), 2.0)
    right[0], right[:, 0], right[0, 0] = torch.inf, 1.0, torch.nan
    gates.check_elements(right, a, b)
    inf, nan = torch.inf, torch.nan
    for i, j, value in ((0, 0, 1.0), (0, 0, inf), (0, 1, -inf), (0, 1, nan), (1, 1, nan)):
        wrong = right.clone()
        wrong[i, j] = value
        with pytest.raises(AssertionError, match="gate 1"):
            gates.check_elements(wrong, a, b)


def test_overflow_must_give_infinity() -> None:
    a, b = torch.full((2, 1), 300.0).half(), torch.full((1, 2), 300.0).half()
    gates.check_elements(torch.full((2, 2), torch.inf).half(), a, b)
    with pytest.raises(AssertionError, match="gate 1"):
        gates.check_elements(torch.full((2, 2), 65504.0).half(), a, b)


@pytest.mark.parametrize("dtype", cases.INTEGERS, ids=str)
def test_integers_must_wrap_and_be_exact(dtype: torch.dtype) -> None:
    top = torch.iinfo(dtype).max
    a, b = torch.full((2, 3), top, dtype=dtype), torch.full((3, 2), top, dtype=dtype)
    bits = torch.iinfo(dtype).bits
    wrapped = 3 * top * top % 2**bits
    if torch.iinfo(dtype).min < 0 and wrapped >= 2 ** (bits - 1):
        wrapped -= 2**bits
    right = torch.full((2, 2), wrapped, dtype=dtype)
    gates.check_integers(right, a, b)
    one_off = right.clone()
    one_off[1, 1] += 1
    for wrong in (one_off, torch.full((2, 2), top, dtype=dtype)):
        with pytest.raises(AssertionError):
            gates.check_integers(wrong, a, b)


def rounded(x: Fraction, dtype: type) -> float:
    """The nearest fp32 or fp64 number, ties to even, by integer arithmetic alone."""
    digits, lowest = (53, -1074) if dtype is np.float64 else (24, -149)
    if x == 0:
        return 0.0
    exponent = abs(x).numerator.bit_length() - abs(x).denominator.bit_length()
    if abs(x) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - digits + 1, lowest)
    return float(round(x / unit) * unit)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("cancel", [False, True])
def test_the_models_fma_rounds_once(dtype: type, cancel: bool) -> None:
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal(4000).astype(dtype) for _ in range(2))
    if cancel:  # the exponents of c are the product's, or nearly
        c = -(a * b) * dtype(2) ** rng.integers(-2, 3, 4000)
    else:
        c = rng.standard_normal(4000) * 2.0 ** rng.integers(-60, 60, 4000)
    c = c.astype(dtype)
    fma = golden.fma32 if dtype is np.float32 else golden.fma64
    found = fma(a, b, c)
    for x, y, z, r in zip(a.tolist(), b.tolist(), c.tolist(), found.tolist(), strict=True):
        assert r == rounded(Fraction(x) * Fraction(y) + Fraction(z), dtype)


@pytest.mark.parametrize(
    ("fma", "dtype", "x", "y"),
    [
        (golden.fma32, np.float32, 1 + 2.0**-12, 1 + 2.0**-12),
        (golden.fma64, np.float64, 1 + 2.0**-26, 1 + 2.0**-27),
    ],
)
def test_the_models_fma_knows_on_which_side_of_a_tie_it_is(fma, dtype: type, x, y) -> None:
    """x y is halfway between two numbers; a sum rounded in between would forget what is added."""
    product = Fraction(x) * Fraction(y)
    small = (0.0, 2.0**-110, 0.75 * 2.0**-52, 0.75 * 2.0**-105)
    for c in (*small, *(-v for v in small)):
        found = fma(*(np.array([v], dtype) for v in (x, y, c)))[0]
        assert found == rounded(product + Fraction(c), dtype)


def test_the_models_fp32_fma_rounds_subnormals_once() -> None:
    rng = np.random.default_rng(8)
    a = (rng.standard_normal(4000) * 2.0**-70).astype(np.float32)
    b = (rng.standard_normal(4000) * 2.0**-70).astype(np.float32)
    c = (rng.standard_normal(4000) * 2.0**-140).astype(np.float32)
    for x, y, z, r in zip(*(v.tolist() for v in (a, b, c, golden.fma32(a, b, c))), strict=True):
        assert r == rounded(Fraction(x) * Fraction(y) + Fraction(z), np.float32)


def test_equality_of_bits_sees_what_equality_of_numbers_does_not() -> None:
    zero = torch.zeros(2, 2)
    assert not golden.same_bits(zero, -zero)
    assert not golden.same_bits(zero, zero.double())
    assert not golden.same_bits(zero, torch.full((2, 2), torch.nan))
    assert golden.same_bits(torch.tensor([torch.nan]), torch.tensor([torch.nan]))
    with pytest.raises(AssertionError, match="1 of 4 differ"):
        golden.assert_same_bits(zero, torch.tensor([[0.0, 0.0], [0.0, -0.0]]))
