"""C = activation(alpha * sum + bias + beta * input): its bits, on every rung of both devices, are
those of the stated order (ops/core/epilogue.h), and the activations are as exact as they claim."""

from __future__ import annotations

import itertools
import math

import cases
import epilogues
import mpmath
import numpy as np
import pytest
import rungs
import torch
from cases import factors
from epilogues import (
    ACTIVATIONS,
    every_16_bit_value,
    expected,
    million_values,
    operator,
    same_bits,
    sum_dtype,
    sums,
    ulps,
)

each_rung = rungs.each_rung_and(cases.DTYPES, finishes=True)
each_float_rung = rungs.each_rung_and(cases.REALS)
# These want bases and pitches of whole 16 bytes.
ALIGNED = [
    pytest.param(algo, dtype, id=f"{algo}-{str(dtype).removeprefix('torch.')}")
    for algo in (*rungs.NEED_TMA, "hopper")
    for dtype in (*cases.HALVES, torch.float32)
]


def companions(dtype: torch.dtype) -> tuple[torch.dtype, ...]:
    """What bias and input may be."""
    fp32 = (torch.float32, torch.float16, torch.bfloat16)
    return fp32 if dtype in fp32 else (dtype,)


def check(a, b, total=None, out_dtype=None, product=None, **asked) -> None:
    """C and the pre-activation, bit for bit; `product` says how to multiply."""
    product = product or {}
    out_dtype = out_dtype or a.dtype
    total = sums(a, b, **product) if total is None else total
    c, pre_activation = operator(a, b, **product, out_dtype=out_dtype, pre_activation=True, **asked)
    asked.pop("out", None)
    right, right_pre_activation = expected(total, out_dtype, **asked)
    what = {k: getattr(v, "dtype", v) for k, v in asked.items()}
    assert same_bits(pre_activation, right_pre_activation), f"before the activation: {what}"
    assert same_bits(c, right), what


@each_rung
def test_bits_of_bias_and_input(device: str, algo: str | None, dtype: torch.dtype) -> None:
    product = {"algo": algo}
    for m, n, k in ((1, 1, 1), (37, 41, 50), (1, 70, 33), (65, 1, 19), (70, 67, 0)):
        a, b = cases.pair(m, n, k, dtype, device)
        total = sums(a, b, **product)
        for companion in companions(dtype):
            bias_n, bias_m = (cases.fill(1, s, companion, device)[0] for s in (n, m))
            for name, input in cases.laid_out(cases.fill(m, n, companion, device)):
                if companion == torch.float32 or name in ("n", "t", "strided"):
                    check(a, b, total, product=product, input=input, bias=bias_n, **factors(dtype))
            check(a, b, total, product=product, bias=bias_m, bias_along="m")
            check(a, b, total, product=product, bias=bias_n[:1])
        row = cases.fill(1, n, dtype, device)
        check(a, b, total, product=product, input=row, **factors(dtype))
        check(a, b, total, product=product, input=row.t()[:1])
        check(a, b, total, product=product, alpha=factors(dtype)["alpha"])
        check(a, b, total, product=product)


@each_float_rung
def test_bits_of_activations(device: str, algo: str | None, dtype: torch.dtype) -> None:
    product = {"algo": algo}
    a, b = cases.pair(45, 83, 60, dtype, device)
    total = sums(a, b, **product)
    bias = cases.fill(1, 45, dtype, device)[0]
    input = cases.fill(83, 45, dtype, device).t()
    for activation in ACTIVATIONS:
        for out_dtype in {dtype, sum_dtype(dtype)}:
            asked = {"activation": activation, "product": product, "out_dtype": out_dtype}
            check(a, b, total, **asked)
            check(a, b, total, **asked, bias=bias, bias_along="m", input=input, **factors(dtype))


@each_rung
def test_bits_in_every_layout(device: str, algo: str | None, dtype: torch.dtype) -> None:
    m, n, k = 33, 50, 40
    product = {"algo": algo}
    bias = cases.fill(1, m, dtype, device)[0]
    for name, make in cases.layouts_of(dtype).items():
        if name not in ("neg", "neg_t") and "conj" not in name:
            a, b = make(m, k, dtype, device), make(k, n, dtype, device)
            check(a, b, product=product, bias=bias, bias_along="m", **factors(dtype))


