"""out= in the forms that are easy to get wrong."""

from __future__ import annotations

import subprocess
import sys

import cases
import pytest
import tiled_mm
import torch
from golden import assert_same_bits

pytestmark = pytest.mark.parametrize("device", cases.DEVICES)


def operands(device: str, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    return cases.pair(4, 8, 3, dtype, device)


@pytest.mark.parametrize("view", [torch.conj, torch._neg_view], ids=["conj", "neg"])
def test_a_lazy_view_is_written_through(view, device: str) -> None:
    a, b = operands(device, torch.complex64)
    memory = cases.hole(4, 8, torch.complex64, device)
    out = view(memory)
    assert tiled_mm.mm(a, b, out=out) is out
    expected = tiled_mm.mm(a, b)
    assert_same_bits(out.resolve_conj().resolve_neg(), expected)
    assert_same_bits(memory, view(expected).resolve_conj().resolve_neg())


@pytest.mark.parametrize("view", [torch.conj, torch._neg_view], ids=["conj", "neg"])
def test_lazy_inputs_with_a_plain_out(view, device: str) -> None:
    a, b = operands(device, torch.complex64)
    out = cases.hole(4, 8, torch.complex64, device)
    tiled_mm.mm(view(a), view(b), out=out)
    plain = [view(t).resolve_conj().resolve_neg().clone() for t in (a, b)]
    assert_same_bits(out, tiled_mm.mm(*plain))


def test_an_empty_lazy_out_is_resized(device: str) -> None:
    a, b = operands(device, torch.complex64)
    out = torch.empty(0, dtype=torch.complex64, device=device).conj()
    tiled_mm.mm(a, b, out=out)
    assert_same_bits(out.resolve_conj(), tiled_mm.mm(a, b))


@pytest.mark.parametrize("of", [0, 1], ids=["a", "b"])
def test_an_empty_view_of_an_input_that_is_resized(of: int, device: str) -> None:
    pair = operands(device)
    expected = tiled_mm.mm(*pair)
    out = pair[of][:0]
    tiled_mm.mm(*pair, out=out)
    assert_same_bits(out, expected)


def test_an_empty_view_with_an_odd_offset(device: str) -> None:
    a, b = cases.pair(130, 260, 40, torch.float32, device)
    out = torch.empty(8, device=device)[1:1]
    tiled_mm.mm(a, b, out=out)
    assert out.data_ptr() % 16 == 4, "the offset is to be kept"
    assert_same_bits(out, tiled_mm.mm(a, b))


@pytest.mark.parametrize("strides", [(2, 1), (1, 2), (3, 2), (4, 6), (0, 1), (1, 0)], ids=str)
def test_an_out_that_overlaps_itself_is_refused(strides: tuple[int, int], device: str) -> None:
    a, b = cases.pair(6, 6, 3, torch.float32, device)
    memory = cases.hole(1, 100, torch.float32, device)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        tiled_mm.mm(a, b, out=memory.as_strided((6, 6), strides))
    assert memory.isnan().all()


@pytest.mark.parametrize("strides", [(6, 1), (1, 6), (7, 13), (2, 13)], ids=str)
def test_an_out_whose_rows_interleave_is_written(strides: tuple[int, int], device: str) -> None:
    a, b = cases.pair(6, 6, 3, torch.float32, device)
    memory = cases.hole(1, 200, torch.float32, device)
    out = memory.as_strided((6, 6), strides)
    tiled_mm.mm(a, b, out=out)
    assert_same_bits(out, tiled_mm.mm(a, b))
    assert memory.isnan().sum() == 200 - 36


def test_an_inference_tensor_is_refused_before_it_is_written(device: str) -> None:
    a, b = operands(device)
    with torch.inference_mode():
        out = cases.hole(4, 8, torch.float32, device)
    with pytest.raises(RuntimeError, match="inference tensor"):
        tiled_mm.mm(a, b, out=out)
    assert out.isnan().all()


RACE = """
import sys, threading, torch, tiled_mm
device = sys.argv[1]
for _ in range(40):
    x = torch.randn(8, 8, device=device, requires_grad=True)
    y = x
    for _ in range(30):
        y = torch.ops.tiled.mm(y, x)
    loss = y.sum()
    def backward():
        try:
            torch.autograd.grad(loss, x)
        except RuntimeError as error:
            assert "second time" in str(error), error
    threads = [threading.Thread(target=backward) for _ in range(2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
"""


def test_two_threads_may_run_one_graph_backward(device: str) -> None:
    run = subprocess.run([sys.executable, "-c", RACE, device], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
