"""One answer for any number of processes: sums that these share out, by the tree, and experts.
The cases are in MODULES, and every process computes beside them what one process does."""

from __future__ import annotations

import parallel_experts
import parallel_tree
import parallel_tree_dtensors
import parallel_tree_pieces
import parallel_tree_training
import pytest
import torch
from processes import why_not

MODULES = (
    parallel_tree,
    parallel_tree_dtensors,
    parallel_tree_pieces,
    parallel_tree_training,
    parallel_experts,
)
NAMES = [name for module in MODULES for name in module.CASES]

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


@pytest.mark.parametrize("said", [(1, "gloo"), (2, "gloo"), (4, "gloo")], indirect=True)
@pytest.mark.parametrize("name", NAMES)
def test_processes(name: str, said: dict[str, str]) -> None:
    assert not said[name], said[name]


def test_heights_of_pieces() -> None:
    """A piece is a tile of 128 x 256 for each of 128 multiprocessors, or a multiple; a rest is by
    itself, and small sums are whole."""
    from tiled_mm._tree_pieces import heights_of

    for sizes, columns, count, scatter_dim, heights in (
        ((8192,), 4096, 2, None, [2048] * 2),
        ((8192,), 4096, 4, None, [2048]),
        ((8192,), 4096, 8, None, [1024]),
        ((2, 4096), 4096, 2, None, [2048] * 2),
        ((7000,), 4096, 2, None, [1024] * 3 + [428]),
        ((8200,), 8192, 2, None, [2048] * 2 + [4]),
        ((65536,), 4096, 2, None, [16384] * 2),
        ((4096,), 5120, 2, None, [768] * 2 + [512]),
        ((2, 4096), 4096, 2, 1, [2048] * 2),
        ((8192,), 4096, 3, None, []),
        ((8192,), 4096, 1, None, []),
        ((2047,), 4096, 2, None, []),
        ((8192, 1), 4096, 2, 2, []),
        ((8193,), 4096, 2, 0, []),
        ((0,), 4096, 2, None, []),
    ):
        x = torch.empty(*sizes, 64, dtype=torch.bfloat16, device="meta")
        assert heights_of(x, columns, count, scatter_dim) == heights, sizes


@pytest.mark.cuda
@pytest.mark.parametrize("said", [(1, "nccl"), (2, "nccl"), (4, "nccl")], indirect=True)
@pytest.mark.parametrize("name", NAMES)
def test_gpus(name: str, said: dict[str, str]) -> None:
    assert not said[name], said[name]
