"""Several processes of one machine, for the tests of torch.distributed: they are spawned once and
run every case of a module in turn, on the CPU by gloo, or a GPU each by NCCL."""

from __future__ import annotations

import datetime
import functools
import importlib
import socket
import traceback
from collections.abc import Callable

import torch
from torch import Tensor, distributed

TIMEOUT = datetime.timedelta(seconds=60)


class Cases(dict[str, Callable[[], None]]):
    """By name, what all processes are to run; a decorator of functions."""

    def __call__(self, run: Callable[[], None]) -> Callable[[], None]:
        self[run.__name__] = run
        return run


def why_not() -> str | None:
    """Why there can be no such processes; None where there can."""
    if not distributed.is_available():
        return "needs torch.distributed, which this build of torch lacks"
    if not distributed.is_gloo_available():
        return "needs gloo, which this build of torch lacks"
    return None


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def begin(rank: int, count: int, port: int, backend: str = "gloo", timeout=TIMEOUT) -> None:
    """Joins the group of all processes."""
    if backend == "nccl":
        torch.cuda.set_device(rank)
        torch.set_default_device("cuda")
    torch.set_num_threads(1)
    distributed.init_process_group(
        backend,
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=count,
        timeout=timeout,
        device_id=torch.device("cuda", rank) if backend == "nccl" else None,
    )


def _process(rank: int, port: int, count: int, backend: str, modules: list, results: list) -> None:
    begin(rank, count, port, backend)
    found = {}
    for module in modules:
        for name, run in importlib.import_module(module).CASES.items():
            try:
                run()
                found[name] = ""
            except Exception:  # all processes meet it, so none waits for another
                found[name] = f"rank {rank}: {traceback.format_exc()}"
    results[rank] = found
    distributed.destroy_process_group()


def run_cases(count: int, backend: str, *modules: str) -> dict[str, str]:
    """What every case of these modules said, in all processes; nothing where all is well."""
    names = [name for module in modules for name in importlib.import_module(module).CASES]
    assert len(set(names)) == len(names), "one case would stand for two"
    context = torch.multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        results = manager.list([{}] * count)
        arguments = (free_port(), count, backend, list(modules), results)
        torch.multiprocessing.spawn(_process, arguments, nprocs=count)
        found = list(results)
    return {
        name: "\n".join(of_process.get(name, "nothing") for of_process in found).strip()
        for name in names
    }


def device() -> str:
    return "cuda" if distributed.get_backend() == "nccl" else "cpu"


@functools.cache
def mesh(*sizes: int, names: tuple[str, ...] | None = None):
    """A mesh of these sizes, or of all processes in a row. It is made once: every new one of two
    dimensions has new groups, and for NCCL a communicator each, which takes longer than a case."""
    from torch.distributed.device_mesh import init_device_mesh

    sizes = sizes or (distributed.get_world_size(),)
    return init_device_mesh(device(), sizes, mesh_dim_names=names)


def square_mesh(names: tuple[str, ...] | None = None):
    """All processes on two dimensions: 2 x 2 of four, 1 x 2 of two."""
    count = distributed.get_world_size()
    rows = 2 if count % 4 == 0 else 1
    return mesh(rows, count // rows, names=names)


def whole(t: Tensor) -> Tensor:
    """Of a DTensor or of what every process has."""
    return t.full_tensor() if hasattr(t, "full_tensor") else t


def equal(ours: Tensor, right: Tensor) -> None:
    """The same bits in the same shape and dtype."""
    torch.testing.assert_close(ours, right, rtol=0, atol=0)


def whole_numbers(*sizes: int, dtype: torch.dtype = torch.float32, end: int = 3) -> Tensor:
    """Sums of few products of them are exact in any order."""
    return torch.randint(-end, end + 1, sizes).to(dtype)


def placed(t: Tensor, on, ways: tuple) -> Tensor:
    """`t`, which all processes have, copied to a DTensor with any placements. Where one is Partial,
    parts are whole numbers that differ between processes."""
    from torch.distributed.tensor import DTensor, Replicate, distribute_tensor
    from torch.distributed.tensor.placement_types import _StridedShard

    whole, sizes = t, on.mesh.shape
    for dim, way in enumerate(ways):
        if way.is_partial():
            parts = [torch.randint(-3, 4, t.shape).to(t) for _ in range(sizes[dim] - 1)]
            total = t * sizes[dim] if way.reduce_op == "avg" else t
            parts.append(total - sum(parts) if parts else total)
            t = parts[on.get_local_rank(dim)]
    if any(isinstance(way, _StridedShard) for way in ways):
        # Two dimensions of the mesh split one of the tensor, the second of them first.
        (at,) = {way.dim for way in ways}
        pieces = t.chunk(sizes[1], at)[on.get_local_rank(1)].chunk(sizes[0], at)
        local = pieces[on.get_local_rank(0)].contiguous()
    else:
        split = [Replicate() if way.is_partial() else way for way in ways]
        local = distribute_tensor(t, on, split, src_data_rank=None).to_local().clone()
    return DTensor.from_local(
        local, on, ways, run_check=False, shape=whole.shape, stride=whole.stride()
    )
