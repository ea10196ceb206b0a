"""Small tensors of GPUs that reach each other's memory: every process reads what the others have,
without a collective, in a CUDA graph too."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

#: Bytes of a tensor, at most: what every process keeps for each group.
MOST_BYTES = 1 << 20
_memory: dict[tuple[str, int], Any] = {}


def _agreed(name: str, device: torch.device) -> Any:
    """A handle of memory that every process of the group maps, or None for all of them: on one of
    them a GPU cannot be reached, or is in another machine."""
    import torch.distributed._symmetric_memory as symmetric
    from torch.distributed import ReduceOp, all_gather_object, all_reduce, distributed_c10d

    group = distributed_c10d._resolve_process_group(name)  # type: ignore[arg-type]
    machines: list[Any] = [None] * group.size()
    with open("/proc/sys/kernel/random/boot_id") as file:
        all_gather_object(machines, file.read(), group)
    if len(set(machines)) > 1:
        return None
    handle = None
    with contextlib.suppress(RuntimeError):
        handle = symmetric.rendezvous(
            symmetric.empty(MOST_BYTES, dtype=torch.uint8, device=device), name
        )
    reached = torch.tensor(handle is not None, dtype=torch.int32, device=device)
    all_reduce(reached, ReduceOp.MIN, group)
    return handle if reached.item() else None


def _handle(tensor: Tensor, name: str) -> Any:
    if (
        not tensor.is_cuda
        or tensor.numel() * tensor.element_size() > MOST_BYTES
        or torch.compiler.is_compiling()
    ):
        return None
    key = name, tensor.device.index
    if key not in _memory:
        if torch.cuda.is_current_stream_capturing():  # which holds no waiting for others
            return None
        _memory[key] = _agreed(name, tensor.device)
    return _memory[key]


@contextlib.contextmanager
def of_all(tensor: Tensor, name: str) -> Iterator[list[Tensor] | None]:
    """The tensors of all processes, in the order of ranks, where they lie; or None, on every
    process, where the tensor is larger than MOST_BYTES or memory cannot be reached. They may be
    read until the context ends. All processes give the same shape and dtype.

    A process that never comes is waited for until the group's timeout, which ends the others with
    an error of CUDA's.
    """
    handle = _handle(tensor, name)
    if handle is None:
        yield None
        return
    from torch.distributed import distributed_c10d

    group = distributed_c10d._resolve_process_group(name)  # type: ignore[arg-type]
    timeout = group._get_backend(tensor.device).options._timeout
    milliseconds = round(1e3 * timeout.total_seconds())

    def buffer(rank: int) -> Tensor:
        return handle.get_buffer(rank, tensor.shape, tensor.dtype)

    buffer(handle.rank).copy_(tensor)
    handle.barrier(timeout_ms=milliseconds)
    yield [buffer(rank) for rank in range(handle.world_size)]
    handle.barrier(timeout_ms=milliseconds)  # now they may be written again
