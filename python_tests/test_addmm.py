"""addmm and baddbmm: activation(beta input + alpha A B), with the bits of mm's sum and the epilogue
that follows it (epilogues.py), torch's broadcasting, and torch's words where it refuses."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable

import cases
import gates
import pytest
import rungs
import tiled_mm
import torch
from cases import each, factors
from epilogues import ACTIVATIONS, expected, same_bits, sum_dtype, sums
from test_errors import message as message_of

each_rung = rungs.each_rung_and(cases.DTYPES, finishes=True)
each_float_rung = rungs.each_rung_and(cases.REALS)
FP32_SUMS = (torch.float32, *cases.HALVES)


def message(call: Callable) -> tuple[type, str]:
    """Without the name of the kind of tensor, which differs with the device."""
    kind, text = message_of(call)
    return kind, re.sub(r"^expand\([\w.]+", "expand(", text)


def batch(*sizes: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    entries, *matrix = sizes
    return torch.stack([cases.fill(*matrix, dtype, device) for _ in range(entries)])


@each_rung
def test_bits_are_the_sums_and_the_epilogues(device: str, algo, dtype: torch.dtype) -> None:
    for m, n, k in ((1, 1, 1), (37, 41, 50), (1, 70, 33), (65, 1, 19), (70, 67, 0), (9, 17, 33000)):
        a, b = cases.pair(m, n, k, dtype, device)
        total = sums(a, b, algo=algo)
        for sizes in ((m, n), (1, n), (m, 1)):
            input = cases.fill(*sizes, dtype, device)
            for asked in ({}, factors(dtype)):
                got = tiled_mm.addmm(input, a, b, algo=algo, **asked)
                assert got.is_contiguous()
                assert same_bits(got, expected(total, dtype, input=input, **asked)[0]), sizes
        row = cases.fill(1, n, dtype, device)[0]
        for input in (row, row[:1], row[0]):
            got = tiled_mm.addmm(input, a, b, algo=algo)
            assert same_bits(got, expected(total, dtype, input=input)[0])


@each("dtype", (torch.float32, torch.bfloat16))
def test_a_bias_has_the_same_bits_however_it_is_given(device: str, dtype: torch.dtype) -> None:
    """As one row, expanded, as a matrix of its own, into out= and as linear's; where products
    underflow to -0 too."""
    m, n, k = 70, 41, 33
    for a, b in (
        cases.pair(m, n, k, dtype, device),
        (torch.full((m, 1), -1e-30, dtype=dtype, device=device), None),
    ):
        if b is None:
            b = torch.full((1, n), 1e-30, dtype=dtype, device=device)
        row = cases.fill(1, n, dtype, device)[0]
        row[::2] = -0.0
        right = tiled_mm.addmm(row.expand(m, n).contiguous(), a, b)
        assert same_bits(tiled_mm.addmm(row, a, b), right)
        assert same_bits(tiled_mm.addmm(row.expand(m, n), a, b), right)
        out = torch.full_like(right, math.nan)
        torch.ops.tiled.addmm.out(row, a, b, out=out)
        assert same_bits(out, right)
        assert same_bits(tiled_mm.linear(a, b.T, row), right)
        column = cases.fill(m, 1, dtype, device)
        column[::2] = -0.0
        right = tiled_mm.addmm(column.expand(m, n).contiguous(), a, b)
        assert same_bits(tiled_mm.addmm(column, a, b), right)
        # A factor that multiplies either leaves it an input.
        right = tiled_mm.addmm(row.expand(m, n).contiguous(), a, b, beta=0.5, alpha=0.3)
        assert same_bits(tiled_mm.addmm(row, a, b, beta=0.5, alpha=0.3), right)


def test_an_out_that_is_the_bias_is_refused_or_computed_aside(device: str) -> None:
    a, b = cases.pair(5, 8, 7, torch.float32, device)
    memory = cases.fill(6, 8, torch.float32, device)
    before = memory.clone()
    row, out = memory[0], memory[:5]
    right = tiled_mm.addmm(before[0], a, b)
    with contextlib.suppress(RuntimeError):
        torch.ops.tiled.addmm.out(row, a, b, out=out)
        assert same_bits(out, right)
    assert same_bits(memory[5], before[5])


@each_float_rung
def test_bits_of_activations_and_of_fp32_results(device: str, algo, dtype: torch.dtype) -> None:
    a, b = cases.pair(45, 83, 60, dtype, device)
    total = sums(a, b, algo=algo)
    inputs = FP32_SUMS if dtype in FP32_SUMS else (dtype,)
    for activation in ACTIVATIONS:
        for out_dtype in {dtype, sum_dtype(dtype)}:
            for input_dtype in inputs:
                input = cases.fill(45, 83, input_dtype, device)
                asked = {"activation": activation, **factors(dtype)}
                got = tiled_mm.addmm(input, a, b, algo=algo, out_dtype=out_dtype, **asked)
                assert same_bits(got, expected(total, out_dtype, input=input, **asked)[0])


@each_rung
def test_entries_rows_and_columns_have_the_bits_of_the_whole(device: str, algo, dtype) -> None:
    a, b = (
        batch(3, 20, 35, dtype=dtype, device=device),
        batch(3, 35, 19, dtype=dtype, device=device),
    )
    input = batch(3, 20, 19, dtype=dtype, device=device)
    asked = factors(dtype) | {"algo": algo}
    if dtype in cases.REALS:
        asked["activation"] = "gelu"
    whole = tiled_mm.baddbmm(input, a, b, **asked)
    assert whole.is_contiguous()
    for i in range(3):
        entry = tiled_mm.addmm(input[i], a[i], b[i], **asked)
        assert same_bits(whole[i], entry)
        rows, columns = slice(3, 8), slice(2, 11)
        assert same_bits(tiled_mm.addmm(input[i, rows], a[i, rows], b[i], **asked), entry[rows])
        got = tiled_mm.addmm(input[i][:, columns], a[i], b[i][:, columns], **asked)
        assert same_bits(got, entry[:, columns])
    for narrow in (input[0], input[:, :1], input[:1, :, :1], input[0, 0], input[0, 0, 0]):
        got = tiled_mm.baddbmm(narrow, a, b, **asked)
        for i in range(3):
            entry = narrow[i % narrow.shape[0]] if narrow.dim() == 3 else narrow
            assert same_bits(got[i], tiled_mm.addmm(entry, a[i], b[i], **asked))


@rungs.each_run(cases.FLOATS)
def test_errors_stay_within_the_gates(run: rungs.Run) -> None:
    """A product with a row added is one of a longer K, with a column of ones; and with a matrix
    added, one with an identity. What is added is not rounded as operands are."""
    m, n, k = run.size(70, 90, 300)
    a, b = run.pair(m, n, k)
    asked = {"algo": run.algo, "precision": run.precision}
    gates.check_random(tiled_mm.addmm(a[0, 0], a, b, beta=0, **asked), a, b, run.arithmetic)
    row = run.fill(1, n)
    longer = gates.with_sum(a, b, torch.ones_like(a[:, :1]), row, run.arithmetic)
    for input in (row[0], row):
        got = tiled_mm.addmm(input, a, b, **asked)
        gates.check(got, *longer, run.arithmetic)
        gates.check_random(got, *longer, run.arithmetic)
    input = run.fill(m, n)
    got = tiled_mm.addmm(input, a, b, alpha=-0.5, beta=2, **asked)
    identity = torch.eye(n, dtype=run.dtype, device=run.device)
    longer = gates.with_sum(-0.5 * a, b, 2 * input, identity, run.arithmetic)
    gates.check(got, *longer, run.arithmetic)


def test_input_is_not_read_where_beta_is_0(device: str) -> None:
    for dtype in cases.DTYPES:
        a, b = cases.pair(20, 30, 40, dtype, device)
        for shape in ((20, 30), (30,), ()):
            hole = torch.full(shape, cases.poison(dtype), dtype=dtype, device=device)
            got = tiled_mm.addmm(hole, a, b, beta=0)
            assert same_bits(got, tiled_mm.mm(a, b))
            assert same_bits(tiled_mm.baddbmm(hole, a[None], b[None], beta=0)[0], got)


@each("m,n,k", cases.EMPTY_SHAPES)
def test_empty(device: str, m: int, n: int, k: int) -> None:
    a, b = cases.pair(m, n, k, torch.float32, device)
    input = cases.fill(m, n, torch.float32, device)
    assert same_bits(tiled_mm.addmm(input, a, b, beta=2), torch.addmm(input, a, b, beta=2))
    got = tiled_mm.baddbmm(input, a.expand(3, m, k), b.expand(3, k, n))
    assert same_bits(got, torch.baddbmm(input, a.expand(3, m, k), b.expand(3, k, n)))
    none = tiled_mm.baddbmm(input, a.expand(0, m, k), b.expand(0, k, n))
    assert none.shape == (0, m, n)


# ---- out= ----------------------------------------------------------------------------------------


@each_rung
def test_out_may_be_the_input(device: str, algo: str | None, dtype: torch.dtype) -> None:
    a, b = cases.pair(18, 40, 100, dtype, device)
    for name, out in cases.laid_out(cases.fill(18, 40, dtype, device)):
        asked = factors(dtype) | {"algo": algo}
        right = tiled_mm.addmm(out.clone(), a, b, **asked)
        version = out._version
        assert tiled_mm.addmm(out, a, b, **asked, out=out) is out
        assert same_bits(out, right), name
        assert out._version == version + 1
    out = batch(2, 18, 40, dtype=dtype, device=device)
    right = tiled_mm.baddbmm(out.clone(), a.expand(2, 18, 100), b.expand(2, 100, 40), algo=algo)
    tiled_mm.baddbmm(out, a.expand(2, 18, 100), b.expand(2, 100, 40), algo=algo, out=out)
    assert same_bits(out, right)


@rungs.each_rung_and(cases.HALVES)
def test_16_bit_products_are_added_to_fp32(device: str, algo, dtype: torch.dtype) -> None:
    """As gradients are: each sum is rounded once, to float32."""
    a, b = cases.pair(30, 44, 96, dtype, device)
    total = torch.zeros(30, 44, device=device)
    right = torch.zeros(30, 44)
    for k in range(0, 96, 32):
        part = a[:, k : k + 32], b[k : k + 32]
        assert tiled_mm.addmm_(total, *part, algo=algo) is total
        right, _ = expected(sums(*part, algo=algo), torch.float32, input=right)
        assert same_bits(total, right)


def test_an_out_of_no_elements_is_resized(device: str) -> None:
    a, b = cases.pair(5, 6, 7, torch.float32, device)
    input = cases.fill(5, 6, torch.float32, device)
    out = torch.empty(0, device=device)
    assert same_bits(tiled_mm.addmm(input, a, b, out=out), tiled_mm.addmm(input, a, b))
    out = torch.empty(0, device=device)
    got = tiled_mm.baddbmm(input, a[None], b[None], out=out)
    assert got is out and same_bits(out[0], tiled_mm.addmm(input, a, b))


@each("device", (*cases.DEVICES, "meta"))
def test_a_wrong_out_is_not_written(device: str) -> None:
    a, b, input = (torch.ones(*s, device=device) for s in ((2, 3), (3, 5), (5,)))

    def refused(out: torch.Tensor, pattern: str) -> None:
        for call in (
            lambda: tiled_mm.addmm(input, a, b, out=out),
            lambda: tiled_mm.baddbmm(input, a[None], b[None], out=out[None]),
        ):
            with pytest.raises(RuntimeError, match=pattern):
                call()
        assert device == "meta" or bool((out == 7).all())

    refused(torch.full((2, 6), 7.0, device=device), "does not match the required output shape")
    refused(torch.full((2, 5), 7.0, device=device).double(), "to have dtype float, but got double")
    refused(torch.full((2, 1), 7.0, device=device).expand(2, 5), "single memory location")
    refused(torch.full((2, 5), 7.0, device=device).requires_grad_(), "automatic differentiation")


@each("which", ("input", "a", "b", "out"))
@each("name", ("addmm", "baddbmm"))
def test_gradients_with_out_in_torchs_words(device: str, name: str, which: str) -> None:
    lead = () if name == "addmm" else (1,)
    x = {
        "input": torch.ones(5, device=device),
        "a": torch.ones(*lead, 2, 3, device=device),
        "b": torch.ones(*lead, 3, 5, device=device),
        "out": torch.full((*lead, 2, 5), 7.0, device=device),
    }
    x[which].requires_grad_()
    *operands, out = x.values()
    ours = message(lambda: getattr(tiled_mm, name)(*operands, out=out))
    assert ours == message(lambda: getattr(torch, name)(*operands, out=out))
    assert bool((out == 7).all())


def test_lazy_views(device: str) -> None:
    a, b = cases.pair(5, 6, 7, torch.complex64, device)
    input = cases.fill(5, 6, torch.complex64, device)
    right = tiled_mm.addmm(input.conj().resolve_conj(), a.conj().resolve_conj(), b)
    assert same_bits(tiled_mm.addmm(input.conj(), a.conj(), b), right)
    for make in (torch.conj, torch._neg_view):
        out = make(torch.zeros_like(input))
        tiled_mm.addmm(input.conj(), a.conj(), b, out=out)
        assert same_bits(out.resolve_conj().resolve_neg(), right)


# ---- errors --------------------------------------------------------------------------------------

F, D, H, B = torch.float32, torch.float64, torch.float16, torch.bfloat16
WRONG_ADDMM = {
    "inner sizes": (((2, 5), F), ((2, 3), F), ((4, 5), F)),
    "a vector": (((2, 5), F), ((3,), F), ((3, 5), F)),
    "by a vector": (((2, 5), F), ((2, 3), F), ((3,), F)),
    "a batch": (((2, 5), F), ((1, 2, 3), F), ((3, 5), F)),
    "an input that does not expand": (((4,), F), ((2, 3), F), ((3, 5), F)),
    "an input of three dimensions": (((1, 2, 5), F), ((2, 3), F), ((3, 5), F)),
    "an input and inner sizes": (((4,), F), ((2, 3), F), ((4, 5), F)),
    "a double input": (((2, 5), D), ((2, 3), F), ((3, 5), F)),
    "a double a": (((2, 5), F), ((2, 3), D), ((3, 5), F)),
    "a double b": (((2, 5), F), ((2, 3), F), ((3, 5), D)),
    "a double input and inner sizes": (((2, 5), D), ((2, 3), F), ((4, 5), F)),
    "a double vector": (((2, 5), F), ((3,), D), ((3, 5), F)),
    "an integer input": (((2, 5), torch.int32), ((2, 3), H), ((3, 5), H)),
}
WRONG_BADDBMM = {
    "inner sizes": (((2, 2, 4), F), ((2, 2, 3), F), ((2, 5, 4), F)),
    "batches": (((2, 2, 4), F), ((2, 2, 3), F), ((3, 3, 4), F)),
    "an input that does not expand": (((3, 4), F), ((2, 2, 3), F), ((2, 3, 4), F)),
    "an input of four dimensions": (((1, 2, 2, 4), F), ((2, 2, 3), F), ((2, 3, 4), F)),
    "a double input": (((2, 2, 4), D), ((2, 2, 3), F), ((2, 3, 4), F)),
    "a double a": (((2, 2, 4), F), ((2, 2, 3), D), ((2, 3, 4), F)),
    "a double b": (((2, 2, 4), F), ((2, 2, 3), F), ((2, 3, 4), D)),
}


def tensors(case: tuple, device: str) -> list[torch.Tensor]:
    return [torch.empty(size, dtype=dtype, device=device) for size, dtype in case]


@each("beta", (1, 0))
@each("name", tuple(WRONG_ADDMM))
@each("device", (*cases.DEVICES, "meta"))
def test_wrong_operands_in_torch_addmms_words(device: str, name: str, beta: int) -> None:
    case = WRONG_ADDMM[name]
    right = message(lambda: torch.addmm(*tensors(case, "cpu"), beta=beta))
    assert message(lambda: tiled_mm.addmm(*tensors(case, device), beta=beta)) == right
    out = torch.full((2, 5), 7.0, device=device)
    assert message(lambda: tiled_mm.addmm(*tensors(case, device), beta=beta, out=out)) == right
    assert device == "meta" or bool((out == 7).all())


@each("name", tuple(WRONG_BADDBMM))
@each("device", (*cases.DEVICES, "meta"))
def test_wrong_operands_in_torch_baddbmms_words(device: str, name: str) -> None:
    case = WRONG_BADDBMM[name]
    right = message(lambda: torch.baddbmm(*tensors(case, "cpu")))
    assert message(lambda: tiled_mm.baddbmm(*tensors(case, device))) == right


@each("device", (*cases.DEVICES, "meta"))
def test_what_else_is_refused(device: str) -> None:
    a, b, input = (torch.ones(*s, device=device) for s in ((2, 3), (3, 5), (5,)))
    i, j, k = (t.int() for t in (input, a, b))
    for text, call in {
        "unknown activation 'tanh'": lambda: tiled_mm.addmm(input, a, b, activation="tanh"),
        "activation 'relu' is for real": lambda: tiled_mm.addmm(i, j, k, activation="relu"),
        "argument alpha must not be a complex": lambda: tiled_mm.addmm(input, a, b, alpha=1j),
        "argument beta must not be a complex": lambda: tiled_mm.addmm(input, a, b, beta=1j),
        "argument alpha must not be a floating": lambda: tiled_mm.addmm(i, j, k, alpha=1.5),
        "batch1 must be a 3D tensor": lambda: tiled_mm.baddbmm(input, a, b[None]),
        "'nonsense' is unknown": lambda: tiled_mm.addmm(input, a, b, algo="nonsense"),
        "out_dtype must be the same": lambda: tiled_mm.addmm(input, a, b, out_dtype=D),
    }.items():
        with pytest.raises(RuntimeError, match=text):
            call()
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        tiled_mm.addmm(input.bool(), a.bool(), b.bool())


@each("which", ("alpha", "beta"))
@each("device", (*cases.DEVICES, "meta"))
def test_factors_beyond_the_sums_type_in_torchs_words(device: str, which: str) -> None:
    """The sums of 16-bit matrices are fp32, so that only what is beyond that is refused."""
    for dtype, number, fits in (
        (F, 1e300, False),
        (F, float("inf"), True),
        (H, 1e6, True),
        (B, 1e300, False),
        (D, 1e300, True),
        (torch.complex64, 1e300j, False),
        (torch.int8, -128, True),
        (torch.int8, 300, False),
        (torch.uint8, -3, True),
        (torch.int32, 1 << 40, False),
    ):
        ours, theirs = (torch.ones(2, 2, dtype=dtype, device=d) for d in (device, "cpu"))
        asked = {which: number}
        if fits:
            got = tiled_mm.addmm(ours, ours, ours, **asked)
            right = torch.addmm(theirs, theirs, theirs, **asked)
            assert device == "meta" or same_bits(got.cpu(), right), (dtype, number)
            continue
        words = message(lambda t=theirs, a=asked: torch.addmm(t, t, t, **a))
        assert message(lambda t=ours, a=asked: tiled_mm.addmm(t, t, t, **a)) == words
        assert message(lambda t=ours[None], a=asked: tiled_mm.baddbmm(t, t, t, **a)) == words


@pytest.mark.filterwarnings("ignore:Sparse")
def test_other_layouts_are_refused(device: str) -> None:
    dense = torch.ones(2, 2, device=device)
    sparse = dense.to_sparse()
    for operands in ((sparse, dense, dense), (dense, sparse, dense), (dense, dense, sparse)):
        with pytest.raises(NotImplementedError, match="supported: dense"):
            tiled_mm.addmm(*operands)
        with pytest.raises(NotImplementedError, match="supported: dense"):
            tiled_mm.addmm(*operands, out=torch.ones(2, 2, device=device))


@pytest.mark.cuda
def test_devices_must_agree() -> None:
    operands = torch.ones(2, 5), torch.ones(2, 3), torch.ones(3, 5)
    for i in range(3):
        mixed = [t.cuda() if j == i else t for j, t in enumerate(operands)]
        with pytest.raises(RuntimeError, match="same device"):
            tiled_mm.addmm(*mixed)
        with pytest.raises(RuntimeError, match="same device"):
            tiled_mm.baddbmm(mixed[0], mixed[1][None], mixed[2][None])
