"""Tensors of GPUs that reach each other's memory: every process reads what the others have, without
a collective, in a CUDA graph too."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

#: Bytes of a tensor that `of_all` reads, at most: what every process keeps for each group.
MOST_BYTES = 1 << 20
#: By a group's name, a GPU and bytes: the group, since another may have its name later, and the
#: handle.
_memory: dict[tuple[str, int, int], tuple[Any, Any]] = {}


def group_named(name: str) -> Any:
    from torch.distributed import distributed_c10d

    return distributed_c10d._resolve_process_group(name)  # type: ignore[arg-type]


def _agreed(group: Any, device: torch.device, size: int) -> Any:
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
        memory = symmetric.empty(size, dtype=torch.uint8, device=device)
        handle = symmetric.rendezvous(memory, group)
    reached = torch.tensor(handle is not None, dtype=torch.int32, device=device)
    all_reduce(reached, ReduceOp.MIN, group)
    return handle if reached.item() else None


def _handle(group: Any, device: torch.device, size: int) -> Any:
    """Of so many bytes."""
    key = group.group_name, device.index, size
    if key not in _memory or _memory[key][0] is not group:
        if torch.cuda.is_current_stream_capturing():  # which holds no waiting for others
            return None
        _memory[key] = group, _agreed(group, device, size)
    return _memory[key][1]


def _meeting(handle: Any, group: Any, device: torch.device) -> Callable[[], None]:
    """A barrier of the processes' current streams."""
    timeout = group._get_backend(device).options._timeout
    return functools.partial(handle.barrier, timeout_ms=round(1e3 * timeout.total_seconds()))


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
    group = group_named(name)
    handle = _handle(group, tensor.device, MOST_BYTES)
    if handle is None:
        yield None
        return
    meet = _meeting(handle, group, tensor.device)

    def buffer(rank: int) -> Tensor:
        return handle.get_buffer(rank, tensor.shape, tensor.dtype)

    buffer(handle.rank).copy_(tensor)
    meet()
    yield [buffer(rank) for rank in range(handle.world_size)]
    meet()  # now they may be written again


@functools.cache
def _stream_of_copies(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


class Rooms:
    """Two rooms of each process, which all map: a product fills one while the other processes copy
    what is in the second, by copy engines, which take no multiprocessor from the product.

    Piece k is computed on the current stream. Its copies begin behind a barrier there, on a stream
    of their own. A process comes to that barrier when its copies of piece k - 1 are done, so behind
    it piece k + 1 may be written to the same room. A group's calls follow one another, as those of
    :func:`of_all`.
    """

    def __init__(self, handle: Any, group: Any, device: torch.device, size: int) -> None:
        self._handle, self._meet, self._size = handle, _meeting(handle, group, device), size
        self._copies = _stream_of_copies(device)
        self._copied: torch.cuda.Event | None = None
        self._offset = 0  # bytes

    @staticmethod
    def of(group: Any, device: torch.device, size: int) -> Rooms | None:
        """Of so many bytes at least, or None, on every process: memory cannot be reached."""
        if device.type != "cuda":
            return None
        size = 1 << max(20, (size - 1).bit_length())  # few sizes, since all are kept
        handle = _handle(group, device, 2 * size)
        return None if handle is None else Rooms(handle, group, device, size)

    def _room(self, rank: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        return self._handle.get_buffer(rank, shape, dtype, self._offset // dtype.itemsize)

    def room(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """This process's, for the next piece."""
        return self._room(self._handle.rank, shape, dtype)

    def _copy(self, room: Tensor, targets: dict[int, Tensor]) -> Callable[[], None]:
        """Begins to copy from ranks' rooms. The function that it returns has the stream wait."""
        current = torch.cuda.current_stream()
        if self._copied is not None:
            current.wait_event(self._copied)
        self._meet()
        self._copies.wait_stream(current)
        with torch.cuda.stream(self._copies):
            for rank, target in targets.items():
                for part, of_room in zip(
                    target, self._room(rank, room.shape, room.dtype), strict=True
                ):
                    part.copy_(of_room)
            self._copied = self._copies.record_event()
        self._offset = self._size - self._offset
        return functools.partial(current.wait_event, self._copied)

    def swap(self, room: Tensor, target: Tensor, peer: int) -> Callable[[], None]:
        """The piece of another process, which takes this one's in turn."""
        return self._copy(room[None], {peer: target[None]})

    def gather(self, room: Tensor, target: Tensor) -> None:
        """[n, ...] of each process into [n, processes, ...]."""
        rank, count = self._handle.rank, self._handle.world_size
        self._copy(room, {r: target[:, r] for r in range(count) if r != rank})
        target[:, rank].copy_(room)

    def finish(self) -> None:
        """The current stream has all that was copied, and rooms may be filled again."""
        if self._copied is not None:
            torch.cuda.current_stream().wait_event(self._copied)
        self._meet()
