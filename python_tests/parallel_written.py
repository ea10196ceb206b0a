"""Cases of test_distributed.py: what is written in place, out= and main_grad, on DTensors."""

from __future__ import annotations

import itertools

import pytest
import tiled_mm
import torch
from parallel_products import ways_of
from processes import Cases, equal, mesh, placed, square_mesh, whole_numbers
from tiled_mm import nn
from torch import Tensor, distributed

CASES = Cases()


def written(name: str, operands: list[Tensor], out: Tensor, expected: Tensor, **options) -> None:
    """Into `out` where it lies, and nothing else of it changes."""
    before, address = out.placements, out.to_local().data_ptr()
    getattr(torch.ops.tiled, name).out(*operands, **options, out=out)
    assert out.placements == before and out.to_local().data_ptr() == address
    equal(out.full_tensor(), expected)


@CASES
def out_is_written_however_all_is_placed() -> None:
    torch.manual_seed(1)
    counts = (60, 30) if distributed.get_world_size() == 2 else (12, 24)
    for on, count in zip((mesh(), square_mesh()), counts, strict=True):
        for name, sizes, out in (
            ("mm", ((5, 8), (8, 6)), (5, 6)),
            ("bmm", ((2, 4, 8), (2, 8, 6)), (2, 4, 6)),
            ("linear", ((3, 4, 8), (6, 8), (6,)), (3, 4, 6)),
        ):
            operands = [whole_numbers(*size) for size in sizes]
            right = getattr(tiled_mm, name)(*operands)
            kinds = [ways_of(len(size), partial=name == "mm") for size in sizes]
            kinds.append(ways_of(len(out))[:-1])
            everywhere = list(itertools.product(*kinds))
            for i in torch.randperm(len(everywhere), device="cpu")[: count // len(sizes)]:
                *ways, way = everywhere[int(i)]
                ways = [(w, *[w] * (on.ndim - 1)) for w in ways]
                parts = [placed(t, on, w) for t, w in zip(operands, ways, strict=True)]
                target = placed(whole_numbers(*out), on, (way,) * on.ndim)
                written(name, parts, target, right)


@CASES
def what_is_added_to_is_written() -> None:
    """torch.Tensor.addmm_ of DTensors."""
    torch.manual_seed(2)
    for name, sizes in (
        ("addmm", ((5, 6), (5, 8), (8, 6))),
        ("baddbmm", ((2, 5, 6), (2, 5, 8), (2, 8, 6))),
    ):
        tensors = [whole_numbers(*size) for size in sizes]
        right = getattr(tiled_mm, name)(*tensors, beta=2, alpha=3)
        # (DTensor makes no average of what is split, torch's own addmm_ neither.)
        for way in ways_of(len(sizes[0]))[:-1]:
            others = itertools.product(ways_of(len(sizes[1]), partial=False), repeat=2)
            for a, b in itertools.islice(others, 0, None, distributed.get_world_size() // 2):
                parts = [placed(t, mesh(), (w,)) for t, w in zip(tensors, (way, a, b), strict=True)]
                written(name, parts, parts[0], right, beta=2, alpha=3)
    # A sum in float32 of 16-bit operands, as main_grad has it.
    sum, a, b = (whole_numbers(*size) for size in ((5, 6), (5, 8), (8, 6)))
    a, b = a.bfloat16(), b.bfloat16()
    right = tiled_mm.addmm(sum, a, b, out_dtype=torch.float32)
    for way in ways_of(2)[:-1]:
        parts = [placed(t, mesh(), (way,)) for t in (sum, a, b)]
        written("addmm", parts, parts[0], right, out_dtype=torch.float32)


@CASES
def what_cannot_be_written_is_refused() -> None:
    """By every process, with the operator's name, before anything is sent."""
    from torch.distributed.tensor import Partial, Replicate, Shard
    from torch.distributed.tensor.debug import CommDebugMode

    on = mesh()
    a, b = (placed(whole_numbers(4, 4), on, (Shard(0),)) for _ in range(2))
    plain, out = whole_numbers(4, 4), placed(torch.zeros(4, 4), on, (Replicate(),))
    part = placed(torch.zeros(4, 4), on, (Partial(),))
    cases = [
        (lambda: tiled_mm.mm(a, b, out=torch.zeros(4, 4)), "mixed torch.Tensor and DTensor"),
        (lambda: tiled_mm.mm(a, plain, out=out), "mixed torch.Tensor and DTensor"),
        (lambda: tiled_mm.mm(a, b, out=placed(torch.zeros(0), on, (Replicate(),))), "not resized"),
        (lambda: tiled_mm.mm(a, b, out=placed(torch.zeros(5, 4), on, (Replicate(),))), "shape"),
        (lambda: tiled_mm.mm(a, b, out=out.double()), "dtype"),
        (lambda: tiled_mm.addmm(out, a, b, activation="relu", out=part), "tiled.addmm.out"),
    ]
    for call, text in cases:
        with CommDebugMode() as sent, pytest.raises(RuntimeError, match=text):
            call()
        assert sent.get_total_counts() == 0
    assert not out.full_tensor().any() and not part.full_tensor().any()
    if distributed.get_world_size() > 2:
        other = placed(torch.zeros(4, 4), square_mesh(), (Replicate(), Replicate()))
        with pytest.raises(RuntimeError, match=r"tiled\.mm\.out.*cross-mesh"):
            tiled_mm.mm(a, b, out=other)


def main_grad_layer(style=None, **options) -> nn.Linear:
    from torch.distributed.tensor.parallel import parallelize_module

    torch.manual_seed(5)
    layer = nn.Linear(8, 6, accumulate_main_grad=True, **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(whole_numbers(*parameter.shape))
    if style is not None:
        parallelize_module(layer, mesh(), style)
    layer.weight.main_grad = torch.zeros_like(layer.weight, dtype=torch.float32)
    return layer


@CASES
def main_grad_of_a_tensor_parallel_layer() -> None:
    """Two backward passes, x a matrix or with more dimensions, whole or split."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    for lead in ((), (4,), (2, 4)):
        x = whole_numbers(*lead, 8)
        alone = main_grad_layer()
        for _ in range(2):
            alone(x).sum().backward()
        for style in (
            ColwiseParallel(output_layouts=Replicate()),
            RowwiseParallel(input_layouts=Replicate()),
        ):
            layer = main_grad_layer(style)
            for _ in range(2):
                layer(x).sum().backward()
            assert layer.weight.grad is None
            equal(layer.weight.main_grad.full_tensor(), alone.weight.main_grad)
            equal(layer.bias.grad.full_tensor(), alone.bias.grad)
    # A sequence that stays split: every process has terms of the whole weight's gradient.
    x = whole_numbers(2, 4, 8)
    alone, layer = main_grad_layer(), main_grad_layer(ColwiseParallel(use_local_output=False))
    alone(x).sum().backward()
    for way in (Shard(1), Shard(0), Replicate()):
        layer.weight.main_grad.zero_()
        y = torch.ops.tiled._linear_into_main_grad(
            placed(x, mesh(), (way,)), layer.weight, layer.bias, layer.weight.main_grad
        )
        y.full_tensor().sum().backward()
        equal(layer.weight.main_grad.full_tensor(), alone.weight.main_grad)
    with torch.inference_mode():
        equal(layer(x).full_tensor(), alone(x))


@CASES
def main_grad_under_fsdp2_says_what_to_use() -> None:
    from torch.distributed.fsdp import fully_shard

    layer = main_grad_layer()
    net = torch.nn.Sequential(layer)
    fully_shard(net, mesh=mesh())
    with pytest.raises(AttributeError, match=r"reduce_dtype=torch\.float32"):
        net(whole_numbers(4, 8))
