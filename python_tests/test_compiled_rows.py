"""tiled_mm.inductor_options: compiled products are eager's, and compiled rows keep their bits."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tiled_mm
import torch
from tiled_mm import _inductor
from torch import Tensor, nn

F = torch.nn.functional


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    tiled_mm.override_counts(reset=True)
    yield
    torch._dynamo.reset()


def computed() -> int:
    return sum(c["tiled"] for c in tiled_mm.override_counts(reset=True).values())


class Products:
    """Every form that Inductor takes apart, or makes another product of."""

    def __init__(self, device: str, dtype: torch.dtype) -> None:
        def random(*sizes: int) -> Tensor:
            return torch.randn(sizes, device=device).to(dtype)

        self.a, self.b, self.v, self.u = random(33, 65), random(65, 9), random(65), random(33)
        self.square, self.row, self.stack = random(65, 65), random(1, 65), random(4, 7, 65)
        self.column, self.thin, self.bias = random(65, 1), random(4, 1, 65), random(9)
        self.small, self.small_b = random(1, 16), random(16, 9)

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(vars(self).values())


def every_form(a, b, v, u, square, row, stack, column, thin, bias, small, small_b) -> list[Tensor]:
    return [
        a @ v,
        v @ v,
        torch.addmv(u, a, v, beta=0.5, alpha=2),
        torch.addmv(u[0], a, v),
        row @ column,
        row @ b,
        a[:, :1] @ b[:1],
        a[:3, :1] @ b[:1, :4],
        thin @ stack.mT,
        stack @ v[:, None],
        thin @ column,
        torch.addmm(bias, row, b),
        torch.addmm(bias[:1], row, column),
        torch.addmm(bias, small, small_b),
        a @ b + bias,
        a @ square + a @ square.T,
        F.linear(v, b.T, bias),
        torch.relu(F.linear(a, b.T, bias)),
        torch.inner(a, v),
        torch.einsum("ij,jk,kl->il", a, square, b),
    ]


PRODUCTS = 23  # of which the einsum has two, and the sum two


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_compiled_products_keep_eagers_bits(dtype: torch.dtype, device: str) -> None:
    operands = Products(device, dtype).tensors()
    compiled = torch.compile(every_form, options=tiled_mm.inductor_options(), dynamic=False)
    with torch.no_grad(), tiled_mm.override():
        expected = every_form(*operands)
        count = computed()
        found = compiled(*operands)
        assert computed() == count > 20
    for i, (x, y) in enumerate(zip(found, expected, strict=True)):
        assert x.dtype == y.dtype and torch.equal(x, y), i


def test_other_programs_are_compiled_as_before() -> None:
    """The table is one for the process: without the options Inductor takes a product apart."""
    tiled_mm.inductor_options()
    a, v = torch.randn(33, 65), torch.randn(65)
    compiled = torch.compile(lambda a, v: a @ v, dynamic=False)
    with tiled_mm.override("cpu"):
        compiled(a, v)
    assert computed() == 0


def test_padded_terms(device: str) -> None:
    """K = 32767 is one chain; padded to 32768 it would be cut."""
    a, b = torch.randn(4, 32767, device=device), torch.randn(32767, 3, device=device)
    compiled = torch.compile(torch.mm, options=tiled_mm.inductor_options(), dynamic=False)
    with tiled_mm.override():
        assert torch.equal(compiled(a, b), a @ b)


def test_the_options_are_torchs() -> None:
    from torch._inductor import config

    options = tiled_mm.inductor_options()
    assert set(options) <= set(config.get_config_copy())
    assert options["shape_padding"] is False and options["emulate_precision_casts"] is True
    choices = options["inductor_choices_class"]
    assert pickle.loads(pickle.dumps(choices)) is choices  # Inductor's caches do this
    options.clear()
    assert tiled_mm.inductor_options()


@pytest.mark.parametrize("terms", [None, 1, 2, 96, 128, 768, 1024, 1500, 4096, 4097, 65536])
def test_a_block_follows_from_the_number_of_terms(terms: int | None) -> None:
    block = _inductor.block_of(terms)
    width = block["R0_BLOCK"]
    assert block["XBLOCK"] == 1 and width & (width - 1) == 0
    assert width >= min(terms or 1, _inductor.WHOLE_ROW)
    assert 1 <= block["num_warps"] <= 16 and block["num_warps"] * 32 <= max(32, width)


def pooled(x: Tensor) -> Tensor:
    return torch.sigmoid(x).mean(1)


def weighed(x: Tensor) -> Tensor:
    return (x[:, :, :1] * torch.sigmoid(x)[:1, :1]).sum(1)


def looked_up(x: Tensor) -> Tensor:
    rows = x[0][(x[:, :, 0] > 0).long()]
    return rows * rows.float().square().mean(-1, keepdim=True).rsqrt()


@pytest.mark.cuda
@pytest.mark.parametrize("program", [pooled, weighed, looked_up])
@pytest.mark.parametrize("columns", [64, 1024])
def test_reductions_do_not_change_with_the_batch(program: Callable, columns: int) -> None:
    """Inductor has no hint of which axis is memory's fastest where there are many sums."""
    x = torch.randn(64, 300, columns, device="cuda")
    torch._dynamo.reset()
    compiled = torch.compile(program, options=tiled_mm.inductor_options(), dynamic=False)
    alone = compiled(x[:1])[0]
    for batch in (2, 7, 16, 64):
        assert torch.equal(compiled(x[:batch])[0], alone), batch


