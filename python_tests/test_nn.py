"""tiled_mm.nn: torch's modules on the library's products, models converted to them and back, and
gradients that are added to a float32 tensor beside the weight."""

from __future__ import annotations

import copy
import io
import pickle

import cases
import pytest
import tiled_mm
import torch
from cases import each
from epilogues import same_bits
from tiled_mm import nn

TORCHS = {
    None: lambda x: x,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}


@each("bias", (True, False))
@each("activation", tuple(TORCHS))
def test_linear_is_torchs_with_an_activation(device: str, activation, bias: bool) -> None:
    torch.manual_seed(3)
    ours = nn.Linear(7, 5, bias, device, torch.float64, activation=activation)
    torch.manual_seed(3)
    theirs = torch.nn.Linear(7, 5, bias, device, torch.float64)
    assert isinstance(ours, torch.nn.Linear)
    state = ours.state_dict()
    assert list(state) == list(theirs.state_dict())
    assert all(torch.equal(state[name], t) for name, t in theirs.state_dict().items())
    x = torch.randn(2, 3, 7, dtype=torch.float64, device=device)
    results = []
    for module, after in ((ours, TORCHS[None]), (theirs, TORCHS[activation])):
        leaf = x.clone().requires_grad_()
        y = after(module(leaf))
        y.square().sum().backward()
        results.append([y.detach(), leaf.grad, *(p.grad for p in module.parameters())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
    assert same_bits(ours(x), tiled_mm.linear(x, ours.weight, ours.bias, activation=activation))


def test_what_a_module_says_of_itself() -> None:
    assert repr(nn.Linear(3, 4)) == repr(torch.nn.Linear(3, 4))
    shown = repr(nn.Linear(3, 4, activation="gelu", accumulate_main_grad=True))
    assert shown.endswith("bias=True, activation='gelu', accumulate_main_grad=True)")


@each("gated", (False, True))
def test_mlp(device: str, gated: bool) -> None:
    mlp = nn.MLP(6, 10, 4, activation="silu", gated=gated, device=device, dtype=torch.float64)
    names = {f"{n}.{p}" for n in ("up", "down", *["gate"] * gated) for p in ("weight", "bias")}
    assert set(mlp.state_dict()) == names
    x = torch.randn(2, 3, 6, dtype=torch.float64, device=device)
    silu, linear = torch.nn.functional.silu, torch.nn.functional.linear
    up = linear(x, mlp.up.weight, mlp.up.bias)
    hidden = silu(linear(x, mlp.gate.weight, mlp.gate.bias)) * up if gated else silu(up)
    torch.testing.assert_close(mlp(x), linear(hidden, mlp.down.weight, mlp.down.bias))
    assert nn.MLP(6, 10, bias=False).down.weight.shape == (6, 10)


MODULES = {
    "relu": torch.nn.ReLU(),
    "gelu": torch.nn.GELU(),
    "gelu_tanh": torch.nn.GELU(approximate="tanh"),
    "silu": torch.nn.SiLU(inplace=True),
}


@each("name", tuple(MODULES))
def test_activations_as_torchs_modules(name: str) -> None:
    """As a child a module would never be called; it counts as its name."""
    assigned = nn.Linear(3, 4)
    assigned.activation = MODULES[name]
    mlp = nn.MLP(3, 4, activation=MODULES[name])
    for layer in (nn.Linear(3, 4, activation=MODULES[name]), assigned, mlp.up):
        assert layer.activation == name and not list(layer.children())
    x = torch.randn(2, 3)
    torch.testing.assert_close(
        assigned(x), MODULES[name](torch.nn.functional.linear(x, assigned.weight, assigned.bias))
    )


def test_what_is_no_activation() -> None:
    text = "one of 'none', 'relu', 'gelu', 'gelu_tanh', 'silu'"
    for bad in (torch.nn.Tanh(), torch.nn.ReLU6(), torch.nn.ReLU, torch.relu, 3, ["relu"]):
        for make in (nn.Linear, nn.MLP):
            with pytest.raises(TypeError, match=text):
                make(3, 4, activation=bad)
        layer = nn.Linear(3, 4)
        with pytest.raises(TypeError, match=text):
            layer.activation = bad


def test_the_names_are_the_librarys() -> None:
    from tiled_mm.nn._activation import NAMES

    for make in (nn.Linear, nn.MLP):
        with pytest.raises(ValueError, match="unknown activation 'swish'; expected one of"):
            make(3, 4, activation="swish")
    layer = nn.Linear(3, 4)
    with pytest.raises(ValueError, match="unknown activation 'swish'"):
        layer.activation = "swish"
    with pytest.raises(RuntimeError, match=f"expected one of: {', '.join(NAMES)}$"):
        tiled_mm.linear(torch.ones(2, 3), layer.weight, activation="swish")
    assert all(nn.Linear(3, 4, activation=name)(torch.ones(2, 3)).shape == (2, 4) for name in NAMES)


SCRIPTED = {
    "linear": lambda: nn.Linear(4, 5),
    "without a bias": lambda: nn.Linear(4, 5, bias=False, activation="gelu"),
    "mlp": lambda: nn.MLP(4, 6),
    "gated": lambda: nn.MLP(4, 6, gated=True, activation="silu"),
    "converted": lambda: tiled_mm.convert(torch.nn.Sequential(torch.nn.Linear(4, 5))),
}


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@each("name", tuple(SCRIPTED))
def test_scripted(device: str, name: str) -> None:
    module = SCRIPTED[name]().to(device)
    x = torch.randn(3, 4, device=device)
    scripted = torch.jit.script(module)
    file = io.BytesIO()
    torch.jit.save(scripted, file)
    file.seek(0)
    for other in (scripted, torch.jit.load(file), torch.jit.trace(module, (x,))):
        assert same_bits(other(x), module(x))
    scripted(x).sum().backward()
    assert all(p.grad is not None for p in scripted.parameters())


# ---- convert -------------------------------------------------------------------------------------


class Doubled(torch.nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(input)


def model() -> torch.nn.Module:
    shared = torch.nn.Linear(5, 5)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 5),
        torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(5, 5, bias=False), shared),
        shared,
        Doubled(5, 3),
    )


