"""linear: torch.nn.functional.linear's shapes and words, with the bits of mm whatever x's shape."""

from __future__ import annotations

import cases
import gates
import pytest
import rungs
import tiled_mm
import torch
from cases import each
from epilogues import ACTIVATIONS, expected, same_bits, sum_dtype, sums
from test_addmm import FP32_SUMS, batch, message

F = torch.nn.functional


@rungs.each_rung_and(cases.DTYPES, finishes=True)
def test_bits_are_the_sums_and_the_epilogues(device: str, algo, dtype: torch.dtype) -> None:
    for m, n, k in ((1, 1, 1), (37, 41, 50), (1, 70, 33), (65, 1, 19), (70, 67, 0)):
        x, weight = cases.fill(m, k, dtype, device), cases.fill(n, k, dtype, device)
        total = sums(x, weight.t(), algo=algo)
        bias = cases.fill(1, n, dtype, device)[0]
        assert same_bits(tiled_mm.linear(x, weight, algo=algo), expected(total, dtype)[0])
        right, _ = expected(total, dtype, bias=bias)
        assert same_bits(tiled_mm.linear(x, weight, bias, algo=algo), right)
        every_second = bias.repeat_interleave(2)[::2]
        assert same_bits(tiled_mm.linear(x, weight, every_second, algo=algo), right)
        for layout in ("t", "strided", "pitched"):
            place = dict(cases.laid_out(x)).get(layout)
            other = dict(cases.laid_out(weight)).get(layout)
            if place is not None:
                assert same_bits(tiled_mm.linear(place, other, bias, algo=algo), right), layout


@rungs.each_rung_and(cases.REALS)
def test_bits_of_activations_and_of_fp32_results(device: str, algo, dtype: torch.dtype) -> None:
    x, weight = cases.fill(45, 60, dtype, device), cases.fill(83, 60, dtype, device)
    total = sums(x, weight.t(), algo=algo)
    for activation in ACTIVATIONS:
        for out_dtype in {dtype, sum_dtype(dtype)}:
            for of_bias in FP32_SUMS if dtype in FP32_SUMS else (dtype,):
                bias = cases.fill(1, 83, of_bias, device)[0]
                asked = {"algo": algo, "out_dtype": out_dtype, "activation": activation}
                got = tiled_mm.linear(x, weight, bias, **asked)
                right, _ = expected(total, out_dtype, activation, bias=bias)
                assert got.is_contiguous() and same_bits(got, right)


LEADING = ((), (4,), (2, 3), (2, 1, 3), (0,), (0, 2), (2, 0, 3))


@each("dtype", cases.DTYPES)
@each("lead", LEADING)
def test_a_row_has_its_bits_whatever_stands_before_it(device: str, lead: tuple, dtype) -> None:
    weight, bias = cases.fill(9, 17, dtype, device), cases.fill(1, 9, dtype, device)[0]
    rows = cases.fill(24, 17, dtype, device)
    alone = [tiled_mm.linear(row, weight, bias) for row in rows]
    count = torch.Size(lead).numel()
    x = rows[:count].reshape(*lead, 17)
    got = tiled_mm.linear(x, weight, bias)
    assert got.shape == (*lead, 9) and got.dtype == dtype and got.is_contiguous()
    for row, right in zip(got.reshape(-1, 9), alone, strict=False):
        assert same_bits(row, right)
    if x.dim() > 2:
        turned = x.transpose(0, 1).contiguous().transpose(0, 1)
        assert same_bits(tiled_mm.linear(turned, weight, bias), got)


def test_slices_of_weight(device: str) -> None:
    for dtype in cases.REALS:
        x, weight = cases.fill(20, 60, dtype, device), cases.fill(50, 60, dtype, device)
        bias = cases.fill(1, 50, dtype, device)[0]
        whole = tiled_mm.linear(x, weight, bias, activation="silu")
        part = tiled_mm.linear(x[3:9], weight[5:14], bias[5:14], activation="silu")
        assert same_bits(part, whole[3:9, 5:14])


@each("dtype", (torch.float32, torch.complex64))
@each("k,n", ((5, 3), (0, 3), (5, 0), (0, 0)))
@each("lead", LEADING)
def test_empty_as_torchs(device: str, lead: tuple, k: int, n: int, dtype) -> None:
    x = torch.randint(-3, 4, (*lead, k), device=device).to(dtype)
    weight, bias = (torch.randint(-3, 4, s, device=device).to(dtype) for s in ((n, k), (n,)))
    for operands in ((x, weight), (x, weight, bias)):
        assert same_bits(tiled_mm.linear(*operands), F.linear(*operands))


