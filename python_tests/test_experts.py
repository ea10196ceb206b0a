"""nn.Experts, and the experts of transformers by grouped products."""

from __future__ import annotations

import copy
import subprocess
import sys
from types import SimpleNamespace

import pytest
import tiled_mm
import torch
from cases import each
from epilogues import same_bits
from tiled_mm.nn import Experts
from tiled_mm.nn._experts import by_expert

silu = torch.nn.functional.silu


def test_rows_are_sorted_by_expert(device: str) -> None:
    for dtype in (torch.int64, torch.int32, torch.uint8):
        index = torch.tensor([[2, 0], [5, 2], [0, 2], [4, 5]], device=device, dtype=dtype)
        order, offs = by_expert(index, 5)
        assert order.tolist() == [1, 4, 0, 3, 5, 6, 2, 7]
        assert offs.tolist() == [2, 2, 5, 5, 6] and offs.dtype == torch.int32
    index = torch.tensor([127, -1], device=device, dtype=torch.int8)
    if device == "cpu":
        with pytest.raises(IndexError, match="index out of range in self"):
            by_expert(index, 300)
    else:
        assert by_expert(index, 300)[1][126:128].tolist() == [0, 1]


@each("dtype", (torch.float32, torch.bfloat16))
def test_a_token_has_the_bits_of_its_experts_alone(device: str, dtype: torch.dtype) -> None:
    layer = Experts(5, 16, 24, device=device, dtype=dtype)
    x = torch.randn(40, 16, device=device).to(dtype)
    index = torch.rand(40, 5, device=device).topk(2).indices
    index[index == 3] = 4  # one expert has nothing to do
    weights = torch.rand(40, 2, device=device)
    y = layer.routed(x, index, weights)
    assert y.shape == x.shape and y.dtype == dtype
    for token in range(40):
        row = slice(token, token + 1)
        total = 0
        for expert, weight in zip(index[token].tolist(), weights[token], strict=True):
            gate = tiled_mm.linear(x[row], layer.gate[expert], activation="silu")
            hidden = gate * tiled_mm.linear(x[row], layer.up[expert])
            total = total + tiled_mm.linear(hidden, layer.down[expert]).float() * weight
        assert same_bits(y[row], total.to(dtype))
        assert same_bits(layer.routed(x[row], index[row], weights[row]), y[row])
    assert same_bits(layer.routed(x, index), layer.routed(x, index, torch.ones_like(weights)))


def test_gradients(device: str) -> None:
    layer = Experts(3, 4, 5, 6, device=device, dtype=torch.float64)
    x = torch.randn(7, 4, device=device, dtype=torch.float64, requires_grad=True)
    index = torch.randint(3, (7, 2), device=device)
    weights = torch.rand(7, 2, device=device, dtype=torch.float64, requires_grad=True)

    def run(x, weights, *parameters):
        named = zip(("layer.gate", "layer.up", "layer.down"), parameters, strict=True)
        inputs = (x, index, weights)
        return torch.func.functional_call(_Routed(layer), dict(named), inputs)

    assert torch.autograd.gradcheck(run, (x, weights, *layer.parameters()))
    exact = sum(
        weights[:, i, None]
        * torch.einsum(
            "tnh,th->tn",
            layer.down[index[:, i]],
            silu(torch.einsum("thk,tk->th", layer.gate[index[:, i]], x))
            * torch.einsum("thk,tk->th", layer.up[index[:, i]], x),
        )
        for i in range(2)
    )
    torch.testing.assert_close(layer.routed(x, index, weights), exact)


class _Routed(torch.nn.Module):
    def __init__(self, layer: Experts) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, *args):
        return self.layer.routed(*args)