def test_convert_keeps_all_but_the_class() -> None:
    net = model()
    calls = []
    net[0].register_forward_hook(lambda *_: calls.append("hook"))
    net[1][1].eval()
    modules, parameters = list(net.modules()), list(net.parameters())
    state, x = copy.deepcopy(net.state_dict()), torch.randn(6, 4)
    before = net(x)
    assert tiled_mm.convert(net) is net
    assert [type(m) for m in net.modules()].count(nn.Linear) == 3
    assert type(net[3]) is Doubled
    assert all(one is other for one, other in zip(net.modules(), modules, strict=True))
    assert all(one is other for one, other in zip(net.parameters(), parameters, strict=True))
    assert net[1][2] is net[2] and not net[1][1].training and net[0].training
    assert list(net.state_dict()) == list(state)
    torch.testing.assert_close(net(x), before)
    assert calls == ["hook"] * 2
    again = pickle.loads(pickle.dumps(net[1]))
    assert same_bits(again(x[:, :1].expand(6, 5)), net[1](x[:, :1].expand(6, 5)))
    assert tiled_mm.convert(net, back=True) is net
    assert nn.Linear not in {type(m) for m in net.modules()}
    assert torch.equal(net(x), before)
    assert "activation" not in vars(net[0])


def test_a_model_that_is_one_layer() -> None:
    layer = torch.nn.Linear(3, 4)
    assert type(tiled_mm.convert(layer)) is nn.Linear
    assert type(tiled_mm.convert(layer, back=True)) is torch.nn.Linear


def test_what_torch_cannot_express_does_not_go_back() -> None:
    net = torch.nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5, activation="gelu"))
    with pytest.raises(ValueError, match="has no activation"):
        tiled_mm.convert(net, back=True)
    assert [type(m) for m in net] == [nn.Linear] * 2


def test_a_converted_model_keeps_an_entrys_bits(device: str) -> None:
    net = tiled_mm.convert(model()[:3]).to(device)  # without the layer that stays torch's
    x = torch.randn(9, 4, device=device)
    whole = net(x)
    for i in range(9):
        assert same_bits(net(x[i : i + 1])[0], whole[i])


