"""Cases of test_distributed.py: operators on DTensors, whichever way every operand is placed."""

from __future__ import annotations

import functools
import itertools
import random
import re
from collections.abc import Callable, Iterator

import tiled_mm
import torch
from processes import Cases, equal, mesh, placed, square_mesh, whole, whole_numbers
from torch import Tensor, distributed
from torch.nn import functional

CASES = Cases()


def ways_of(dims: int, *, partial: bool = True) -> list:
    from torch.distributed.tensor import Partial, Replicate, Shard

    return [
        Replicate(),
        *map(Shard, range(dims)),
        *([Partial(), Partial("avg")] if partial else []),
    ]


def derivatives(product: Callable, tensors: list[Tensor], seeds: list[Tensor]) -> list[Tensor]:
    """The result, its first derivatives and their own, in the direction of the seeds."""
    result = whole(product(*tensors))
    first = torch.autograd.grad(result, tensors, seeds[0], create_graph=True)
    first = [whole(t) for t in first]
    loss = sum((t * seed).sum() for t, seed in zip(first, seeds[1:], strict=True))
    second = torch.autograd.grad(loss, tensors, allow_unused=True)
    return [result, *first, *(t if t is None else whole(t) for t in second)]


def check(
    product: Callable,
    torchs: Callable,
    tensors: list[Tensor],
    on,
    ways: list,
    right: list,
    seeds,
    *,
    agree: Callable = equal,
) -> None:
    """Every bit of one process where sums are exact. Nothing is refused that torch's own product
    takes."""
    parts = [placed(t, on, way).requires_grad_() for t, way in zip(tensors, ways, strict=True)]
    try:
        found = derivatives(product, parts, seeds)
        for ours, expected in zip(found, right, strict=True):
            assert (ours is None) == (expected is None)
            if ours is not None:
                agree(ours, expected)
    except Exception as error:
        # On two dimensions torch 2.11 cannot add a split gradient and a part of one.
        if on.ndim == 2 and re.search(r"redistribute from S\(\d\) to P\(sum\)", str(error)):
            try:
                derivatives(torchs, parts, seeds)
            except RuntimeError:
                return
        sizes = [tuple(t.shape) for t in tensors]
        raise AssertionError(f"{sizes} placed as {ways} on {tuple(on.shape)}") from error


def in_one_process(product: Callable, sizes: tuple) -> tuple[list[Tensor], list, list[Tensor]]:
    """Whole numbers of these sizes, what comes of them, and the seeds of derivatives."""
    tensors = [whole_numbers(*size) for size in sizes]
    alone = [t.clone().requires_grad_() for t in tensors]
    seeds = [whole_numbers(*t.shape) for t in (product(*tensors), *tensors)]
    right = [t if t is None else t.detach() for t in derivatives(product, alone, seeds)]
    return tensors, right, seeds


def check_everywhere(
    product: Callable, torchs: Callable, sizes: tuple, *, partial: bool = True, drawn: bool = False
) -> None:
    """Every operand placed in every way on one dimension, or in drawn ones, and in drawn ways on
    two."""
    torch.manual_seed(1)
    tensors, right, seeds = in_one_process(product, sizes)
    kinds = [ways_of(len(size), partial=partial) for size in sizes]
    line, square = mesh(), square_mesh()
    everywhere = [[(way,) for way in ways] for ways in itertools.product(*kinds)]
    draw = random.Random(str(sizes))  # the same in every process
    if drawn or distributed.get_world_size() > 2:  # on one dimension two have seen them all
        everywhere = draw.sample(everywhere, min(len(everywhere), 8))
    for ways in everywhere:
        check(product, torchs, tensors, line, ways, right, seeds)
    for _ in range(8):
        ways = [(draw.choice(kind), draw.choice(kind)) for kind in kinds]
        check(product, torchs, tensors, square, ways, right, seeds)


