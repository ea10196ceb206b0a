"""Whole programs under tiled_mm.override(): that what PyTorch does with an operator goes on, with
tiled's products in it, and that a model's answers do not change with the batch."""

from __future__ import annotations

import importlib.util
import math
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import gates
import pytest
import tiled_mm
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

aten = torch.ops.aten
pytestmark = pytest.mark.usefixtures("from_zero")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def example(name: str) -> ModuleType:
    path = EXAMPLES / f"{name}.py"
    if not path.exists():
        pytest.skip(f"there is no {path.name} beside these tests")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def computed() -> tuple[int, int]:
    """How many products tiled and torch computed since the last time."""
    counts = tiled_mm.override_counts(reset=True).values()
    on = [{**c["torch"], "off": 0} for c in counts]
    return sum(c["tiled"] for c in counts), sum(sum(reasons.values()) for reasons in on)


def whole(*sizes: int, device: str = "cpu") -> Tensor:
    """Small whole numbers, of which sums and products are exact: torch's and tiled's are equal."""
    return torch.randint(-3, 4, sizes, device=device).double()


class Net(nn.Module):
    """Products of every kind: with bias and without, of batches, and one by einsum."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 4, bias=False)
        self.double().to(device)
        for parameter in self.parameters():
            parameter.data = whole(*parameter.shape, device=device)

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(F.relu(self.first(x)))
        return torch.einsum("bij,bkj->bik", y, y) + y @ y.mT


def loss_and_gradients(net: nn.Module, x: Tensor) -> list[Tensor]:
    net.zero_grad()
    loss = net(x).square().sum()
    loss.backward()
    return [loss.detach(), *(parameter.grad for parameter in net.parameters())]


def equal(found: list[Tensor], expected: list[Tensor]) -> bool:
    return all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def test_a_training_step(device: str) -> None:
    net, x = Net(device), whole(3, 5, 6, device=device)
    expected = loss_and_gradients(net, x)
    with tiled_mm.override():
        found = loss_and_gradients(net, x)
    assert equal(found, expected)
    # linear, linear, two products of batches; backward of the first linear needs no x.
    assert computed() == (4 + 1 + 2 + 4, 0)


def test_second_derivatives(device: str) -> None:
    a, b = whole(3, 4, device=device).requires_grad_(), whole(4, 2, device=device).requires_grad_()
    bias = whole(2, device=device).requires_grad_()
    with tiled_mm.override():
        assert torch.autograd.gradcheck(torch.addmm, (bias, a, b), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(torch.addmm, (bias, a, b), check_fwd_over_rev=True)
    tiled, torchs = computed()
    assert tiled > 50 and torchs == 0


def test_checkpointing(device: str) -> None:
    net, x = Net(device), whole(3, 5, 6, device=device)
    expected = loss_and_gradients(net, x)
    net.zero_grad()
    with tiled_mm.override():
        loss = checkpoint(net, x, use_reentrant=False).square().sum()
        loss.backward()
    assert equal([loss.detach(), *(p.grad for p in net.parameters())], expected)
    tiled, torchs = computed()
    assert tiled > 11 and torchs == 0  # the forward twice, as far as the backward needs it


def test_function_transforms(device: str) -> None:
    net, x = Net(device), whole(3, 5, 6, device=device)
    parameters = dict(net.named_parameters())

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(net, parameters, (x[None],)).square().sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))
    expected = each(parameters, x)
    forward = torch.func.jvp(lambda x: loss(parameters, x), (x[0],), (x[1],))
    computed()
    with tiled_mm.override():
        found = each(parameters, x)
        assert computed()[0] > 4
        assert equal(list(found.values()), list(expected.values()))
        assert equal(
            list(torch.func.jvp(lambda x: loss(parameters, x), (x[0],), (x[1],))), list(forward)
        )
        hessian = torch.func.hessian(lambda x: loss(parameters, x))(x[0])
    assert torch.equal(hessian, torch.func.hessian(lambda x: loss(parameters, x))(x[0]))


def test_autocast(device: str) -> None:
    layer, x = nn.Linear(40, 30, device=device), torch.randn(20, 40, device=device)
    with tiled_mm.override(), torch.autocast(device, torch.bfloat16):
        y = layer(x)
        y.sum().backward()
    weight, bias = layer.weight.bfloat16(), layer.bias.bfloat16()
    expected = torch.ops.tiled_debug.mm_with_epilogue(x.bfloat16(), weight.t(), bias=bias)[0]
    assert y.dtype == torch.bfloat16 and torch.equal(y, expected)
    assert layer.weight.grad.dtype == torch.float32
    assert computed() == (2, 0)


def test_inference_mode(device: str) -> None:
    layer, x = nn.Linear(40, 30, device=device), torch.randn(20, 40, device=device)
    vector = torch.randn(40, device=device)
    with tiled_mm.override(), torch.inference_mode():
        y, row = layer(x), x @ vector
        assert y.is_inference() and row.is_inference()
        y.addmm_(x, layer.weight.t())
    product = torch.ops.tiled_debug.mm_with_epilogue(x, layer.weight.t(), bias=layer.bias)[0]
    twice = torch.ops.tiled_debug.mm_with_epilogue(x, layer.weight.t(), input=product)[0]
    assert torch.equal(y, twice)
    assert torch.equal(row, tiled_mm.mm(x, vector[:, None])[:, 0])
    assert computed() == (3, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("sizes", [(48,), (1, 48), (20, 48), (4, 5, 48)], ids=str)
def test_every_linear_is_seen(
    sizes: tuple[int, ...], bias: bool, dtype: torch.dtype, device: str
) -> None:
    """Whatever torch's CPU would do with it: mkldnn, a bias that is added afterwards."""
    layer = nn.Linear(48, 32, bias=bias, device=device, dtype=dtype)
    x = torch.randn(sizes, device=device).to(dtype)
    with tiled_mm.override(), torch.inference_mode():
        layer(x)
    assert computed() == (1, 0)