@each_rung
def test_batches(device: str, algo: str | None, dtype: torch.dtype) -> None:
    a, b = (
        torch.stack([cases.fill(*shape, dtype, device) for _ in range(3)])
        for shape in ((20, 35), (35, 19))
    )
    input = torch.stack([cases.fill(20, 19, dtype, device) for _ in range(3)])
    for bias, along in (((1, 19), "n"), ((3, 19), "n"), ((3, 20), "m")):
        bias = cases.fill(*bias, dtype, device)
        product = {"algo": algo}
        check(a, b, product=product, bias=bias, bias_along=along, input=input, **factors(dtype))
    check(a, b, product=product, input=input[1], bias=bias[1], bias_along="m")


@each_rung
def test_in_place(device: str, algo: str | None, dtype: torch.dtype) -> None:
    """out= is the input itself, and K is cut: partial sums may not come near it."""
    for m, n, k in ((18, 40, 100), (9, 33, 33000)):
        a, b = cases.pair(m, n, k, dtype, device)
        total = sums(a, b, algo=algo)
        bias = cases.fill(1, n, dtype, device)[0]
        for out_dtype in {dtype, sum_dtype(dtype)}:
            for name, out in cases.laid_out(cases.fill(m, n, out_dtype, device)):
                asked = factors(dtype) | {"bias": bias}
                right, _ = expected(total, out_dtype, input=out.clone(), **asked)
                c, _ = operator(a, b, algo=algo, out_dtype=out_dtype, input=out, out=out, **asked)
                assert c.data_ptr() == out.data_ptr() and same_bits(out, right), (k, name)


@pytest.mark.cuda
@pytest.mark.tensor_cores
@pytest.mark.parametrize(("algo", "dtype"), ALIGNED)
def test_rungs_of_aligned_operands(algo: str, dtype: torch.dtype) -> None:
    product = {"algo": algo}
    if dtype == torch.float32:
        product["precision"] = "tf32"
    for m, n, k in ((64, 80, 96), (200, 136, 264), (136, 72, 33000)):
        a, b = (cases.fill(*shape, dtype, "cuda") for shape in ((m, k), (n, k)))
        b = b.t()
        total = sums(a, b, **product)
        input = cases.fill(m, n, dtype, "cuda")
        for along, length in (("n", n), ("m", m)):
            asked = factors(dtype) | {"bias": cases.fill(1, length, dtype, "cuda")[0]}
            for activation in ("none", "gelu"):
                asked |= {"bias_along": along, "input": input, "activation": activation}
                check(a, b, total, product=product, **asked)
        out = cases.fill(m, n, torch.float32, "cuda")
        right, _ = expected(total, torch.float32, input=out.clone())
        operator(a, b, **product, out_dtype=torch.float32, input=out, out=out)
        assert same_bits(out, right)


# C's rows by TMA; by the warps, as they end inside of 16 bytes; with segments of K.
FINISHED_SIZES = ((264, 520, 200), (129, 391, 100), (100, 72, 33000))
WAYS = [*itertools.product((False, True), ((1, 1), (2, 1), (1, 2)))]


