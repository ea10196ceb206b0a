"""torch.func over the operator: every transform, nested, without a fallback loop."""

from __future__ import annotations

import itertools

import cases
import pytest
import rungs
import tiled_mm
import torch
from cases import each
from golden import assert_same_bits
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

pytestmark = [
    pytest.mark.filterwarnings("error:There is a performance drop"),  # vmap's, of its fallback
    pytest.mark.usefixtures("no_fallback"),
]


def operands(device: str, m: int = 3, n: int = 5, k: int = 4):
    """Small integers in fp64: sums of products are exact, so torch.mm gives the same bits."""
    sizes = ((m, k), (k, n))
    return tuple(torch.randint(-5, 6, s, dtype=torch.float64, device=device) for s in sizes)


def loss_with(product):
    return lambda a, b: (product(a, b) ** 3).sum()


def assert_equal(ours, theirs) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def fills(batch: int, rows: int, cols: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    return torch.stack([cases.fill(rows, cols, dtype, device) for _ in range(batch)])


def sharing(a: torch.Tensor, b: torch.Tensor) -> tuple:
    """(in_dims, arguments): a batch of both, of A alone and of B alone."""
    return ((0, 0), (a, b)), ((0, None), (a, b[0])), ((None, 0), (a[0], b))


def entry(i: int, in_dims: tuple, args: tuple) -> list[torch.Tensor]:
    return [t if d is None else t.select(d, i) for t, d in zip(args, in_dims, strict=True)]


TRANSFORMS = {
    "grad": lambda mm: grad(loss_with(mm), argnums=(0, 1)),
    "grad of grad": lambda mm: grad(
        lambda a, b: (grad(loss_with(mm), argnums=1)(a, b) ** 2).sum(), argnums=(0, 1)
    ),
    "vjp": lambda mm: lambda a, b: vjp(mm, a, b)[1](a @ b),
    "jvp": lambda mm: lambda a, b: jvp(mm, (a, b), (a + 1, b - 2)),
    "jvp of jvp": lambda mm: (
        lambda a, b: jvp(lambda x: jvp(lambda y: mm(y, b) ** 2, (x,), (a + 1,))[1], (a,), (a - 1,))
    ),
    "jacrev": lambda mm: jacrev(mm, argnums=(0, 1)),
    "jacfwd": lambda mm: jacfwd(mm, argnums=(0, 1)),
    "jacrev of jacrev": lambda mm: jacrev(jacrev(loss_with(mm), argnums=1), argnums=0),
    "jacfwd of jacfwd": lambda mm: jacfwd(jacfwd(loss_with(mm), argnums=1), argnums=0),
    "hessian": lambda mm: hessian(loss_with(mm), argnums=(0, 1)),
    "jvp of grad": lambda mm: (
        lambda a, b: jvp(grad(loss_with(mm), argnums=(0, 1)), (a, b), (torch.ones_like(a), b))
    ),
    "grad of jvp": lambda mm: grad(
        lambda a, b: jvp(lambda x: mm(x, b), (a,), (a * a,))[1].sum(), argnums=(0, 1)
    ),
}


@each("name", tuple(TRANSFORMS))
def test_transforms_equal_torch_mms(device: str, name: str) -> None:
    transform = TRANSFORMS[name]
    a, b = operands(device)
    assert_equal(transform(tiled_mm.mm)(a, b), transform(torch.mm)(a, b))


@each("name", tuple(TRANSFORMS))
def test_vmap_of_transforms(device: str, name: str) -> None:
    transform = TRANSFORMS[name]
    a = torch.stack([operands(device)[0] for _ in range(3)])
    b = torch.stack([operands(device)[1] for _ in range(3)])
    for in_dims, args in sharing(a, b):
        ours = vmap(transform(tiled_mm.mm), in_dims)(*args)
        assert_equal(ours, vmap(transform(torch.mm), in_dims)(*args))


def test_transforms_of_bmm(device: str) -> None:
    a = torch.stack([operands(device)[0] for _ in range(2)])
    b = torch.stack([operands(device)[1] for _ in range(2)])
    for name in ("grad", "jacrev", "jacfwd", "hessian"):
        transform = TRANSFORMS[name]
        assert_equal(transform(tiled_mm.bmm)(a, b), transform(torch.bmm)(a, b))


# None: that operand has no batch.
IN_DIMS = set(itertools.product((None, 0, 1, 2, -1), repeat=2)) - {(None, None)}


@each("out_dim", (0, 1, 2, -1))
@each("in_dims", tuple(sorted(IN_DIMS, key=str)))
def test_vmap_over_every_dimension(device: str, in_dims: tuple, out_dim: int) -> None:
    batch = 6
    args = []
    for (rows, cols), dim in zip(((17, 21), (21, 19)), in_dims, strict=True):
        x = fills(batch, rows, cols, torch.float32, device)
        args.append(x[0] if dim is None else x.movedim(0, dim).contiguous())
    mapped = vmap(tiled_mm.mm, in_dims, out_dim)(*args)
    assert mapped.shape == vmap(torch.mm, in_dims, out_dim)(*args).shape
    for i in range(batch):
        expected = tiled_mm.mm(*entry(i, in_dims, args))
        assert_same_bits(mapped.select(out_dim, i), expected, f"entry {i}")


@each("dtype", cases.DTYPES)
def test_vmap_of_every_dtype(device: str, dtype: torch.dtype) -> None:
    for in_dims, args in sharing(fills(4, 7, 9, dtype, device), fills(4, 9, 5, dtype, device)):
        mapped = vmap(tiled_mm.mm, in_dims)(*args)
        for i in range(4):
            assert_same_bits(mapped[i], tiled_mm.mm(*entry(i, in_dims, args)))


def test_vmap_keeps_the_keywords(device: str) -> None:
    a, b = (fills(4, *size, torch.bfloat16, device) for size in ((7, 9), (9, 5)))
    for in_dims, args in sharing(a, b):
        for algo in rungs.RUNGS[device]:
            mapped = vmap(
                lambda x, y, algo=algo: tiled_mm.mm(
                    x, y, algo=algo, precision="ieee", out_dtype=torch.float32
                ),
                in_dims,
            )(*args)
            assert mapped.dtype == torch.float32
        with pytest.raises(RuntimeError, match="no_such_rung"):
            vmap(lambda x, y: tiled_mm.mm(x, y, algo="no_such_rung"), in_dims)(*args)


def test_nested_vmap(device: str) -> None:
    a, b = (torch.randn(2, 3, *size, device=device) for size in ((5, 7), (7, 4)))
    combinations = {
        "both, both": (vmap(vmap(tiled_mm.mm)), a, b, lambda i, j: (a[i, j], b[i, j])),
        "outer a, inner b": (
            vmap(vmap(tiled_mm.mm, (None, 0)), (0, None)),
            a[:, 0],
            b[0],
            lambda i, j: (a[i, 0], b[0, j]),
        ),
        "outer both, inner a": (
            vmap(vmap(tiled_mm.mm, (0, None)), (0, 0)),
            a,
            b[:, 0],
            lambda i, j: (a[i, j], b[i, 0]),
        ),
        "outer b, inner both": (
            vmap(vmap(tiled_mm.mm, (0, 0)), (None, 0)),
            a[0],
            b,
            lambda i, j: (a[0, j], b[i, j]),
        ),
    }
    for name, (mapped, x, y, entry) in combinations.items():
        c = mapped(x, y)
        for i, j in itertools.product(range(2), range(3)):
            assert_same_bits(c[i, j], tiled_mm.mm(*entry(i, j)), name)


def test_vmap_of_bmm(device: str) -> None:
    a = torch.randn(4, 3, 5, 7, device=device)
    b = torch.randn(4, 3, 7, 6, device=device)
    for in_dims, args in sharing(a, b):
        mapped = vmap(tiled_mm.bmm, in_dims)(*args)
        assert mapped.shape == (4, 3, 5, 6)
        for i in range(4):
            assert_same_bits(mapped[i], tiled_mm.bmm(*entry(i, in_dims, args)))


def test_vmap_over_a_batch_of_none(device: str) -> None:
    a, b = torch.empty(0, 3, 4, device=device), torch.empty(0, 4, 5, device=device)
    assert vmap(tiled_mm.mm)(a, b).shape == (0, 3, 5)
    assert vmap(tiled_mm.mm, (0, None))(a, torch.ones(4, 5, device=device)).shape == (0, 3, 5)
    assert vmap(tiled_mm.mm, (None, 0))(torch.ones(3, 4, device=device), b).shape == (0, 3, 5)
    assert vmap(grad(loss_with(tiled_mm.mm)))(a, b).shape == (0, 3, 4)


def test_vmap_over_empty_matrices(device: str) -> None:
    for m, n, k in cases.EMPTY_SHAPES:
        a, b = torch.ones(2, m, k, device=device), torch.ones(2, k, n, device=device)
        for in_dims, args in sharing(a, b):
            assert torch.equal(vmap(tiled_mm.mm, in_dims)(*args), a.new_zeros(2, m, n))


def test_errors_inside_vmap_are_torch_mms(device: str) -> None:
    a, b = torch.ones(2, 3, 4, device=device), torch.ones(2, 5, 6, device=device)
    for in_dims, args in sharing(a, b):
        texts = []
        for mm in (tiled_mm.mm, torch.mm):
            with pytest.raises(RuntimeError) as raised:
                vmap(mm, in_dims)(*args)
            texts.append(str(raised.value))
        assert texts[1].removeprefix("mm: ") == texts[0]  # a prefix of later torch versions


def test_gradients_through_vmap(device: str) -> None:
    """Backward of a vmapped product, outside of torch.func."""
    a = torch.stack([operands(device)[0] for _ in range(3)]).requires_grad_()
    b = operands(device)[1].requires_grad_()
    ours = torch.autograd.grad((vmap(tiled_mm.mm, (0, None))(a, b) ** 2).sum(), (a, b))
    theirs = torch.autograd.grad((vmap(torch.mm, (0, None))(a, b) ** 2).sum(), (a, b))
    assert_equal(ours, theirs)


def test_per_sample_gradients_of_a_module(device: str) -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(operands(device)[1])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return tiled_mm.mm(x[None], self.weight)[0]

    layer = Layer()
    samples = operands(device, m=6)[0]

    def loss(parameters: dict, sample: torch.Tensor) -> torch.Tensor:
        return (functional_call(layer, parameters, (sample,)) ** 2).sum()

    parameters = {name: p.detach() for name, p in layer.named_parameters()}
    per_sample = vmap(grad(loss), (None, 0))(parameters, samples)["weight"]
    for i in range(6):
        expected = 2 * torch.outer(samples[i], samples[i] @ parameters["weight"])
        assert torch.equal(per_sample[i], expected)