def test_threads(device: str) -> None:
    """Eight threads that enter and leave: each sees its own override on, and none is left on."""
    a = torch.randn(30, 40, device=device)
    expected = tiled_mm.mm(a, a.t())
    failures = []
    tiled_mm.enable_override()
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        for i in range(200):
            with tiled_mm.override(device if i % 2 else None), tiled_mm.override():
                if not torch.equal(a @ a.t(), expected):
                    failures.append(i)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tiled_mm.disable_override()
    assert failures == [] and computed() == (1600, 0)
    torch.mm(a, a.t())
    assert tiled_mm.override_counts() == {"mm": {"tiled": 0, "torch": {"off": 1}}}


def test_compiled_models(device: str) -> None:
    """Inductor calls products by torch's operators; the switch is read when they run."""
    weight, second = (whole(8, 6, device=device).requires_grad_() for _ in range(2))
    bias, x, third = (whole(*sizes, device=device) for sizes in ((8,), (5, 6), (1, 6, 5)))

    # Products alone, and no sum of gradients: nothing that a C++ compiler is called for.
    def forward(x: Tensor) -> Tensor:
        y = F.linear(x, weight, bias) @ second
        return torch.bmm(y.view(1, 5, 6), third)

    def gradients(function: Callable[[Tensor], Tensor]) -> list[Tensor]:
        y = function(x)
        return [y.detach(), *torch.autograd.grad(y, (weight, second), torch.ones_like(y))]

    expected = gradients(forward)
    compiled = torch.compile(forward)
    with tiled_mm.override():
        assert equal(gradients(compiled), expected)
    tiled, torchs = computed()
    assert tiled >= 3 + 4 and torchs == 0
    assert equal(gradients(compiled), expected)
    assert computed() == (0, 0)


def test_compiled_models_of_any_number_of_rows(device: str) -> None:
    layer = nn.Linear(48, 32, device=device)
    compiled = torch.compile(layer, dynamic=True)
    with torch.inference_mode(), tiled_mm.override():
        for rows in (3, 5, 9):
            x = torch.randn(rows, 48, device=device)
            assert torch.equal(compiled(x), layer(x))
    assert computed() == (6, 0)


@pytest.mark.cuda
def test_cuda_graphs_of_compiled_models() -> None:
    layer = nn.Linear(64, 48, device="cuda", dtype=torch.bfloat16)
    compiled = torch.compile(layer, mode="reduce-overhead")
    with torch.inference_mode(), tiled_mm.override():
        for _ in range(4):  # eager, warm-up, capture, replay
            x = torch.randn(32, 64, device="cuda", dtype=torch.bfloat16)
            assert torch.equal(compiled(x), layer(x))
    tiled, torchs = computed()
    assert tiled > 4 and torchs == 0


