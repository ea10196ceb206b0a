"""Two processes on one machine, by gloo: data- and tensor-parallel training under
tiled_mm.override()."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tiled_mm
import torch
from processes import free_port, why_not
from torch import Tensor, distributed, nn
from torch.nn import functional as F

PROCESSES = 2
STEPS = 3

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


def make_net() -> nn.Module:
    """Of whole numbers, small enough that sums in any order are exact: with tiled's products or
    torch's, on one process or two, a step has one right result."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4, bias=False)).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randint(-2, 3, parameter.shape).double())
    return net


def inputs() -> Tensor:
    torch.manual_seed(4)
    return torch.randint(-2, 3, (STEPS, PROCESSES * 4, 6)).double()


def train(net: nn.Module, batches: Tensor, lr: float = 2.0**-6) -> None:
    """Each process's loss is a sum over its rows; gradients are averaged over processes."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for x in batches:
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()


def one_process() -> list[Tensor]:
    """The same steps without a second process: the sum over all rows, halved."""
    net = make_net()
    train(net, inputs(), lr=2.0**-6 / PROCESSES)
    return [parameter.detach() for parameter in net.parameters()]


def by_ddp(net: nn.Module, batches: Tensor) -> list[Tensor]:
    train(nn.parallel.DistributedDataParallel(net), batches)
    return [parameter.detach() for parameter in net.parameters()]


def by_fsdp2(net: nn.Module, batches: Tensor) -> list[Tensor]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (PROCESSES,))
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    train(net, batches)
    return [parameter.full_tensor().detach() for parameter in net.parameters()]


def by_tensor_parallel(net: nn.Module, batches: Tensor) -> list[Tensor]:
    """A process has all rows, half of the first layer's columns and of the second's terms."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cpu", (PROCESSES,))
    parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    train(net, inputs(), lr=2.0**-6 / PROCESSES)
    return [parameter.full_tensor().detach() for parameter in net.parameters()]


WAYS: dict[str, Callable[[nn.Module, Tensor], list[Tensor]]] = {
    "ddp": by_ddp,
    "fsdp2": by_fsdp2,
    "tensor_parallel": by_tensor_parallel,
}


def process(rank: int, port: int, way: str, results: list) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=PROCESSES
    )
    try:
        torch.set_num_threads(1)
        batches = inputs().unflatten(1, (PROCESSES, -1))[:, rank]
        with tiled_mm.override("cpu"):
            found = WAYS[way](make_net(), batches)
        counts = tiled_mm.override_counts().values()
        tiled = sum(count["tiled"] for count in counts)
        others = sum(n for c in counts for reason, n in c["torch"].items() if reason != "off")
        results[rank] = ([t.tolist() for t in found], tiled, others)
    finally:
        distributed.destroy_process_group()


@pytest.mark.parametrize("way", WAYS)
def test_parallel_training(way: str) -> None:
    """The parameters of one process that had all rows, on both processes; and every product was
    tiled's: two forward, three backward (the first layer's input has no gradient)."""
    context = torch.multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        results = manager.list([None] * PROCESSES)
        torch.multiprocessing.spawn(process, (free_port(), way, results), nprocs=PROCESSES)
        found = list(results)
    expected = one_process()
    for parameters, tiled, others in found:
        assert (tiled, others) == (STEPS * 5, 0)
        for ours, right in zip(parameters, expected, strict=True):
            assert torch.equal(torch.tensor(ours, dtype=torch.float64), right)


def test_the_reference_moves() -> None:
    """Steps that changed nothing would make any two results equal."""
    for before, after in zip(make_net().parameters(), one_process(), strict=True):
        assert not torch.equal(before, after)
    assert F.relu(make_net()[0](inputs()[0])).count_nonzero() > 0
