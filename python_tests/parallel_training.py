"""Cases of test_distributed.py: training by torch's data, pipeline and mixed parallelism, and
checkpoints."""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Callable, Iterator

import tiled_mm
import torch
from processes import Cases, device, equal, mesh, square_mesh, whole, whole_numbers
from tiled_mm import nn
from torch import Tensor, distributed
from torch.profiler import profile

CASES = Cases()
STEPS, LR = 3, 2.0**-6


def make_net() -> torch.nn.Module:
    """Of whole numbers, small enough that sums in any order are exact: a step has one right
    result."""
    torch.manual_seed(3)
    net = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4, bias=False)
    ).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(whole_numbers(*parameter.shape, dtype=torch.float64, end=2))
    return net


def inputs() -> Tensor:
    torch.manual_seed(4)
    return whole_numbers(STEPS, 8, 6, dtype=torch.float64, end=2)


def train(net: torch.nn.Module, batches: Tensor, lr: float = LR) -> list[Tensor]:
    """Every process's loss is a sum over its rows; gradients are averaged over processes."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for x in batches:
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()
    return [whole(parameter).detach() for parameter in net.parameters()]


def mine(batches: Tensor, part: int, parts: int) -> Tensor:
    return batches.unflatten(1, (parts, -1))[:, part]


def check_training(prepare: Callable, part: int, parts: int) -> None:
    """The parameters of one process that had all rows: of the library's layers, and of torch's
    under the override. There every product is tiled's, two forward and three backward of each step
    (the first layer's input has no gradient)."""
    right = train(make_net(), inputs(), LR / parts)
    converted = train(prepare(tiled_mm.convert(make_net())), mine(inputs(), part, parts))
    tiled_mm.override_counts(reset=True)
    with tiled_mm.override(device()):
        overridden = train(prepare(make_net()), mine(inputs(), part, parts))
    counts = tiled_mm.override_counts().values()
    assert sum(count["tiled"] for count in counts) == STEPS * 5, counts
    assert not any(count["torch"].keys() - {"off"} for count in counts), counts
    for ours in (converted, overridden):
        for got, expected in zip(ours, right, strict=True):
            equal(got, expected)


def fully_sharded(net: torch.nn.Module, on) -> torch.nn.Module:
    from torch.distributed.fsdp import fully_shard

    for layer in net:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=on)
    return fully_shard(net, mesh=on)


def tensor_parallel(net: torch.nn.Module, on) -> torch.nn.Module:
    from torch.distributed.tensor import parallel

    styles = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    return parallel.parallelize_module(net, on, styles)


@CASES
def data_parallel() -> None:
    ddp = torch.nn.parallel.DistributedDataParallel
    rank, count = distributed.get_rank(), distributed.get_world_size()
    check_training(ddp, rank, count)
    check_training(lambda net: ddp(net, static_graph=True), rank, count)


@CASES
def fully_sharded_data_parallel() -> None:
    rank, count = distributed.get_rank(), distributed.get_world_size()
    check_training(lambda net: fully_sharded(net, mesh()), rank, count)


@CASES
def hybrid_sharded_data_parallel() -> None:
    rank, count = distributed.get_rank(), distributed.get_world_size()
    check_training(lambda net: fully_sharded(net, square_mesh(("dp", "fsdp"))), rank, count)


@CASES
def tensor_and_fully_sharded_data_parallel() -> None:
    on = square_mesh(("dp", "tp"))
    check_training(
        lambda net: fully_sharded(tensor_parallel(net, on["tp"]), on["dp"]),
        on.get_local_rank("dp"),
        on.size(0),
    )
    check_training(lambda net: tensor_parallel(net, mesh()), 0, 1)