@pytest.mark.cuda
@pytest.mark.tensor_cores
@pytest.mark.parametrize("size", FINISHED_SIZES)
@pytest.mark.parametrize("dtype", [*cases.HALVES, torch.float32])
def test_every_tile_finishes_alike(dtype: torch.dtype, size: tuple) -> None:
    """Each tile of hopper has its own kernels with an epilogue, where accumulators leave in parts:
    with every activation, the value before it kept or not, swap_ab or not."""
    m, n, k = size
    product = {"precision": "tf32"} if dtype == torch.float32 else {}
    x, y = (cases.fill(*shape, dtype, "cuda") for shape in ((m, k), (k, n)))
    bias = cases.fill(1, n, dtype, "cuda")[0]
    total = sums(x, y, algo="mma_tile", **product)
    asked = {"bias": bias} | product
    right = {f: expected(total, dtype, bias=bias, activation=f) for f in ACTIVATIONS}
    seen = 0
    for a, b in ((x, cases.column_major(y)), (cases.column_major(x), y)):
        tiles = {way[0] for way in rungs.ways_of(a, b, "hopper", **product)}
        for i, tile in enumerate(sorted(tiles)):
            for j, (swap_ab, (p, q)) in enumerate(WAYS):
                # Every activation in one way of each tile, one of them in the others.
                few = [ACTIVATIONS[(i + j) % len(ACTIVATIONS)]]
                for activation in ACTIVATIONS if (p, q) == (1, 1) else few:
                    for keeps in (False, True):
                        c, pre_activation = torch.ops.tiled_debug.finished_with_tile(
                            *(a, b, tile, swap_ab, p, q, False),
                            **asked | {"activation": activation, "pre_activation": keeps},
                        )
                        what = (tile, swap_ab, p, q, activation, keeps)
                        assert same_bits(c, right[activation][0]), what
                        assert not keeps or same_bits(pre_activation, right[activation][1]), what
                        seen += 1
    assert seen >= 2 * 2 * 2 * len(ACTIVATIONS) * 10  # tiles


@pytest.mark.cuda
@pytest.mark.tensor_cores
@pytest.mark.parametrize("dtype", cases.HALVES)
def test_hopper_finishes_into_every_layout(dtype: torch.dtype) -> None:
    """An activation on the way through slices of C, and where C goes element by element; nothing
    beside C is written."""
    m, n, k = 136, 200, 96
    a, b = (cases.fill(*shape, dtype, "cuda") for shape in ((m, k), (k, n)))
    total = sums(a, b, algo="hopper")
    for along, length in (("n", n), ("m", m)):
        asked = {"bias": cases.fill(1, length, dtype, "cuda")[0], "bias_along": along}
        for activation in ACTIVATIONS:
            right, _ = expected(total, dtype, activation=activation, **asked)
            for name, memory, out in cases.outputs(m, n, dtype):
                operator(a, b, algo="hopper", activation=activation, out=out, **asked)
                assert same_bits(out, right), (name, along, activation)
                assert cases.is_untouched_outside(memory, out), (name, along, activation)


@each_float_rung
def test_accumulation(device: str, algo: str | None, dtype: torch.dtype) -> None:
    """out += A B, in fp32 for 16-bit operands, part after part of K."""
    a, b = cases.pair(30, 44, 96, dtype, device)
    out = torch.zeros(30, 44, dtype=sum_dtype(dtype), device=device)
    right = out.cpu().clone()
    for k in range(0, 96, 32):
        part = a[:, k : k + 32], b[k : k + 32]
        operator(*part, algo=algo, out_dtype=out.dtype, input=out, out=out)
        right, _ = expected(sums(*part, algo=algo), out.dtype, input=right)
    assert same_bits(out, right)


@each_rung
def test_an_input_that_does_not_count_is_not_read(
    device: str, algo: str | None, dtype: torch.dtype
) -> None:
    a, b = cases.pair(17, 30, 25, dtype, device)
    hole = cases.hole(17, 30, dtype, device)
    for beta in (0, False, *(() if dtype in cases.INTEGERS else (0.0, -0.0))):
        c, _ = operator(a, b, algo=algo, input=hole, out=hole.clone(), beta=beta)
        assert same_bits(c, torch.ops.tiled.mm(a, b, algo=algo))


@each_float_rung
def test_special_values(device: str, algo: str | None, dtype: torch.dtype) -> None:
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1.5, -3e4, 6e-8])
    a = special.to(dtype).to(device).unsqueeze(1)
    b = torch.tensor([[1.0, -1.0, 0.0, math.inf, math.nan]]).to(dtype).to(device)
    total = sums(a, b, algo=algo)
    input = special.to(dtype).to(device).unsqueeze(1)
    for activation in ACTIVATIONS:
        for alpha, beta in ((1, 1), (-1, 1), (math.inf, 0.5), (1, math.nan)):
            asked = {"alpha": alpha, "beta": beta, "activation": activation}
            check(a, b, total, product={"algo": algo}, input=input, bias=-0.0 * b[0], **asked)


