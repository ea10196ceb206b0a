"""What torch.distributed refuses, and what goes wrong in one process: errors name the call and the
process, and none waits longer than the group's timeout."""

from __future__ import annotations

import datetime
import os
import time

import pytest
import tiled_mm
import torch
from processes import begin, free_port, mesh, placed, why_not
from torch import distributed

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")

TIMEOUT = datetime.timedelta(seconds=15)


def said(call) -> str:
    try:
        call()
    except (RuntimeError, ValueError) as error:
        return str(error)
    return ""


def adding_layer() -> tiled_mm.nn.Linear:
    layer = tiled_mm.nn.Linear(7, 3, accumulate_main_grad=True)
    layer.weight.main_grad = torch.zeros(3, 7)
    return layer


def what_does_not_fit(results: list, rank: int) -> None:
    from torch.distributed.tensor import DTensor, Replicate, Shard

    on = mesh()
    a, b = torch.ones(4, 6), torch.ones(6, 5)
    found = {
        # As torch says it, and the call, in every process.
        "shapes": said(lambda: tiled_mm.mm(placed(b, on, (Shard(0),)), placed(b, on, (Shard(0),)))),
        "plain": said(lambda: tiled_mm.mm(placed(a, on, (Shard(0),)), b)),
        "mesh": said(lambda: mesh(3, 5)),
        "layer": said(lambda: tiled_mm.nn.Linear(7, 3)(placed(a, on, (Replicate(),)))),
        "main_grad": said(lambda: adding_layer()(placed(a, on, (Replicate(),)))),
    }
    # A part that is not what its placement says, in one process alone: that one says so.
    local = torch.ones(2, 6 - rank)
    wrong = DTensor.from_local(local, on, [Shard(0)], run_check=False, shape=(4, 6), stride=(6, 1))
    right = placed(b, on, (Replicate(),))
    found["part"] = said(lambda: tiled_mm.mm(wrong, right))
    found["written part"] = said(
        lambda: tiled_mm.mm(wrong, right, out=placed(torch.ones(4, 5), on, (Shard(0),)))
    )
    results[rank] = found


def a_process_that_dies(results: list, rank: int) -> None:
    from torch.distributed.tensor import Replicate, Shard

    on = mesh()
    parts = placed(torch.ones(4, 6), on, (Shard(1),)), placed(torch.ones(6, 5), on, (Shard(0),))
    bias = placed(torch.ones(5), on, (Replicate(),))
    whole = tiled_mm.addmm(bias, *parts, activation="relu")
    assert whole.full_tensor().eq(7).all()
    if rank == 1:
        os._exit(0)
    begun = time.monotonic()
    # The activation is applied to what has been gathered, from a process that is not there.
    found = said(lambda: tiled_mm.addmm(bias, *parts, activation="relu").full_tensor())
    results[rank] = {"text": found, "seconds": time.monotonic() - begun}
    os._exit(0)  # without a word to the group, which waits for the other


def a_process_that_dies_in_a_tree(results: list, rank: int) -> None:
    """The calls of tiled_mm.distributed, each of which sends something, by the other process."""
    from tiled_mm import _tree_gradients
    from tiled_mm import distributed as calls
    from torch.distributed.tensor import Shard, parallel

    on, name = mesh(), mesh().get_group()

    def layer(style: object) -> torch.nn.Module:
        return parallel.parallelize_module(tiled_mm.nn.Linear(128, 128), on, style)

    rows = layer(calls.RowwiseParallel(sum_order="tree:64"))
    columns = layer(calls.ColwiseParallel(sum_order="tree:64"))
    sequence = layer(calls.ColwiseParallel(sum_order="tree:64", input_layouts=Shard(0)))
    y = columns(torch.ones(4, 128, requires_grad=True)).sum()
    sums, exchange = torch.ones(4, 64), _tree_gradients._TreeReduceScatter()
    scattered = calls.tree_reduce(torch.ones(4, 64, requires_grad=True), on, 0).sum()
    found = {
        "tree_reduce": lambda: calls.tree_reduce(sums, on),
        "tree_reduce backward": lambda: scattered.backward(),
        "RowwiseParallel": lambda: rows(sums),
        "ColwiseParallel": lambda: sequence(torch.ones(4, 128)),
        "ColwiseParallel backward": lambda: y.backward(),
        "cross_entropy": lambda: calls.cross_entropy(
            sums, torch.zeros(4, dtype=torch.int64), on, sum_order="tree:64"
        ),
        "use_tree_reduce_scatter": lambda: exchange(
            torch.empty(128), sums.view(-1), name, distributed.ReduceOp.SUM
        ),
    }
    if rank == 1:
        os._exit(0)
    results[rank] = {key: failure(call) for key, call in found.items()}
    os._exit(0)


def failure(call) -> tuple[str, str, float]:
    """What it said, what the backend had said, and the seconds until then."""
    begun = time.monotonic()
    try:
        call()
    except RuntimeError as error:
        return str(error), str(error.__cause__), time.monotonic() - begun
    return "nothing", "nothing", 0.0


def process(rank: int, port: int, case, results: list) -> None:
    begin(rank, 2, port, timeout=TIMEOUT)
    case(results, rank)
    distributed.destroy_process_group()


def run(case) -> list[dict]:
    context = torch.multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        results = manager.list([{}] * 2)
        torch.multiprocessing.spawn(process, (free_port(), case, results), nprocs=2)
        return list(results)


def test_what_does_not_fit() -> None:
    zero, one = run(what_does_not_fit)
    for rank, found in enumerate((zero, one)):
        assert "mat1 and mat2 shapes cannot be multiplied (6x5 and 6x5)" in found["shapes"]
        assert f"tiled_mm.mm() on rank {rank} of 2" in found["shapes"]
        assert "mixed torch.Tensor and DTensor" in found["plain"]
        assert "tiled.mm" in found["plain"]
        assert "15" in found["mesh"] and found["mesh"] == zero["mesh"]
        assert "DTensor" in found["layer"] and "tiled.linear" in found["layer"]
        assert "DTensor" in found["main_grad"]
        for name in ("layer", "main_grad"):
            assert f"tiled_mm.linear() on rank {rank} of 2" in found[name]
    for name in ("part", "written part"):
        assert not zero[name]
        assert "shapes cannot be multiplied (2x5 and 6x5)" in one[name]
        assert "tiled_mm.mm() on rank 1 of 2" in one[name]


def test_a_process_that_dies_in_a_tree() -> None:
    """Errors name the call, and keep what the backend said."""
    found, _ = run(a_process_that_dies_in_a_tree)
    assert len(found) == 7
    for key, (text, cause, seconds) in found.items():
        name = key.split()[0]
        assert f"tiled_mm.distributed.{name} on rank 0 of 2" in text, (key, text)
        assert "Connection" in cause and cause in text, (key, text)
        assert seconds < 2 * TIMEOUT.total_seconds(), key


def test_a_process_that_dies() -> None:
    found, _ = run(a_process_that_dies)
    assert "tiled_mm.addmm() on rank 0 of 2" in found["text"], found
    assert found["seconds"] < 2 * TIMEOUT.total_seconds()
