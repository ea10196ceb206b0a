"""Cases of test_tree_parallel.py: experts that processes share out have the bits of one process,
which computes beside them."""

from __future__ import annotations

import itertools

import pytest
import tiled_mm
import torch
from epilogues import same_bits
from parallel_tree import drawn, parallelized
from processes import Cases, mesh, square_mesh, whole
from tiled_mm.distributed import ExpertParallel
from tiled_mm.nn import Experts
from torch import Tensor, distributed

CASES = Cases()
SIZES = (8, 16, 24, 12)  # experts, in, hidden, out
#: Experts without rows, processes without rows, rows of nobody, no rows at all.
ENDS = (
    (3, 3, 9, 10, 14, 14, 14, 20),
    (0, 0, 0, 0, 5, 5, 5, 8),
    (4, 9, 9, 20, 20, 20, 20, 20),
    (0,) * 8,
)


def layer(dtype: torch.dtype = torch.float32, **options) -> Experts:
    made = Experts(*SIZES, dtype=dtype, device="cpu", **options)
    for i, weight in enumerate(made.parameters()):
        weight.data = drawn(*weight.shape, dtype=dtype, seed=i) / 4
    return made.to(drawn(1).device)


def shared_out(net: Experts, on: object = None) -> Experts:
    return parallelized(torch.nn.Sequential(net), {"0": ExpertParallel()}, on)[0]


def step(net: Experts, x: Tensor, ends: Tensor, g: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    y = net(x, ends)
    y.backward(g)
    return [y.detach(), x.grad, *(whole(p.grad) for p in net.parameters())]


def all_same_bits(ours: list[Tensor], right: list[Tensor]) -> None:
    for t, expected in zip(ours, right, strict=True):
        assert same_bits(t, expected)


@CASES
def rows_of_experts() -> None:
    for dtype, ends in itertools.product((torch.float32, torch.float16, torch.bfloat16), ENDS):
        x, g = drawn(20, 16, dtype=dtype), drawn(20, 12, dtype=dtype, seed=5)
        x[::2] *= 4e-4  # in fp16 some results round to -0
        offs = torch.tensor(ends, device=x.device)
        right = step(layer(dtype), x, offs, g)
        net = shared_out(layer(dtype))
        all_same_bits(step(net, x, offs, g), right)
        for weight in net.parameters():
            count = SIZES[0] // distributed.get_world_size()
            assert weight.grad.to_local().shape[0] == weight.to_local().shape[0] == count
        if dtype == torch.float16 and ends[-1]:
            assert ((right[0] == 0) & right[0].signbit()).any()


@CASES
def no_rows() -> None:
    offs = torch.zeros(8, dtype=torch.int32, device=drawn(1).device)
    all_same_bits(
        step(shared_out(layer()), drawn(0, 16), offs, drawn(0, 12)),
        step(layer(), drawn(0, 16), offs, drawn(0, 12)),
    )


@CASES
def tokens_of_a_router() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        x, g = drawn(20, 16, dtype=dtype), drawn(20, 12, dtype=dtype, seed=5)
        found = []
        for net in (layer(dtype), shared_out(layer(dtype))):
            given = x.clone().requires_grad_()
            scores = drawn(20, 8, seed=6).softmax(-1).requires_grad_()
            weights, index = scores.topk(2)
            index = index.clone()
            index[3, 1] = 8  # none
            y = net.routed(given, index, weights)
            y.backward(g)
            grads = [whole(p.grad) for p in net.parameters()]
            found.append([y.detach(), given.grad, scores.grad, *grads])
        all_same_bits(*found)


@CASES
def second_derivatives() -> None:
    found = []
    offs = torch.tensor(ENDS[0], device=drawn(1).device)
    for net in (layer(torch.float64), shared_out(layer(torch.float64))):
        x = drawn(20, 16, dtype=torch.float64).requires_grad_()
        y = net(x, offs)
        seed = drawn(20, 12, dtype=torch.float64, seed=5).requires_grad_()
        (first,) = torch.autograd.grad(y, x, seed, create_graph=True)
        second = torch.autograd.grad((first * first).sum(), (x, seed))
        found.append([first.detach(), *second])
    all_same_bits(*found)


@CASES
def experts_compiled() -> None:
    x, g = drawn(20, 16), drawn(20, 12, seed=5)
    offs = torch.tensor(ENDS[0], device=x.device)
    right = step(layer(), x, offs, g)
    torch._dynamo.reset()
    net = shared_out(layer())
    run = torch.compile(net, backend="aot_eager", fullgraph=True)
    all_same_bits(step(run, x, offs, g), right)


@CASES
def experts_beside_fsdp() -> None:
    from torch.distributed.fsdp import fully_shard

    on = square_mesh(("data", "experts"))
    x = drawn(20, 16)
    offs = torch.tensor(ENDS[0], device=x.device)
    net = shared_out(layer(), on["experts"])
    fully_shard(net, mesh=on["data"])
    assert same_bits(net(x, offs), layer()(x, offs))


@CASES
def dtensors() -> None:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    x = drawn(20, 16)
    offs = torch.tensor(ENDS[0], device=x.device)
    right = layer()(x, offs)
    for way in (Replicate(), Shard(0), Shard(1)):
        parts = distribute_tensor(x, mesh(), [way]), distribute_tensor(offs, mesh(), [Replicate()])
        assert same_bits(shared_out(layer())(*parts), right)


@CASES
def refusals_of_experts() -> None:
    """By all processes, so that none waits for another."""
    count = distributed.get_world_size()
    if count > 1:
        with pytest.raises(RuntimeError, match=f"{count} processes do not share out 7 experts"):
            shared_out(Experts(7, 4, 4))
    with pytest.raises(NotImplementedError, match="Linear"):
        parallelized(torch.nn.Linear(4, 4), ExpertParallel())
    with pytest.raises(NotImplementedError, match="main_grad"):
        shared_out(layer(accumulate_main_grad=True))
    net, x = shared_out(layer()), drawn(20, 16)
    with pytest.raises(RuntimeError, match="ends of all experts"):
        net(x, torch.tensor([4, 20], device=x.device))
    if x.is_cuda:
        return
    for wrong in ((3, 2, *ENDS[0][2:]), (-1, *ENDS[0][1:]), (*ENDS[0][:-1], 21)):
        with pytest.raises(RuntimeError) as ours:
            net(x, torch.tensor(wrong))
        with pytest.raises(RuntimeError) as right:
            tiled_mm.grouped_mm(x, torch.ones(8, 16, 2), offs=torch.tensor(wrong))
        assert str(ours.value) == str(right.value)
    with pytest.raises(IndexError, match="index out of range"):
        net.routed(x, torch.full((20, 2), -1))
