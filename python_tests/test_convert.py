"""Models that something has been made of already: convert() takes effect there, or refuses."""

from __future__ import annotations

import copy
import functools
import types

import pytest
import tiled_mm
import torch
from cases import each
from tiled_mm import nn
from torch.nn.utils import parametrizations, parametrize
from torch.utils._python_dispatch import TorchDispatchMode


class Calls(TorchDispatchMode):
    """The operators that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def calls(run, *args, **kwargs) -> list[str]:
    with torch.no_grad(), Calls() as found:
        run(*args, **kwargs)
    return found.names


# ---- torch.compile -------------------------------------------------------------------------------


def by_torch_compile(model: torch.nn.Module, **options):
    return torch.compile(model, **options)


def by_its_own_method(model: torch.nn.Module, **options):
    model.compile(**options)
    return model


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


COMPILED = {
    "by torch.compile": (by_torch_compile, Net),
    "a layer by torch.compile": (by_torch_compile, lambda: torch.nn.Linear(4, 5)),
    "by its own method": (by_its_own_method, Net),
}


@each("name", tuple(COMPILED))
def test_a_compiled_model_is_compiled_anew(name: str) -> None:
    ran: list[str] = []

    def backend(graph: torch.fx.GraphModule, inputs: list):
        def run(*args):
            ran.extend(str(n.target) for n in graph.graph.nodes if n.op == "call_function")
            return graph.forward(*args)

        return run

    def runs_ours(compiled, x: torch.Tensor) -> bool:
        ran.clear()
        compiled(x)
        assert len(ran) == 1
        return "tiled.linear" in ran[0]

    torch._dynamo.reset()
    way, make = COMPILED[name]
    model, x = make(), torch.randn(3, 4)
    compiled = way(model, backend=backend, fullgraph=True)
    assert not runs_ours(compiled, x)
    for _ in range(2):
        tiled_mm.convert(model)
        assert runs_ours(compiled, x)
        tiled_mm.convert(model, back=True)
        assert not runs_ours(compiled, x)


# ---- what torch makes of a layer -----------------------------------------------------------------


class Halved(torch.nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight / 2


def test_parametrized_layers(device: str) -> None:
    layer = parametrizations.weight_norm(torch.nn.Linear(4, 5, device=device))
    parametrize.register_parametrization(layer, "bias", Halved())
    net = torch.nn.Sequential(layer, torch.nn.Linear(5, 5, device=device))
    parametrize.register_parametrization(net[1], "weight", Halved())
    x = torch.randn(3, 4, device=device)
    right, kinds = net(x), [type(m) for m in net]
    tiled_mm.convert(net)
    assert all(isinstance(m, nn.Linear) and parametrize.is_parametrized(m) for m in net)
    assert calls(net, x).count("tiled.linear.default") == 2
    torch.testing.assert_close(net(x), right)
    net(x).sum().backward()
    assert layer.parametrizations.weight.original0.grad is not None
    tiled_mm.convert(net, back=True)
    assert [type(m).__mro__[1:] for m in net] == [kind.__mro__[1:] for kind in kinds]
    assert torch.equal(net(x), right)
    tiled_mm.convert(net)
    parametrize.remove_parametrizations(net[1], "weight")
    assert type(net[1]) is nn.Linear


class Named(torch.nn.Linear):
    """A subclass without a forward of its own can be pickled by its name: it stays what it is."""


def test_subclasses_that_someone_has_written_stay() -> None:
    class Local(torch.nn.Linear): ...

    net = torch.nn.Sequential(Named(3, 4), Local(4, 4), torch.nn.MultiheadAttention(4, 2))
    kinds = [type(m) for m in net.modules()]
    assert [type(m) for m in tiled_mm.convert(net).modules()] == kinds


def test_a_forward_of_its_own_is_refused() -> None:
    """As accelerate gives one to every module, which calls the class' forward of before."""
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 5))
    old = net[1].forward
    net[1].forward = types.MethodType(functools.wraps(old)(lambda self, x: 2 * old(x)), net[1])
    with pytest.raises(ValueError, match="1 has a forward of its own"):
        tiled_mm.convert(net)
    assert type(net[0]) is torch.nn.Linear
    del net[1].forward
    assert type(tiled_mm.convert(net)[1]) is nn.Linear


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_scripted_layers_are_refused() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.jit.script(torch.nn.Linear(4, 5)))
    with pytest.raises(ValueError, match=r"1 is scripted: convert before torch.jit.script"):
        tiled_mm.convert(net)
    assert type(net[0]) is torch.nn.Linear
    other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.jit.script(torch.nn.ReLU()))
    assert type(tiled_mm.convert(other)[0]) is nn.Linear


# ---- torch's own fused kernel for a layer of a transformer ---------------------------------------

FUSED = "aten._transformer_encoder_layer_fwd.default"


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@each("activation", ("relu", "gelu"))
def test_encoder_layers_call_their_layers_in_eval(device: str, activation: str) -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, activation=activation, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2).eval().to(device)
    before = [copy.deepcopy(vars(m)) for m in encoder.modules()]
    x = torch.randn(2, 5, 8, device=device)
    padding = torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]], device=device).bool()
    for keywords in ({}, {"src_key_padding_mask": padding}):
        # By the layers one by one: torch's fused kernel has gelu's tanh form on a GPU.
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            with torch.no_grad():
                right = encoder(x, **keywords)
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
        assert calls(encoder, x, **keywords).count(FUSED) == 2
        tiled_mm.convert(tiled_mm.convert(encoder))
        found = calls(encoder, x, **keywords)
        assert found.count("tiled.linear.default") == 4 and FUSED not in found
        with torch.no_grad():
            got = encoder(x, **keywords)
        kept = ~padding if keywords else slice(None)
        torch.testing.assert_close(got[kept], right[kept], rtol=1e-4, atol=1e-5)
        again = copy.deepcopy(encoder)
        for model in (again, encoder):
            tiled_mm.convert(model, back=True)
            assert calls(model, x, **keywords).count(FUSED) == 2
        assert [vars(m).keys() for m in encoder.modules()] == [v.keys() for v in before]
        assert encoder.layers[0].activation_relu_or_gelu == (1 if activation == "relu" else 2)
    alone = torch.nn.Sequential(layer.eval().to(device))
    tiled_mm.convert(alone)
    assert calls(alone, x).count("tiled.linear.default") == 2
