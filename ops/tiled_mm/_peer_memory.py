"""Tensors of GPUs that reach each other's memory: every process reads what the others have, without
a collective, in a CUDA graph too."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

#: Bytes of a tensor that `of_all` reads, at most.
MOST_BYTES = 1 << 20
#: By a group's name, a GPU and bytes: the group, since another may have its name later, and what it
#: shares.
_memory: dict[tuple[str, int, int], tuple[Any, PeerBuffers | None]] = {}


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


@contextlib.contextmanager
def of_all(tensor: Tensor, name: str) -> Iterator[list[Tensor] | None]:
    """The tensors of all processes, in the order of ranks, where they lie; or None, on every
    process, where the tensor is larger than MOST_BYTES or memory cannot be reached. They may be
    read until the context ends. All processes give the same shape and dtype, and enqueue a group's
    calls one behind the other, as those of any collective.

    A process that never comes is waited for until the group's timeout, which ends the others with
    an error of CUDA's.
    """
    size, buffers = tensor.numel() * tensor.element_size(), None
    if not torch.compiler.is_compiling() and size <= MOST_BYTES:
        buffers = PeerBuffers.of(group_named(name), tensor.device, size)
    if buffers is None:
        yield None
        return
    roots = [buffers.of_rank(rank, tensor.shape, tensor.dtype, 0) for rank in range(buffers.count)]
    roots[buffers.rank].copy_(tensor)
    buffers.meet()
    yield roots
    buffers.meet()  # now they may be written again


@functools.cache
def _stream_of_copies(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


class PeerBuffers:
    """Two buffers of each process, which all map: a product fills one while the other processes
    copy what is in the second, by copy engines, which take no multiprocessor from the product.

    Piece k is computed on the current stream. Its copies begin behind a barrier there, on a stream
    of their own. A process comes to that barrier when its copies of piece k - 1 are done, so behind
    it piece k + 1 may be written to the same buffer. A group's calls follow one another, as those
    of :func:`of_all`, and share the buffers, whose tensors and events are made once.
    """

    def __init__(self, handle: Any, group: Any, device: torch.device, size: int) -> None:
        timeout = group._get_backend(device).options._timeout
        self.rank, self.count = handle.rank, handle.world_size
        self._handle = handle
        #: Of a rank, by shape, dtype and how many elements are before it.
        self.of_rank = functools.lru_cache(256)(self._new_buffer)
        #: A barrier of the processes' current streams.
        self.meet = functools.partial(
            handle.barrier, timeout_ms=round(1e3 * timeout.total_seconds())
        )
        self._device, self._size, self._copies = device, size, _stream_of_copies(device)
        self._met = torch.cuda.Event()
        # A call that copies more often waits for a later copy where it asks for an earlier one.
        self._events = itertools.cycle([torch.cuda.Event() for _ in range(16)])

    @staticmethod
    def of(group: Any, device: torch.device, size: int) -> PeerBuffers | None:
        """Of so many bytes at least, or None, on every process: memory cannot be reached."""
        if device.type != "cuda":
            return None
        size = 1 << max(20, (size - 1).bit_length())  # few sizes, since all are kept
        key = group.group_name, device.index, size
        if key not in _memory or _memory[key][0] is not group:
            if torch.cuda.is_current_stream_capturing():  # which holds no waiting for others
                return None
            handle = _agreed(group, device, 2 * size)
            buffers = None if handle is None else PeerBuffers(handle, group, device, size)
            _memory[key] = group, buffers
        return _memory[key][1]

    def _new_buffer(self, *asked: Any) -> Tensor:
        with torch.inference_mode(False):  # other calls may use it too
            return self._handle.get_buffer(*asked)

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Behind it the current stream has all that was copied, and buffers may be filled again."""
        self._current = torch.cuda.current_stream(self._device)
        self._copied: torch.cuda.Event | None = None
        self._offset = 0  # bytes
        with torch.cuda.stream(self._current):
            yield
            if self._copied is not None:
                self.wait(self._copied)
            self.meet()

    def own_buffer(self, shape: Sequence[int], dtype: torch.dtype, at: int = 0) -> Tensor:
        """This process's, for the next piece, behind so many elements."""
        return self.of_rank(self.rank, shape, dtype, self._offset // dtype.itemsize + at)

    def copy(self, *targets: tuple[int, Tensor, int]) -> torch.cuda.Event:
        """Begins to copy to tensors, each from a rank's buffer, behind so many elements. The event
        is to be waited for."""
        if self._copied is not None:
            self.wait(self._copied)
        self.meet()
        self._met.record(self._current)
        self._copies.wait_event(self._met)
        torch.cuda.set_stream(self._copies)
        for rank, target, at in targets:
            at += self._offset // target.dtype.itemsize
            target.copy_(self.of_rank(rank, target.shape, target.dtype, at))
        torch.cuda.set_stream(self._current)
        self._copied = next(self._events)
        self._copied.record(self._copies)
        self._offset = self._size - self._offset
        return self._copied

    def wait(self, event: torch.cuda.Event) -> None:
        self._current.wait_event(event)
