"""One answer for any number of processes: sums that these share out, by the tree, and experts.
The cases are in MODULES, and every process computes beside them what one process does."""

from __future__ import annotations

import parallel_experts
import parallel_tree
import parallel_tree_training
import pytest
import torch
from processes import run_cases, why_not

MODULES = (parallel_tree, parallel_tree_training, parallel_experts)
NAMES = [name for module in MODULES for name in module.CASES]

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


@pytest.fixture(scope="module")
def said(request: pytest.FixtureRequest) -> dict[str, str]:
    """What every case said, of so many processes."""
    count, backend = request.param
    has_gpus = torch.cuda.device_count() >= count and torch.distributed.is_nccl_available()
    if backend == "nccl" and not has_gpus:
        pytest.skip(f"needs {count} GPUs and NCCL")
    return run_cases(count, backend, *(module.__name__ for module in MODULES))


@pytest.mark.parametrize("said", [(1, "gloo"), (2, "gloo"), (4, "gloo")], indirect=True)
@pytest.mark.parametrize("name", NAMES)
def test_processes(name: str, said: dict[str, str]) -> None:
    assert not said[name], said[name]


@pytest.mark.cuda
@pytest.mark.parametrize("said", [(1, "nccl"), (2, "nccl"), (4, "nccl")], indirect=True)
@pytest.mark.parametrize("name", NAMES)
def test_gpus(name: str, said: dict[str, str]) -> None:
    assert not said[name], said[name]
