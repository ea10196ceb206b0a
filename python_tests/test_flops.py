"""What torch's FlopCounterMode and profiler say of the products."""

from __future__ import annotations

import subprocess
import sys

import tiled_mm
import torch
from cases import each
from torch.profiler import profile
from torch.utils.flop_counter import FlopCounterMode

F = torch.nn.functional
CALLS = {
    "mm": (((3, 4), (4, 5)), torch.mm),
    "bmm": (((2, 3, 4), (2, 4, 5)), torch.bmm),
    "addmm": (((5,), (3, 4), (4, 5)), torch.addmm),
    "baddbmm": (((5,), (2, 3, 4), (2, 4, 5)), torch.baddbmm),
    "linear": (((2, 3, 4), (5, 4), (5,)), F.linear),
    "linear of vectors": (((4,), (4,)), lambda x, w: F.linear(x, w)),
    "linear of no rows": (((0, 4), (5, 4), (5,)), F.linear),
}


def counted(call, *args, **options) -> int:
    with FlopCounterMode(display=False) as mode:
        call(*args, **options)
    return mode.get_total_flops()


def trained(call):
    return lambda *args: call(*args).square().sum().backward()


@each("name", tuple(CALLS))
def test_as_many_as_torchs(device: str, name: str) -> None:
    sizes, torchs = CALLS[name]
    ours = getattr(tiled_mm, name.split()[0])
    args = [torch.randn(size, device=device) for size in sizes]
    expected = counted(torchs, *args)
    # torch counts no dot product, which its product of vectors is.
    assert counted(ours, *args) == (8 if name == "linear of vectors" else expected)
    out = torch.empty(0, device=device)
    assert counted(ours, *args, out=out) == counted(ours, *args)
    if name in ("mm", "bmm"):
        return
    assert counted(ours, *args, activation="gelu") == counted(ours, *args)


@each("name", ("mm", "bmm", "addmm", "baddbmm", "linear"))
def test_backward_is_counted(device: str, name: str) -> None:
    sizes, torchs = CALLS[name]
    ours = getattr(tiled_mm, name)
    args = [torch.randn(size, device=device, requires_grad=True) for size in sizes]
    forward = counted(torchs, *args)
    assert counted(trained(ours), *args) == counted(trained(torchs), *args) == 3 * forward
    if name in ("mm", "bmm"):
        return
    assert counted(trained(lambda *a: ours(*a, activation="silu")), *args) == 3 * forward


def test_modules(device: str) -> None:
    x = torch.randn(7, 4, device=device)
    layer = tiled_mm.nn.Linear(4, 5, device=device, accumulate_main_grad=True)
    layer.weight.main_grad = torch.zeros(5, 4, device=device)
    assert counted(layer, x) == 2 * 7 * 4 * 5
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    net.to(device)
    expected = counted(trained(net), x)
    assert counted(trained(tiled_mm.convert(net)), x) == expected
    with FlopCounterMode(display=False) as mode:
        net(x)
    assert mode.get_flop_counts()["Global"] == {torch.ops.tiled.linear: 2 * 7 * (4 * 5 + 5 * 3)}


def test_the_override_counts_once(device: str) -> None:
    a, b = torch.randn(3, 4, device=device), torch.randn(4, 5, device=device)
    with tiled_mm.override():
        assert counted(torch.mm, a, b) == 2 * 3 * 4 * 5


def test_the_counter_is_not_imported_for_it() -> None:
    script = (
        "import sys, torch, tiled_mm; assert 'torch.utils.flop_counter' not in sys.modules;"
        "from torch.utils.flop_counter import flop_registry;"
        "assert torch.ops.tiled.linear in flop_registry"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_profiler_names_operators_and_their_shapes(device: str) -> None:
    x = torch.randn(7, 4, device=device, requires_grad=True)
    layer = tiled_mm.nn.Linear(4, 5, device=device, activation="gelu")
    with profile(record_shapes=True) as found:
        layer(x).sum().backward()
    shapes = {event.name: event.input_shapes for event in found.events()}
    assert shapes["tiled::linear"][:3] == [[7, 4], [5, 4], [5]]
    assert "TiledLinearBackward0" in shapes and "tiled::mm" in shapes
