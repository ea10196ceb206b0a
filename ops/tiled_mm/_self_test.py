"""The products that ``python -m tiled_mm`` computes to see whether this machine's are right."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

import tiled_mm

DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.complex64, torch.complex128, torch.int8, torch.int64),
)
PRECISIONS = ("ieee", "tf32", "fp16x3")


def name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def first_line(error: Exception) -> str:
    """The lines below the first may name files of the machine, which nobody means to publish."""
    return str(error).partition("\n")[0] or type(error).__name__


def failures(devices: Iterable[torch.device]) -> Iterator[str]:
    """Each is a sentence about what is wrong. A product that raises is a failure too, so that a
    broken machine still has a report; its traceback goes to stderr."""
    torch.manual_seed(0)
    for device in devices:
        for dtype in DTYPES:
            try:
                yield from wrong_results(device, dtype)
            except Exception as error:
                traceback.print_exc(file=sys.stderr)
                yield f"{device} {name(dtype)}: {first_line(error)}"


def wrong_results(device: torch.device, dtype: torch.dtype) -> Iterator[str]:
    """What is wrong, if anything, with products of a size that fills no tile. Of small whole
    numbers every sum is exact, so there is one right answer, of every rung."""
    exact_a, exact_b = torch.randint(-3, 4, (67, 133)), torch.randint(-3, 4, (133, 71))
    exact = (exact_a[:, :, None] * exact_b).sum(1)  # [67, 71], without any product of torch's
    a, b, right = (t.to(dtype).to(device) for t in (exact_a, exact_b, exact))
    for precision in PRECISIONS if dtype == torch.float32 else (None,):
        try:
            rungs = tiled_mm.algos(a, b, precision=precision) if device.type != "cpu" else [None]
        except NotImplementedError:  # no kernel for it on this device
            continue
        for rung in rungs:
            what = " ".join(str(x) for x in (device, name(dtype), precision, rung) if x)
            c = tiled_mm.mm(a, b, algo=rung, precision=precision)
            if not torch.equal(c, right):
                yield f"{what}: {int((c != right).sum())} of {c.numel()} elements are wrong"
            if not torch.equal(tiled_mm.mm(a[3:5], b, algo=rung, precision=precision), c[3:5]):
                yield f"{what}: two rows differ from the same rows of the whole"
    if dtype.is_floating_point:
        yield from wrong_gradients(a, b, right)


def wrong_gradients(a: Tensor, b: Tensor, right: Tensor) -> Iterator[str]:
    a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
    with tiled_mm.override():
        c = a @ b
        if not torch.equal(c, right):
            yield f"{a.device} {name(a.dtype)}: torch's product under override is wrong"
        c.sum().backward()
    expected = b.detach().double().sum(1).to(b.dtype).expand_as(a)
    if not torch.equal(a.grad, expected):
        yield f"{a.device} {name(a.dtype)}: the gradient is wrong"