def test_compiled_and_checkpointed(device: str) -> None:
    net = tiled_mm.convert(model()).to(device)
    x = torch.randn(6, 4, device=device)
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    assert same_bits(compiled(x), net(x))
    y = torch.utils.checkpoint.checkpoint(net, x, use_reentrant=False)
    grads = [torch.autograd.grad(z.sum(), list(net.parameters())) for z in (y, net(x))]
    assert all(same_bits(one, other) for one, other in zip(*grads, strict=True))


# ---- main_grad -----------------------------------------------------------------------------------


@each("activation", (None, "relu", "silu"))
@each("dtype", (*cases.HALVES, torch.float32))
def test_gradients_are_added_to_main_grad(device: str, dtype: torch.dtype, activation) -> None:
    """The sum of several backward passes, each rounded once to float32; all else as ever."""
    module = nn.Linear(7, 5, device=device, dtype=dtype, activation=activation)
    other = copy.deepcopy(module)
    module.accumulate_main_grad = True
    module.weight.main_grad = torch.zeros(5, 7, device=device)
    right = torch.zeros(5, 7, device=device)
    for i in range(3):
        x, seed = (torch.randn(2, 3, n, device=device, dtype=dtype) for n in (7, 5))
        leaves = [x.clone().requires_grad_() for _ in range(2)]
        y, z = module(leaves[0]), other(leaves[1])
        assert same_bits(y, z)
        # The gradient before the activation is the bias' of one row.
        before = torch.autograd.grad(z, other.bias, seed, retain_graph=True)
        y.backward(seed)
        z.backward(seed)
        assert same_bits(leaves[0].grad, leaves[1].grad)
        assert same_bits(module.bias.grad, other.bias.grad) and before
        if activation is None:
            tiled_mm.addmm_(right, seed.reshape(-1, 5).t(), x.reshape(-1, 7))
            assert same_bits(module.weight.main_grad, right), i
    assert module.weight.grad is None
    torch.testing.assert_close(
        module.weight.main_grad, other.weight.grad.float(), rtol=2e-2, atol=5e-2
    )


def test_main_grad_under_autocast_and_without_gradients(device: str) -> None:
    module = nn.Linear(7, 5, device=device, accumulate_main_grad=True)
    module.weight.main_grad = torch.zeros(5, 7, device=device)
    x = torch.randn(3, 7, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        y = module(x)
        assert y.dtype == torch.bfloat16
    y.sum().backward()
    right = torch.zeros(5, 7, device=device)
    tiled_mm.addmm_(right, torch.ones(3, 5, device=device).bfloat16().t(), x.bfloat16())
    assert same_bits(module.weight.main_grad, right) and module.weight.grad is None
    with torch.no_grad():
        assert same_bits(module(x), tiled_mm.linear(x, module.weight, module.bias))
    module.weight.requires_grad_(False)
    module(x.requires_grad_()).sum().backward()
    assert same_bits(module.weight.main_grad, right)


def test_main_grad_of_a_checkpoint_and_of_no_rows(device: str) -> None:
    """Computed twice, added once; and nothing is added for nothing."""
    module = nn.Linear(7, 5, device=device, accumulate_main_grad=True)
    module.weight.main_grad = torch.zeros(5, 7, device=device)
    x = torch.randn(3, 7, device=device)
    leaf = x.clone().requires_grad_()
    torch.utils.checkpoint.checkpoint(module, leaf, use_reentrant=False).sum().backward()
    right = torch.zeros(5, 7, device=device)
    tiled_mm.addmm_(right, torch.ones(3, 5, device=device).t(), x)
    assert same_bits(module.weight.main_grad, right)
    module(x[:0]).sum().backward()
    assert same_bits(module.weight.main_grad, right)


def test_a_main_grad_that_does_not_fit(device: str) -> None:
    module = nn.Linear(7, 5, device=device, dtype=torch.bfloat16, accumulate_main_grad=True)
    x = torch.randn(3, 7, device=device).bfloat16()
    with pytest.raises(AttributeError, match=r"set weight.main_grad = torch.zeros_like\(weight, "):
        module(x)
    for wrong, text in (
        (torch.zeros(7, 5, device=device), r"main_grad has shape \[7, 5\], and weight \[5, 7\]"),
        (torch.zeros(5, 7, device=device).double(), "has dtype Double; expected that or Float"),
        (torch.zeros(5, 7, device=device).requires_grad_(), "may not require a gradient"),
    ):
        module.weight.main_grad = wrong
        with pytest.raises(RuntimeError, match=text):
            module(x)
