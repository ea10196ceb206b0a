"""Cases of test_distributed.py: tensor parallelism, layers and perceptrons by torch's styles."""

from __future__ import annotations

import itertools

import tiled_mm
import torch
from processes import Cases, equal, mesh, placed, whole, whole_numbers
from tiled_mm import nn
from torch import Tensor

CASES = Cases()


def layers(**options: object) -> torch.nn.Sequential:
    torch.manual_seed(5)
    return torch.nn.Sequential(nn.Linear(12, 16, **options), nn.Linear(16, 8))


def input_of(*sizes: int) -> Tensor:
    torch.manual_seed(6)
    return torch.randn(sizes)


def step(net: torch.nn.Module, x: Tensor) -> list[Tensor]:
    """The result, x's gradient, the parameters' gradients and the parameters after a step."""
    x = x.clone().requires_grad_()
    y = net(x)
    y.square().sum().backward()
    gradients = [whole(p.grad) for p in net.parameters()]
    torch.optim.AdamW(net.parameters(), lr=0.1, foreach=False).step()
    return [whole(y).detach(), x.grad, *gradients, *(whole(p).detach() for p in net.parameters())]


def parallelized(net: torch.nn.Module, styles) -> torch.nn.Module:
    from torch.distributed.tensor import parallel

    return parallel.parallelize_module(net, mesh(), styles)


@CASES
def column_parallel() -> None:
    """Every bit but x's gradient's, to which each process has its columns' terms."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel

    for activation, lead in itertools.product((None, "relu", "gelu"), ((), (3,), (4, 3))):
        x = input_of(*lead, 12)
        right = step(layers(activation=activation)[0], x)
        style = ColwiseParallel(output_layouts=Replicate())
        ours = step(parallelized(layers(activation=activation)[0], style), x)
        torch.testing.assert_close(ours.pop(1), right.pop(1))
        for got, expected in zip(ours, right, strict=True):
            equal(got, expected)


@CASES
def row_parallel() -> None:
    """Where the layer has an activation, no sum is shared out and the forward has every bit."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import RowwiseParallel

    for activation, lead in itertools.product((None, "relu", "gelu"), ((), (3,), (4, 3))):
        x = input_of(*lead, 12)
        right = step(layers(activation=activation)[0], x)
        style = RowwiseParallel(input_layouts=Replicate())
        ours = step(parallelized(layers(activation=activation)[0], style), x)
        if activation is not None:
            equal(ours[0], right[0])
        torch.testing.assert_close(ours, right)


@CASES
def gradients_of_a_row_parallel_layer() -> None:
    """Given the same gradient of its result they have every bit: each is a product of rows or
    columns that one process has."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import RowwiseParallel

    x, found = input_of(4, 12), []
    for split in (False, True):
        layer, mine = layers()[0], x.clone().requires_grad_()
        if split:
            layer = parallelized(layer, RowwiseParallel(input_layouts=Replicate()))
        layer(mine).sum().backward()
        found.append([mine.grad, whole(layer.weight.grad), whole(layer.bias.grad)])
    for got, expected in zip(*found, strict=True):
        equal(got, expected)


@CASES
def a_perceptron() -> None:
    """Columns, then rows, as the styles are meant; compiled too."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    for activation in ("relu", "gelu", "silu"):
        x = input_of(4, 3, 12)
        styles = {"0": ColwiseParallel(), "1": RowwiseParallel()}
        net = parallelized(layers(activation=activation), styles)
        torch.testing.assert_close(step(net, x), step(layers(activation=activation), x))
        with torch.inference_mode():
            torch.testing.assert_close(whole(net(x)), net(x))
    net = parallelized(layers(activation="gelu"), styles)
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(step(compiled, x), step(layers(activation="gelu"), x))


@CASES
def a_sequence() -> None:
    """Between the layers each process has its part of the sequence."""
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
    )

    def net() -> torch.nn.Sequential:
        up, down = layers(activation="gelu")
        return torch.nn.Sequential(torch.nn.LayerNorm(12), up, down)

    styles = {
        "0": SequenceParallel(),
        "1": ColwiseParallel(input_layouts=Shard(1)),
        "2": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    }
    x = input_of(2, 8, 12)
    alone, ours = net(), parallelized(net(), styles)
    result = ours(placed(x, mesh(), (Shard(1),)))
    assert result.placements == (Shard(1),)
    torch.testing.assert_close(result.full_tensor(), alone(x))
    alone(x).square().sum().backward()
    result.square().sum().full_tensor().backward()
    for got, right in zip(ours.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(got.grad.full_tensor(), right.grad)


@CASES
def a_sequence_that_stays_split() -> None:
    """Weights that every process has, and a part of a sequence, or of batch and sequence on two
    dimensions of a mesh: what torch.nn.Linear's DTensor cannot differentiate."""
    from processes import square_mesh
    from torch.distributed.tensor import Replicate, Shard

    for on, ways in (
        (mesh(), [(Shard(1),), (Shard(0),)]),
        (square_mesh(), [(Shard(0), Shard(1)), (Shard(1), Shard(1)), (Shard(1), Replicate())]),
    ):
        for activation, sequence, way in itertools.product((None, "gelu"), (8, 5), ways):
            x = input_of(4, sequence, 12)
            alone = layers(activation=activation)
            alone(x).square().sum().backward()
            ours = layers(activation=activation)
            for layer in ours:
                for name, p in list(layer.named_parameters()):
                    everywhere = placed(p.detach(), on, (Replicate(),) * on.ndim)
                    layer.register_parameter(name, torch.nn.Parameter(everywhere))
            y = ours(placed(x, on, way))
            equal(y.full_tensor(), alone(x))
            y.square().sum().full_tensor().backward()
            for got, right in zip(ours.parameters(), alone.parameters(), strict=True):
                torch.testing.assert_close(got.grad.full_tensor(), right.grad)


@CASES
def features_that_no_count_divides() -> None:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    def net() -> torch.nn.Sequential:
        torch.manual_seed(8)
        return torch.nn.Sequential(nn.Linear(7, 13, activation="silu"), nn.Linear(13, 5))

    x = input_of(2, 3, 7)
    styles = {"0": ColwiseParallel(use_local_output=False), "1": RowwiseParallel()}
    torch.testing.assert_close(step(parallelized(net(), styles), x), step(net(), x))


@CASES
def torchs_layers_under_the_override() -> None:
    """The same model of torch.nn has the bits of the converted one."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    def net() -> torch.nn.Sequential:
        torch.manual_seed(9)
        return torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.ReLU(), torch.nn.Linear(8, 6))

    styles = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    x = whole_numbers(4, 3, 12)
    with tiled_mm.override():
        torchs = step(parallelized(net(), styles), x)
    ours = step(parallelized(tiled_mm.convert(net()), styles), x)
    equal(ours[0], torchs[0])
    torch.testing.assert_close(ours, torchs)