@each("activation", ACTIVATIONS)
def test_gradients_of_no_rows_and_of_no_terms(device: str, activation: str) -> None:
    for m, k in ((0, 3), (4, 0), (0, 0)):
        x, weight = torch.ones(m, k, device=device), torch.ones(5, k, device=device)
        inputs = [t.requires_grad_() for t in (x, weight, torch.ones(5, device=device))]
        y = tiled_mm.linear(*inputs, activation=activation)
        grads = torch.autograd.grad(y.sum(), inputs)
        assert [g.shape for g in grads] == [t.shape for t in inputs]
        assert not grads[1].any() and bool(grads[2].any()) == (m > 0)


def test_a_weight_of_one_dimension(device: str) -> None:
    weight = torch.randint(-3, 4, (5,), device=device).double().requires_grad_()
    for lead in LEADING:
        x = torch.randint(-3, 4, (*lead, 5), device=device).double().requires_grad_()
        ours, theirs = tiled_mm.linear(x, weight), F.linear(x, weight)
        assert torch.equal(ours, theirs)
        pair = [torch.autograd.grad(y.sum(), (x, weight)) for y in (ours, theirs)]
        assert all(torch.equal(one, other) for one, other in zip(*pair, strict=True))
        with torch.no_grad():
            assert torch.equal(tiled_mm.linear(x, weight), theirs)


BIASES = {  # x's leading dimensions -> biases that torch takes
    (4,): ((1,), (), (4, 7), (1, 7), (4, 1)),
    (2, 3): ((1,), (3, 7), (2, 3, 7), (2, 3, 1)),
    (): ((1,), (), (1, 7)),
}


@each("lead", tuple(BIASES))
def test_tangents_of_biases_that_broadcast(device: str, lead: tuple) -> None:
    """Torch's own linear refuses some of these in forward mode."""
    x = torch.randint(-5, 6, (*lead, 6), device=device).double()
    weight = torch.randint(-5, 6, (7, 6), device=device).double()
    for sizes in BIASES[lead]:
        bias, tangent = (torch.randint(-5, 6, sizes, device=device).double() for _ in range(2))
        y, moved = torch.func.jvp(lambda b: tiled_mm.linear(x, weight, b), (bias,), (tangent,))
        assert torch.equal(y, F.linear(x, weight, bias)), sizes
        assert torch.equal(moved, (torch.zeros_like(y) + tangent).view_as(y)), sizes


@each("device", (*cases.DEVICES, "meta"))
def test_a_vectors_bias_of_two_dimensions_is_its_row_alone(device: str) -> None:
    x, weight = torch.ones(3, device=device), torch.ones(5, 3, device=device)
    assert tiled_mm.linear(x, weight, torch.ones(1, 5, device=device)).shape == (5,)
    for sizes in ((1, 1), (2, 5), (1, 1, 1), (2, 3, 5)):
        bias = torch.ones(sizes, device=device)
        right = message(lambda b=bias: F.linear(torch.ones(3), torch.ones(5, 3), b.to("cpu")))
        if device != "meta":
            assert message(lambda b=bias: tiled_mm.linear(x, weight, b)) == right


@each("device", (*cases.DEVICES, "meta"))
def test_a_bias_of_another_dtype_is_named(device: str) -> None:
    x, weight = torch.ones(2, 3, device=device), torch.ones(5, 3, device=device)
    for dtype in (torch.int64, torch.float64):
        bias = torch.ones(5, device=device, dtype=dtype)
        with pytest.raises(RuntimeError, match="bias") as raised:
            tiled_mm.linear(x, weight, bias)
        first, second = str(raised.value).splitlines()[:2]
        name = {torch.int64: "Long", torch.float64: "Double"}[dtype]
        assert first == f"self and mat2 must have the same dtype, but got {name} and Float"
        assert second == "self is linear's bias, mat2 its weight"


