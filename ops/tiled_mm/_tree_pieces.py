"""Large linear layers whose K processes share out, in pieces of rows: one is exchanged while the
next is computed. A row's bits do not depend on the rows beside it (docs/contract.md)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import _tree_reduce
from ._peer_memory import PeerBuffers, group_named
from ._tree_reduce import added, finished

#: Pieces of all rows, and one a process at least. With fewer of 8192 x 4096 on two GPUs, more of an
#: exchange has no product beside it; with more, barriers, and products that fill a GPU less well,
#: take longer than the exchange that they hide, and the host falls behind.
PIECES = 4
#: Rows of a tile, of which a piece is a multiple, and elements of a piece at least: a tile of
#: 128 x 256 for each of 128 multiprocessors.
ROWS, PIECE = 128, 1 << 22

_linear_out, _addmm_out = torch.ops.tiled.linear.out, torch.ops.tiled.addmm.out


def sum_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def heights_of(x: Tensor, columns: int, count: int, scatter_dim: int | None) -> list[int]:
    """The rows of pieces of each process's part; none where the sum is exchanged as a whole: small
    ones, in compiled code, and what :func:`tree_reduce` refuses."""
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
    inner = rows // lines
    unit = max(1, ROWS * max(1, PIECE // (ROWS * columns)) // inner)
    height = unit * max(1, lines // (unit * max(PIECES, count)))
    whole, rest = divmod(-(-lines // count), height)
    return [height * inner] * whole + [rest * inner] * (rest > 0)


class Pieces(NamedTuple):
    """The pieces of each process's part, by their rows, and where they are exchanged."""

    heights: list[int]
    buffers: PeerBuffers
    scatter_dim: int | None
    results: int  # with the pre-activation, where the gradient needs it


def pieces_of(
    x: Tensor, columns: int, name: str, count: int, scatter_dim: int | None, activation: str | None
) -> Pieces | None:
    """None, on every process, where the sum is exchanged as a whole: :func:`heights_of`, and where
    GPUs do not reach each other's memory, since NCCL's exchanges of pieces hide nothing."""
    heights = heights_of(x, columns, count, scatter_dim)
    if not heights:
        return None
    results = 1 if activation in (None, "relu") else 2
    size = max(sum_dtype(x.dtype).itemsize, results * x.dtype.itemsize)
    buffers = PeerBuffers.of(group_named(name), x.device, max(heights) * columns * size)
    return buffers and Pieces(heights, buffers, scatter_dim, results)


def paired(parts: Sequence[Tensor]) -> list[Tensor]:
    """The sums of neighbours, in the left ones' memory."""
    return [one.add_(two) for one, two in zip(parts[0::2], parts[1::2], strict=True)]


def linear_in_pieces(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    pieces: Pieces,
    activation: str | None,
    options: dict[str, str | None],
) -> tuple[Tensor, Tensor]:
    """``activation(sum over processes of x @ weight.T + bias)`` and what its gradient needs, as
    :func:`reduced` has them of the sum. Products have the precision and the order of `options`.

    A process computes the rows that others finish before its own, first those of rank xor 1, which
    is beside it in the tree, then of rank xor 2, 3, ...: each time two processes swap a piece. The
    products of its own rows begin with their neighbours' sums, so that of two processes no other
    kernel adds. Finished rows are gathered, a piece at a time, but not if they stay scattered.
    """
    heights, buffers, scatter_dim, results = pieces
    rank, count, columns, sums = buffers.rank, buffers.count, weight.shape[0], sum_dtype(x.dtype)
    is_whole, transposed = scatter_dim is None, weight.mT
    lines = x if is_whole else x.movedim(scatter_dim, 0)
    rows = lines.reshape(-1, x.shape[-1])
    part, begins = sum(heights), list(itertools.accumulate(heights, initial=0))
    received = [x.new_empty((count - 1, height, columns), dtype=sums) for height in heights]
    y = [x.new_empty(((count if is_whole else 1) * part, columns)) for _ in range(results)]

    def begin_of(process: int, i: int) -> int:
        """Whole results have piece 0 of all processes first; scattered ones, all of process 0."""
        return begins[i] * count + process * heights[i] if is_whole else process * part + begins[i]

    def rows_of(process: int, i: int) -> Tensor:
        begin = begin_of(process, i)
        return rows[begin : begin + heights[i]]

    def complete(own: Tensor, out: list[Tensor], received: Tensor, arrived: list[Any]) -> None:
        """This process's rows, and their pre-activations where `out` has room for them, of all
        others' sums, which are used up."""
        neighbours, *others = received[:, : len(own)]
        buffers.wait(arrived[0])
        if not others and bias is None and results == 1:
            _addmm_out(neighbours, own, transposed, activation=activation, **options, out=out[0])
            return
        _addmm_out(neighbours, own, transposed, out_dtype=sums, **options, out=neighbours)
        for event in arrived[1:]:
            buffers.wait(event)
        parts = [neighbours, *paired(others)]
        if bias is None and activation is None:
            added(parts, out[0], are_used_up=True)
            return
        both = finished(added(parts, are_used_up=True), bias, x.dtype, activation)
        for buffer, result in zip(out, both, strict=False):
            buffer.copy_(result)

    with buffers.call():
        arrived: list[list[Any]] = [[] for _ in heights]
        for step in range(1, count):
            for i, events in enumerate(arrived):
                theirs = rows_of(rank ^ step, i)
                buffer = buffers.own_buffer((len(theirs), columns), sums)
                _linear_out(theirs, weight, out_dtype=sums, **options, out=buffer)
                events.append(buffers.copy((rank ^ step, received[i][step - 1], 0)))
        for i, height in enumerate(heights):
            own, size = rows_of(rank, i), height * columns
            begin = begin_of(rank, i) if is_whole else begins[i]
            targets = out = [t[begin : begin + len(own)] for t in y]
            if is_whole:
                out = [
                    buffers.own_buffer(t.shape, x.dtype, j * size) for j, t in enumerate(targets)
                ]
            complete(own, out, received[i], arrived[i])
            if is_whole:
                others = [(r, begin_of(r, i)) for r in range(count) if r != rank]
                buffers.copy(
                    *((r, t[b : b + height], j * size) for j, t in enumerate(y) for r, b in others)
                )
                for target, buffer in zip(targets, out, strict=True):
                    target.copy_(buffer)
    sizes = lines.shape[:-1] if is_whole else (lines.shape[0] // count, *lines.shape[1:-1])
    whole = [t[: len(rows)].view(*sizes, columns) for t in y]
    if not is_whole:
        whole = [t.movedim(0, scatter_dim) for t in whole]
    return whole[0], whole[-1]