def test_main_grad(device: str) -> None:
    layer = Experts(3, 16, 24, device=device, dtype=torch.bfloat16, accumulate_main_grad=True)
    plain = copy.deepcopy(layer)
    plain.accumulate_main_grad = False
    x = torch.randn(20, 16, device=device).bfloat16()
    offs = torch.tensor([4, 4, 18], device=device)
    with pytest.raises(AttributeError, match="has no main_grad"):
        layer(x, offs)
    for weight in layer.parameters():
        weight.main_grad = torch.zeros_like(weight, dtype=torch.float32)
    seed = torch.randn(20, 16, device=device).bfloat16()
    for _ in range(2):
        layer(x, offs).backward(seed)
    plain(x, offs).backward(seed)
    for ours, theirs in zip(layer.parameters(), plain.parameters(), strict=True):
        assert ours.grad is None
        assert same_bits((ours.main_grad / 2).bfloat16(), theirs.grad)
    assert "accumulate_main_grad=True" in repr(layer)


def test_shapes_that_do_not_fit_are_refused() -> None:
    layer = Experts(3, 4, 5)
    x, index = torch.ones(6, 4), torch.zeros(6, 2, dtype=torch.int64)
    for wrong in (index[:5], index[:, :0], index[0], torch.zeros(7, 2, dtype=torch.int64)):
        with pytest.raises(RuntimeError, match=r"index has shape \[T, top\]"):
            layer.routed(x, wrong)
    with pytest.raises(RuntimeError, match="weights have the shape of index"):
        layer.routed(x, index, torch.ones(6, 3))


def test_none_adds_zero(device: str) -> None:
    layer = Experts(3, 4, 5, device=device)
    x, index = torch.randn(6, 4, device=device), torch.randint(3, (6, 2), device=device)
    index[2:4, 0], index[4] = 3, 3
    y = layer.routed(x, index)
    assert same_bits(y[2:4], layer.routed(x[2:4], index[2:4, 1:])) and not y[4].any()


@each("way", ("eager", "aot_eager", "inductor", "vmap", "export"))
def test_a_wrong_expert_is_an_error_on_the_cpu(way: str) -> None:
    """In one graph, too."""
    layer = Experts(3, 4, 5)
    x, right = torch.randn(6, 4), torch.randint(4, (6, 2))
    run = layer.routed
    if way == "vmap":
        run, x, right = torch.vmap(run), x[None], right[None]
    elif way == "export":
        run = torch.export.export(_Routed(layer), (x, right)).module()
    elif way != "eager":
        run = torch.compile(run, backend=way, fullgraph=True)
    run(x, right)
    error, words = {
        "vmap": (RuntimeError, "index [49] is out of bounds for dimension"),
        "inductor": (RuntimeError, "index out of bounds"),
    }.get(way, (IndexError, "index out of range in self"))
    for wrong in (-4, -1, 4, 9):
        index = right.clone()
        index[..., 2, 1] = wrong
        with pytest.raises(error, match=words):
            run(x, index)


def test_a_wrong_expert_is_an_error_for_a_module_of_transformers() -> None:
    layer = SimpleNamespace(
        num_experts=3,
        has_bias=False,
        has_gate=False,
        is_transposed=False,
        act_fn=silu,
        up_proj=torch.randn(3, 5, 4),
        down_proj=torch.randn(3, 4, 5),
    )
    x, weights = torch.randn(6, 4), torch.rand(6, 2)
    index = torch.randint(4, (6, 2))
    y = tiled_mm.compat.transformers.experts_forward(layer, x, index, weights)
    for token in range(6):
        expected = sum(
            w * (layer.down_proj[e] @ silu(layer.up_proj[e] @ x[token]))
            for e, w in zip(index[token].tolist(), weights[token], strict=True)
            if e < 3
        )
        torch.testing.assert_close(y[token], torch.zeros(4) + expected)
    for wrong in (-1, 4):
        index[2, 1] = wrong
        with pytest.raises(IndexError, match="index out of range in self"):
            tiled_mm.compat.transformers.experts_forward(layer, x, index, weights)


