"""The Python functions in the place of torch's: names of parameters, out=, numbers, jagged tensors,
and what arguments of other types are told."""

from __future__ import annotations

import inspect
import itertools

import numpy as np
import pytest
import tiled_mm
import torch
from cases import each
from epilogues import same_bits

F = torch.nn.functional

# The sizes of each function's tensors, by the names that torch's function gives them.
TENSORS = {
    "mm": {"input": (3, 4), "mat2": (4, 5)},
    "bmm": {"input": (2, 3, 4), "mat2": (2, 4, 5)},
    "addmm": {"input": (5,), "mat1": (3, 4), "mat2": (4, 5)},
    "baddbmm": {"input": (5,), "batch1": (2, 3, 4), "batch2": (2, 4, 5)},
    "linear": {"input": (2, 3, 4), "weight": (5, 4), "bias": (5,)},
}


def torchs(name: str):
    return F.linear if name == "linear" else getattr(torch, name)


def tensors(name: str, device: str = "cpu") -> dict[str, torch.Tensor]:
    """Small whole numbers, whose sums are exact."""
    return {
        key: torch.randint(-4, 5, size, device=device).float()
        for key, size in TENSORS[name].items()
    }


@each("name", tuple(TENSORS))
def test_the_names_of_torchs_parameters(device: str, name: str) -> None:
    given = tensors(name, device)
    assert torch.equal(getattr(tiled_mm, name)(**given), torchs(name)(**given))


@each("name", ("mm", "bmm", "addmm", "baddbmm"))
def test_out_dtype_stands_where_torch_has_it(device: str, name: str) -> None:
    given = [t.bfloat16() for t in tensors(name, device).values()]
    y = getattr(tiled_mm, name)(*given, torch.float32)
    assert y.dtype == torch.float32
    assert same_bits(y, getattr(tiled_mm, name)(*given, out_dtype=torch.float32))


# ---- out= of bmm ---------------------------------------------------------------------------------


def test_bmm_into_out(device: str) -> None:
    a, b = tensors("bmm", device).values()
    right = tiled_mm.bmm(a, b)
    strided = torch.full((2, 5, 3), torch.nan, device=device).mT
    for out in (torch.empty(2, 3, 5, device=device), torch.empty(0, device=device), strided):
        version = out._version
        assert tiled_mm.bmm(a, b, out=out) is out
        assert same_bits(out, right) and out._version > version
    square = torch.randn(2, 4, 4, device=device)
    right = tiled_mm.bmm(square, square)
    assert same_bits(tiled_mm.bmm(square, square, out=square), right)
    out = torch.empty(2, 3, 5, device=device, dtype=torch.complex64)
    complex_a, complex_b = a * 1j, b + 1j
    right = tiled_mm.bmm(complex_a, complex_b)
    tiled_mm.bmm(complex_a, complex_b, out=out.conj())
    assert torch.equal(out, right.conj())
    tiled_mm.bmm(complex_a.conj(), complex_b, out=out)
    assert same_bits(out, tiled_mm.bmm(complex_a.conj().resolve_conj(), complex_b))
    sums = torch.empty(2, 3, 5, device=device, dtype=torch.int32)
    byte_a, byte_b = a.char(), b.char()
    tiled_mm.bmm(byte_a, byte_b, out_dtype=torch.int32, out=sums)
    assert torch.equal(sums, tiled_mm.bmm(byte_a, byte_b, out_dtype=torch.int32))
    meta = torch.empty(0, device="meta")
    assert tiled_mm.bmm(a.to("meta"), b.to("meta"), out=meta).shape == (2, 3, 5)


def test_what_bmms_out_refuses(device: str) -> None:
    a, b = tensors("bmm", device).values()
    out = torch.zeros(2, 3, 5, device=device)
    for wrong, text in (
        (torch.zeros(2, 5, 3, device=device), "does not match the required output shape"),
        (out.double(), "Expected out tensor to have dtype float, but got double instead"),
        (out[:, :, :1].expand(2, 3, 5), "more than one element of the written-to tensor"),
    ):
        with pytest.raises(RuntimeError, match=text):
            tiled_mm.bmm(a, b, out=wrong)
    for mm, x, y in ((tiled_mm.bmm, a[0], b), (tiled_mm.mm, a, b[0])):
        with pytest.raises(RuntimeError, match="must be a"):
            mm(x, y, out=out)
    with pytest.raises(RuntimeError, match=r"bmm\(\): functions with out=.* automatic diff"):
        tiled_mm.bmm(a.requires_grad_(), b, out=out)
    assert not out.any()


# ---- alpha and beta ------------------------------------------------------------------------------

