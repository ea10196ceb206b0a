"""Cases of test_tree_parallel.py: large layers in pieces of rows, of which one is exchanged while
the next is computed, have the bits of one process, which computes beside them."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import tempfile
from collections.abc import Callable, Iterator

import pytest
import tiled_mm
import torch
from parallel_tree import (
    COLUMNS,
    DTYPES,
    ORDER,
    ROWS,
    WIDTH,
    drawn,
    mlp,
    parallelized,
    part,
    step,
)
from processes import Cases, device, equal, square_mesh, whole
from tiled_mm import _peer_memory, _tree_linear, _tree_pieces, _tree_reduce, nn
from tiled_mm._tree_pieces import Pieces
from tiled_mm.distributed import ColwiseParallel, RowwiseParallel
from torch import Tensor, distributed
from torch.distributed.tensor import Shard
from torch.utils._python_dispatch import TorchDispatchMode

CASES = Cases()
HIDDEN = 256
#: Leading sizes of x, of which no piece divides most, and the pieces of all rows.
SIZES = (((37,), 8), ((64,), 16), ((3, 1, 5), 4), ((1,), 8), ((4, 24), 8), ((8, 3, 2), 32))
SCATTERED = (((40,), 0, 8), ((2, 20), 1, 16), ((20, 3), 0, 4), ((3, 4, 2), -2, 8), ((4, 2), 0, 64))


class _Copies(TorchDispatchMode):
    """A stream that copies when it is waited for, and not before."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.waiting = 0, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None) -> object:
        if func is not torch.ops.aten.copy_.default:
            return func(*args, **(kwargs or {}))
        self.begun += 1
        self.waiting.append(args)
        return args[0]

    def wait_event(self, event: _Event) -> None: ...


class _Event:
    def record(self, stream: _Copies | _Current) -> None:
        self.copies, self.begun = stream, stream.begun


class _Current:
    """The stream of products, which run at once."""

    begun = 0

    def wait_event(self, event: _Event) -> None:
        copies = event.copies
        while copies.begun - len(copies.waiting) < event.begun:
            target, source = copies.waiting.pop(0)
            target.copy_(source)


_COPIES, _CURRENT = _Copies(), _Current()


class _SharedMemory:
    """A handle as of torch's symmetric memory, of CPU processes."""

    def __init__(self, group: object, size: int) -> None:
        self.group, self.size = group, size
        self.rank, self.world_size = group.rank(), group.size()
        paths = [tempfile.mkstemp()[1] if self.rank == 0 else None]
        distributed.broadcast_object_list(paths, group=group, group_src=0)
        self.bytes = torch.from_file(paths[0], True, size * self.world_size, dtype=torch.uint8)
        distributed.barrier(group)
        if self.rank == 0:
            os.remove(paths[0])

    def get_buffer(self, rank: int, shape: tuple, dtype: torch.dtype, offset: int) -> Tensor:
        begin = rank * self.size + offset * dtype.itemsize
        end = begin + math.prod(shape) * dtype.itemsize
        assert end <= (rank + 1) * self.size
        return self.bytes[begin:end].view(dtype).view(shape)

    def barrier(self, timeout_ms: int) -> None:
        distributed.barrier(self.group)


@functools.cache
def _buffers_on_cpus(group: object) -> _peer_memory.PeerBuffers:
    return _peer_memory.PeerBuffers(
        _SharedMemory(group, 1 << 17), group, torch.device("cpu"), 1 << 16
    )


def _use_buffers_on_cpus(patch: pytest.MonkeyPatch) -> None:
    """What GPUs do: buffers are copied from as late as may be, and written as early."""
    within = contextlib.ExitStack()

    def buffers(group: object, device: torch.device, size: int) -> _peer_memory.PeerBuffers:
        assert size <= 1 << 16
        return _buffers_on_cpus(group)

    def set_stream(stream: object) -> None:
        within.enter_context(stream) if stream is _COPIES else within.close()

    patch.setattr(_peer_memory, "_stream_of_copies", lambda device: _COPIES)
    patch.setattr(_peer_memory.PeerBuffers, "of", buffers)
    patch.setattr(torch.cuda, "Event", _Event)
    patch.setattr(torch.cuda, "current_stream", lambda device: _CURRENT)
    patch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    patch.setattr(torch.cuda, "set_stream", set_stream)


@contextlib.contextmanager
def in_pieces(pieces: int) -> Iterator[list[int]]:
    """Of any size. How many pieces calls of a process were cut in."""
    found = []
    real = _tree_pieces.linear_in_pieces

    def counted(x: Tensor, weight: Tensor, bias: object, pieces: Pieces, *args: object) -> object:
        found.append(len(pieces.heights))
        return real(x, weight, bias, pieces, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tree_reduce, "ONE_STEP", 0)
        patch.setattr(_tree_pieces, "ROWS", 1)
        patch.setattr(_tree_pieces, "PIECE", 1)
        patch.setattr(_tree_pieces, "PIECES", pieces)
        patch.setattr(_tree_linear, "linear_in_pieces", counted)
        if device() == "cpu":
            _use_buffers_on_cpus(patch)
        yield found