@each("lead", tuple(BIASES))
def test_biases_that_broadcast(device: str, lead: tuple) -> None:
    x = torch.randint(-5, 6, (*lead, 6), device=device).double().requires_grad_()
    weight = torch.randint(-5, 6, (7, 6), device=device).double().requires_grad_()
    for sizes in BIASES[lead]:
        bias = torch.randint(-5, 6, sizes, device=device).double().requires_grad_()
        ours, theirs = (f(x, weight, bias) for f in (tiled_mm.linear, F.linear))
        assert torch.equal(ours, theirs), sizes
        seed = torch.randint(-5, 6, ours.shape, device=device).double()
        pair = [torch.autograd.grad(y, (x, weight, bias), seed) for y in (ours, theirs)]
        assert all(torch.equal(one, other) for one, other in zip(*pair, strict=True)), sizes


@rungs.each_run(cases.FLOATS)
def test_errors_stay_within_the_gates(run: rungs.Run) -> None:
    """With a bias it is a product of a longer K, with a column of ones. The bias is not rounded as
    operands are."""
    m, n, k = run.size(70, 90, 300)
    x, weight = run.fill(m, k), run.fill(n, k)
    bias = run.fill(1, n)
    asked = {"algo": run.algo, "precision": run.precision}
    got = tiled_mm.linear(x, weight, **asked)
    gates.check_random(got, x, weight.t(), run.arithmetic)
    gates.check(got, x, weight.t(), run.arithmetic)
    ones = torch.ones_like(x[:, :1])
    longer = gates.with_sum(x, weight.t(), ones, bias, run.arithmetic)
    got = tiled_mm.linear(x, weight, bias[0], **asked)
    gates.check_random(got, *longer, run.arithmetic)
    gates.check(got, *longer, run.arithmetic)


# ---- out= ----------------------------------------------------------------------------------------


@rungs.each_rung_and(cases.DTYPES, finishes=True)
def test_out(device: str, algo: str | None, dtype: torch.dtype) -> None:
    x, weight = cases.fill(18, 50, dtype, device), cases.fill(40, 50, dtype, device)
    bias = cases.fill(1, 40, dtype, device)[0]
    for of_bias in (None, bias, bias.expand(18, 40)):
        right = tiled_mm.linear(x, weight, of_bias, algo=algo)
        for name, out in cases.laid_out(cases.hole(18, 40, dtype, device)):
            version = out._version
            assert tiled_mm.linear(x, weight, of_bias, algo=algo, out=out) is out
            assert same_bits(out, right), name
            assert out._version == version + 1


@each("dtype", cases.REALS)
def test_out_with_an_activation_and_of_fp32(device: str, dtype: torch.dtype) -> None:
    x, weight = cases.fill(6, 20, dtype, device), cases.fill(9, 20, dtype, device)
    bias = cases.fill(1, 9, dtype, device)[0]
    for activation in ACTIVATIONS:
        asked = {"activation": activation, "out_dtype": sum_dtype(dtype)}
        out = cases.hole(6, 9, sum_dtype(dtype), device)
        tiled_mm.linear(x, weight, bias, **asked, out=out)
        assert same_bits(out, tiled_mm.linear(x, weight, bias, **asked))


def test_out_of_any_leading_dimensions(device: str) -> None:
    """Also where its strides make no matrix of it, and of a weight of one dimension."""
    weight, bias = torch.randn(9, 17, device=device), torch.randn(9, device=device)
    for lead in LEADING:
        x = torch.randn(*lead, 17, device=device)
        right = tiled_mm.linear(x, weight, bias, activation="gelu")
        outs = [torch.full_like(right, torch.nan)]
        wide = torch.full((*lead, 18), torch.nan, device=device)
        outs += [wide[..., ::2], wide[..., 4:13]]
        if len(lead) > 1:
            outs.append(
                torch.full_like(right, torch.nan).transpose(0, 1).contiguous().transpose(0, 1)
            )
        for out in outs:
            assert tiled_mm.linear(x, weight, bias, activation="gelu", out=out) is out
            assert same_bits(out, right)
        assert wide[..., 13::2].isnan().all()
        of_vector = torch.full(lead, torch.nan, device=device)
        tiled_mm.linear(x, weight[0], out=of_vector)
        assert same_bits(of_vector, tiled_mm.linear(x, weight[0]))


def test_an_out_of_no_elements_is_resized(device: str) -> None:
    x, weight = torch.randn(2, 3, 17, device=device), torch.randn(9, 17, device=device)
    right = tiled_mm.linear(x, weight)
    out = torch.empty(0, device=device)
    assert tiled_mm.linear(x, weight, out=out) is out and same_bits(out, right)
    rows = x.flatten(0, 1)
    out = rows[:0]  # whose storage is an input's
    assert same_bits(tiled_mm.linear(rows, weight, out=out).view(2, 3, 9), right)


