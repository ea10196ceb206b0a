"""Small programs for the checker: some with one operator that changes with the batch, and clean
ones. Their products are tiled's, and what else they call keeps its bits on a CPU and a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH, LENGTH = 24, 5

# ---- operators that are wrong on purpose ---------------------------------------------------------


def in_blocks(x: Tensor, block: int) -> Tensor:
    """Sums along the last axis, of blocks one after the other: the block decides the bits."""
    total = torch.zeros_like(x[..., 0])
    for part in x.split(block, -1):
        total = total + part.sum(-1)
    return total


def block_for(rows: int) -> int:
    return 3 if rows > 20 else 8


@torch.library.custom_op("culprits::norm", mutates_args=())
def norm(x: Tensor) -> Tensor:
    """An RMS norm whose block depends on the number of rows."""
    mean = in_blocks(x * x, block_for(x.shape[0])) / x.shape[-1]
    return x / torch.sqrt(mean + 1e-5)[..., None]


@torch.library.custom_op("culprits::mm", mutates_args=())
def split_k_mm(a: Tensor, b: Tensor) -> Tensor:
    """A product that cuts K for few rows."""
    block = block_for(a.shape[0])
    parts = zip(a.split(block, -1), b.split(block, 0), strict=True)
    return sum(torch.mm(x, y) for x, y in parts)


@torch.library.custom_op("culprits::attention", mutates_args=())
def split_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention that cuts the keys for few sequences."""
    count = 2 if q.shape[0] < 8 else 1
    scores = torch.exp(torch.bmm(q, k.mT) / 5)
    sums, values = 0, 0
    for s, part in zip(scores.chunk(count, -1), v.chunk(count, 1), strict=True):
        values = values + torch.bmm(s, part)
        sums = sums + s.sum(-1, keepdim=True)
    return values / sums


@torch.library.custom_op("culprits::add_into", mutates_args=("x",))
def add_into(x: Tensor, y: Tensor) -> None:
    x.add_(in_blocks(y, block_for(x.shape[0]))[..., None])


@torch.library.custom_op("culprits::softmax", mutates_args=())
def online_softmax(x: Tensor) -> Tensor:
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / in_blocks(e, block_for(x.shape[0]))[..., None]


_calls = [0]


@torch.library.custom_op("culprits::atomics", mutates_args=())
def atomics(x: Tensor) -> Tensor:
    """A sum whose order is another one in every call, as atomics have it."""
    _calls[0] += 1
    return x + in_blocks(x, 3 + _calls[0] % 3)[..., None]


@torch.library.custom_op("culprits::loss", mutates_args=())
def fused_loss(x: Tensor, at: Tensor) -> Tensor:
    """A loss for each row, already divided by the number of rows."""
    picked = x.gather(-1, at[..., None])[..., 0]
    return (torch.log(torch.exp(x).sum(-1)) - picked) / x.shape[0]


@torch.library.custom_op("culprits::last_row", mutates_args=())
def wrong_last_row(x: Tensor) -> Tensor:
    """Another order of sums for what is left over at the end of a tile of four rows."""
    whole = x.shape[0] // 4 * 4
    return torch.cat([x[:whole] + in_blocks(x[:whole], 8)[..., None],
                      x[whole:] + in_blocks(x[whole:], 3)[..., None]])  # fmt: skip


@torch.library.custom_op("culprits::scale", mutates_args=())
def quantised(x: Tensor) -> Tensor:
    """One scale for the whole batch."""
    scale = x.abs().max() / 127
    return torch.round(x / scale) * scale


