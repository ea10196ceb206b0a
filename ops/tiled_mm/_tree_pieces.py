"""Large linear layers whose K processes share out, in pieces of rows: one is exchanged while the
next is computed. A row's bits do not depend on the rows beside it (docs/contract.md)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, distributed

from . import _tree_reduce
from ._peer_memory import Rooms, group_named
from ._tree_reduce import added, finished

#: Pieces of all rows: with 8 of 8192 x 4096 on two GPUs their barriers, of some 4 us, take as long
#: as the exchange of the last one's 8 MB in 16 bits at 350 GB/s, which nothing hides.
PIECES = 8
#: Rows of a tile, of which a piece is a multiple, and elements of a piece at least: a tile of
#: 128 x 256 for each of 128 multiprocessors.
ROWS, PIECE = 128, 1 << 22


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def pieces_of(x: Tensor, columns: int, count: int, scatter_dim: int | None) -> list[int]:
    """The heights of pieces of each process's part of the rows, or of the dimension that stays
    scattered; none where the sum is exchanged as a whole: small ones, in compiled code, and what
    :func:`tree_reduce` refuses."""
    if torch.compiler.is_compiling() or count == 1 or count & (count - 1):
        return []
    rows, dims = math.prod(x.shape[:-1]), x.dim()
    is_small = rows * columns * sum_dtype(x.dtype).itemsize <= _tree_reduce.ONE_STEP
    if is_small or rows * columns < count * PIECE:
        return []
    lines = rows
    if scatter_dim is not None:
        if not -dims <= scatter_dim < dims or scatter_dim % dims == dims - 1:
            return []
        lines = x.shape[scatter_dim]
        if lines % count:
            return []
    unit = max(1, ROWS * max(1, PIECE // (ROWS * columns)) // (rows // lines))
    height = unit * max(1, lines // (unit * max(PIECES, count)))
    whole, rest = divmod(-(-lines // count), height)
    return [height] * whole + [rest] * (rest > 0)


class _Collectives:
    """:class:`Rooms` by torch.distributed's collectives: of gloo, and of several hosts."""

    def __init__(self, group: Any, device: torch.device) -> None:
        self._group, self._device = group, device
        self._begun: list[Any] = []

    def room(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=self._device)

    def swap(self, room: Tensor, target: Tensor, peer: int) -> Callable[[], None]:
        sizes = [len(room) if rank == peer else 0 for rank in range(self._group.size())]
        return distributed.all_to_all_single(
            target, room, sizes, sizes, group=self._group, async_op=True
        ).wait

    def gather(self, room: Tensor, target: Tensor) -> None:
        for part, whole in zip(room, target, strict=True):
            work = distributed.all_gather_into_tensor(
                whole.flatten(0, 1), part, group=self._group, async_op=True
            )
            self._begun.append(work)

    def finish(self) -> None:
        for work in self._begun:
            work.wait()


def paired(parts: Sequence[Tensor]) -> list[Tensor]:
    """The sums of neighbours, in the left ones' memory."""
    return [one.add_(two) for one, two in zip(parts[0::2], parts[1::2], strict=True)]


def _complete(
    out: Tensor,
    rows: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    received: Tensor,
    arrived: Sequence[Callable[[], None]],
    activation: str | None,
    order: str,
) -> None:
    """A process's own rows, and their pre-activations where `out` has room for them, of all others'
    sums, [processes - 1, rows, N], which are used up."""
    neighbours, *others = received
    arrived[0]()
    columns = weight.mT
    if not others and bias is None and len(out) == 1:
        torch.ops.tiled.addmm.out(
            neighbours, rows, columns, activation=activation, sum_order=order, out=out[0]
        )
        return
    torch.ops.tiled.addmm.out(
        neighbours, rows, columns, out_dtype=neighbours.dtype, sum_order=order, out=neighbours
    )
    for wait in arrived[1:]:
        wait()
    parts = [neighbours, *paired(others)]
    if bias is None and activation is None:
        added(parts, out[0], are_used_up=True)
        return
    results = finished(added(parts, are_used_up=True), bias, out.dtype, activation)
    for part, result in zip(out, results, strict=False):
        part.copy_(result)


def linear_in_pieces(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    name: str,
    count: int,
    scatter_dim: int | None,
    activation: str | None,
    order: str,
    heights: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """``activation(sum over processes of x @ weight.T + bias)`` and what its gradient needs, as
    :func:`reduced` has them of the sum. The heights are :func:`pieces_of`'s.

    A process computes the rows that others finish before its own, first those of rank xor 1, which
    is beside it in the tree, then of rank xor 2, 3, ...: each time two processes swap a piece. The
    products of its own rows begin with their neighbours' sums, so that of two processes no other
    kernel adds. Finished rows are gathered, a piece at a time, but not if they stay scattered.
    """
    group = group_named(name)
    rank, columns = group.rank(), weight.shape[0]
    sums = sum_dtype(x.dtype)
    results = 1 if activation in (None, "relu") else 2
    lines = x.reshape(-1, x.shape[-1]) if scatter_dim is None else x.movedim(scatter_dim, 0)
    inner = math.prod(lines.shape[1:-1])
    part = sum(heights)
    pieces = list(zip(itertools.accumulate(heights, initial=0), heights, strict=False))

    def rows_of(process: int, begin: int, height: int) -> Tensor:
        """Whole results have piece 0 of all processes first; scattered ones, all of process 0."""
        at = process * part + begin if scatter_dim is not None else begin * count + process * height
        return lines[at : at + height].reshape(-1, x.shape[-1])

    in_room = max(heights) * inner * columns * max(sums.itemsize, results * x.dtype.itemsize)
    link = Rooms.of(group, x.device, in_room) or _Collectives(group, x.device)
    received = [x.new_empty((count - 1, h * inner, columns), dtype=sums) for h in heights]
    arrived: list[list[Callable[[], None]]] = [[] for _ in heights]
    for step in range(1, count):
        for i, piece in enumerate(pieces):
            rows, room = rows_of(rank ^ step, *piece), link.room(received[i].shape[1:], sums)
            torch.ops.tiled.linear.out(
                rows, weight, out_dtype=sums, sum_order=order, out=room[: len(rows)]
            )
            arrived[i].append(link.swap(room, received[i][step - 1], rank ^ step))

    processes = count if scatter_dim is None else 1
    y = x.new_empty((results, processes * part * inner, columns))
    for i, (begin, height) in enumerate(pieces):
        first, size = processes * begin * inner, height * inner
        target = y[:, first : first + processes * size].unflatten(1, (processes, size))
        is_whole = scatter_dim is None
        room = link.room((results, size, columns), x.dtype) if is_whole else target[:, 0]
        rows = rows_of(rank, begin, height)
        n = len(rows)
        _complete(
            room[:, :n], rows, weight, bias, received[i][:, :n], arrived[i], activation, order
        )
        if is_whole:
            link.gather(room, target)
    link.finish()
    if scatter_dim is None:
        whole = y[:, : len(lines)].view(results, *x.shape[:-1], columns)
    else:
        whole = y.view(results, part, *lines.shape[1:-1], columns)
        whole = whole.movedim(1, 1 + scatter_dim % x.dim())
    return whole[0], whole[-1]
