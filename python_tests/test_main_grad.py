"""main_grad: which weights have one, what a missing one says, and the order of what is added.

The sums themselves are in test_nn.py."""

from __future__ import annotations

import threading

import pytest
import tiled_mm
import torch
from cases import each
from epilogues import same_bits


def into_main_grad(x, weight, bias, main_grad, **options) -> torch.Tensor:
    return torch.ops.tiled._linear_into_main_grad(x, weight, bias, main_grad, **options)


@each("activation", (None, "relu", "silu"))
def test_a_weight_of_one_dimension(device: str, activation) -> None:
    weight = torch.randn(7, device=device, requires_grad=True)
    main_grad = torch.zeros(7, device=device)
    x = torch.randn(2, 3, 7, device=device, requires_grad=True)
    y = into_main_grad(x, weight, None, main_grad, activation=activation)
    z = tiled_mm.linear(x, weight, activation=activation)
    assert same_bits(y, z)
    seed = torch.randn(2, 3, device=device)
    expected = torch.autograd.grad(z, (x, weight), seed)
    y.backward(seed)
    assert weight.grad is None
    assert same_bits(x.grad, expected[0]) and same_bits(main_grad, expected[1])


def test_a_missing_one_says_what_to_provide(device: str) -> None:
    x = torch.randn(3, 7, device=device)
    for dtype, name in (
        (torch.float32, "Float"),
        (torch.bfloat16, "Float"),
        (torch.float64, "Double"),
    ):
        weight = torch.randn(5, 7, device=device, dtype=dtype, requires_grad=True)
        with pytest.raises(RuntimeError, match="main_grad is missing") as raised:
            into_main_grad(x.to(dtype), weight, None, None)
        text = str(raised.value)
        assert "weight.main_grad" in text and f"[5, 7] and dtype {name} on {device}" in text
        # Where nothing is added, none is needed.
        with torch.no_grad():
            expected = tiled_mm.linear(x.to(dtype), weight)
            assert same_bits(into_main_grad(x.to(dtype), weight, None, None), expected)
        weight.requires_grad_(False)
        y = into_main_grad(x.to(dtype).requires_grad_(), weight, None, None)
        assert same_bits(y, expected) and y.requires_grad


@pytest.mark.cuda
def test_one_of_another_device_is_refused_before_the_product() -> None:
    x, weight = torch.randn(3, 7).cuda(), torch.randn(5, 7).cuda().requires_grad_()
    with pytest.raises(RuntimeError, match="same device"):
        into_main_grad(x, weight, None, torch.zeros(5, 7))


def test_threads_that_run_backward_at_once(device: str) -> None:
    """None of what they add is lost."""
    weight = torch.ones(400, 600, device=device, requires_grad=True)
    main_grad = torch.zeros(400, 600, device=device)
    x = torch.ones(8, 600, device=device)
    graphs = [into_main_grad(x, weight, None, main_grad).sum() for _ in range(200)]
    gate = threading.Barrier(4)

    def run(mine: list[torch.Tensor]) -> None:
        gate.wait()
        for loss in mine:
            loss.backward()

    threads = [threading.Thread(target=run, args=(graphs[i::4],)) for i in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert bool((main_grad == 8 * 200).all())


# ---- streams -------------------------------------------------------------------------------------

CYCLES = 200_000_000  # that a stream sleeps: a tenth of a second


def backward_on_side_streams(streams: int, weight, main_grad, autocast: bool = False) -> None:
    """A forward on each stream, all of whose work comes after a long sleep; one backward; then
    main_grad must be ready for its caller, without a synchronisation."""
    x = torch.ones(4, weight.shape[-1], device="cuda", dtype=weight.dtype)
    seed = torch.ones((), device="cuda")
    torch.cuda.synchronize()
    losses = []
    for i in range(streams):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            losses.append(into_main_grad(x, weight, None, main_grad).float().sum())
            torch.cuda._sleep(CYCLES * (streams - i))
    torch.autograd.backward(losses, [seed] * streams)
    found = main_grad.clone()
    torch.cuda.synchronize()
    assert bool((found == 4 * streams).all()), "read before it was written"
    assert bool((main_grad == 4 * streams).all()), "an addition was lost"


@pytest.mark.cuda
@each("kept", (False, True))
@each("streams", (1, 2, 3))
@each("kind", ("float32", "bfloat16", "autocast", "vector"))
def test_main_grad_is_ready_where_backward_was_called(kind: str, streams: int, kept: bool) -> None:
    """As weight.grad is, also where weight's AccumulateGrad, kept by a hook or DDP, is of another
    stream than the forward."""
    dtype = torch.bfloat16 if kind == "bfloat16" else torch.float32
    shape = (7,) if kind == "vector" else (5, 7)
    weight = torch.ones(shape, device="cuda", dtype=dtype, requires_grad=True)
    keeper = weight.expand_as(weight).grad_fn.next_functions[0][0] if kept else None
    main_grad = torch.zeros(shape, device="cuda")
    backward_on_side_streams(streams, weight, main_grad, autocast=kind == "autocast")
    assert weight.grad is None and (keeper is not None) == kept


@pytest.mark.cuda
def test_main_grad_is_added_after_what_the_caller_enqueued() -> None:
    """zero_() on the caller's stream, just before backward()."""
    weight = torch.ones(5, 7, device="cuda", requires_grad=True)
    main_grad = torch.full((5, 7), 3.0, device="cuda")
    x, side = torch.ones(4, 7, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        loss = into_main_grad(x, weight, None, main_grad).sum()
    torch.cuda._sleep(CYCLES)
    main_grad.zero_()
    loss.backward()
    assert bool((main_grad == 4).all())


@pytest.mark.cuda
def test_main_grad_in_a_cuda_graph() -> None:
    weight = torch.ones(5, 7, device="cuda", requires_grad=True)
    main_grad, x = torch.zeros(5, 7, device="cuda"), torch.ones(4, 7, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        into_main_grad(x, weight, None, main_grad).sum().backward()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        into_main_grad(x, weight, None, main_grad).sum().backward()
    main_grad.zero_()
    for _ in range(3):
        graph.replay()
    assert bool((main_grad == 12).all())