def matrices() -> Iterator[tuple]:
    """Even, uneven, with sizes of 1 and 0: [M, K] and [K, N]."""
    for m, k, n in ((4, 8, 4), (5, 9, 7), (1, 4, 6), (4, 1, 1), (0, 4, 2), (3, 0, 4)):
        yield (m, k), (k, n)


@CASES
def products_of_matrices() -> None:
    for sizes in matrices():
        check_everywhere(tiled_mm.mm, torch.mm, sizes)


@CASES
def products_of_batches() -> None:
    for b, m, k, n in ((4, 2, 4, 2), (3, 4, 5, 6), (1, 2, 3, 4)):
        check_everywhere(tiled_mm.bmm, torch.bmm, ((b, m, k), (b, k, n)))


@CASES
def products_that_are_added_to() -> None:
    ours, torchs = (functools.partial(f, beta=2, alpha=4) for f in (tiled_mm.addmm, torch.addmm))
    for input in ((7,), (5, 1), (5, 7)):
        check_everywhere(ours, torchs, (input, (5, 4), (4, 7)))
    check_everywhere(tiled_mm.baddbmm, torch.baddbmm, ((4, 1, 6), (4, 3, 5), (4, 5, 6)))


@CASES
def products_with_an_activation() -> None:
    """Of whole numbers relu is exact."""
    for ours, torchs, sizes in (
        (tiled_mm.addmm, torch.addmm, ((7,), (5, 4), (4, 7))),
        (tiled_mm.linear, functional.linear, ((3, 4, 8), (6, 8), (6,))),
    ):
        ours = functools.partial(ours, activation="relu")
        check_everywhere(ours, lambda *t, f=torchs: f(*t).relu(), sizes, partial=False)


@CASES
def linear() -> None:
    for x in ((8,), (5, 8), (4, 2, 8), (3, 5, 8), (1, 4, 8), (2, 0, 8), (2, 3, 2, 8)):
        check_everywhere(tiled_mm.linear, functional.linear, (x, (6, 8)))
    for x, bias in (((5, 8), (6,)), ((3, 4, 8), (6,)), ((4, 3, 8), (3, 6))):
        check_everywhere(tiled_mm.linear, functional.linear, (x, (6, 8), bias), partial=False)
    check_everywhere(tiled_mm.linear, functional.linear, ((4, 3, 8), (8,)))


@CASES
def sizes_of_0_and_1() -> None:
    """In each place where they may be, beside those of matrices and of linear's x."""
    for sizes in (
        ((0, 3, 2), (0, 2, 4)),
        ((2, 0, 4), (2, 4, 3)),
        ((2, 3, 0), (2, 0, 4)),
        ((5, 1, 4), (5, 4, 1)),
    ):
        check_everywhere(tiled_mm.bmm, torch.bmm, sizes, drawn=True)
    for sizes in (((3,), (0, 4), (4, 3)), ((3,), (2, 0), (0, 3)), ((1,), (1, 4), (4, 1))):
        check_everywhere(tiled_mm.addmm, torch.addmm, sizes, drawn=True)
    for sizes in (((0, 1, 6), (0, 3, 5), (0, 5, 6)), ((3, 1, 1), (3, 1, 5), (3, 5, 1))):
        check_everywhere(tiled_mm.baddbmm, torch.baddbmm, sizes, drawn=True)
    for sizes in (((2, 3, 0), (6, 0)), ((2, 3, 4), (0, 4)), ((2, 3, 1), (1, 1))):
        check_everywhere(tiled_mm.linear, functional.linear, sizes, drawn=True)