# ---- models --------------------------------------------------------------------------------------


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["llama", "gpt2", "qwen3"])
def test_compiled_models_keep_their_rows(name: str) -> None:
    pytest.importorskip("transformers", reason="needs transformers")
    from bench.compiled import LENGTH, logits_of, make_model

    device = torch.device("cuda")
    call = logits_of(make_model(name, device))
    compiled = torch.compile(call, options=tiled_mm.inductor_options(), dynamic=False)
    tokens = torch.randint(4000, (64, LENGTH), device=device)
    with torch.inference_mode(), tiled_mm.override():
        alone = compiled(tokens[:1])[0]
        for batch in (2, 7, 16, 64):
            assert torch.equal(compiled(tokens[:batch])[0], alone), batch


# ---- epilogues -----------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(24, 40), nn.Linear(40, 9), nn.Linear(9, 9)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.first(x), approximate="tanh")
        return F.silu(self.third(torch.relu(self.second(x))))


def by_tiled(net: Net, x: Tensor) -> Tensor:
    for layer, activation in ((net.first, "gelu_tanh"), (net.second, "relu"), (net.third, "silu")):
        x = tiled_mm.linear(x, layer.weight, layer.bias, activation=activation)
    return x


def test_epilogues(device: str) -> None:
    """One call for a layer and its activation, forward and backward, and no graph break."""
    net, x = Net().to(device), torch.randn(5, 24, device=device)
    options = tiled_mm.inductor_options(epilogues=True)
    assert set(options) - set(tiled_mm.inductor_options()) == {"pre_grad_custom_pass"}
    compiled = torch.compile(net, options=options, fullgraph=True, dynamic=False)
    y, expected = compiled(x), by_tiled(net, x)
    assert torch.equal(y, expected)
    weights = list(net.parameters())
    found = torch.autograd.grad(y.sum(), weights)
    right = torch.autograd.grad(expected.sum(), weights)
    assert all(torch.equal(*pair) for pair in zip(found, right, strict=True))


PRODUCTS = {
    "addmm": (
        lambda b, x, w: F.gelu(torch.addmm(b, x, w)),
        lambda b, x, w: tiled_mm.addmm(b, x, w, activation="gelu"),
    ),
    "addmm of two numbers": (
        lambda b, x, w: F.silu(torch.addmm(b, mat1=x, mat2=w, beta=2, alpha=0.5)),
        lambda b, x, w: tiled_mm.addmm(b, x, w, beta=2, alpha=0.5, activation="silu"),
    ),
    "mm": (
        lambda b, x, w: F.silu(torch.mm(x, w)) + b,
        lambda b, x, w: tiled_mm.linear(x, w.t(), activation="silu") + b,
    ),
    "a matrix behind a batch": (
        lambda b, x, w: F.silu(x.unflatten(0, (1, -1)) @ w)[0] + b,
        lambda b, x, w: tiled_mm.linear(x, w.t(), activation="silu") + b,
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_epilogues_of_products(name: str, device: str) -> None:
    """One call for a product and its activation, rounded once; gradients too."""
    program, alone = PRODUCTS[name]
    sizes = ((9,), (64, 24), (24, 9))
    tensors = [torch.randn(*size, device=device, dtype=torch.bfloat16) for size in sizes]
    for t in tensors:
        t.requires_grad_()
    options = tiled_mm.inductor_options(epilogues=True)
    compiled = torch.compile(program, options=options, fullgraph=True, dynamic=False)
    y, expected = compiled(*tensors), alone(*tensors)
    assert torch.equal(y, expected)
    found = torch.autograd.grad(y.sum(), tensors)
    right = torch.autograd.grad(expected.sum(), tensors)
    assert all(torch.equal(*pair) for pair in zip(found, right, strict=True))


def test_the_pass_leaves_what_it_does_not_know() -> None:
    from tiled_mm._epilogue_pass import EpiloguePass

    def program(x: Tensor, w: Tensor, stack: Tensor) -> Tensor:
        y = F.linear(x, w)
        y = F.relu(y) + y + F.gelu(F.linear(y, w, bias=None)) + torch.tanh(F.linear(y, w))
        y = torch.relu(torch.addmm(y, x, w, out=torch.empty_like(y)))
        return torch.relu(stack @ stack) + torch.relu(y + torch.mm(x, w))

    graph = torch.fx.symbolic_trace(program).graph
    for node in graph.nodes:
        node.meta["example_value"] = torch.empty((2, 2, 2) if node.name == "stack" else (2, 2))
    EpiloguePass()(graph)
    graph.lint()
    targets = [node.target for node in graph.nodes]
    assert targets.count(torch.ops.tiled.linear.default) == 1
    assert targets.count(torch._C._nn.linear) == 2
    for kept in (torch.addmm, torch.mm, operator.matmul):
        assert targets.count(kept) == 1
    assert EpiloguePass().uuid() == EpiloguePass().uuid()


def test_a_graph_of_another_library_is_not_taken_from_a_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Inductor keeps compiled graphs, which call operators by their names; another build may not
    have these. Its caches know the class of choices by its name, in torch 2.11, or by its uuid."""
    known = _inductor._choices()
    library = tmp_path / "libtiled_mm.so"
    library.write_bytes(b"another")
    monkeypatch.setattr(_inductor, "LIBRARY", library)
    other = _inductor._choices.__wrapped__()
    assert other.__qualname__ != known.__qualname__ and other.uuid() != known.uuid()
    assert pickle.loads(pickle.dumps(known)) is known
