"""The models of bench.scale, and how they are split."""

from __future__ import annotations

from collections.abc import Callable

import tiled_mm
import torch
from torch import Tensor, distributed, nn
from torch.nn import functional


class Block(nn.Module):
    """Attention and a perceptron, each behind a norm and beside a residual path."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.head = width // heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, sequence, width]"""
        y = self.before(x)
        q, k, v = (
            layer(y).unflatten(-1, (-1, self.head)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.between(x))))


class GPT(nn.Module):
    def __init__(self, depth: int, width: int, heads: int, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """[batch, sequence] -> [batch, sequence, words]"""
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def sharded(net: GPT, mesh) -> GPT:
    """By FSDP2, block by block; products in bf16, gradients added in fp32."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in net.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(net, mesh=mesh, mp_policy=policy)


def layers(net: GPT, mesh) -> GPT:
    """Tensor-parallel: the layers into attention and into the perceptron by columns, those out of
    them by rows; all other parameters replicated."""
    from torch.distributed.tensor import Replicate, distribute_tensor
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    columns, rows = ("q", "k", "v", "up"), ("o", "down")
    for block in net.blocks:
        styles = {name: ColwiseParallel() for name in columns}
        parallelize_module(block, mesh, styles | {name: RowwiseParallel() for name in rows})
    styles = {"out": ColwiseParallel(output_layouts=Replicate())}
    parallelize_module(net, mesh, styles)
    for module in (net.embedding, net.norm, *(m for b in net.blocks for m in b.children())):
        if isinstance(module, (nn.LayerNorm, nn.Embedding)):
            _replicate(module, mesh, distribute_tensor, [Replicate()])
    return net


def _replicate(module: nn.Module, mesh, distribute: Callable, everywhere: list) -> None:
    """Parameters as DTensors, computed with as what they are in each process."""
    from torch.distributed.tensor import distribute_module

    for name, p in list(module.named_parameters(recurse=False)):
        module.register_parameter(name, nn.Parameter(distribute(p.detach(), mesh, everywhere)))

    def local(module: nn.Module, inputs: tuple, mesh) -> tuple:
        from torch.distributed.tensor import DTensor

        return tuple(DTensor.from_local(t, mesh, everywhere, run_check=False) for t in inputs)

    distribute_module(
        module, mesh, input_fn=local, output_fn=lambda module, output, mesh: output.to_local()
    )


def perceptron(width: int, hidden: int, device: torch.device, *, ours: bool) -> nn.Module:
    """bf16, with gelu."""
    torch.manual_seed(2)
    kind = {"device": device, "dtype": torch.bfloat16}
    if ours:
        return nn.Sequential(
            tiled_mm.nn.Linear(width, hidden, activation="gelu", **kind),
            tiled_mm.nn.Linear(hidden, width, **kind),
        )
    return nn.Sequential(
        nn.Sequential(nn.Linear(width, hidden, **kind), nn.GELU()), nn.Linear(hidden, width, **kind)
    )


def tensor_parallel(net: nn.Module, mesh) -> nn.Module:
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    up = "0" if isinstance(net[0], nn.Linear) else "0.0"
    return parallelize_module(net, mesh, {up: ColwiseParallel(), "1": RowwiseParallel()})


class _ToColumns(torch.autograd.Function):
    """x for layers that have columns each: its gradients are added."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        grad = grad.contiguous()
        distributed.all_reduce(grad)
        return grad


class _FromRows(torch.autograd.Function):
    """The sum of what layers that have rows each give."""

    @staticmethod
    def forward(ctx, y: Tensor) -> Tensor:
        ctx.mark_dirty(y)
        distributed.all_reduce(y)
        return y

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        return grad


def captured_perceptron(width: int, hidden: int, device: torch.device) -> Callable:
    """Of the same MLP without DTensor: captured(x, first, last, around, backward) replays a CUDA
    graph; `first` has the activation."""
    count = distributed.get_world_size()
    kind = {"device": device, "dtype": torch.bfloat16}
    torch.manual_seed(2)
    up, bias = torch.randn(hidden // count, width, **kind), torch.randn(hidden // count, **kind)
    down = torch.randn(width, hidden // count, **kind) / hidden**0.5
    parameters = [t.mul_(width**-0.5).requires_grad_() for t in (up, bias, down)]

    def captured(
        x: Tensor, first: Callable, last: Callable, around: Callable, backward: bool
    ) -> Callable[[], None]:
        seed = torch.ones(x.shape[0], width, **kind)

        def work() -> None:
            with torch.set_grad_enabled(backward):
                y = _FromRows.apply(last(first(_ToColumns.apply(x), up, bias), down))
                if backward:
                    torch.autograd.grad(y, [x, *parameters], seed)

        side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with around():
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    work()
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()
            distributed.barrier()
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                work()
        return graph.replay

    return captured