@CASES
def an_activation_with_a_second_derivative() -> None:
    """relu's is 0. (DTensor adds no part of a sum to a part of an average, as two gradients of one
    operand may be.)"""
    torch.manual_seed(7)
    draw = random.Random("gelu")  # the same in every process
    for product, torchs, sizes in (
        (tiled_mm.linear, functional.linear, ((3, 4, 8), (6, 8), (6,))),
        (tiled_mm.addmm, torch.addmm, ((6,), (5, 8), (8, 6))),
    ):
        ours = functools.partial(product, activation="gelu")
        tensors = [torch.randn(size, dtype=torch.float64) for size in sizes]
        alone = [t.clone().requires_grad_() for t in tensors]
        seeds = [torch.randn_like(t) for t in (ours(*tensors), *tensors)]
        right = [t if t is None else t.detach() for t in derivatives(ours, alone, seeds)]
        kinds = [ways_of(len(size))[:-1] for size in sizes]
        for on, count in ((mesh(), 16), (square_mesh(), 8)):
            for _ in range(count):
                ways = [tuple(draw.choice(kind) for _ in range(on.ndim)) for kind in kinds]
                check(
                    ours,
                    lambda *t, f=torchs: functional.gelu(f(*t)),
                    tensors,
                    on,
                    ways,
                    right,
                    seeds,
                    agree=torch.testing.assert_close,
                )


@CASES
def linear_with_a_bias_and_parts_of_sums() -> None:
    from torch.distributed.tensor import Partial, Replicate, Shard

    torch.manual_seed(2)
    linears = tiled_mm.linear, functional.linear
    tensors, right, seeds = in_one_process(linears[0], ((3, 5, 8), (6, 8), (6,)))
    for x, weight, bias in itertools.product(
        (Partial(), Partial("avg"), Shard(2)), (Replicate(), Shard(1)), (Replicate(), Partial())
    ):
        check(*linears, tensors, mesh(), [(x,), (weight,), (bias,)], right, seeds)