@pytest.mark.parametrize("device", cases.DEVICES)
def test_default_is_the_product(device: str) -> None:
    for dtype in cases.DTYPES:
        a, b = cases.pair(20, 30, 40, dtype, device)
        c, pre_activation = operator(a, b)
        assert same_bits(c, torch.ops.tiled.mm(a, b)) and pre_activation is None


# ---- the activations -------------------------------------------------------------------------

# ulp of the result, ops/core/elementary.h
BOUND = {"relu": 0, "gelu": 2, "gelu_tanh": 2, "silu": 2}


def test_every_activation_has_a_bound() -> None:
    assert set(BOUND) == set(ACTIVATIONS) - {"none"}


def truth(x: torch.Tensor, activation: str) -> torch.Tensor:
    """In float64, exact to some 1e-13: far below an ulp of float32."""
    x = x.double()
    if activation == "relu":
        return torch.where(x < 0, 0, x)
    if activation == "gelu":
        tail = torch.special.erfc(-x / math.sqrt(2)) / 2
    else:
        cubic = 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        w = x if activation == "silu" else cubic
        tail = torch.where(w < 0, w.exp() / (1 + w.exp()), 1 / (1 + (-w).exp()))
    return torch.where(tail == 0, -0.0, x * tail)  # at -inf too


@pytest.mark.parametrize("activation", BOUND)
@pytest.mark.parametrize("values", [every_16_bit_value, million_values], ids=lambda f: f.__name__)
@pytest.mark.parametrize("device", cases.DEVICES)
def test_activations_are_exact_to(device: str, values, activation: str) -> None:
    x = values()
    got = epilogues.activated(x, activation, device)
    worst = ulps(got, truth(x, activation))
    assert bool((worst <= BOUND[activation]).all()), (worst.max(), x.flatten()[worst.argmax()])
    if device == "cuda":
        assert same_bits(got, epilogues.activated(x, activation))


# What ops/core/brief_activation.h promises of C in 16 bits: half an ulp of C for the rounding, and
# 2^-16 of the value, or 2^-13 below 2^-25, where fp16 has only zeros. Of a value of p bits, 2^-x of
# it is at most 2^(p - x) ulp: 1/32 of fp16's 11 bits and of bf16's 8.
BRIEF_BOUND = 0.5 + 1 / 32


@pytest.mark.parametrize("dtype", cases.HALVES)
@pytest.mark.parametrize("activation", BOUND)
@pytest.mark.parametrize("values", [every_16_bit_value, million_values], ids=lambda f: f.__name__)
@pytest.mark.parametrize("device", cases.DEVICES)
def test_activations_to_16_bits_are_exact_to(
    device: str, values, activation: str, dtype: torch.dtype
) -> None:
    x = values()
    got = epilogues.activated(x, activation, device, dtype)
    worst = ulps(got, truth(x, activation))
    bound = BRIEF_BOUND if BOUND[activation] else 0.5
    # What overflows is x itself, exactly.
    worst = torch.where(x >= torch.finfo(dtype).max, 0, worst)
    assert bool((worst <= bound).all()), (worst.max(), x.flatten()[worst.argmax()])
    large = x >= torch.finfo(dtype).max
    assert same_bits(got[large][None], x[large].to(dtype)[None])
    if device == "cuda":
        assert same_bits(got, epilogues.activated(x, activation, to=dtype))


@rungs.each_rung_and(cases.HALVES)
def test_every_rung_has_the_bits_of_every_value(
    device: str, algo: str | None, dtype: torch.dtype
) -> None:
    x = every_16_bit_value()
    for activation in BOUND:
        got = epilogues.activated(x, activation, device, dtype, 16, algo=algo)
        assert same_bits(got, epilogues.activated(x, activation, to=dtype)), activation


@pytest.mark.cuda
@pytest.mark.tensor_cores
@pytest.mark.parametrize("dtype", cases.HALVES)
@pytest.mark.parametrize("algo", [*rungs.NEED_TMA, "hopper"])
def test_every_rung_of_aligned_operands_has_them(algo: str, dtype: torch.dtype) -> None:
    x = every_16_bit_value()
    for activation in BOUND:
        got = epilogues.activated(x, activation, "cuda", dtype, 64, algo=algo)
        assert same_bits(got, epilogues.activated(x, activation, to=dtype)), activation


