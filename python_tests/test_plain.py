"""The products without options (ops/torch/plain.cpp): what meets them meets the operators that have
options."""

import warnings
from collections.abc import Callable

import pytest
import tiled_mm
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

M, N, K, B = 3, 4, 5, 2


def tensors(name: str) -> tuple[Tensor, ...]:
    """Arguments of a product."""
    generator = torch.Generator().manual_seed(len(name))
    shapes = {
        "mm": [(M, K), (K, N)],
        "bmm": [(B, M, K), (B, K, N)],
        "addmm": [(N,), (M, K), (K, N)],
        "baddbmm": [(B, 1, N), (B, M, K), (B, K, N)],
        "linear": [(B, M, K), (N, K), (N,)],
    }[name]
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


NAMES = ("mm", "bmm", "addmm", "baddbmm", "linear")
every = pytest.mark.parametrize("name", NAMES)


def public(name: str) -> Callable:
    return getattr(tiled_mm, name)


def operator(name: str) -> torch._ops.OpOverload:
    return getattr(torch.ops.tiled, name).default


class Seen(TorchDispatchMode):
    """The operators that a dispatch mode meets."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list = []

    def __torch_dispatch__(
        self, func: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        self.operators.append(func)
        return func(*args, **(kwargs or {}))


@every
def test_it_has_the_bits_of_the_operator(name: str) -> None:
    arguments = tensors(name)
    assert torch.equal(public(name)(*arguments), operator(name)(*arguments))


@every
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_a_dispatch_mode_meets_the_operator_alone(name: str, mode: Callable) -> None:
    arguments = tensors(name)
    with mode(), Seen() as seen:
        public(name)(*arguments)
    assert seen.operators == [operator(name)]


@every
def test_the_gradient_is_the_operator_s(name: str) -> None:
    ours, theirs = ([t.requires_grad_() for t in tensors(name)] for _ in range(2))
    c = public(name)(*ours)
    assert c.grad_fn.name() == operator(name)(*theirs).grad_fn.name()
    c.sum().backward()
    operator(name)(*theirs).sum().backward()
    for x, y in zip(ours, theirs, strict=True):
        assert torch.equal(x.grad, y.grad)


@every
def test_vmap_takes_the_rule_of_the_operator(name: str) -> None:
    batches = tuple(torch.stack((t, 2 * t)) for t in tensors(name))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of the loop that stands in for a missing rule
        c = torch.vmap(public(name))(*batches)
    for i in range(2):
        assert torch.equal(c[i], public(name)(*(t[i] for t in batches)))


@every
def test_autocast_casts_what_the_operator_takes(name: str) -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        c, expected = public(name)(*tensors(name)), operator(name)(*tensors(name))
    assert c.dtype == torch.bfloat16
    assert torch.equal(c, expected)


@every
def test_a_compiler_meets_the_operator(name: str) -> None:
    graphs = []

    def keep(graph: torch.fx.GraphModule, inputs: list) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    function, arguments = public(name), tensors(name)
    compiled = torch.compile(lambda *xs: function(*xs), backend=keep, fullgraph=True)
    assert torch.equal(compiled(*arguments), function(*arguments))
    (graph,) = graphs
    called = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    assert called == [getattr(torch.ops.tiled, name)]


@every
def test_an_exported_program_is_made_of_the_operator(name: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, *arguments: Tensor) -> Tensor:
            return public(name)(*arguments)

    program = torch.export.export(Model(), tensors(name)).run_decompositions()
    called = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert called == [operator(name)]


@pytest.mark.parametrize("beta", [1, True, 1.0, 0.5, 2, torch.tensor(1), torch.tensor(0.5)])
def test_beta_and_alpha_count_whatever_they_are(beta: float | Tensor) -> None:
    input, a, b = tensors("addmm")
    number = beta.item() if isinstance(beta, Tensor) else beta
    expected = torch.ops.tiled.addmm(input, a, b, beta=number, alpha=number)
    assert torch.equal(tiled_mm.addmm(input, a, b, beta=beta, alpha=beta), expected)


@every
def test_a_refusal_speaks_of_the_function(name: str) -> None:
    first, *others = tensors(name)
    with pytest.raises(TypeError, match=rf"^{name}\(\): argument 'input' \(position 1\) must be"):
        public(name)("text", *others)
    with pytest.raises(RuntimeError) as error:
        public(name)(first.to(torch.int8), *others)
    with pytest.raises(RuntimeError) as expected:
        operator(name)(first.to(torch.int8), *others)
    assert str(error.value) == str(expected.value)
