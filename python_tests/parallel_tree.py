"""Cases of test_tree_parallel.py: models split by tiled_mm.distributed's styles have the bits of
one process, which computes beside them."""

from __future__ import annotations

import itertools

import pytest
import tiled_mm
import torch
from processes import Cases, device, equal, mesh, placed, square_mesh, whole
from tiled_mm import _peer_memory, _tree_parallel, _tree_reduce, nn
from tiled_mm.distributed import ColwiseParallel, RowwiseParallel, tree_reduce
from torch import Tensor, distributed

CASES = Cases()
ORDER = "tree:16"
WIDTH, HIDDEN, HEADS, WORDS = 64, 256, 4, 128
DTYPES = (torch.float32, torch.bfloat16, torch.float64)
COLUMNS = ColwiseParallel(sum_order=ORDER)
ROWS = RowwiseParallel(sum_order=ORDER)


def parallelized(net: torch.nn.Module, styles: dict, on: object = None) -> torch.nn.Module:
    from torch.distributed.tensor import parallel

    return parallel.parallelize_module(net, on or mesh(), styles)


def part(t: Tensor, dim: int) -> Tensor:
    """This process's part."""
    return t.chunk(distributed.get_world_size(), dim)[distributed.get_rank()]


def drawn(*sizes: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """The same on every process and device."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sizes, generator=generator, device="cpu").to(device(), dtype)


@CASES
def sums_of_processes() -> None:
    """Beside the product of all K; gathered or exchanged, whole or split, with an epilogue."""
    count = distributed.get_world_size()
    for dtype, size, activation, biased in itertools.product(
        DTYPES, ((6,), (1, 3), (3, 4, 5)), (None, "relu", "gelu"), (False, True)
    ):
        x = drawn(*size, 128, dtype=dtype)
        weight, bias = drawn(24, 128, dtype=dtype, seed=1), drawn(24, dtype=dtype, seed=2)
        g = drawn(*size, 24, dtype=dtype, seed=3)
        ours, right = (
            [t.clone().requires_grad_() for t in (x, weight, *([bias] if biased else []))]
            for _ in range(2)
        )
        options = {"activation": activation, "sum_order": ORDER}
        y = tiled_mm.linear(*right, **options)
        y.backward(g)
        for limit, peers, scatter_dim in (
            (0, 0, None),
            (1 << 20, 0, None),
            (1 << 20, 1 << 20, None),  # on GPUs that reach each other's memory
            (0, 0, 0),
        ):
            if scatter_dim is not None and size[0] % count:
                continue
            for t in ours:
                t.grad = None
            out = torch.float32 if dtype == torch.bfloat16 else None
            partial = tiled_mm.linear(
                part(ours[0], -1), part(ours[1], -1), out_dtype=out, sum_order=ORDER
            )
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_tree_reduce, "ONE_STEP", limit)
                patch.setattr(_peer_memory, "MOST_BYTES", peers)
                got = tree_reduce(
                    partial,
                    mesh(),
                    scatter_dim,
                    out_dtype=dtype,
                    bias=ours[2] if biased else None,
                    activation=activation,
                )
            split = (lambda t: t) if scatter_dim is None else (lambda t: part(t, 0))
            equal(got, split(y))
            got.backward(split(g))
            for t, expected in zip(ours[:2], right, strict=False):
                equal(part(t.grad, -1), part(expected.grad, -1))
            if biased:
                equal(ours[2].grad, right[2].grad)


class Block(torch.nn.Module):
    """A layer of a GPT, of which a process has some heads."""

    def __init__(self, kind: type, dtype: torch.dtype) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH, dtype=dtype) for _ in range(2))
        self.q, self.k, self.v = (kind(WIDTH, WIDTH, dtype=dtype) for _ in range(3))
        self.back = kind(WIDTH, WIDTH, dtype=dtype)
        self.up, self.down = kind(WIDTH, HIDDEN, dtype=dtype), kind(HIDDEN, WIDTH, dtype=dtype)
        if kind is nn.Linear:
            self.up.activation = "gelu"

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[0](x)
        q, k, v = (
            f(y).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2).flatten(0, 1)
            for f in (self.q, self.k, self.v)
        )
        scores = tiled_mm.bmm(q, k.mT, sum_order=ORDER) * (WIDTH // HEADS) ** -0.5
        mask = torch.ones(scores.shape[1:], dtype=torch.bool, device=x.device).tril()
        seen = scores.masked_fill(~mask, -torch.inf).softmax(-1)
        mixed = tiled_mm.bmm(seen, v, sum_order=ORDER).unflatten(0, (x.shape[0], -1))
        x = x + self.back(mixed.transpose(1, 2).flatten(2))
        y = self.up(self.norms[1](x))
        return x + self.down(y)


def gpt(dtype: torch.dtype, kind: type = nn.Linear) -> torch.nn.Sequential:
    torch.manual_seed(7)
    with torch.device("cpu"):
        net = torch.nn.Sequential(
            torch.nn.Embedding(WORDS, WIDTH, dtype=dtype),
            *(Block(kind, dtype) for _ in range(2)),
            torch.nn.LayerNorm(WIDTH, dtype=dtype),
            kind(WIDTH, WORDS, bias=False, dtype=dtype),
        )
    return net.to(device())


def gpt_styles() -> dict:
    layers = {"q": COLUMNS, "k": COLUMNS, "v": COLUMNS, "back": ROWS, "up": COLUMNS, "down": ROWS}
    styles = {f"{i}.{name}": style for i in (1, 2) for name, style in layers.items()}
    from torch.distributed.tensor import Replicate

    return styles | {"4": ColwiseParallel(output_layouts=Replicate(), sum_order=ORDER)}


def tokens() -> Tensor:
    return torch.randint(
        WORDS, (3, 20), generator=torch.Generator().manual_seed(8), device="cpu"
    ).to(device())


def gradients_of(net: torch.nn.Module, words: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The logits, and the gradients of products' weights and biases."""
    logits = net(words)
    loss = torch.nn.functional.cross_entropy(
        logits[:, :-1].flatten(0, 1).float(), words[:, 1:].flatten()
    )
    loss.backward()
    return logits.detach(), {
        f"{name}.{at}": whole(p.grad)
        for name, module in net.named_modules()
        if isinstance(module, torch.nn.Linear)
        for at, p in module.named_parameters()
    }


@CASES
def sums_in_a_graph() -> None:
    """Of GPUs that reach each other's memory: a replay adds what the sums are then."""
    if device() != "cuda":
        return
    partial = drawn(16, 256, seed=distributed.get_rank())
    tree_reduce(partial, mesh(), out_dtype=torch.bfloat16)  # finds the others' memory
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = tree_reduce(partial, mesh(), out_dtype=torch.bfloat16)
        z = tree_reduce(2 * partial, mesh(), out_dtype=torch.bfloat16)
    for seed in (10, 20, 30):
        partial.copy_(drawn(16, 256, seed=seed + distributed.get_rank()))
        roots = [drawn(16, 256, seed=seed + r) for r in range(distributed.get_world_size())]
        graph.replay()
        right = _tree_reduce.added(torch.stack(roots))
        equal(y, right.bfloat16())
        equal(z, (2 * right).bfloat16())


@CASES
def a_gpt() -> None:
    """Logits and gradients; of torch's own layers, under the override, those of weights: torch adds
    up biases' gradients in an order of its own."""
    for dtype, kind in itertools.product(DTYPES, (nn.Linear, torch.nn.Linear)):
        with tiled_mm.override(), tiled_mm.sum_order(ORDER):
            logits, grads = gradients_of(gpt(dtype, kind), tokens())
        ours, of_ours = gradients_of(parallelized(gpt(dtype, kind), gpt_styles()), tokens())
        equal(ours, logits)
        assert set(of_ours) == set(grads) and len(grads) == 25
        for name, grad in grads.items():
            if kind is nn.Linear or name.endswith("weight"):
                equal(of_ours[name], grad)


@CASES
def rows_of_a_batch() -> None:
    net = parallelized(gpt(torch.bfloat16), gpt_styles())
    with torch.no_grad():
        all_of_them = net(tokens())
        for i in range(3):
            equal(net(tokens()[i : i + 1]), all_of_them[i : i + 1])


def mlp(dtype: torch.dtype, last: str | None = None) -> torch.nn.Sequential:
    torch.manual_seed(9)
    with torch.device("cpu"):
        net = torch.nn.Sequential(
            nn.Linear(WIDTH, HIDDEN, activation="silu", dtype=dtype),
            nn.Linear(HIDDEN, WIDTH, activation=last, dtype=dtype),
        )
    return net.to(device())


def step(net: torch.nn.Module, x: Tensor, g: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    y = net(x)
    y.backward(g)
    return [y.detach(), x.grad, *(whole(p.grad) for p in net.parameters())]


@CASES
def a_perceptron() -> None:
    """With an activation behind the shared sum too; whole, or split along the sequence."""
    from torch.distributed.tensor import Shard

    for dtype, last in itertools.product(DTYPES, (None, "gelu", "relu")):
        x, g = drawn(8, 4, WIDTH, dtype=dtype), drawn(8, 4, WIDTH, dtype=dtype, seed=1)
        with tiled_mm.sum_order(ORDER):
            right = step(mlp(dtype, last), x, g)
        for ours, expected in zip(
            step(parallelized(mlp(dtype, last), {"0": COLUMNS, "1": ROWS}), x, g),
            right,
            strict=True,
        ):
            equal(ours, expected)
        split = {
            "0": ColwiseParallel(input_layouts=Shard(1), sum_order=ORDER),
            "1": RowwiseParallel(output_layouts=Shard(1), sum_order=ORDER),
        }
        y, grad, *grads = step(parallelized(mlp(dtype, last), split), part(x, 1), part(g, 1))
        equal(y, part(right[0], 1))
        equal(grad, part(right[1], 1))
        for ours, expected in zip(grads, right[2:], strict=True):
            equal(ours, expected)


@CASES
def compiled() -> None:
    x, g = drawn(8, 4, WIDTH), drawn(8, 4, WIDTH, seed=1)
    for last in ("gelu", None):
        net = parallelized(mlp(torch.float32, last), {"0": COLUMNS, "1": ROWS})
        right = step(net, x, g)
        for p in net.parameters():
            p.grad = None
        torch._dynamo.reset()
        for ours, expected in zip(
            step(torch.compile(net, backend="aot_eager", fullgraph=True), x, g), right, strict=True
        ):
            equal(ours, expected)


@CASES
def beside_fsdp() -> None:
    """Two dimensions of a mesh: the result is one process's."""
    from torch.distributed.fsdp import fully_shard

    on = square_mesh(("data", "model"))
    x = drawn(4, WIDTH)
    with tiled_mm.sum_order(ORDER):
        right = mlp(torch.float32)(x)
    net = parallelized(mlp(torch.float32), {"0": COLUMNS, "1": ROWS}, on["model"])
    fully_shard(net, mesh=on["data"])
    equal(net(x), right)


@CASES
def recomputed() -> None:
    """Activation checkpointing."""
    from torch.utils.checkpoint import checkpoint

    x, g = drawn(8, WIDTH), drawn(8, WIDTH, seed=1)
    net = parallelized(mlp(torch.bfloat16), {"0": COLUMNS, "1": ROWS})
    right = step(net, x.bfloat16(), g.bfloat16())
    for p in net.parameters():
        p.grad = None
    again = x.bfloat16().requires_grad_()
    y = checkpoint(net, again, use_reentrant=False)
    y.backward(g.bfloat16())
    for ours, expected in zip(
        [y.detach(), again.grad, *(whole(p.grad) for p in net.parameters())], right, strict=True
    ):
        equal(ours, expected)


@CASES
def units_of_a_call() -> None:
    """A precision that is set later, or weights that come to a GPU later, may need larger parts of
    K. All processes raise before anything is sent: here one alone calls."""
    from torch.distributed.tensor import Shard

    count = distributed.get_world_size()
    rows = parallelized(torch.nn.Linear(32 * count, 8), ROWS)
    columns = parallelized(torch.nn.Linear(8, 32 * count), COLUMNS)
    x = placed(torch.ones(count, 32 * count), mesh(), (Shard(0),))  # to be sent to all
    z = torch.ones(2, 8, requires_grad=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tree_parallel, "_unit", lambda *_: 64)
        if distributed.get_rank() == 0:
            said = f"of {32 * count} does not part into {count} equal trees: .* a multiple of 64"
            with pytest.raises(RuntimeError, match="RowwiseParallel: in_features " + said):
                rows(x)
            with pytest.raises(RuntimeError, match="ColwiseParallel: out_features " + said):
                columns(z)
    rows(x)
    columns(z)


@CASES
def refusals() -> None:
    count = distributed.get_world_size()
    layer = torch.nn.Linear
    if count > 1:
        with pytest.raises(RuntimeError, match=f"in_features of 24 does not part into {count}"):
            parallelized(layer(24, 8), ROWS)
        with pytest.raises(RuntimeError, match=r"in_features of 512.*at least 1024"):
            parallelized(layer(512, 8), RowwiseParallel())
        narrow = parallelized(layer(16, 24), COLUMNS)
        narrow(torch.ones(2, 16))  # without a gradient of x no sum is shared out
        with pytest.raises(RuntimeError, match=f"out_features of 24 does not part into {count}"):
            narrow(torch.ones(2, 16, requires_grad=True))
        with pytest.raises(RuntimeError, match="evenly along dimension 0"):
            tree_reduce(torch.ones(count + 1, 4), mesh(), 0)
    with pytest.raises(NotImplementedError, match="Embedding"):
        parallelized(torch.nn.Embedding(8, 8), ROWS)
    with pytest.raises(NotImplementedError, match="main_grad"):
        parallelized(nn.Linear(64, 64, accumulate_main_grad=True), ROWS)
    with pytest.raises(RuntimeError, match="'chain' is not shared out"):
        parallelized(layer(64, 64), RowwiseParallel(sum_order="chain"))
    for dtype in (torch.bfloat16, torch.int32):
        with pytest.raises(RuntimeError, match="float32 or float64"):
            tree_reduce(torch.ones(2, 2, dtype=dtype), mesh())
    with pytest.raises(RuntimeError, match="scatter_dim -1"):
        tree_reduce(torch.ones(4, 4), mesh(), -1)
    with pytest.raises(RuntimeError, match=r"bias of \[4\], got \[3\]"):
        tree_reduce(torch.ones(4, 4), mesh(), bias=torch.ones(3))
    with pytest.raises(RuntimeError, match="sums give no"):
        tree_reduce(torch.ones(4, 4), mesh(), out_dtype=torch.float64)