class _BlockedBackward(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return torch.ops.culprits.norm(gradient)


# ---- programs ------------------------------------------------------------------------------------


@dataclass
class Case:
    """A program, its inputs, and what the first finding must say: part of the operator's name, and
    the kinds that are right. None: a clean one."""

    program: Callable
    inputs: Callable[[], tuple]
    operator: str | None = None
    kinds: tuple[str, ...] = ("rows",)
    options: dict[str, Any] | None = None


def vectors() -> tuple:
    return (torch.randn(64, WIDTH),)


def sequences() -> tuple:
    return (torch.randn(64, LENGTH, WIDTH),)


def tokens() -> tuple:
    return (torch.randint(40, (64, LENGTH)),)


class Around(nn.Module):
    """A layer, a step of its own, and another layer."""

    def __init__(self, step: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.step = step if isinstance(step, nn.Module) else Step(step)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.step(torch.relu(self.first(x))))


class Step(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def around(step: Callable[[Tensor], Tensor]) -> Callable[[], nn.Module]:
    return lambda: Around(step)


def around_module(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: Around(make())


def written_into(x: Tensor) -> Tensor:
    y = x * 2
    torch.ops.culprits.add_into(y, x)
    return y


def branches(x: Tensor) -> Tensor:
    """Another path for few rows."""
    if x.shape[0] > 8:
        return x + x.sum(-1, keepdim=True)
    return x + in_blocks(x, 7)[..., None]


def in_less(x: Tensor) -> Tensor:
    return x.bfloat16().float() if x.shape[0] > 8 else x


def padded_cache(x: Tensor) -> Tensor:
    """Keys of a length that depends on the batch."""
    length = LENGTH + x.shape[0] % 5 + (3 if x.shape[0] > 9 else 0)
    keys = torch.cat([x, x.new_ones(x.shape[0], length - LENGTH, WIDTH)], 1)
    return torch.softmax(torch.bmm(x, keys.mT), -1) @ keys


def outside(x: Tensor) -> Tensor:
    """numpy, where no dispatcher sees it."""
    values = x.detach().cpu().contiguous()
    values.numpy()[...] *= 1 + 1e-3 * x.shape[0]
    return values.to(x.device)


def across(x: Tensor) -> Tensor:
    scores = x @ x.T / 10
    return torch.softmax(scores, -1) @ x


def wrong_axis_attention() -> nn.Module:
    """A batch first, for attention that takes it second."""
    return nn.MultiheadAttention(WIDTH, 2, batch_first=False)


CULPRITS: dict[str, Case] = {
    "a norm of blocks by rows": Case(around(torch.ops.culprits.norm), vectors, "culprits::norm"),
    "the same, in sequences": Case(around(torch.ops.culprits.norm), sequences, "culprits::norm"),
    "a product that splits K": Case(
        around(lambda x: torch.ops.culprits.mm(x, torch.eye(WIDTH) + 0.3)), vectors, "culprits::mm"
    ),
    "split attention": Case(
        around(lambda x: torch.ops.culprits.attention(x, x * 0.5, x)), sequences,
        "culprits::attention",
    ),
    "an online softmax": Case(around(torch.ops.culprits.softmax), vectors, "culprits::softmax"),
    "written into an argument": Case(around(written_into), vectors, "culprits::add_into"),
    "the rows left over": Case(around(torch.ops.culprits.last_row), vectors, "culprits::last_row"),
    "atomics": Case(
        around(torch.ops.culprits.atomics), vectors, "culprits::atomics", ("run to run",)
    ),
    "one scale for all": Case(around(torch.ops.culprits.scale), vectors, "culprits::scale"),
    "a scale in torch's operators": Case(
        around(lambda x: x / x.abs().max()), vectors, "max", ("over the batch",)
    ),
    "batch norm in training": Case(
        around_module(lambda: nn.BatchNorm1d(WIDTH)), vectors, "batch_norm", ("rows",),
        {"batches": (2, 7, 16)},
    ),
    "a mean over the batch": Case(
        around(lambda x: x - x.mean(0)), vectors, "mean", ("over the batch",)
    ),
    "a deviation over the batch": Case(
        around(lambda x: x / (1 + x.std(0))), vectors, "std", ("over the batch",),
        {"batches": (2, 7, 16)},
    ),
    "softmax over the batch": Case(around(lambda x: torch.softmax(x, 0)), vectors, "softmax"),
    "sums along the batch": Case(around(lambda x: torch.cumsum(x, 0)), vectors, "cumsum"),
    "a neighbour": Case(around(lambda x: x + torch.roll(x, 1, 0)), vectors, "roll"),
    "the greatest of the batch": Case(
        around(lambda x: x - torch.logsumexp(x, 0)), vectors, "logsumexp", ("over the batch",)
    ),
    "sorted over the batch": Case(around(lambda x: torch.sort(x, 0)[0]), vectors, "sort"),
    "a covariance": Case(
        around(lambda x: x @ (x.T @ x)), vectors, "mm", ("over the batch",)
    ),
    "attention over the batch": Case(around(across), vectors, "mm", ("over the batch",)),
    "attention with the wrong axis": Case(
        lambda: Called(wrong_axis_attention()), sequences, "", ("rows", "over the batch")
    ),
    "dropout": Case(around_module(lambda: nn.Dropout(0.3)), vectors, "", ("random",)),
    "noise": Case(around(lambda x: x + torch.rand_like(x)), vectors, "rand_like", ("random",)),
    "a sampled mask": Case(
        around(lambda x: x * torch.bernoulli(torch.full_like(x, 0.5))), vectors, "bernoulli",
        ("random",),
    ),
    "divided by the batch": Case(around(lambda x: x / x.shape[0]), vectors, "div"),
    "a temperature for few rows": Case(
        around(lambda x: x * (0.7 if x.shape[0] > 8 else 0.9)), vectors, "mul"
    ),
    "another path for few rows": Case(around(branches), vectors, "", ("another path", "rows")),
    "fewer bits for many rows": Case(around(in_less), vectors, "", ("another path",)),
    "a cache padded by the batch": Case(
        around(padded_cache), sequences, "", ("another size", "rows")
    ),
    "outside of torch": Case(around(outside), vectors, "before", ("cannot see inside",)),
    "a fused loss of rows": Case(
        lambda: lambda x, at: torch.ops.culprits.loss(x, at),
        lambda: (torch.randn(64, 9), torch.randint(9, (64,))), "culprits::loss",
    ),
    "a loss over the batch": Case(
        lambda: F.cross_entropy, lambda: (torch.randn(64, 9), torch.randint(9, (64,))),
        "nll_loss", ("over the batch",),
    ),
    "a backward of blocks by rows": Case(
        around(_BlockedBackward.apply), vectors, "culprits::norm", ("rows",), {"backward": True}
    ),
}  # fmt: skip


class Called(nn.Module):
    """Attention of a sequence to itself."""

    def __init__(self, attention: nn.MultiheadAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


class Language(nn.Module):
    """Tokens to logits of the last one, by attention written out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(40, WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.head = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 40)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.norm(self.embedding(tokens))
        q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = torch.softmax(q @ k.mT, -1) @ v
        y = x + y.transpose(1, 2).flatten(-2)
        rows = torch.arange(len(tokens), device=tokens.device)
        return self.head(y)[rows, tokens.argmax(-1)]


class Experts(nn.Module):
    """Each token through the expert that its scores choose, tokens gathered for each."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, 3, bias=False)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        chosen = self.gate(tokens).argmax(-1)
        out = torch.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            at = torch.where(chosen == i)[0]
            out.index_add_(0, at, expert(tokens[at]))
        return out.view_as(x)


class SequenceFirst(nn.Module):
    """[length, batch, features], as recurrent networks have it."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.out = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros_like(x[0])
        for part in x:
            h = torch.relu(self.step(torch.cat([part, h], -1)))
        return self.out(x + h).flatten(0, 1).view(x.shape[0], x.shape[1], 3)


class Cached(nn.Module):
    """One token more, with a cache of full length that the module holds."""

    def __init__(self) -> None:
        super().__init__()
        self.key = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("cache", torch.zeros(64, 8, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        cache = self.cache[: len(x)]
        cache[:, 3] = self.key(x)
        scores = (cache @ x[:, :, None])[..., 0].masked_fill(
            torch.arange(8, device=x.device) > 3, -torch.inf
        )
        return (torch.softmax(scores, -1)[:, None] @ cache)[:, 0]


class Tied(nn.Module):
    """A weight that is made in the forward, of a norm of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight / self.weight.norm(dim=1, keepdim=True)
        return x @ weight @ weight.T


CLEAN: dict[str, Case] = {
    "layers": Case(around(lambda x: x), vectors),
    "a layer norm": Case(around_module(lambda: nn.LayerNorm(WIDTH)), sequences),
    "an RMS norm, with its gradients": Case(
        around_module(lambda: nn.RMSNorm(WIDTH)), sequences, options={"backward": True}
    ),
    "attention written out": Case(
        around(lambda x: torch.softmax(x @ x.mT, -1) @ x), sequences, options={"columns": True}
    ),
    "a language model": Case(Language, tokens),
    "mixture of experts": Case(Experts, sequences),
    "sequence first": Case(
        SequenceFirst, lambda: (torch.randn(LENGTH, 64, WIDTH),), options={"batch_dim": 1}
    ),
    "a cache of full length": Case(Cached, vectors),
    "batch norm in eval": Case(around_module(lambda: nn.BatchNorm1d(WIDTH).eval()), vectors),
    "dropout in eval": Case(around_module(lambda: nn.Dropout(0.3).eval()), vectors),
    "a weight made in the forward": Case(Tied, vectors),
    "attention of torch's module": Case(
        lambda: Called(nn.MultiheadAttention(WIDTH, 2, batch_first=True)), sequences
    ),
    "a loss of rows": Case(
        lambda: lambda x, at: F.cross_entropy(x, at, reduction="none"),
        lambda: (torch.randn(64, 9), torch.randint(9, (64,))),
    ),
    "a mask of lengths": Case(
        lambda: lambda x, n: (x * (torch.arange(LENGTH, device=x.device) < n[:, None])[..., None]),
        lambda: (*sequences(), torch.randint(LENGTH, (64,))),
    ),
}  # fmt: skip
