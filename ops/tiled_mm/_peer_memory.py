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
#: By a group's name and a GPU: the group, since another may have its name later, and the handle.
_memory: dict[tuple[str, int], tuple[Any, Any]] = {}


def _group(name: str) -> Any:
    from torch.distributed import distributed_c10d

    return distributed_c10d._resolve_process_group(name)  # type: ignore[arg-type]


def _agreed(group: Any, device: torch.device) -> Any:
    """A handle of memory that every process of the group maps, or None for all of them: on one of
    them a GPU cannot be reached, or is in another machine."""
    import torch.distributed._symmetric_memory as symmetric
    from torch.distributed import ReduceOp, all_gather_object, all_reduce

    machines: list[Any] = [None] * group.size()
    with open("/proc/sys/kernel/random/boot_id") as file:
        all_gather_object(machines, file.read(), group)
    if len(set(machines)) > 1:
        return None
    handle = None
    with contextlib.suppress(AttributeError, RuntimeError):
        memory = symmetric.empty(MOST_BYTES, dtype=torch.uint8, device=device)
        handle = symmetric.rendezvous(memory, group)
    reached = torch.tensor(handle is not None, dtype=torch.int32, device=device)
    all_reduce(reached, ReduceOp.MIN, group)
    return handle if reached.item() else None


def _handle(group: Any, device: torch.device) -> Any:
    key = group.group_name, device.index
    if key not in _memory or _memory[key][0] is not group:
        if torch.cuda.is_current_stream_capturing():  # which holds no waiting for others
            return None
        _memory[key] = group, _agreed(group, device)
    return _memory[key][1]


@contextlib.contextmanager
def of_all(tensor: Tensor, name: str) -> Iterator[list[Tensor] | None]:
    """The tensors of all processes, in the order of ranks, where they lie; or None, on every
    process, where the tensor is larger than MOST_BYTES or memory cannot be reached. They may be
    read until the context ends. All processes give the same shape and dtype, and enqueue a group's
    calls one behind the other, as those of any collective.

    A process that never comes is waited for until the group's timeout, which ends the others with
    an error of CUDA's.
    """
    is_small = tensor.numel() * tensor.element_size() <= MOST_BYTES
    if torch.compiler.is_compiling() or not tensor.is_cuda or not is_small:
        yield None
        return
    group = _group(name)
    handle = _handle(group, tensor.device)
    if handle is None:
        yield None
        return
    timeout = group._get_backend(tensor.device).options._timeout
    milliseconds = round(1e3 * timeout.total_seconds())

    def buffer(rank: int) -> Tensor:
        return handle.get_buffer(rank, tensor.shape, tensor.dtype)

    buffer(handle.rank).copy_(tensor)
    handle.barrier(timeout_ms=milliseconds)
    yield [buffer(rank) for rank in range(handle.world_size)]
    handle.barrier(timeout_ms=milliseconds)  # now they may be written again
