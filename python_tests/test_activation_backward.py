"""The way back through an epilogue in one pass: gradient * activation'(before) and the bias'
gradient, whose bits are those of the stated order (ops/core/gradient_pass.h)."""

from __future__ import annotations

import math
from collections.abc import Callable

import cases
import mpmath
import numpy as np
import pytest
import tiled_mm
import torch
from cases import COMPLEX, FLOATS, HALVES, REALS, each
from epilogues import (
    ACTIVATIONS,
    every_16_bit_value,
    fma,
    million_values,
    same_bits,
    sum_dtype,
    ulps,
)
from test_compile import opcheck
from torch.autograd import gradcheck, gradgradcheck

backward = torch.ops.tiled.activation_backward
BENT = ("gelu", "gelu_tanh", "silu")


def slope(x: torch.Tensor, activation: str) -> torch.Tensor:
    """The library's own activation' of a matrix, unrounded: 1 times it, as the sum of a row alone;
    which has lost the sign of zero."""
    row = x.reshape(1, -1)
    passed, sums = backward(torch.ones_like(row), row, activation, bias_dtype=sum_dtype(x.dtype))
    return torch.copysign(sums, passed[0]).reshape(x.shape).cpu()


def in_groups(rows: np.ndarray, add: Callable) -> np.ndarray:
    """add(sum, k) for k = 0 to 31, of every 32 rows at once; a last group may be shorter."""
    count = -(-len(rows) // 32)
    sums = np.zeros((count, *rows.shape[1:]), rows.dtype)
    for k in range(32):
        some = slice(0, len(rows[k::32]))
        sums[some] = add(sums[some], slice(k, None, 32))
    return sums


def expected(
    gradient: torch.Tensor, before: torch.Tensor | None, activation: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """(what the activation passes on, rounded; its column sums, unrounded), written again."""
    wide = sum_dtype(gradient.dtype)
    g = gradient.cpu().to(wide).reshape(-1, gradient.shape[-1])
    if activation in BENT:
        factor = slope(before.cpu().reshape(g.shape), activation)
        passed = g * factor
        g, s = g.numpy(), factor.numpy()
        sums = in_groups(g, lambda total, k: fma(g[k], s[k], total))
    else:
        passed = g
        if activation == "relu":
            passed = torch.where(before.cpu().reshape(g.shape) <= 0, 0, g)
        p = passed.numpy()
        sums = in_groups(p, lambda total, k: total + p[k])
    while len(sums) > 1:
        sums = in_groups(sums, lambda total, k, rows=sums: total + rows[k])
    if len(sums) == 0:
        sums = np.zeros((1, gradient.shape[-1]), sums.dtype)
    return passed.reshape(gradient.shape).to(gradient.dtype), torch.from_numpy(sums[0])


def check(gradient, before, activation: str, bias_dtype=None) -> None:
    bias_dtype = bias_dtype or gradient.dtype
    passed, sums = backward(gradient, before, activation, bias_dtype=bias_dtype)
    right, right_sums = expected(gradient, before, activation)
    what = (activation, tuple(gradient.shape), bias_dtype)
    assert same_bits(sums, right_sums.to(bias_dtype)), what
    if activation == "none":
        assert passed.shape == (0,)
    else:
        assert same_bits(passed, right), what
        assert passed.is_contiguous()
        assert same_bits(backward(gradient, before, activation)[0], passed)
        assert backward(gradient, before, activation)[1].shape == (0,)


def pair(rows: int, columns: int, dtype: torch.dtype, device: str) -> tuple:
    return tuple(cases.fill(rows, columns, dtype, device) for _ in range(2))


# ---- bits ----------------------------------------------------------------------------------------


@each("activation", ACTIVATIONS)
@each("dtype", REALS)
def test_bits(device: str, dtype: torch.dtype, activation: str) -> None:
    # A further sum of 1024 is a level more, and one of 32768 a launch more.
    sizes = ((1, 1), (1, 70), (31, 5), (32, 8), (33, 3), (100, 64), (1025, 7))
    if dtype != torch.float64 or activation not in BENT:
        sizes += ((1100, 130), (32769, 3), (70000, 2))
    for rows, columns in sizes:
        check(*pair(rows, columns, dtype, device), activation)


@each("activation", ("none", "gelu"))
@each("dtype", REALS)
def test_bits_of_every_bias_dtype(device: str, dtype: torch.dtype, activation: str) -> None:
    fp32 = (torch.float32, *HALVES)
    for bias_dtype in fp32 if dtype in fp32 else (dtype,):
        for rows in (20, 40):
            check(*pair(rows, 6, dtype, device), activation, bias_dtype)


@each("activation", ("none", "relu", "silu"))
@each("dtype", REALS)
def test_bits_in_every_layout(device: str, dtype: torch.dtype, activation: str) -> None:
    gradient, before = pair(70, 40, dtype, device)
    for _, g in cases.laid_out(gradient):
        for name, x in cases.laid_out(before):
            if name in ("n", "t_strided", "padded", "slice_t"):
                check(g, x, activation)
    one = gradient[:1, :1]
    for g in (one, gradient[:1], gradient[:, :1]):
        check(g.expand(70, 40), before, activation)
    if dtype != torch.float64:
        cube = gradient.reshape(7, 10, 40)
        for g in (cube, cube.transpose(0, 1), cube[:, ::2], cube[..., 1:], cube[0, 0]):
            check(g, torch.randn_like(g), activation)


@each("dtype", COMPLEX)
def test_complex_columns(device: str, dtype: torch.dtype) -> None:
    for rows in (1, 40, 1025):
        g = cases.fill(rows, 6, dtype, device)
        for x in (g, g.conj(), cases.column_major(g), g.conj()[:, ::2]):
            sums = backward(x, None, None, bias_dtype=dtype)[1]
            real = torch.view_as_real(x.resolve_conj().contiguous()).flatten(1)
            right = expected(real, None, "none")[1]
            assert same_bits(torch.view_as_real(sums).flatten(), right)


@each("dtype", REALS)
def test_columns_do_not_know_each_other(device: str, dtype: torch.dtype) -> None:
    gradient, before = pair(1200, 96, dtype, device)
    whole = backward(gradient, before, "gelu", bias_dtype=dtype)
    for begin, end in ((0, 1), (3, 20), (8, 72), (95, 96)):
        part = backward(gradient[:, begin:end], before[:, begin:end], "gelu", bias_dtype=dtype)
        assert same_bits(part[0], whole[0][:, begin:end])
        assert same_bits(part[1], whole[1][begin:end])
    rows = backward(gradient[100:777], before[100:777], "gelu")[0]
    assert same_bits(rows, whole[0][100:777])


@pytest.mark.cuda
@each("activation", ACTIVATIONS)
@each("dtype", REALS)
def test_large_gradients_have_the_cpus_bits(dtype: torch.dtype, activation: str) -> None:
    """Large enough that a thread takes 16 bytes of a row, and not."""
    for rows, columns in ((8192, 2048), (8191, 2048), (1000, 2047)):
        gradient, before = pair(rows, columns, dtype, "cpu")
        right = backward(gradient, before, activation, bias_dtype=dtype)
        for _ in range(2):
            got = backward(gradient.cuda(), before.cuda(), activation, bias_dtype=dtype)
            assert all(same_bits(x, y) for x, y in zip(got, right, strict=True))


@each("threads", (1, 2, 5))
def test_threads_do_not_change_bits(threads: int) -> None:
    gradient, before = pair(3000, 700, torch.float32, "cpu")
    right = backward(gradient, before, "silu", bias_dtype=torch.float32)
    kept = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        got = backward(gradient, before, "silu", bias_dtype=torch.float32)
    finally:
        torch.set_num_threads(kept)
    assert all(same_bits(x, y) for x, y in zip(got, right, strict=True))


@each("dtype", FLOATS)
def test_of_no_elements(device: str, dtype: torch.dtype) -> None:
    for shape in ((0, 5), (3, 0), (0,), (2, 0, 4)):
        g = torch.zeros(shape, dtype=dtype, device=device)
        sums = backward(g, None, None, bias_dtype=dtype)[1]
        assert same_bits(sums.cpu(), torch.zeros(shape[-1], dtype=dtype))
        if not dtype.is_complex:
            passed, sums = backward(g, g, "gelu", bias_dtype=dtype)
            assert passed.shape == shape
            assert same_bits(sums.cpu(), torch.zeros(shape[-1], dtype=dtype))


@each("dtype", REALS)
def test_special_values(device: str, dtype: torch.dtype) -> None:
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1.5, -3e4, 6e-8])
    before = special.to(dtype).to(device).repeat_interleave(8).reshape(1, 64)
    gradient = special.to(dtype).to(device).repeat(8).reshape(1, 64)
    for activation in ACTIVATIONS:
        check(gradient, before, activation)
        check(gradient.expand(40, 64), before.expand(40, 64), activation)
    negative = torch.full((3, 2), -0.0, dtype=dtype, device=device)
    assert same_bits(
        backward(negative, None, None, bias_dtype=dtype)[1].cpu(), negative[0].cpu() * -1
    )
    x = torch.tensor([[math.inf, -math.inf, math.nan, 0.0, -0.0]], dtype=dtype, device=device)
    for activation in BENT:
        right = torch.tensor([[1, -0.0, math.nan, 0.5, 0.5]], dtype=dtype)
        assert same_bits(backward(torch.ones_like(x), x, activation)[0].cpu(), right)