@pytest.mark.cuda
def test_a_wrong_expert_adds_zero_on_a_gpu() -> None:
    layer = Experts(3, 4, 5, device="cuda")
    x, index = torch.randn(6, 4, device="cuda"), torch.randint(3, (6, 2), device="cuda")
    none = index.clone()
    index[2, 1], index[3, 0], none[2, 1], none[3, 0] = -1, 9, 3, 3
    assert same_bits(layer.routed(x, index), layer.routed(x, none))


def test_parameters_and_state() -> None:
    layer = Experts(3, 4, 5)
    assert {k: tuple(v.shape) for k, v in layer.state_dict().items()} == {
        "gate": (3, 5, 4),
        "up": (3, 5, 4),
        "down": (3, 4, 5),
    }
    assert all(bool((w.abs() <= w.shape[-1] ** -0.5).all()) for w in layer.parameters())
    assert repr(layer) == (
        "Experts(experts=3, in_features=4, hidden_features=5, out_features=4, activation='silu')"
    )


def test_compile_without_a_break(device: str) -> None:
    layer = Experts(3, 16, 24, device=device)
    x = torch.randn(20, 16, device=device)
    offs = torch.tensor([4, 4, 18], device=device)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    assert same_bits(compiled(x, offs), layer(x, offs))


# ---- transformers ------------------------------------------------------------------------------


def small_models() -> dict:
    import transformers as t

    sizes = {
        "vocab_size": 96,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
    }
    qwen = sizes | {"moe_intermediate_size": 24, "num_experts": 8, "num_experts_per_tok": 2}
    return {
        "mixtral": (t.MixtralForCausalLM, t.MixtralConfig(**sizes, num_local_experts=4)),
        "qwen3_moe": (t.Qwen3MoeForCausalLM, t.Qwen3MoeConfig(**qwen, head_dim=8)),
    }


@pytest.fixture
def registered() -> str:
    pytest.importorskip("transformers")
    try:
        return tiled_mm.compat.transformers.register_experts()
    except ImportError as error:
        pytest.skip(str(error))


@each("name", ("mixtral", "qwen3_moe"))
def test_experts_of_transformers(device: str, name: str, registered: str) -> None:
    """As the model's own, within rounding, gradients too."""
    make, config = small_models()[name]
    model = make(config).to(device)
    tokens = torch.randint(96, (4, 10), device=device)
    results = []
    for implementation in ("eager", registered):
        model.set_experts_implementation(implementation)
        model.zero_grad()
        logits = model(tokens).logits
        logits.square().mean().backward()
        results.append((logits, [p.grad.clone() for p in model.parameters()]))
    torch.testing.assert_close(results[1][0], results[0][0])
    for ours, theirs in zip(results[1][1], results[0][1], strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-4)


@each("name", ("mixtral", "qwen3_moe"))
@each("dtype", (torch.float32, torch.bfloat16))
@each("implementation", ("tiled", "grouped_mm"))
def test_logits_do_not_depend_on_the_batch(
    device: str, name: str, dtype: torch.dtype, implementation: str, registered: str
) -> None:
    """Under the override, with torch's own router and norms; transformers' default too."""
    make, config = small_models()[name]
    model = make(config).to(device, dtype).eval()
    model.set_experts_implementation(implementation)
    tokens = torch.randint(96, (64, 10), device=device)
    tiled_mm.override_counts(reset=True)
    with torch.no_grad(), tiled_mm.override(device):
        alone = model(tokens[:1]).logits
        for batch in (2, 3, 8, 33, 64):
            assert same_bits(model(tokens[:batch]).logits[:1], alone), batch
    counts = tiled_mm.override_counts(reset=True)
    assert (counts.get("_grouped_mm", {}).get("tiled", 0) > 0) == (implementation == "grouped_mm")


def test_a_missing_registry_says_so() -> None:
    code = (
        "import sys, tiled_mm\nsys.modules['transformers'] = None\n"
        "try:\n    tiled_mm.compat.transformers.register_experts()\n"
        "except ImportError as error:\n    print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "transformers has no registry of experts here" in run.stdout, run.stderr