NUMBERS = {
    "float32": np.float32(2),
    "float16": np.float16(2),
    "float64": np.float64(2),
    "int32": np.int32(2),
    "bool": np.bool_(True),
    "a tensor": torch.tensor(2.0),
    "a tensor of integers": torch.tensor(2),
    "a tensor of booleans": torch.tensor(True),
}


@each("number", tuple(NUMBERS))
@each("name", ("addmm", "baddbmm"))
def test_numbers_that_torch_takes(device: str, name: str, number: str) -> None:
    given, value = tensors(name, device), NUMBERS[number]
    for keywords in ({"alpha": value}, {"beta": value}, {"alpha": value, "beta": value}):
        right = torchs(name)(**given, **keywords)
        assert torch.equal(getattr(tiled_mm, name)(**given, **keywords), right)
        out = torch.empty_like(right)
        assert getattr(tiled_mm, name)(**given, **keywords, out=out) is out
        assert torch.equal(out, right)
    if name == "addmm":
        matrix = torch.zeros(3, 5, device=device)
        right = torch.addmm(matrix, given["mat1"], given["mat2"], alpha=value)
        tiled_mm.addmm_(matrix, given["mat1"], given["mat2"], alpha=value)
        assert torch.equal(matrix, right)


def test_an_error_beside_a_number_is_told_alone() -> None:
    for name in ("addmm", "baddbmm"):
        given = tensors(name)
        last = list(given)[-1]
        wrong = given | {last: given[last].mT}
        with pytest.raises(RuntimeError) as refused:
            getattr(tiled_mm, name)(**wrong, alpha=np.float32(2))
        assert refused.value.__context__ is None
        with pytest.raises(RuntimeError) as plain:
            getattr(tiled_mm, name)(**wrong, alpha=2)
        assert str(refused.value) == str(plain.value)


def test_numbers_that_torch_refuses() -> None:
    given, leaf = tensors("addmm"), torch.tensor(2.0, requires_grad=True)
    for number in (leaf, torch.ones(1), np.array(2.0), np.str_("2"), "2", None):
        with pytest.raises(TypeError, match=r"addmm\(\)"):
            torch.addmm(**given, alpha=number)
        with pytest.raises(TypeError, match=r"addmm\(\): argument 'alpha' must be Number, not "):
            tiled_mm.addmm(**given, alpha=number)


# ---- arguments of other types --------------------------------------------------------------------


@each("name", tuple(TENSORS))
def test_what_is_no_tensor_is_refused_in_torchs_words(name: str) -> None:
    for key, bad in itertools.product(TENSORS[name], (np.ones((3, 4)), [[1.0]], None, 3.0, "x")):
        if key == "bias" and bad is None:
            continue
        texts = []
        for function in (getattr(tiled_mm, name), torchs(name)):
            with pytest.raises(TypeError) as refused:
                function(*(tensors(name) | {key: bad}).values())
            texts.append(str(refused.value))
        assert texts[0] == texts[1]
        assert f"argument '{key}'" in texts[0] and "\n" not in texts[0]


OTHER_TYPES = [
    ("mm", "algo", 3, "'algo' must be str, not int"),
    ("bmm", "precision", 1.5, "'precision' must be str, not float"),
    ("linear", "activation", F.silu, "'activation' must be str, not function"),
    ("addmm", "activation", ["relu"], "'activation' must be str, not list"),
    ("mm", "out_dtype", "float32", "'out_dtype' (position 3) must be torch.dtype, not str"),
    ("mm", "out", [1], "'out' must be Tensor, not list"),
    ("linear", "out", 3, "'out' must be Tensor, not int"),
    ("baddbmm", "out", np.ones(3), "'out' must be Tensor, not numpy.ndarray"),
]


def test_options_of_other_types() -> None:
    for name, keyword, bad, text in OTHER_TYPES:
        with pytest.raises(TypeError) as refused:
            getattr(tiled_mm, name)(**tensors(name), **{keyword: bad})
        assert str(refused.value) == f"{name}(): argument {text}"
        assert refused.value.__suppress_context__  # one error, and not two