# ---- how far off ---------------------------------------------------------------------------------

# ulp of the largest of a derivative and the terms it is made of: derived, rounding by rounding, at
# the head of ops/core/activation_gradient.h
BOUND = {"gelu": 12, "gelu_tanh": 16, "silu": 12}


def truth(x: torch.Tensor, activation: str) -> tuple[torch.Tensor, torch.Tensor]:
    """(activation'(x), the largest of it and its terms) in float64, exact to some 1e-13."""
    x = x.double()
    t = x.abs().clamp(max=1e3)
    if activation == "gelu":
        tail = torch.special.erfc(t / math.sqrt(2)) / 2
        line = t * torch.exp(-t * t / 2) / math.sqrt(2 * math.pi)
        terms = torch.maximum(tail, line)
        value = torch.where(x < 0, tail - line, 1 - (tail - line))
    else:
        k = 2 * math.sqrt(2 / math.pi)
        w = t if activation == "silu" else k * (t + 0.044715 * t**3)
        q = t if activation == "silu" else k * (t + 3 * 0.044715 * t**3)
        e = torch.exp(-w)
        p = 1 / (1 + e)
        line = q * e * p * p
        terms = torch.maximum(torch.where(x < 0, e * p, p), line)
        value = torch.where(x < 0, e * p - line, p + line)
    value = torch.where(x.isnan(), x, value)
    return value, torch.where(x.isnan(), x, torch.maximum(value.abs(), terms))