@CASES
def shards_that_another_dimension_has_split_before() -> None:
    """_StridedShard, as FSDP2 places what is tensor-parallel along the same dimension."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    if distributed.get_world_size() < 4:
        return
    torch.manual_seed(3)
    on, all = square_mesh(), (Replicate(), Replicate())
    for product, torchs, sizes in (
        (tiled_mm.mm, torch.mm, ((8, 4), (4, 8))),
        (tiled_mm.linear, functional.linear, ((4, 8, 4), (8, 4))),
        (tiled_mm.linear, functional.linear, ((8, 4), (8, 4))),
    ):
        tensors, right, seeds = in_one_process(product, sizes)
        for at in (0, 1):
            strided = (_StridedShard(at, split_factor=2), Shard(at))
            for ways in ([strided, all], [all, strided], [strided, (Shard(0), Shard(0))]):
                check(product, torchs, tensors, on, ways, right, seeds)


@CASES
def nothing_is_sent_where_parts_fit() -> None:
    """A sequence that stays split trains without one collective; a part of a sum stays one."""
    from torch.distributed.tensor import Partial, Replicate, Shard
    from torch.distributed.tensor.debug import CommDebugMode

    on = mesh()
    for way, placements in (
        (Shard(1), (Shard(1), Partial())),
        (Shard(0), (Shard(0), Partial())),
        (Partial(), (Partial(), Replicate())),
    ):
        x = placed(whole_numbers(4, 4, 8), on, (way,)).requires_grad_()
        weight = placed(whole_numbers(6, 8), on, (Replicate(),)).requires_grad_()
        with CommDebugMode() as sent:
            y = tiled_mm.linear(x, weight)
            seed = placed(whole_numbers(4, 4, 6), on, (way if way.is_shard() else Replicate(),))
            of_x, of_weight = torch.autograd.grad(y, (x, weight), seed)
        assert sent.get_total_counts() == 0, (way, sent.get_comm_counts())
        assert y.placements == (placements[0],), y.placements
        if way.is_shard():
            assert (of_x.placements, of_weight.placements) == ((way,), (placements[1],))
    # In these torch keeps a part as well.
    for ours, torchs in ((tiled_mm.mm, torch.mm), (tiled_mm.bmm, torch.bmm)):
        lead = () if ours is tiled_mm.mm else (2,)
        for ways in itertools.product(ways_of(2 + len(lead)), repeat=2):
            counts = []
            for product in (ours, torchs):
                torch.manual_seed(4)
                a = placed(whole_numbers(*lead, 4, 4), on, (ways[0],))
                b = placed(whole_numbers(*lead, 4, 4), on, (ways[1],))
                with CommDebugMode() as sent:
                    product(a, b)
                counts.append(sent.get_total_counts())
            assert counts[0] <= counts[1], (ours, ways, counts)


@CASES
def calls_that_differ_in_an_option() -> None:
    """DTensor remembers what it chose; a call is not to get what another one was given."""
    from torch.distributed.tensor import Replicate, Shard

    torch.manual_seed(2)
    on = mesh()
    x, weight, bias = torch.randn(6, 8), torch.randn(10, 8), torch.randn(10)
    parts = [
        placed(t, on, (way,))
        for t, way in zip((x, weight, bias), (Shard(1), Shard(1), Replicate()), strict=True)
    ]
    for activation in (None, "gelu", None, "none", "relu", "gelu"):
        result = tiled_mm.linear(*parts, activation=activation)
        assert result.placements[0].is_partial() == (activation in (None, "none"))
        right = tiled_mm.linear(x, weight, bias, activation=activation)
        torch.testing.assert_close(result.full_tensor(), right)
        sum = tiled_mm.addmm(parts[2], parts[0], parts[1].t(), activation=activation)
        assert sum.placements[0].is_partial() == (activation in (None, "none"))
    halves = [t.bfloat16() for t in (x, weight)]
    parts = [placed(t, on, (Shard(0),)) for t in halves]
    for dtype in (None, torch.float32, None):
        result = tiled_mm.linear(*parts, out_dtype=dtype)
        assert result.dtype == result.to_local().dtype == (dtype or torch.bfloat16)
        equal(result.full_tensor(), tiled_mm.linear(*halves, out_dtype=dtype))
    parts = [placed(t, on, (Shard(0),)) for t in (x, weight.t().contiguous())]
    for options in ({}, {"algo": "naive"}, {"precision": "ieee"}, {"algo": "naive"}, {}):
        equal(
            tiled_mm.mm(*parts, **options).full_tensor(),
            tiled_mm.mm(x, weight.t().contiguous(), **options),
        )
    for beta, alpha in ((1, 1), (0, 2), (0.5, 1), (1, 1)):
        found = tiled_mm.addmm(
            placed(bias, on, (Replicate(),)), *parts, beta=beta, alpha=alpha
        ).full_tensor()
        equal(found, tiled_mm.addmm(bias, x, weight.t(), beta=beta, alpha=alpha))


@CASES
def dtypes() -> None:
    from torch.distributed.tensor import Replicate, Shard

    on = mesh()
    kinds = [torch.float64, torch.float16, torch.bfloat16, torch.complex64]
    if on.device_type == "cpu":
        kinds.append(torch.int32)
    for dtype in kinds:
        for a, b in ((Shard(0), Replicate()), (Replicate(), Shard(1)), (Shard(1), Shard(0))):
            left, right = whole_numbers(4, 6, dtype=dtype), whole_numbers(6, 5, dtype=dtype)
            found = tiled_mm.mm(placed(left, on, (a,)), placed(right, on, (b,)))
            equal(found.full_tensor(), tiled_mm.mm(left, right))


@CASES
def rows_that_an_embedding_masks() -> None:
    """Where the table is split by words, a process has zeros for those of others, to be added up
    with their mask first."""
    from torch.distributed.tensor import Replicate, Shard

    torch.manual_seed(6)
    on = mesh()
    table, weight = whole_numbers(12, 8), whole_numbers(6, 8)
    words = torch.randint(12, (4, 3))
    rows = torch.nn.functional.embedding(
        placed(words, on, (Replicate(),)), placed(table, on, (Shard(0),))
    )
    found = tiled_mm.linear(rows, placed(weight, on, (Replicate(),)))
    right = tiled_mm.linear(torch.nn.functional.embedding(words, table), weight)
    equal(found.full_tensor(), right)