def test_a_compiled_function_does_not_switch() -> None:
    def step(x: Tensor) -> Tensor:
        with tiled_mm.override("cpu"):
            return x @ x

    with pytest.raises(Exception, match="override outside of the compiled function"):
        torch.compile(step, backend="eager", fullgraph=True)(torch.eye(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_logits_do_not_change_with_the_batch(dtype: torch.dtype, device: str) -> None:
    serve = example("serve_invariant")
    model = serve.Llama(width=192, heads=6, layers=2, vocabulary=320).to(device, dtype)
    tokens = torch.randint(320, (16, 48), device=device)
    batches = range(2, 17) if device == "cuda" else (2, 3, 5, 16)
    with torch.inference_mode(), tiled_mm.override():
        alone = model(tokens[:1])[0]
        for batch in batches:
            assert torch.equal(model(tokens[:batch])[0], alone), batch
            assert torch.equal(model(tokens[:batch].flip(0))[-1], alone), batch
    assert alone.isfinite().all()
    tiled, torchs = computed()
    assert tiled == (1 + 2 * len(batches)) * (2 * 5 + 1) and torchs == 0


def hugging_face(name: str) -> nn.Module:
    """A small model with random weights."""
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    if name == "llama":
        config = transformers.LlamaConfig(
            hidden_size=256, intermediate_size=768, num_hidden_layers=2, num_attention_heads=8,
            num_key_value_heads=4, vocab_size=1000,
        )  # fmt: skip
    else:
        config = transformers.GPT2Config(n_embd=256, n_layer=2, n_head=8, vocab_size=1000)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.cuda
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_hugging_face_logits_do_not_change_with_the_batch(name: str, attention: str) -> None:
    """On a GPU: on a CPU torch's own silu and tanh do change (docs/models.md)."""
    model = hugging_face(name).to("cuda", torch.bfloat16)
    model.set_attn_implementation(attention)
    tokens = torch.randint(1000, (64, 96), device="cuda")
    with torch.inference_mode(), tiled_mm.override():
        alone = model(tokens[:1]).logits[0]
        for batch in (2, 7, 16, 64):
            assert torch.equal(model(tokens[:batch]).logits[0], alone), batch
    assert computed()[0] > 5


# Where the products' operands stand among their arguments.
OPERANDS_AT = {aten.mm: 0, aten.bmm: 0, aten.addmm: 1, aten.baddbmm: 1}


class OffByTheBound(TorchDispatchMode):
    """Every product of an fp64 model is off by as much as gate 1 (gates.py) allows one of fp32, by
    random signs."""

    def __init__(self) -> None:
        super().__init__()
        self.products = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        at = OPERANDS_AT.get(func.overloadpacket)
        if at is None:
            return result
        self.products += 1
        a, b = args[at : at + 2]
        k = a.shape[-1]
        sums = min(k, 8 * math.sqrt(k)) * (a.abs() @ b.abs())
        bound = gates.UNIT_ROUNDOFF[torch.float32] * (result.abs() + sums)
        return result + bound * (torch.randint_like(bound, 2) * 2 - 1)


def language_model(name: str) -> nn.Module:
    """Of 1000 tokens: that of the serving example, or one of transformers."""
    if name != "example":
        return hugging_face(name)
    return example("serve_invariant").Llama(width=192, heads=6, layers=2, vocabulary=1000)


def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
    found = model(tokens)
    logits = getattr(found, "logits", found)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


each_model = pytest.mark.parametrize("name", ["example", "llama", "gpt2"])


@each_model
def test_a_models_gradients_are_as_exact_as_its_products(name: str, device: str) -> None:
    """Those of each parameter are nearer to fp64's than those of a model whose products use up what
    gate 1 allows; and so are torch's."""
    model = language_model(name).to(device)
    tokens = torch.randint(1000, (2, 32), device=device)

    def gradients() -> list[Tensor]:
        found = torch.autograd.grad(loss_of(model, tokens), list(model.parameters()))
        return [gradient.double() for gradient in found]

    theirs = gradients()
    with tiled_mm.override():
        ours = gradients()
    assert computed()[0] > 10
    model.double()
    exact = gradients()
    with OffByTheBound() as mode:
        off = gradients()
    assert mode.products > 10
    for right, *others in zip(exact, off, ours, theirs, strict=True):
        allowed, our_error, torchs_error = ((other - right).norm() for other in others)
        assert our_error <= allowed and torchs_error <= allowed


@each_model
def test_models_train(name: str, device: str) -> None:
    """The loss after some steps is as near to torch's as torch's are to each other from five
    seeds."""

    def losses(seed: int) -> tuple[float, float]:
        """The first, and the last."""
        torch.manual_seed(seed)
        model = language_model(name).to(device)
        tokens = torch.randint(1000, (2, 32), device=device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        first = loss_of(model, tokens).item()
        for _ in range(100 if device == "cuda" else 5):
            optimizer.zero_grad()
            loss_of(model, tokens).backward()
            optimizer.step()
        return first, loss_of(model, tokens).item()

    theirs = [losses(seed)[1] for seed in range(5)]
    computed()
    with tiled_mm.override():
        first, last = losses(0)
    assert computed()[0] > 5 * 10
    assert last < first
    assert abs(last - theirs[0]) <= max(theirs) - min(theirs)


def test_the_serving_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert example("serve_invariant").main(["--small", "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    cells = [line.split() for line in lines if line.strip()[:1].isdigit() and "tokens" not in line]
    assert [(row[0], row[-1]) for row in cells] == [(b, "equal") for b in ("2", "3", "5", "8")]
    # It shows what torch's own products change, or says that they do not here.
    says_so = any("torch's bits are equal too" in line for line in lines)
    assert says_so == all(row[1] == "equal" for row in cells)