def test_other_functions_refuse_types_too() -> None:
    a = torch.ones(3, 3)
    rate = {"bytes": 1, "flops": 1}
    for call, text in (
        (lambda: tiled_mm.plan(a, [1]), "plan(): argument 'b' (position 2) must be Tensor"),
        (lambda: tiled_mm.explain(a, a, device=3), "explain(): argument 'device' must be str"),
        (lambda: tiled_mm.algos(a, a, precision=1), "algos(): argument 'precision' must be str"),
        (lambda: tiled_mm.fp16x3_recomputed(a, 1), "fp16x3_recomputed(): argument 'b'"),
        (lambda: tiled_mm.occupancy(3, threads=32), "occupancy(): argument 'device'"),
        (lambda: tiled_mm.occupancy("h200", threads="x"), "occupancy(): argument 'threads'"),
        (lambda: tiled_mm.roofline("h200", peak=3, **rate), "roofline(): argument 'peak'"),
        (lambda: tiled_mm.nn.Linear(3, 3)([1.0]), "linear(): argument 'input' (position 1)"),
        (lambda: tiled_mm.addmm_([1.0], a, a), "addmm(): argument 'input' (position 1)"),
        (lambda: tiled_mm.override_counts("x"), "override_counts(): argument 'reset'"),
    ):
        with pytest.raises(TypeError) as refused:
            call()
        assert str(refused.value).startswith(text) and "\n" not in str(refused.value)


def test_every_annotation_is_known() -> None:
    """An argument whose kind nobody knows would be told in the dispatcher's words."""
    from tiled_mm._arguments import _KINDS

    for name in (*TENSORS, "addmm_", "algos", "explain", "plan", "occupancy", "roofline"):
        for parameter in inspect.signature(getattr(tiled_mm, name)).parameters.values():
            assert parameter.annotation.removesuffix(" | None") in _KINDS, (name, parameter)


def test_compiled_functions_are_one_graph(device: str) -> None:
    given = {name: tensors(name, device) for name in TENSORS}

    def all_of_them() -> list[torch.Tensor]:
        return [getattr(tiled_mm, name)(**given[name]) for name in TENSORS]

    compiled = torch.compile(all_of_them, backend="eager", fullgraph=True)
    assert all(map(torch.equal, compiled(), all_of_them()))


# ---- jagged tensors ------------------------------------------------------------------------------


def jagged(device: str, *sizes: tuple[int, ...]):
    entries = [torch.randint(-4, 5, size, device=device).float() for size in sizes]
    return torch.nested.nested_tensor(entries, layout=torch.jagged, requires_grad=True)


@each("sizes", (((2, 4), (3, 4), (1, 4)), ((2, 3, 4), (0, 3, 4))))
@each("activation", (None, "relu", "silu"))
def test_linear_of_jagged_tensors(device: str, sizes: tuple, activation: str | None) -> None:
    x = jagged(device, *sizes)
    weight, bias = torch.randn(5, 4, device=device), torch.randn(5, device=device)
    leaves = (x, weight.requires_grad_(), bias.requires_grad_())
    y = tiled_mm.linear(*leaves, activation=activation)
    values = [t.detach().requires_grad_() for t in (x.values(), weight, bias)]
    right = tiled_mm.linear(*values, activation=activation)
    assert y.layout == torch.jagged and same_bits(y.values(), right)
    assert y.shape == F.linear(*leaves).shape  # of the same ragged size
    ours = torch.autograd.grad(y.values().square().sum(), leaves)
    theirs = torch.autograd.grad(right.square().sum(), values)
    assert same_bits(ours[0].values(), theirs[0])
    assert same_bits(ours[1], theirs[1]) and same_bits(ours[2], theirs[2])
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert same_bits(tiled_mm.linear(*leaves, activation=activation).values(), right)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert tiled_mm.linear(*leaves, activation=activation).dtype == torch.bfloat16


def test_models_keep_jagged_tensors(device: str) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    tiled_mm.convert(net.to(device))
    x = jagged(device, (2, 4), (3, 4))
    right = net(x.values().detach())
    assert same_bits(net(x).values(), right)
    assert tiled_mm.nn.MLP(4, 8, gated=True, device=device)(x).shape == x.shape
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    assert same_bits(compiled(x).values(), right)
    for layer in (net[0], net[2]):
        layer.accumulate_main_grad = True
        layer.weight.main_grad = torch.zeros_like(layer.weight)
    net(x).values().sum().backward()
    rows = x.values().detach()
    grads = torch.autograd.grad(
        tiled_mm.linear(net[0](rows).relu(), net[2].weight).sum(), net[2].weight
    )
    assert same_bits(net[2].weight.main_grad, grads[0])


def test_jagged_tensors_that_are_refused(device: str) -> None:
    weight = torch.ones(5, 4, device=device)
    with pytest.raises(ValueError, match="contiguous jagged layout"):
        tiled_mm.linear(jagged(device, (2, 3, 4), (5, 3, 4)).transpose(1, 2), weight)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        tiled_mm.linear(jagged(device, (2, 3), (5, 3)), weight)
    with pytest.raises(NotImplementedError, match="as the input of linear"):
        tiled_mm.linear(weight, jagged(device, (5, 4)))
