"""What docs/models.md says of the parts of a model that are not products: that with what its table
names, a sequence's numbers are the same whatever batch it is in."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tiled_mm
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BATCHES = (2, 3, 7, 16, 64)
LENGTH, WIDTH, HEADS = 96, 512, 8
Part = Callable[[Tensor], Tensor]


def same_alone(part: Part, x: Tensor) -> None:
    """`part` maps sequences to sequences: the first one's result, and the last one's."""
    with torch.inference_mode(), tiled_mm.override():
        first, last = part(x[:1])[0], part(x[-1:])[0]
        assert first.isfinite().all()
        for batch in BATCHES:
            found = part(x[:batch])
            assert torch.equal(found[0], first), batch
            assert torch.equal(part(x[-batch:])[-1], last), batch


def sequences(dtype: torch.dtype) -> Tensor:
    return torch.randn(max(BATCHES), LENGTH, WIDTH, device="cuda").to(dtype)


def rotated(x: Tensor) -> Tensor:
    """By the angles of its position."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2], device=x.device)[:, None] / 1e4 ** (
        torch.arange(half, device=x.device) / half
    )
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x.split(half, -1)
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)


ELEMENTWISE: dict[str, Part] = {
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "gated": lambda x: F.silu(x) * x + x,
    "rotary": rotated,
}
FLOATS = [torch.float32, torch.bfloat16, torch.float16]

# What the page names for a CPU, where torch's own change in some dtypes.
ON_A_CPU: dict[str, Part] = {
    "x / (1 + exp(-x))": lambda x: x / (1 + torch.exp(-x)),
    "1 / sqrt(x)": lambda x: 1 / torch.sqrt(x.abs() + 0.5),
    **{
        name: lambda x, name=name: tiled_mm.linear(x, torch.eye(3).to(x.dtype), activation=name)
        for name in ("gelu", "gelu_tanh", "silu")
    },
}


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
@pytest.mark.parametrize("name", ON_A_CPU)
def test_elementwise_operations_on_a_cpu(name: str, dtype: torch.dtype) -> None:
    """Of sizes that leave something over at the end of vectors and of threads' shares."""
    for length in (1, 7, 1001):
        x = torch.randn(max(BATCHES), length, 3).to(dtype)
        same_alone(ON_A_CPU[name], x)


HALVES = pytest.mark.parametrize("dtype", FLOATS, ids=str)


@pytest.mark.cuda
@HALVES
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_operations(name: str, dtype: torch.dtype) -> None:
    same_alone(ELEMENTWISE[name], sequences(dtype))


@pytest.mark.cuda
@HALVES
def test_embeddings(dtype: torch.dtype) -> None:
    table = nn.Embedding(1000, WIDTH).to("cuda", dtype)
    same_alone(table, torch.randint(1000, (max(BATCHES), LENGTH), device="cuda"))


@pytest.mark.cuda
@HALVES
@pytest.mark.parametrize("width", [64, WIDTH, 4096])
@pytest.mark.parametrize("name", ["RMSNorm", "LayerNorm", "softmax", "log_softmax"])
def test_norms_and_softmax(name: str, width: int, dtype: torch.dtype) -> None:
    x = torch.randn(max(BATCHES), LENGTH, width, device="cuda").to(dtype)
    if "softmax" in name:
        same_alone(lambda x: getattr(torch, name)(x, -1), x)
    else:
        same_alone(getattr(nn, name)(width).to("cuda", dtype), x)


def heads(x: Tensor) -> Tensor:
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


@pytest.mark.cuda
@pytest.mark.parametrize(
    "backend",
    [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH],
    ids=lambda backend: backend.name.lower(),
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_attention_over_a_prompt(backend: SDPBackend, dtype: torch.dtype) -> None:
    def attention(x: Tensor) -> Tensor:
        q = heads(x)
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, q, q, is_causal=True)

    same_alone(attention, sequences(dtype))


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_decoding_with_a_cache_of_full_length(dtype: torch.dtype) -> None:
    """Eager attention, whose products are tiled's: one row of queries at a time, for several
    sequences, beside all rows of one. What lies behind a position is masked."""
    x = heads(sequences(dtype)[:7])
    visible = torch.ones(LENGTH, LENGTH, dtype=torch.bool, device="cuda").tril()

    def attention(queries: Tensor, cache: Tensor, seen: Tensor) -> Tensor:
        scores = queries @ cache.mT / queries.shape[-1] ** 0.5
        return torch.softmax(scores.masked_fill(~seen, -torch.inf), -1) @ cache

    with torch.inference_mode(), tiled_mm.override():
        whole = attention(x[:1], x[:1], visible)[0]
        for at in (0, 1, 31, LENGTH - 1):
            step = attention(x[:, :, at : at + 1], x, visible[at : at + 1])[0]
            assert torch.equal(step, whole[:, at : at + 1]), at
    assert whole.isfinite().all()


@pytest.mark.cuda
def test_sums_by_index_with_deterministic_algorithms() -> None:
    index = torch.randint(8, (1 << 16,), device="cuda")
    source = torch.randn(1 << 16, 32, device="cuda")

    def summed() -> Tensor:
        return torch.zeros(8, 32, device="cuda").index_add_(0, index, source)

    torch.use_deterministic_algorithms(True)
    try:
        first = summed()
        assert all(torch.equal(summed(), first) for _ in range(20))
    finally:
        torch.use_deterministic_algorithms(False)


def test_silu_of_quotients_on_a_cpu() -> None:
    """What the table has instead of torch's own silu, whose last bit may change there."""
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(max(BATCHES), 31, 77).to(dtype)
        same_alone(lambda x: x / (1 + torch.exp(-x)), x)