@CASES
def fully_sharded_in_mixed_precision() -> None:
    """bf16 products, gradients added in fp32 over processes and passes: of whole numbers exact."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    net = tiled_mm.convert(make_net()).float()
    alone = copy.deepcopy(net)
    fully_shard(net, mesh=mesh(), mp_policy=policy)
    count = distributed.get_world_size()
    batches = inputs().float()[:2]
    for x, all_of_it in zip(mine(batches, distributed.get_rank(), count), batches, strict=True):
        net(x.bfloat16()).float().sum().backward()
        alone(all_of_it).sum().backward()
    for got, right in zip(net.parameters(), alone.parameters(), strict=True):
        equal(got.grad.full_tensor() * count, right.grad)


@CASES
def layers_converted_after_fully_shard() -> None:
    """convert() of layers that fully_shard has been called for, and before: the same training."""
    from torch.distributed.fsdp import FSDPModule, fully_shard

    def trained(order: str) -> list[Tensor]:
        torch.manual_seed(9)
        net = torch.nn.Sequential(
            torch.nn.Linear(12, 8), torch.nn.ReLU(), torch.nn.Linear(8, 6, bias=False)
        )
        if order == "before":
            tiled_mm.convert(net)
        for module in (net[0], net[2], net):
            fully_shard(module, mesh=mesh())
        if order != "before":
            tiled_mm.convert(net)
            for layer in (net[0], net[2]):
                assert isinstance(layer, nn.Linear) and isinstance(layer, FSDPModule)
        if order == "back":
            tiled_mm.convert(net, back=True)
            assert not any(isinstance(layer, nn.Linear) for layer in net)
        x = torch.randn(5, 12)
        with profile() as found:
            net(x).square().sum().backward()
        ours = sum(event.name == "tiled::linear" for event in found.events())
        assert ours == (0 if order == "back" else 2), ours
        return [parameter.grad.full_tensor() for parameter in net.parameters()]

    before, after, back = map(trained, ("before", "after", "back"))
    for one, other, torchs in zip(before, after, back, strict=True):
        equal(other, one)
        torch.testing.assert_close(torchs, one)


@CASES
def pipelines() -> None:
    """Gradients of every stage, of four micro-batches."""
    from torch.distributed.pipelining import (
        PipelineStage,
        Schedule1F1B,
        ScheduleGPipe,
        ScheduleInterleaved1F1B,
        ScheduleInterleavedZeroBubble,
    )

    rank, count = distributed.get_rank(), distributed.get_world_size()
    where = torch.device(device(), rank if device() == "cuda" else None)
    for schedule, each in (
        (ScheduleGPipe, 1),
        (Schedule1F1B, 1),
        (ScheduleInterleaved1F1B, 2),
        (ScheduleInterleavedZeroBubble, 2),  # gradients of inputs and of weights apart
    ):
        stages = count * each
        torch.manual_seed(11)
        net = torch.nn.Sequential(*[nn.Linear(4, 4, activation="relu") for _ in range(stages)])
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.copy_(whole_numbers(*parameter.shape, end=1))
        x, target = whole_numbers(8, 4, end=1), whole_numbers(8, 4, end=1)
        alone = copy.deepcopy(net)
        (alone(x) * target).sum().backward()
        own = [PipelineStage(net[i], i, stages, where) for i in range(rank, stages, count)]
        run = schedule(
            own if each > 1 else own[0],
            n_microbatches=4,
            loss_fn=lambda y, t: (y * t).sum(),
            scale_grads=False,
        )
        run.step(*([x] if rank == 0 else []), **({"target": target} if rank == count - 1 else {}))
        for i in range(rank, stages, count):
            for got, right in zip(net[i].parameters(), alone[i].parameters(), strict=True):
                equal(got.grad, right.grad)


def folder() -> Iterator[str]:
    """One that all processes see, until the next one is asked for."""
    while True:
        name = [tempfile.mkdtemp() if distributed.get_rank() == 0 else None]
        distributed.broadcast_object_list(name)
        yield name[0]
        distributed.barrier()
        if distributed.get_rank() == 0:
            shutil.rmtree(name[0])


@CASES
def checkpoints() -> None:
    """What was saved goes on as if it had not been: from every way of sharding into every other,
    and into torch's layers."""
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    ways = {
        "tensor parallel": lambda net: tensor_parallel(net, mesh()),
        "fully sharded": lambda net: fully_sharded(net, mesh()),
        "both": lambda net: fully_sharded(
            tensor_parallel(net, square_mesh(("dp", "tp"))["tp"]), square_mesh(("dp", "tp"))["dp"]
        ),
        "alone": lambda net: net,
    }

    def made(way: str, *, ours: bool = True) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        net = ways[way](tiled_mm.convert(make_net()) if ours else make_net())
        return net, torch.optim.AdamW(net.parameters(), lr=0.1)

    def step(net: torch.nn.Module, optimizer: torch.optim.Optimizer, x: Tensor) -> None:
        optimizer.zero_grad()
        net(x).square().sum().backward()
        optimizer.step()

    folders = folder()
    for way in ways:
        net, optimizer = made(way)
        step(net, optimizer, inputs()[0])
        where = next(folders)
        saved = dict(zip(("net", "optimizer"), get_state_dict(net, optimizer), strict=True))
        checkpoint.save(saved, checkpoint_id=where)
        before = [whole(p).detach().clone() for p in net.parameters()]
        step(net, optimizer, inputs()[1])
        for other in ways:
            for ours in (True, False):
                loaded, its = made(other, ours=ours)
                found = dict(zip(("net", "optimizer"), get_state_dict(loaded, its), strict=True))
                checkpoint.load(found, checkpoint_id=where)
                set_state_dict(
                    loaded,
                    its,
                    model_state_dict=found["net"],
                    optim_state_dict=found["optimizer"],
                )
                for got, right in zip(loaded.parameters(), before, strict=True):
                    equal(whole(got).detach(), right)
                step(loaded, its, inputs()[1])
                for got, right in zip(loaded.parameters(), net.parameters(), strict=True):
                    if other == way and ours:
                        equal(whole(got), whole(right))
                    torch.testing.assert_close(whole(got), whole(right))
    next(folders)
