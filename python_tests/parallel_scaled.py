"""Cases of test_distributed.py: scaled products on DTensors, whichever way operands and scales are
placed. They are of int8, which gloo carries, with scales that are powers of 2, so that sums of
parts are exact; and of fp8, where it needs no carrying."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
import scaled
import tiled_mm
import torch
from parallel_products import ways_of
from processes import Cases, device, equal, mesh, placed, square_mesh, whole, whole_numbers
from torch import Tensor, distributed

CASES = Cases()


def powers(*sizes: int) -> Tensor:
    return torch.exp2(torch.randint(-2, 3, sizes).float())


def check_ways(product: Callable, tensors: list[Tensor], most: int = 60) -> None:
    """Drawn placements, on one dimension and on two."""
    right = product(*tensors)
    kinds = [ways_of(t.dim(), partial=False) for t in tensors]
    draw = random.Random(str([t.shape for t in tensors]))  # the same in every process
    ways = list(itertools.product(*kinds))
    for chosen in draw.sample(ways, min(len(ways), most)):
        parts = [placed(t, mesh(), (w,)) for t, w in zip(tensors, chosen, strict=True)]
        equal(whole(product(*parts)), right)
    for _ in range(8):
        pairs = [(draw.choice(kind), draw.choice(kind)) for kind in kinds]
        parts = [placed(t, square_mesh(), w) for t, w in zip(tensors, pairs, strict=True)]
        equal(whole(product(*parts)), right)


def in_fp32(*tensors: Tensor) -> Tensor:
    bias = tensors[4] if len(tensors) > 4 else None
    return tiled_mm.scaled_mm(*tensors[:4], bias=bias, out_dtype=torch.float32)


@CASES
def scaled_rows_and_columns() -> None:
    torch.manual_seed(1)
    a, b = whole_numbers(6, 8, dtype=torch.int8), whole_numbers(8, 10, dtype=torch.int8)
    bias = whole_numbers(10)
    check_ways(in_fp32, [a, b, powers(6, 1), powers(1, 10)])
    check_ways(in_fp32, [a, b, powers(6), powers(10), bias])
    check_ways(in_fp32, [a, b, powers(1), powers(1, 10)])


@CASES
def scaled_batches() -> None:
    torch.manual_seed(2)
    a, b = whole_numbers(4, 6, 8, dtype=torch.int8), whole_numbers(4, 8, 10, dtype=torch.int8)
    check_ways(in_fp32, [a, b, powers(4, 6, 1), powers(4, 1, 10)], 30)
    check_ways(in_fp32, [a, b, powers(4), powers(4)], 30)


@CASES
def scaled_by_blocks() -> None:
    """What lies right stays: rows of A with their scales, columns of B with theirs."""
    from torch.distributed.tensor import Replicate, Shard

    if distributed.get_backend() == "nccl":
        return  # the same placements, by kernels that Hopper alone has
    o = scaled.make(256, 384, 300, "BlockWise1x128", "BlockWise1x128", device=device())
    right = in_fp32(*o.all())
    all_ = Replicate()
    for ways, of_c in (
        ((Shard(0), all_, Shard(0), all_), Shard(0)),
        ((all_, Shard(1), all_, Shard(1)), Shard(1)),
    ):
        parts = [placed(t, mesh(), (w,)) for t, w in zip(o.all(), ways, strict=True)]
        c = in_fp32(*parts)
        assert c.placements == (of_c,)
        equal(whole(c), right)


@CASES
def quantized_by_blocks() -> None:
    """Entries stay where they are, and rows where each has its own scales; blocks are not cut."""
    from torch.distributed.tensor import Replicate, Shard

    if distributed.get_backend() == "nccl":
        return  # as above
    x, w = torch.randn(4, 150, 140), torch.randn(30, 140)
    p = tiled_mm.quantize(w)
    others = [placed(t, mesh(), (Replicate(),)) for t in (p.data.mT, p.scale.mT)]
    for square, transposed in itertools.product((False, True), repeat=2):
        recipe = "BlockWise128x128" if square else "BlockWise1x128"
        right = tiled_mm.quantize(x, recipe, transposed=transposed)
        for way in ways_of(3, partial=False):
            q = tiled_mm.quantize(placed(x, mesh(), (way,)), recipe, transposed=transposed)
            if way == Shard(0) or (way == Shard(1) and not square and not transposed):
                assert q.data.placements == (way,)
            equal(whole(q.scale), right.scale)
            if transposed:
                equal(whole(q.scale_t), right.scale_t)
        for way in ways_of(2, partial=False):
            q = tiled_mm.quantize(placed(x[0], mesh(), (way,)), recipe)
            c = in_fp32(q.data, others[0], q.scale, others[1])
            equal(whole(c), in_fp32(right.data[0], p.data.mT, right.scale[0], p.scale.mT))


@CASES
def scaled_into_out_and_sums() -> None:
    from torch.distributed.tensor import Shard

    torch.manual_seed(4)
    a, b = whole_numbers(6, 8, dtype=torch.int8), whole_numbers(8, 10, dtype=torch.int8)
    scales = powers(6, 1), powers(1, 10)
    right = in_fp32(a, b, *scales)
    for row, column in itertools.product(ways_of(2, partial=False), repeat=2):
        parts = [placed(t, mesh(), (w,)) for t, w in ((a, row), (b, column))]
        of_scales = [placed(t, mesh(), (row,)) for t in scales]
        for where in (Shard(0), Shard(1)):
            out = placed(torch.zeros(6, 10), mesh(), (where,))
            tiled_mm.scaled_mm(*parts, *of_scales, out_dtype=torch.float32, out=out)
            torch.ops.tiled._add_scaled_mm(out, *parts, *of_scales)
            assert out.placements == (where,)
            equal(whole(out), 2 * right)
    with pytest.raises(RuntimeError, match="Invalid scaling configuration"):
        in_fp32(*parts, placed(torch.ones(3), mesh(), (Shard(0),)), of_scales[1])
