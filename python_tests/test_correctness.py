"""Products that need sizes or data of their own, beside a reference of higher precision
(test_rungs.py has every rung, dtype, shape and layout)."""

from __future__ import annotations

import cases
import gates
import rungs
import tiled_mm
import torch
from cases import each
from rungs import each_rung

# (M, N, K) that users of other libraries report as slow or wrong.
REPORTED = (
    (1023, 1023, 1023),
    (65, 253, 4096),
    (1, 50257, 768),
    (16, 256, 2048),
    (128, 45, 46),
    (128, 46, 45),
    (12, 64, 12),
    (65536, 16, 16),
    (64, 64, 65536),
)


@each("shape", REPORTED)
@each("dtype", (torch.float32, torch.bfloat16))
def test_reported_shapes(device: str, dtype: torch.dtype, shape: tuple) -> None:
    a, b = cases.pair(*shape, dtype, device)
    c = tiled_mm.mm(a, b)
    arithmetic = rungs.arithmetic_of(device, dtype)
    gates.check_elements(c, a, b, arithmetic)
    if c.numel() >= 1024:
        gates.check_random(c, a, b, arithmetic)


@each("rows", (3, 4, 15, 17))
def test_a_deep_transposed_view(device: str, rows: int) -> None:
    a = cases.fill(100000, rows, torch.bfloat16, device).t()
    b = cases.fill(100000, 100, torch.bfloat16, device)
    c = tiled_mm.mm(a, b)
    gates.check_elements(c, a, b, rungs.arithmetic_of(device, torch.bfloat16))


@each_rung
def test_out_of_no_elements_is_resized(device: str, algo: str | None) -> None:
    a, b = cases.pair(5, 6, 7, torch.float32, device)
    for sizes in ((0,), (0, 6), (3, 0, 2)):
        out = torch.empty(sizes, device=device)
        tiled_mm.mm(a, b, algo=algo, out=out)
        assert out.shape == (5, 6)
        gates.check(out, a, b)


@each_rung
def test_out_that_is_an_input_is_right_or_refused(device: str, algo: str | None) -> None:
    x, y = cases.pair(33, 33, 33, torch.float32, device)
    views = {
        "the first operand": lambda t: (t, t, y),
        "the second operand": lambda t: (t, y, t),
        "both operands": lambda t: (t, t, t),
        "a transposed operand": lambda t: (t, t.t(), y),
        "a shifted view": lambda t: (t[1:, 1:], t[:-1, :-1], y[1:, 1:]),
    }
    for name, view in views.items():
        _, a, b = view(x)
        expected = tiled_mm.mm(a, b, algo=algo)
        memory = x.clone()
        out, a, b = view(memory)
        try:
            tiled_mm.mm(a, b, algo=algo, out=out)
        except RuntimeError:
            assert torch.equal(memory, x), f"{name}: refused, but written"
        else:
            assert torch.equal(out, expected), f"{name}: wrong"


@each("dtype", cases.INTEGERS)
@each_rung
def test_integers_wrap_as_torch_mm_does(device: str, algo: str | None, dtype) -> None:
    info = torch.iinfo(dtype)
    for value in (info.max, info.min, info.max - 1):
        a = torch.full((18, 35), value, dtype=dtype, device=device)
        b = torch.full((35, 17), info.max, dtype=dtype, device=device)
        c = tiled_mm.mm(a, b, algo=algo)
        gates.check_integers(c, a, b)
        assert torch.equal(c.cpu(), torch.mm(a.cpu(), b.cpu()))


@each("shape", ((0, 2, 3, 4), (2, 0, 3, 4), (2, 3, 0, 4), (2, 3, 4, 0)))
@each_rung
def test_empty_bmm(device: str, algo: str | None, shape: tuple) -> None:
    batch, m, n, k = shape
    a, b = torch.ones(batch, m, k, device=device), torch.ones(batch, k, n, device=device)
    expected = torch.zeros(batch, m, n, device=device)
    assert torch.equal(tiled_mm.bmm(a, b, algo=algo), expected)