@pytest.mark.cuda
@pytest.mark.parametrize("activation", BOUND)
def test_activations_of_float64_have_the_same_bits(activation: str) -> None:
    x = million_values().double() * (1 + torch.rand(1000, 1000, dtype=torch.float64))
    got = epilogues.activated(x, activation, "cuda")
    assert same_bits(got, epilogues.activated(x, activation))


@pytest.mark.parametrize("activation", BOUND)
def test_activations_of_float64_are_exact_to(activation: str) -> None:
    spans = [(torch.rand(1, 300, dtype=torch.float64) * 2 - 1) * s for s in (760, 39, 8, 1, 1e-5)]
    x = torch.cat(spans)
    got = epilogues.activated(x, activation)
    worst = 0.0
    with mpmath.workdps(40):
        for value, result in zip(x.flatten().tolist(), got.flatten().tolist(), strict=True):
            v = mpmath.mpf(value)
            cubic = 2 * mpmath.sqrt(2 / mpmath.pi) * (v + mpmath.mpf("0.044715") * v**3)
            right = {
                "relu": lambda v=v: max(v, 0),
                "gelu": lambda v=v: v * mpmath.erfc(-v / mpmath.sqrt(2)) / 2,
                "gelu_tanh": lambda v=v, w=cubic: v / (1 + mpmath.exp(-w)),
                "silu": lambda v=v: v / (1 + mpmath.exp(-v)),
            }[activation]()
            ulp = max(np.spacing(abs(float(right))), 2.0**-1074)
            worst = max(worst, float(abs(mpmath.mpf(result) - right) / ulp))
    assert worst <= BOUND[activation]


@pytest.mark.parametrize("device", cases.DEVICES)
def test_activations_of_special_values(device: str) -> None:
    x = torch.tensor([[math.inf, -math.inf, math.nan, 0.0, -0.0, 1e38, -1e38, 1e-45, -1e-45]])
    for activation in ("gelu", "gelu_tanh", "silu"):
        got = epilogues.activated(x, activation, device)
        right = torch.tensor([[math.inf, -0.0, math.nan, 0.0, -0.0, 1e38, -0.0]])
        assert same_bits(got[:, :7], right), activation
        assert bool((got[:, 7:].abs() <= 1e-45).all()), activation  # half of the smallest number
    relu = torch.tensor([[math.inf, 0.0, math.nan, 0.0, -0.0, 1e38, 0.0, 1e-45, 0.0]])
    assert same_bits(epilogues.activated(x, "relu", device), relu)
    for dtype in cases.HALVES:
        assert same_bits(epilogues.activated(x, "relu", device, dtype), relu.to(dtype))
        zeros = torch.tensor([[0.0, -0.0]])
        for activation in ("gelu", "gelu_tanh", "silu"):
            got = epilogues.activated(x, activation, device, dtype)
            assert same_bits(got, torch.cat([right, zeros], 1).to(dtype)), (activation, dtype)


# ---- the tests' own -----------------------------------------------------------------------------


def test_the_reference_sees_another_order() -> None:
    """An order of its own, or a step that is not fused, changes bits."""
    total, bias, input = (torch.randn(50, 60) for _ in range(3))
    right = epilogues.pre_activation_of(total, bias=bias[0], input=input, alpha=0.7, beta=-1.9)
    shift = bias[0].expand(50, 60).contiguous()
    alpha, beta = torch.tensor(0.7), torch.tensor(-1.9)
    reordered = epilogues.scaled(0.7, total, epilogues.scaled(-1.9, input, shift))
    inside = epilogues.scaled(-1.9, input, alpha * total + shift)
    outside = beta * input + epilogues.scaled(0.7, total, shift)
    for wrong in (reordered, inside, outside):
        assert not same_bits(wrong, right)
        assert torch.allclose(wrong, right, atol=1e-5)


def test_the_reference_rounds_once() -> None:
    for dtype in (np.float32, np.float64):
        x = [np.random.default_rng(i).standard_normal(2000).astype(dtype) for i in range(3)]
        x[2] *= 1e-8  # where double rounding would be seen
        with mpmath.workprec(200):
            exact = [
                mpmath.mpf(float(a)) * mpmath.mpf(float(b)) + mpmath.mpf(float(c))
                for a, b, c in zip(*x, strict=True)
            ]
            for got, value in zip(epilogues.fma(*x), exact, strict=True):
                half = mpmath.mpf(float(np.spacing(np.abs(got)))) / 2
                assert abs(mpmath.mpf(float(got)) - value) <= half