@each("device", (*cases.DEVICES, "meta"))
def test_a_wrong_out_is_not_written(device: str) -> None:
    x, weight = torch.ones(2, 3, 4, device=device), torch.ones(5, 4, device=device)

    def refused(out: torch.Tensor, pattern: str) -> None:
        with pytest.raises(RuntimeError, match=pattern):
            tiled_mm.linear(x, weight, out=out)
        assert device == "meta" or bool((out == 7).all())

    refused(torch.full((2, 3, 6), 7.0, device=device), "does not match the required output shape")
    refused(torch.full((6, 5), 7.0, device=device), "does not match the required output shape")
    refused(torch.full((2, 3, 5), 7.0, device=device).double(), "to have dtype float, but got")
    refused(torch.full((2, 3, 1), 7.0, device=device).expand(2, 3, 5), "single memory location")
    if device != "meta":
        memory = torch.full((40,), 7.0, device=device)
        refused(memory.as_strided((2, 3, 5), (6, 2, 1)), "single memory location")


def test_an_out_over_what_is_read(device: str) -> None:
    """Refused where it is certain, computed aside where it cannot be told."""
    memory = torch.randn(200, device=device)
    x, weight = memory[:80].view(4, 20), torch.randn(20, 20, device=device)
    bias = memory[100:120]
    before = memory.clone()
    for out in (x, memory[40:120].view(4, 20), memory[90:170].view(4, 20)):
        with pytest.raises(RuntimeError, match="single memory location"):
            tiled_mm.linear(x, weight, bias, out=out)
    assert same_bits(memory, before)
    right = tiled_mm.linear(memory[::2][:80].view(4, 20), weight)
    out = memory[1::2][:80].view(4, 20)
    assert same_bits(tiled_mm.linear(memory[::2][:80].view(4, 20), weight, out=out), right)


@each("which", ("x", "weight", "bias", "out"))
def test_gradients_with_out_in_torchs_words(device: str, which: str) -> None:
    x = {
        "x": torch.ones(2, 3, device=device),
        "weight": torch.ones(5, 3, device=device),
        "bias": torch.ones(5, device=device),
        "out": torch.full((2, 5), 7.0, device=device),
    }
    x[which].requires_grad_()
    *operands, out = x.values()
    ours = message(lambda: tiled_mm.linear(*operands, out=out))
    assert ours == message(lambda: torch._C._nn.linear(*operands, out=out))
    assert bool((out == 7).all())


def test_lazy_views_with_out(device: str) -> None:
    x, weight = (cases.fill(m, 7, torch.complex64, device) for m in (5, 6))
    bias = cases.fill(1, 6, torch.complex64, device)[0]
    plain = [t.conj().resolve_conj() for t in (x, weight, bias)]
    for make in (torch.conj, torch._neg_view):
        out = make(torch.zeros(5, 6, dtype=torch.complex64, device=device))
        tiled_mm.linear(x.conj(), weight.conj(), bias.conj(), out=out)
        assert same_bits(out.resolve_conj().resolve_neg(), tiled_mm.linear(*plain))
        tiled_mm.linear(x.conj(), weight.conj(), out=out)
        assert same_bits(out.resolve_conj().resolve_neg(), tiled_mm.linear(*plain[:2]))


def test_autocast_leaves_out_alone(device: str) -> None:
    x, weight = torch.randn(2, 3, device=device), torch.randn(5, 3, device=device)
    out, right = torch.empty(2, 5, device=device), tiled_mm.linear(x, weight)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert same_bits(tiled_mm.linear(x, weight, out=out), right)


def test_sparse_operands_with_out_are_refused(device: str) -> None:
    dense = torch.ones(2, 2, device=device)
    with pytest.raises(NotImplementedError, match="not implemented for"):
        tiled_mm.linear(dense.to_sparse(), dense, out=torch.ones(2, 2, device=device))


# ---- errors --------------------------------------------------------------------------------------

