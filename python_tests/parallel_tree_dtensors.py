"""Cases of test_tree_parallel.py: DTensors' own products, under a tree. DTensor would add the parts
of a sum in the order of its collective, so none is left: the bits are those of one process, which
computes beside them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import pytest
import tiled_mm
import torch
from parallel_tree import DTYPES, ORDER, drawn
from processes import Cases, device, equal, mesh, placed, square_mesh
from torch import Tensor, distributed
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

CASES = Cases()
#: The product, its operands' sizes, and the dimension along which both are split.
PRODUCTS: dict[str, tuple[Callable, tuple[tuple[int, ...], ...], tuple[int, ...]]] = {
    "mm": (tiled_mm.mm, ((6, 128), (128, 24)), (1, 0)),
    "bmm": (tiled_mm.bmm, ((3, 6, 128), (3, 128, 24)), (2, 1)),
    "linear": (tiled_mm.linear, ((3, 2, 128), (24, 128)), (2, 1)),
    "grouped_mm": (tiled_mm.grouped_mm, ((3, 6, 128), (3, 128, 24)), (2, 1)),
}


def split(name: str, dtype: torch.dtype = torch.float32, on=None) -> tuple[list, list]:
    """The operands of a product, and the same with K shared out."""
    _, sizes, dims = PRODUCTS[name]
    whole = [drawn(*size, dtype=dtype, seed=i) for i, size in enumerate(sizes)]
    on = on or mesh()
    ways = [(Replicate(),) * (on.ndim - 1) + (Shard(dim),) for dim in dims]
    return whole, [placed(t, on, way) for t, way in zip(whole, ways, strict=True)]


def leaves_no_part(y: Tensor, right: Tensor) -> None:
    assert isinstance(y, DTensor) and not any(p.is_partial() for p in y.placements), y
    equal(y.full_tensor(), right)


@CASES
def products_by_the_argument() -> None:
    for name, dtype, order in itertools.product(PRODUCTS, DTYPES, (ORDER, "tree:64")):
        product = PRODUCTS[name][0]
        whole, ours = split(name, dtype)
        leaves_no_part(product(*ours, sum_order=order), product(*whole, sum_order=order))


@CASES
def products_by_the_setting() -> None:
    """Also where DTensor has kept what it chose for the same call under a chain, whether gradients
    are recorded or not; and back: a chain's parts are left to DTensor, as ever."""
    for name, on in itertools.product(PRODUCTS, (mesh(), square_mesh())):
        product = PRODUCTS[name][0]
        whole, ours = split(name, on=on)
        learning = [t.detach().requires_grad_() for t in ours]
        for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
            operands = learning if mode is torch.enable_grad else ours
            for _ in range(2):
                with mode():
                    assert product(*operands).placements[-1] == Partial()
                    with tiled_mm.sum_order(ORDER):
                        leaves_no_part(product(*operands), product(*whole))
                        chain = product(*operands, sum_order="chain")
                        assert chain.placements[-1] == Partial()


@CASES
def products_of_another_thread() -> None:
    """Each has choices of its own, which were made before the setting."""
    whole, ours = split("mm")
    begin, found = threading.Barrier(2, timeout=30), []

    def run() -> None:
        if device() == "cuda":
            torch.cuda.set_device(distributed.get_rank())
        tiled_mm.mm(*ours)
        begin.wait()
        begin.wait()
        found.append(tiled_mm.mm(*ours))

    thread = threading.Thread(target=run)
    thread.start()
    begin.wait()
    with tiled_mm.sum_order(ORDER):
        begin.wait()
        thread.join()
        leaves_no_part(*found, tiled_mm.mm(*whole))


@CASES
def gradients_of_a_batch() -> None:
    """The weight's is a sum over the batch, which is split; a bias' is no product."""
    x, weight, g = drawn(8, 4, 64), drawn(24, 64, seed=1), drawn(8, 4, 24, seed=2)
    right = [t.clone().requires_grad_() for t in (x, weight)]
    ways = (Shard(0),), (Replicate(),), (Shard(0),)
    *ours, of_y = (placed(t, mesh(), way) for t, way in zip((x, weight, g), ways, strict=True))
    ours = [t.detach().requires_grad_() for t in ours]
    with tiled_mm.sum_order(ORDER):
        tiled_mm.linear(*right).backward(g)
        tiled_mm.linear(*ours).backward(of_y)
    for t, expected in zip(ours, right, strict=True):
        leaves_no_part(t.grad, expected.grad)


@CASES
def written_products() -> None:
    """Into a DTensor that is no part of a sum; one that is has no placement."""
    whole, ours = split("mm")
    out, part = (
        DTensor.from_local(torch.zeros_like(drawn(6, 24)), mesh(), [way], run_check=False)
        for way in (Replicate(), Partial())
    )
    tiled_mm.mm(*ours, out=part)  # what was chosen under a chain is not what is chosen here
    for setting, order in ((ORDER, None), ("chain", ORDER)):
        with tiled_mm.sum_order(setting):
            right = tiled_mm.mm(*whole, sum_order=order)
            leaves_no_part(tiled_mm.mm(*ours, sum_order=order, out=out), right)
            with pytest.raises(RuntimeError, match=r"tiled_mm\.distributed\.tree_reduce"):
                tiled_mm.mm(*ours, sum_order=order, out=part)


@CASES
def torchs_own_styles() -> None:
    """Whose rows leave the sum to DTensor, in 16 bits with each part rounded."""
    from torch.distributed.tensor import parallel

    def made() -> tiled_mm.nn.Linear:
        torch.manual_seed(3)
        with torch.device("cpu"):
            layer = tiled_mm.nn.Linear(128, 24, bias=False, dtype=torch.bfloat16)
        return layer.to(whole.device)

    whole = drawn(6, 128, dtype=torch.bfloat16)
    rows = parallel.parallelize_module(made(), mesh(), parallel.RowwiseParallel())
    x = placed(whole, mesh(), (Shard(1),)).to_local()
    for _ in range(2):
        with torch.no_grad():
            assert rows(x).isfinite().all()
            with tiled_mm.sum_order(ORDER):
                equal(rows(x), made()(whole))