def test_the_bound_sees_a_cancellation() -> None:
    x = torch.linspace(-8, -2, 100)
    for theirs in (
        torch.nn.functional.gelu,
        lambda x: x * 0.5 * (1 + (x * 0.7071067811865475).erf()),
    ):
        assert float(ulps(theirs(x), truth(x, "gelu")).max()) > BOUND["gelu"]
    assert not bool((ulps(torch.full((3,), math.nan), torch.ones(3).double()) <= 4).any())


# ---- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("device", cases.DEVICES)
def test_errors_come_before_any_work(device: str) -> None:
    a, b = cases.pair(4, 5, 6, torch.float32, device)
    i, j = cases.pair(4, 5, 6, torch.int32, device)
    out = torch.full((4, 5), 7.0, device=device)
    memory = torch.full((60,), 7.0, device=device)

    def refused(text: str, *ab: torch.Tensor, **asked) -> None:
        asked = {"out": out, **asked}
        kept = asked["out"].clone() if asked["out"] is not None else None
        with pytest.raises((RuntimeError, NotImplementedError), match=text):
            operator(*ab, **asked)
        assert kept is None or torch.equal(asked["out"], kept)

    refused("must match the existing size", a, b, bias=torch.zeros(4, device=device))
    refused(
        "must match the existing size", a, b, bias=torch.zeros(5, device=device), bias_along="m"
    )
    refused("must match the existing size", a, b, input=torch.zeros(3, 5, device=device))
    refused("number of sizes provided", a, b, input=torch.zeros(2, 4, 5, device=device))
    refused("unknown bias_along 'k'", a, b, bias=torch.zeros(5, device=device), bias_along="k")
    refused("unknown activation 'tanh'", a, b, activation="tanh")
    refused("argument alpha must not be a complex number", a, b, alpha=1j)
    refused("argument beta must not be a complex number", a, b, input=out, beta=1j)
    refused("argument alpha must not be a floating point", i, j, alpha=1.5, out=None)
    refused("activation 'relu' is for real", i, j, activation="relu", out=None)
    for name, shape in (("bias", (5,)), ("input", (4, 5))):
        wrong = torch.zeros(*shape, dtype=torch.float64, device=device)
        refused(f"Expected {name} to have dtype float, but got double", a, b, **{name: wrong})
    refused("Expected out tensor to have dtype", a, b, out=out.double())
    refused("does not match the required output shape", a, b, out=out.new_empty(0))
    refused("does not match the required output shape", a, b, out=out.t())
    refused("unsupported operation", a, b, out=out.new_zeros(5).expand(4, 5))
    whole = memory[:24].view(4, 6)
    overlapping = memory[10:30].view(4, 5)
    refused("single memory location", whole, b, out=overlapping)
    refused("single memory location", a, memory[:30].view(6, 5), out=overlapping)
    refused("single memory location", a, b, bias=memory[12:17], out=overlapping)
    refused("single memory location", a, b, input=memory[11:31].view(4, 5), out=overlapping)
    refused("single memory location", a, b, input=overlapping.view(5, 4).t(), out=overlapping)
    if device == "cuda":
        refused("same device|two devices", a, b, bias=torch.zeros(5))
        refused("same device|two devices", a, b, input=torch.zeros(4, 5))


@pytest.mark.parametrize("device", cases.DEVICES)
def test_overlap_that_is_hard_to_tell(device: str) -> None:
    """Views with gaps between their rows, of one memory: C is computed aside."""
    for shift in (0, 3):
        memory = cases.fill(12, 40, torch.float32, device)
        a, input = memory[:, :9], memory[:, 20 : 20 + 9]
        b = cases.fill(9, 9, torch.float32, device)
        out = memory[:, 20 + shift : 29 + shift] if shift else memory[:, 4:13]
        right, _ = expected(sums(a, b), torch.float32, input=input.clone())
        operator(a, b, input=input, out=out)
        assert same_bits(out, right)
