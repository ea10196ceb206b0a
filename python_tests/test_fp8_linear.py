"""Fp8Linear: its three products are scaled_mm's, and a model learns with it."""

from __future__ import annotations

import copy

import pytest
import tiled_mm
import torch
from cases import each
from epilogues import same_bits

pytestmark = pytest.mark.scaled

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def layer(device: str, dtype: torch.dtype, k: int = 300, n: int = 200) -> tiled_mm.nn.Fp8Linear:
    torch.manual_seed(0)
    return tiled_mm.nn.Fp8Linear(k, n, device=device, dtype=dtype)


@each("dtype", DTYPES)
def test_forward_and_gradients_are_products_of_quantized_tensors(
    device: str, dtype: torch.dtype
) -> None:
    module = layer(device, dtype)
    x = torch.randn(150, 300, device=device).to(dtype).requires_grad_()
    y = module(x)
    gradient = torch.randn(150, 200, device=device).to(dtype)
    got = torch.autograd.grad(y, (x, module.weight, module.bias), gradient)

    def product(a: torch.Tensor, b_t: torch.Tensor, recipe: str, **options) -> torch.Tensor:
        p, q = tiled_mm.quantize(a), tiled_mm.quantize(b_t, recipe)
        options = {"out_dtype": dtype, "scale_recipe_b": recipe, **options}
        return tiled_mm.scaled_mm(
            p.data, q.data.mT, p.scale, q.scale.mT, scale_recipe_a="BlockWise1x128", **options
        )

    w = module.weight
    assert same_bits(y, product(x, w, "BlockWise128x128", bias=module.bias))
    assert same_bits(got[0], product(gradient, w.mT, "BlockWise128x128"))
    assert same_bits(got[1], product(gradient.mT, x.mT, "BlockWise1x128"))
    right = torch.nn.functional.linear(x.double(), w.double(), module.bias.double())
    assert (y - right).norm() < 0.06 * right.norm()
    for ours, exact in zip(
        got,
        (
            gradient.double() @ w.double(),
            gradient.double().T @ x.double(),
            gradient.double().sum(0),
        ),
        strict=True,
    ):
        assert ours.dtype == dtype
        assert (ours - exact).norm() < 0.06 * exact.norm()


def test_a_row_does_not_depend_on_the_batch(device: str) -> None:
    module = layer(device, torch.bfloat16)
    x = torch.randn(3, 40, 300, device=device, dtype=torch.bfloat16)
    y = module(x)
    assert y.shape == (3, 40, 200)
    assert same_bits(module(x[1, 7]), y[1, 7])
    assert same_bits(module(x[2:, :5]), y[2:, :5].contiguous())


@each("needs", ((True, False), (False, True), (False, False)))
def test_only_what_needs_a_gradient_has_one(needs: tuple[bool, bool]) -> None:
    module = layer("cpu", torch.float32).requires_grad_(needs[1])
    x = torch.randn(5, 300, requires_grad=needs[0])
    y = module(x)
    assert y.requires_grad == any(needs)
    if not any(needs):
        return
    y.sum().backward()
    assert (x.grad is not None) == needs[0] and (module.weight.grad is not None) == needs[1]


def test_without_bias_without_rows_and_wrong_sizes() -> None:
    module = tiled_mm.nn.Fp8Linear(8, 4, bias=False)
    assert module(torch.ones(0, 8)).shape == (0, 4)
    x = torch.ones(0, 8, requires_grad=True)
    module(x).sum().backward()
    assert not module.weight.grad.any() and x.grad.shape == (0, 8)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied \\(3x7 and 8x4\\)"):
        module(torch.ones(3, 7))


def test_without_k_and_without_data() -> None:
    module = tiled_mm.nn.Fp8Linear(0, 4)
    x = torch.ones(3, 0, requires_grad=True)
    y = module(x)
    assert torch.equal(y, module.bias.expand(3, 4))
    y.sum().backward()
    assert x.grad.shape == (3, 0) and module.weight.grad.shape == (4, 0)
    described = tiled_mm.nn.Fp8Linear(300, 7, device="meta")(torch.ones(2, 3, 300, device="meta"))
    assert described.shape == (2, 3, 7)


@each("dynamic", (False, True))
def test_compiled_with_a_block_that_is_not_full(dynamic: bool) -> None:
    """By Inductor of torch 2.11, which leaves the end of padded blocks unwritten."""
    module = layer("cpu", torch.float32)
    compiled = torch.compile(module, fullgraph=True, dynamic=dynamic)
    x = torch.randn(9, 300)
    assert same_bits(compiled(x), module(x))


def test_gradients_are_not_differentiated_again() -> None:
    module = layer("cpu", torch.float32, 8, 8)
    x = torch.randn(5, 8, requires_grad=True)
    (grad,) = torch.autograd.grad(module(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


def test_autocast() -> None:
    module = layer("cpu", torch.float32)
    x = torch.randn(5, 300)
    with torch.autocast("cpu", torch.bfloat16):
        y = module(x)
        assert y.dtype == torch.bfloat16
        y.sum().backward()
    assert module.weight.grad.dtype == torch.float32


def test_a_model_in_one_line_and_back() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    state = copy.deepcopy(model.state_dict())
    assert tiled_mm.convert(model, fp8=True) is model
    assert type(model[0]) is type(model[2]) is tiled_mm.nn.Fp8Linear
    assert model(torch.randn(3, 8)).shape == (3, 4)
    tiled_mm.convert(model, fp8=True, back=True)
    assert type(model[0]) is torch.nn.Linear and "accumulate_main_grad" not in vars(model[0])
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())


def test_gradients_are_added_to_main_grad(device: str) -> None:
    module = layer(device, torch.bfloat16)
    x = torch.randn(150, 300, device=device, dtype=torch.bfloat16)
    with pytest.raises(AttributeError, match="has no main_grad"):
        tiled_mm.convert(torch.nn.Linear(8, 8), fp8=True, accumulate_main_grad=True)(torch.ones(8))
    gradient = torch.randn(150, 200, device=device, dtype=torch.bfloat16)
    module.accumulate_main_grad = True
    start = torch.randn_like(module.weight, dtype=torch.float32)
    module.weight.main_grad = start.clone()
    module(x).backward(gradient)
    assert module.weight.grad is None and module.bias.grad is not None
    p, q = tiled_mm.quantize(gradient.mT), tiled_mm.quantize(x.mT)
    product = tiled_mm.scaled_mm(p.data, q.data.mT, p.scale, q.scale.mT, out_dtype=torch.float32)
    assert same_bits(module.weight.main_grad, start + product)


def test_a_small_model_learns(device: str) -> None:
    """Beside bf16's, from the same weights and data."""

    def trained(fp8: bool) -> float:
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(32, 128), torch.nn.GELU(), torch.nn.Linear(128, 8)
        ).to(device)
        if fp8:
            tiled_mm.convert(model, fp8=True)
        optimizer = torch.optim.Adam(model.parameters(), 3e-3)
        target = torch.randn(32, 8, device=device)
        for _ in range(150):
            x = torch.randn(256, 32, device=device)
            with torch.autocast(device, torch.bfloat16):
                loss = (model(x).float() - torch.tanh(x @ target)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    first, ours = trained(fp8=False), trained(fp8=True)
    assert ours < 1.15 * first