@each("activation", BENT)
@pytest.mark.parametrize("values", [every_16_bit_value, million_values], ids=lambda f: f.__name__)
def test_derivatives_are_exact_to(device: str, values: Callable, activation: str) -> None:
    x = values()
    got = slope(x.to(device), activation)
    worst = ulps(got, *truth(x, activation))
    assert bool((worst <= BOUND[activation]).all()), (worst.max(), x.flatten()[worst.argmax()])
    if device == "cuda":
        assert same_bits(got, slope(x, activation))
        wide = x.double() * (1 + torch.rand(x.shape, dtype=torch.float64))
        assert same_bits(slope(wide.cuda(), activation), slope(wide, activation))


# What ops/core/brief_slope.h promises of gradients of 16 bits, in units of the same largest term,
# and where that is below 2^-25.
BRIEF_BOUND, BRIEF_BOUND_OF_SMALL = 2.0**-16, 2.0**-12


def of_brief_bound(got: torch.Tensor, right: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The error as a multiple of that bound, small ones' with the smallest subnormal of float32."""
    small = BRIEF_BOUND_OF_SMALL * scale + 2.0**-149
    bound = torch.where(scale < 2.0**-25, small, BRIEF_BOUND * scale)
    error = (got.double() - right).abs() / bound
    return torch.where(got.isnan() & right.isnan(), 0, error)


@each("activation", BENT)
@each("dtype", HALVES)
def test_derivatives_of_16_bits_are_exact_to(
    device: str, dtype: torch.dtype, activation: str
) -> None:
    """Of every value that a gradient of 16 bits can meet."""
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    x = bits.view(dtype).view(256, 256)
    got = slope(x.to(device), activation)
    right, scale = truth(x, activation)
    worst = of_brief_bound(got, right, scale)
    assert bool((worst <= 1).all()), (worst.max(), x.flatten()[worst.argmax()])
    if device == "cuda":
        assert same_bits(got, slope(x, activation))
    # A bound of 2^-16 S or 2^-12 S in ulp of S, of which it has 2^11 or 2^8 at most.
    digits = -math.log2(torch.finfo(dtype).eps) + 1
    more = torch.where(scale < 2.0**-25, BRIEF_BOUND_OF_SMALL, BRIEF_BOUND) * 2**digits
    if dtype == torch.float16:  # which has only 0 for small ones
        more = more.clamp(max=BRIEF_BOUND * 2**digits)
    rounded = backward(torch.ones_like(x).to(device), x.to(device), activation)[0].cpu()
    assert bool((ulps(rounded, right, scale) <= 0.5 + more + 1e-6).all())


def test_the_brief_bound_sees_bf16_and_nan() -> None:
    x = torch.linspace(-6, 6, 1000)
    right, scale = truth(x, "silu")
    assert float(of_brief_bound(right.float(), right, scale).max()) < 0.01
    assert float(of_brief_bound(right.bfloat16().float(), right, scale).max()) > 50
    assert not bool((of_brief_bound(right.float() * math.nan, right, scale) <= 1).any())


@each("activation", BENT)
def test_derivatives_of_float64_are_exact_to(activation: str) -> None:
    spans = [(torch.rand(1, 300, dtype=torch.float64) * 2 - 1) * s for s in (760, 39, 8, 1, 1e-5)]
    x = torch.cat(spans)
    got = slope(x, activation)
    worst = 0.0
    with mpmath.workdps(40):
        for value, result in zip(x.flatten().tolist(), got.flatten().tolist(), strict=True):
            t = abs(mpmath.mpf(value))
            if activation == "gelu":
                one = mpmath.erfc(t / mpmath.sqrt(2)) / 2
                other = -t * mpmath.exp(-t * t / 2) / mpmath.sqrt(2 * mpmath.pi)
                right = one + other if value < 0 else 1 - (one + other)
            else:
                k, c = 2 * mpmath.sqrt(2 / mpmath.pi), mpmath.mpf("0.044715")
                w, q = (
                    (t, t)
                    if activation == "silu"
                    else (k * (t + c * t**3), k * t + 3 * k * c * t**3)
                )
                e = mpmath.exp(-w)
                p = 1 / (1 + e)
                one, other = (e * p, -q * e * p * p) if value < 0 else (p, q * e * p * p)
                right = one + other
            scale = max(abs(float(v)) for v in (right, one, other))
            ulp = max(np.spacing(scale), 2.0**-1074)
            worst = max(worst, float(abs(mpmath.mpf(result) - right) / ulp))
    assert worst <= BOUND[activation]


def test_the_bound_sees_a_cancellation() -> None:
    """1 + erf and 1 + tanh lose what is left of the derivative; and NaN is no number."""
    x = torch.linspace(-8, -4, 100)
    erf = 0.5 * (1 + (x / math.sqrt(2)).erf()) + x * (-x * x / 2).exp() / math.sqrt(2 * math.pi)
    assert float(ulps(erf, *truth(x, "gelu")).max()) > BOUND["gelu"]
    nan = torch.full((3,), math.nan)
    assert not bool((ulps(nan, *truth(torch.ones(3), "gelu")) <= BOUND["gelu"]).any())


def test_the_reference_sees_another_order() -> None:
    gradient = torch.randn(1100, 50)
    right = expected(gradient, None, "none")[1]
    one_chain = np.cumsum(gradient.numpy(), axis=0, dtype=np.float32)[-1]
    for wrong in (torch.from_numpy(one_chain), expected(gradient.flip(0), None, "none")[1]):
        assert not same_bits(wrong, right)
        assert torch.allclose(wrong, right, atol=1e-3)
    before = torch.randn_like(gradient)
    passed, sums = expected(gradient, before, "gelu")
    assert not same_bits(expected(passed, None, "none")[1], sums)  # products are not rounded first


# ---- where it is used ----------------------------------------------------------------------------


@each("dtype", (*REALS, torch.complex64))
@each("activation", ("none", "relu", "gelu"))
def test_backwards_use_it(device: str, activation: str, dtype: torch.dtype) -> None:
    """addmm, baddbmm and linear: the bits of the operator, whatever the bias' number of ones."""
    if dtype.is_complex and activation != "none":
        activation = "none"
    for sizes, bias_shape in (
        (((70, 6), (6, 9)), (9,)),
        (((70, 6), (6, 9)), (1, 9)),
        (((3, 20, 6), (3, 6, 9)), (9,)),
        (((3, 20, 6), (3, 6, 9)), (1, 1, 9)),
    ):
        a, b = (torch.randn(*s, dtype=dtype, device=device) for s in sizes)
        bias = torch.randn(bias_shape, dtype=dtype, device=device).requires_grad_()
        product = tiled_mm.addmm if a.dim() == 2 else tiled_mm.baddbmm
        c = product(bias, a, b, activation=activation)
        before = c if activation == "relu" else product(bias, a, b)
        seed = torch.randn_like(c)
        sums = backward(seed, before.detach(), activation, bias_dtype=dtype)[1]
        (got,) = torch.autograd.grad(c, bias, seed)
        assert same_bits(got, sums.view(bias_shape))
        if len(bias_shape) == 1:
            c = tiled_mm.linear(a, b[..., 0:6, :].mT if a.dim() == 2 else b[0].mT, bias)
            (got,) = torch.autograd.grad(c, bias, seed)
            assert same_bits(got, backward(seed, None, None, bias_dtype=dtype)[1])


def test_a_bias_of_another_dtype_is_rounded_once(device: str) -> None:
    a, b = cases.pair(100, 6, 5, torch.bfloat16, device)
    bias = torch.randn(6, device=device).requires_grad_()
    c = tiled_mm.addmm(bias, a, b)
    seed = torch.randn_like(c)
    (got,) = torch.autograd.grad(c, bias, seed)
    assert same_bits(got, backward(seed, None, None, bias_dtype=torch.float32)[1])
    half = bias.detach().half().requires_grad_()
    (got,) = torch.autograd.grad(tiled_mm.addmm(half, a, b, beta=3), half, seed)
    right = backward(seed, None, None, bias_dtype=torch.float32)[1] * 3
    assert same_bits(got, right.half())


def test_other_shapes_of_a_bias_are_summed_by_torch(device: str) -> None:
    a, b = cases.pair(6, 5, 4, torch.float64, device)
    for shape in ((), (1,), (6, 1), (6, 5), (1, 1)):
        bias = torch.randn(shape, dtype=torch.float64, device=device).requires_grad_()
        theirs = bias.detach().requires_grad_()
        seed = torch.randn(6, 5, dtype=torch.float64, device=device)
        (got,) = torch.autograd.grad(tiled_mm.addmm(bias, a, b, activation="gelu"), bias, seed)
        right = torch.nn.functional.gelu(torch.addmm(theirs, a, b))
        torch.testing.assert_close(got, torch.autograd.grad(right, theirs, seed)[0])


# ---- derivatives, transforms, compilers ----------------------------------------------------------


@each("activation", ACTIVATIONS)
def test_its_own_derivatives(device: str, activation: str) -> None:
    gradient, before = (t.requires_grad_() for t in pair(5, 4, torch.float64, device))

    def both(g: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(
            t for t in backward(g, x, activation, bias_dtype=torch.float64) if t.numel() > 0
        )

    inputs = (gradient, before)
    checks = {"check_batched_grad": True, "fast_mode": True}
    if activation == "none":
        inputs = (gradient, before.detach())
    assert gradcheck(both, inputs, check_forward_ad=True, **checks)
    assert gradgradcheck(both, inputs, check_fwd_over_rev=True, **checks)


@each("activation", BENT)
def test_second_derivatives_are_torchs(device: str, activation: str) -> None:
    """gradgradcheck would let a thousandth pass. Both are some dozen roundings of 2^-53, of terms
    below 100."""
    gradient, before = pair(50, 40, torch.float64, device)
    before.requires_grad_()
    (ours,) = torch.autograd.grad(backward(gradient, before, activation)[0].sum(), before)
    function, _, approximation = activation.partition("_")
    options = {"approximate": approximation} if approximation else {}
    y = getattr(torch.nn.functional, function)(before, **options)
    (first,) = torch.autograd.grad(y, before, gradient, create_graph=True)
    (theirs,) = torch.autograd.grad(first.sum(), before)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=24 * 100 * 2.0**-53)


def test_derivatives_of_complex_sums(device: str) -> None:
    g = cases.fill(5, 4, torch.complex128, device).requires_grad_()
    assert gradcheck(lambda g: backward(g, None, None, bias_dtype=torch.complex128)[1], (g,))


@each("activation", ACTIVATIONS)
def test_vmap_over_every_dimension(device: str, activation: str) -> None:
    """Every entry has the bits of its own call."""
    gradient, before = (torch.randn(3, 40, 6, device=device) for _ in range(2))

    def call(g: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return backward(g, x, activation, bias_dtype=torch.float32)

    for dims in ((0, 0), (1, 1), (2, 2), (-1, 2), (0, None), (None, 0), (None, 1)):
        g, x = (
            t if d is not None else t.select(dims[1] if i == 0 else dims[0], 0)
            for i, (t, d) in enumerate(zip((gradient, before), dims, strict=True))
        )
        got = torch.vmap(call, dims)(g, x)
        for i in range(len(got[1])):
            entry = [t if d is None else t.select(d, i) for t, d in zip((g, x), dims, strict=True)]
            for ours, right in zip(got, call(*entry), strict=True):
                assert same_bits(ours[i], right), dims


@each("activation", ("none", "relu", "gelu"))
@each("dtype", (torch.float32, torch.bfloat16))
def test_opcheck(device: str, activation: str, dtype: torch.dtype) -> None:
    gradient, before = pair(5, 4, dtype, device)
    for bias_dtype in (None, torch.float32):
        asked = {"bias_dtype": bias_dtype}
        opcheck(backward.default, (gradient, before, activation), asked)
        if dtype == torch.float32:
            inputs = [t.clone().requires_grad_() for t in (gradient, before)]
            opcheck(backward.default, (*inputs, activation), asked)
    opcheck(backward.default, (gradient, None, None), {"bias_dtype": torch.float32})


def test_compiled(device: str) -> None:
    def step(g: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        passed, sums = backward(g * 2, x, "silu", bias_dtype=torch.float32)
        return passed + 1, sums * 2

    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (3, 40):
        inputs = pair(rows, 5, torch.float32, device)
        for ours, right in zip(compiled(*inputs), step(*inputs), strict=True):
            assert same_bits(ours, right)


# ---- what is refused -----------------------------------------------------------------------------


def test_errors(device: str) -> None:
    g, x = pair(4, 5, torch.float32, device)
    double = torch.float64

    def refused(text: str, *args, **asked) -> None:
        for where in (device, "meta"):
            moved = [t.to(where) if isinstance(t, torch.Tensor) else t for t in args]
            with pytest.raises((RuntimeError, NotImplementedError), match=text):
                backward(*moved, **asked)

    refused("unknown activation 'tanh'", g, x, "tanh")
    refused("needs the value before it", g, None, "relu")
    refused("Expected before to have dtype float, but got double", g, x.double(), "gelu")
    refused(r"before has shape \[4, 4\]", g, x[:, :4], "gelu")
    refused("one dimension at least", g.sum(), None, None)
    refused("floating-point or complex dtype", g.long(), None, None, bias_dtype=torch.long)
    refused("activation 'gelu' is for real", g.to(torch.complex64), x, "gelu")
    refused("has no dtype Double", g, x, "gelu", bias_dtype=double)
    refused("has no dtype Float", g.double(), None, None, bias_dtype=torch.float32)
    if device == "cuda":
        with pytest.raises(RuntimeError, match=r"same device|two devices"):
            backward(g, x.cpu(), "gelu")
    with pytest.raises(NotImplementedError, match="supported: dense"):
        backward(g.to_sparse(), None, None, bias_dtype=torch.float32)