def row_layer(dtype: torch.dtype, activation: str | None, biased: bool) -> nn.Linear:
    torch.manual_seed(11)
    with torch.device("cpu"):
        layer = nn.Linear(HIDDEN, 24, bias=biased, activation=activation, dtype=dtype)
    return layer.to(device())


@CASES
def pieces_of_rows() -> None:
    """Whole: results and all gradients, with and without an epilogue."""
    count = distributed.get_world_size()
    for dtype, (sizes, pieces), activation, biased in itertools.product(
        DTYPES, SIZES, (None, "relu", "gelu"), (False, True)
    ):
        x, g = drawn(*sizes, HIDDEN, dtype=dtype), drawn(*sizes, 24, dtype=dtype, seed=1)
        with tiled_mm.sum_order(ORDER):
            right = step(row_layer(dtype, activation, biased), x, g)
        net = parallelized(row_layer(dtype, activation, biased), ROWS)
        with in_pieces(pieces) as found:
            y, grad, *grads = step(net, part(x, -1), g)
        assert len(found) == (count > 1)
        assert all(n >= pieces // count for n in found) or x.numel() < 24 * HIDDEN
        equal(y, right[0])
        equal(grad, part(right[1], -1))
        for ours, expected in zip(grads, right[2:], strict=True):
            equal(ours, expected)


@CASES
def pieces_of_sequences() -> None:
    """Split along any dimension, of rows' results and of columns' x."""
    count = distributed.get_world_size()
    for dtype, (sizes, dim, pieces), last in itertools.product(
        DTYPES, SCATTERED, (None, "gelu", "relu")
    ):
        dim -= 0 if dim >= 0 else 1  # of x and the result, whose last is no row's
        x, g = drawn(*sizes, WIDTH, dtype=dtype), drawn(*sizes, WIDTH, dtype=dtype, seed=1)
        with tiled_mm.sum_order(ORDER):
            right = step(mlp(dtype, last), x, g)
        dim %= x.dim()
        split = {
            "0": ColwiseParallel(input_layouts=Shard(dim), sum_order=ORDER),
            "1": RowwiseParallel(output_layouts=Shard(dim), sum_order=ORDER),
        }
        net = parallelized(mlp(dtype, last), split)
        with in_pieces(pieces) as found:
            y, grad, *grads = step(net, part(x, dim), part(g, dim))
        assert len(found) == (2 if count > 1 else 0)
        equal(y, part(right[0], dim))
        equal(grad, part(right[1], dim))
        for ours, expected in zip(grads, right[2:], strict=True):
            equal(ours, expected)


@CASES
def pieces_of_a_perceptron() -> None:
    """Whole, columns' x too; recomputed, without gradients, in 16 bits by autocast, compiled."""
    from torch.utils.checkpoint import checkpoint

    count, kind = distributed.get_world_size(), device()
    x, g = drawn(7, 5, WIDTH), drawn(7, 5, WIDTH, seed=1)

    def again(net: torch.nn.Module, x: Tensor, g: Tensor) -> list[Tensor]:
        return step(called(net, lambda y: checkpoint(net, y, use_reentrant=False)), x, g)

    def by_autocast(net: torch.nn.Module, x: Tensor, g: Tensor) -> list[Tensor]:
        def forward(y: Tensor) -> Tensor:
            with torch.autocast(kind, torch.bfloat16):
                return net(y)

        return step(called(net, forward), x, g.bfloat16())

    for way, last in itertools.product((step, again, by_autocast), (None, "gelu", "relu")):
        net = mlp(torch.float32, last)
        with tiled_mm.sum_order(ORDER):
            right = way(net, x, g)
        ours = parallelized(mlp(torch.float32, last), {"0": COLUMNS, "1": ROWS})
        with in_pieces(8) as found:
            for got, expected in zip(way(ours, x, g), right, strict=True):
                equal(got, expected)
            assert len(found) == (0 if count == 1 else 3 if way is again else 2)
            if way is step:
                with torch.no_grad():
                    equal(ours(x), right[0])
                count_before = len(found)
                ours.zero_grad()
                torch._dynamo.reset()
                compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
                for got, expected in zip(step(compiled, x, g), right, strict=True):
                    equal(got, expected)
                assert len(found) == count_before  # compiled code exchanges the whole


class _Asked(TorchDispatchMode):
    """The precisions that products are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str | None] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None) -> object:
        if any(argument.name == "precision" for argument in func._schema.arguments):
            self.found.append((kwargs or {}).get("precision"))
        return func(*args, **(kwargs or {}))


@CASES
def precision_of_the_forward() -> None:
    """It is the backward's too, whatever is set then, of rows and of columns, in pieces or not."""
    x, g = drawn(16, WIDTH), drawn(16, WIDTH, seed=1)
    for within in (contextlib.nullcontext(), in_pieces(8)):
        net = parallelized(mlp(torch.float32), {"0": COLUMNS, "1": ROWS})
        with within as found:
            with tiled_mm.float32_precision("fp16x3"):
                right = step(net, x, g)
                net.zero_grad()
                ours = x.clone().requires_grad_()
                y = net(ours)
            with tiled_mm.float32_precision("tf32"), _Asked() as asked:
                y.backward(g)
        assert found is None or bool(found) == (distributed.get_world_size() > 1)
        assert len(set(asked.found)) == 1 and None not in asked.found, asked.found
        grads = [y.detach(), ours.grad, *(whole(p.grad) for p in net.parameters())]
        for got, expected in zip(grads, right, strict=True):
            equal(got, expected)


def called(net: torch.nn.Module, forward: Callable[[Tensor], Tensor]) -> torch.nn.Module:
    """The parameters of one, called by a function."""

    class Called(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Tensor) -> Tensor:
            return forward(x)

    return Called()


@CASES
def pieces_gone_wrong() -> None:
    """The tests above notice another order, of four processes, another row's sums, and a copy that
    is not waited for. Without each other's memory the sum is exchanged as a whole."""
    count = distributed.get_world_size()
    if count == 1:
        return
    x = drawn(64, HIDDEN)
    net = row_layer(torch.float32, None, False)
    with tiled_mm.sum_order(ORDER), torch.no_grad():
        right = net(x)
    ours = parallelized(net, ROWS)
    product = _tree_pieces._linear_out

    def of_the_next_row(*args: Tensor, out: Tensor, **options: object) -> None:
        product(*args, out=out, **options)
        out.copy_(out.roll(1, 0))

    def in_turn(parts: list[Tensor], out: Tensor | None = None, **options: bool) -> Tensor:
        total = functools.reduce(torch.add, parts)
        return total if out is None else out.copy_(total)

    wrong = [{(_tree_pieces, "_linear_out"): of_the_next_row}]
    if count == 4:
        wrong += [{(_tree_pieces, "paired"): list, (_tree_pieces, "added"): in_turn}]
    if device() == "cpu":
        wrong += [{(_Current, "wait_event"): lambda *args: None}]
    without = {(_peer_memory.PeerBuffers, "of"): lambda *args: None}
    for changes in ({}, without, *wrong):
        with torch.no_grad(), in_pieces(16) as found, pytest.MonkeyPatch.context() as patch:
            for (where, name), change in changes.items():
                patch.setattr(where, name, change)
            assert torch.equal(ours(part(x, -1)), right) == (changes not in wrong)
            assert len(found) == (changes is not without)
    _COPIES.waiting.clear()


@CASES
def pieces_within_a_mesh() -> None:
    """A group whose ranks are not those of all processes."""
    x = drawn(37, WIDTH)
    with tiled_mm.sum_order(ORDER), torch.no_grad():
        right = mlp(torch.float32)(x)
    on = square_mesh(("data", "model"))["model"]
    net = parallelized(mlp(torch.float32), {"0": COLUMNS, "1": ROWS}, on)
    for mode in (torch.inference_mode, torch.no_grad):  # buffers are the same
        with mode(), in_pieces(8):
            equal(net(x), right)


@CASES
def pieces_in_a_graph() -> None:
    """Replays of two calls that use the same buffers."""
    if device() != "cuda":
        return
    net = parallelized(row_layer(torch.bfloat16, None, False), ROWS)
    for rows in (512, 24):
        x = drawn(rows, HIDDEN, dtype=torch.bfloat16)
        own = part(x, -1).contiguous()
        with torch.no_grad(), in_pieces(8):
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                net(own)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y, z = net(own), net(2 * own)
            for seed in (20, 21, 22):
                x = drawn(rows, HIDDEN, dtype=torch.bfloat16, seed=seed)
                own.copy_(part(x, -1))
                graph.replay()
                with tiled_mm.sum_order(ORDER):
                    equal(y, tiled_mm.linear(x, whole(net.weight)))
                    equal(z, tiled_mm.linear(2 * x, whole(net.weight)))


@CASES
def pieces_refused() -> None:
    """Before anything is sent."""
    count = distributed.get_world_size()
    if count == 1:
        return
    net = parallelized(
        row_layer(torch.float32, None, True),
        RowwiseParallel(output_layouts=Shard(0), sum_order=ORDER),
    )
    with in_pieces(8) as found:
        with pytest.raises(RuntimeError, match="evenly along dimension 0"):
            net(drawn(count + 1, HIDDEN // count))
        assert not found
        with pytest.raises(RuntimeError):
            net(drawn(count, HIDDEN // count + 16))