S, D = torch.float32, torch.float64
WRONG = {
    "inner sizes": (((2, 3), S), ((5, 4), S)),
    "inner sizes and a bias": (((2, 3), S), ((5, 4), S), ((5,), S)),
    "inner sizes of a batch": (((6, 2, 3), S), ((5, 4), S)),
    "inner sizes of a batch and a bias": (((6, 2, 3), S), ((5, 4), S), ((5,), S)),
    "inner sizes of no rows": (((0, 2, 7, 3), S), ((5, 4), S)),
    "inner sizes of a row": (((3,), S), ((5, 4), S)),
    "inner sizes of a row and a bias": (((3,), S), ((5, 4), S), ((5,), S)),
    "a scalar": (((), S), ((5, 4), S)),
    "by a scalar": (((3,), S), ((), S)),
    "a weight of three dimensions": (((2, 3), S), ((1, 5, 3), S)),
    "that and a bias": (((2, 3), S), ((1, 5, 3), S), ((5,), S)),
    "a vector's inner size": (((2, 3), S), ((4,), S)),
    "two vectors' inner sizes": (((3,), S), ((4,), S)),
    "a vector and a bias": (((2, 3), S), ((3,), S), ((1,), S)),
    "a bias that does not expand": (((2, 3), S), ((5, 3), S), ((4,), S)),
    "that of a batch": (((6, 2, 3), S), ((5, 3), S), ((4,), S)),
    "that of a row": (((3,), S), ((5, 3), S), ((4,), S)),
    "a bias of three dimensions": (((2, 3), S), ((5, 3), S), ((1, 2, 5), S)),
    "a bias larger than a row": (((3,), S), ((5, 3), S), ((2, 5), S)),
    "a bias larger than a batch": (((6, 2, 3), S), ((5, 3), S), ((1, 6, 2, 5), S)),
    "a double weight": (((2, 3), S), ((5, 3), D)),
    "a double bias": (((2, 3), S), ((5, 3), S), ((5,), D)),
    "a double weight, and a bias": (((2, 3), S), ((5, 3), D), ((5,), S)),
    "a double weight of a batch": (((6, 2, 3), S), ((5, 3), D)),
    "a double bias of a batch": (((6, 2, 3), S), ((5, 3), S), ((5,), D)),
    "a double weight of a row": (((3,), S), ((5, 3), D)),
    "a double x and a bias": (((2, 3), D), ((5, 3), S), ((5,), S)),
}


@each("name", tuple(WRONG))
@each("device", (*cases.DEVICES, "meta"))
def test_wrong_operands_in_torchs_words(device: str, name: str) -> None:
    def operands(device: str) -> list[torch.Tensor]:
        return [torch.empty(size, dtype=dtype, device=device) for size, dtype in WRONG[name]]

    right = message(lambda: F.linear(*operands("cpu")))
    assert message(lambda: tiled_mm.linear(*operands(device))) == right
    grad = [t.requires_grad_() for t in operands(device)]
    assert message(lambda: tiled_mm.linear(*grad)) == right


@each("device", (*cases.DEVICES, "meta"))
def test_what_else_is_refused(device: str) -> None:
    x, weight = torch.ones(2, 3, device=device), torch.ones(5, 3, device=device)
    with pytest.raises(RuntimeError, match=r"unknown activation 'tanh'.*gelu_tanh, silu"):
        tiled_mm.linear(x, weight, activation="tanh")
    with pytest.raises(RuntimeError, match="activation 'silu' is for real"):
        tiled_mm.linear(x.int(), weight.int(), activation="silu")
    with pytest.raises(RuntimeError, match="'nonsense' is unknown"):
        tiled_mm.linear(x, weight, algo="nonsense")
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        tiled_mm.linear(x.bool(), weight.bool())


@pytest.mark.cuda
def test_devices_must_agree() -> None:
    operands = torch.ones(2, 3), torch.ones(5, 3), torch.ones(5)
    for i in range(3):
        mixed = [t.cuda() if j == i else t for j, t in enumerate(operands)]
        with pytest.raises(RuntimeError, match="same device"):
            tiled_mm.linear(*mixed)


def test_batches_of_entries(device: str) -> None:
    """What a model's batch is: the entry alone has the entry's bits."""
    for dtype in cases.HALVES:
        x = batch(7, 5, 130, dtype=dtype, device=device)
        weight, bias = cases.fill(70, 130, dtype, device), cases.fill(1, 70, dtype, device)[0]
        whole = tiled_mm.linear(x, weight, bias, activation="gelu")
        for i in range(7):
            alone = tiled_mm.linear(x[i : i + 1], weight, bias, activation="gelu")
            assert same_bits(alone[0], whole[i])
