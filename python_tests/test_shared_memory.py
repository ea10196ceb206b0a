"""out= that is an operand, lies over one, by another storage too, or over itself."""

from __future__ import annotations

import itertools
import subprocess
import sys

import cases
import numpy as np
import pytest
import tiled_mm
import torch
from cases import each
from golden import assert_same_bits

# ---- out= that is an operand of no elements ------------------------------------------------------

ALIASED = """
import sys, torch, tiled_mm
device = sys.argv[1]

def check(out, shape):
    assert out.shape == shape and not out.any(), (out, shape)

def check_all(dtype, mm):
    def empty(*sizes):
        return torch.empty(sizes, dtype=dtype, device=device)

    one = torch.ones((), dtype=dtype, device=device)
    a, b = empty(3, 0), empty(0, 4)
    check(mm(a, b, out=a), (3, 4))
    a = empty(3, 0)
    check(mm(a, b, out=b), (3, 4))
    a = empty(0, 5)
    check(mm(a, one.expand(5, 4), out=a), (0, 4))
    b = empty(5, 0)
    check(mm(one.expand(3, 5), b, out=b), (3, 0))
    a, b = empty(3, 0), empty(0, 4)
    view = a.view(0)
    check(mm(a, b, out=view), (3, 4))
    assert a.shape == (3, 0)

for name in sys.argv[2:]:
    dtype = getattr(torch, name)
    check_all(dtype, tiled_mm.mm)
    if device == "cpu" or dtype.is_floating_point or dtype.is_complex:  # others torch has not
        with tiled_mm.override():
            check_all(dtype, torch.mm)
"""


def test_an_empty_operand_as_out(device: str) -> None:
    """Its sizes change when it is resized; in a process of its own, since that ended one."""
    names = [str(dtype).removeprefix("torch.") for dtype in cases.DTYPES]
    command = [sys.executable, "-W", "ignore", "-c", ALIASED, device, *names]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, (run.returncode, run.stderr[-2000:])


@each("activation", (None, "relu"))
def test_an_empty_operand_as_out_of_addmm_and_linear(device: str, activation) -> None:
    def empty(*sizes: int) -> torch.Tensor:
        return torch.empty(sizes, device=device)

    for which in range(3):
        tensors = [empty(0, 4), empty(3, 0), empty(0, 4)]
        if which == 0:
            tensors[0] = empty(0)
            with pytest.raises(RuntimeError, match="expand"):
                tiled_mm.addmm(*tensors, out=tensors[0])
            continue
        tensors[0] = torch.full((3, 1), 2.0, device=device)
        got = tiled_mm.addmm(*tensors, activation=activation, out=tensors[which])
        assert torch.equal(got, torch.full((3, 4), 2.0, device=device))
    for which in range(2):
        operands = [empty(3, 0), empty(4, 0)]
        got = tiled_mm.linear(*operands, activation=activation, out=operands[which])
        assert torch.equal(got, torch.zeros(3, 4, device=device))


# ---- one memory in two storages ------------------------------------------------------------------


def twice(count: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors over the same elements, neither of which knows of the other."""
    if device == "cpu":
        array = np.random.default_rng(1).standard_normal(count).astype(np.float32)
        return torch.from_numpy(array), torch.from_numpy(array)
    t = torch.randn(count, device=device)
    return t, torch.from_dlpack(t.__dlpack__())


SIDE = 100  # of matrices that are read in several parts, of which the first write changes the next
SIZE = SIDE * SIDE


def matrix(memory: torch.Tensor, place: int) -> torch.Tensor:
    return memory[place : place + SIZE].view(SIDE, SIDE)


@each("algo", (None, "naive"))
@each("of", (0, 1))
def test_an_out_over_an_operand_of_another_storage(device: str, of: int, algo) -> None:
    """Computed aside, wherever they overlap."""
    for place in (0, 1, SIDE, SIZE - 1, SIZE, SIZE + 64, 2 * SIZE - 1, 2 * SIZE):
        one, other = twice(3 * SIZE, device)
        pair = [torch.randn(SIDE, SIDE, device=device) for _ in range(2)]
        pair[of] = matrix(one, SIZE)
        expected = tiled_mm.mm(*pair, algo=algo)
        out = matrix(other, place)
        assert_same_bits(tiled_mm.mm(*pair, algo=algo, out=out), expected)
        assert_same_bits(matrix(one, place), expected)


def test_an_empty_out_that_grows_over_an_operand_of_another_storage(device: str) -> None:
    for call in (tiled_mm.mm, torch.mm):
        for place in (0, SIDE, SIZE):
            one, other = twice(3 * SIZE, device)
            a, b = torch.randn(SIDE, SIDE, device=device), matrix(one, SIZE)
            expected = tiled_mm.mm(a, b)
            with tiled_mm.override():
                call(a, b, out=other[place:place])
            assert_same_bits(matrix(one, place), expected)


def test_the_same_under_the_override(device: str) -> None:
    for place in (0, SIZE, SIZE + SIDE):
        one, other = twice(3 * SIZE, device)
        a, b = torch.randn(SIDE, SIDE, device=device), matrix(one, SIZE)
        expected = tiled_mm.mm(a, b)
        with tiled_mm.override():
            torch.mm(a, b, out=matrix(other, place))
        assert_same_bits(matrix(one, place), expected)
        one, other = twice(3 * SIZE, device)
        expected = tiled_mm.mm(a, one[:SIDE, None])[:, 0]
        with tiled_mm.override():
            torch.mv(a, one[:SIDE], out=other[7 : SIDE + 7])
        assert_same_bits(one[7 : SIDE + 7], expected)


def test_addmm_and_linear_refuse_it_as_in_one_storage(device: str) -> None:
    """And take what is certain to be right: the input itself, and what interleaves."""
    one, other = twice(320, device)
    a, b = one[:64].view(8, 8), torch.randn(8, 8, device=device)
    before = one.clone()
    out = other[32:96].view(8, 8)
    for call in (
        lambda: tiled_mm.addmm(b, a, b, out=out),
        lambda: tiled_mm.linear(a, b, out=out),
        lambda: tiled_mm.linear(b, a, out=out),
        lambda: tiled_mm.linear(b, b, out[0], out=out),
        lambda: tiled_mm.baddbmm(b, a[None], b[None], out=out[None]),
    ):
        with pytest.raises(RuntimeError, match="single memory location"):
            call()
    assert torch.equal(one, before)
    expected = tiled_mm.addmm(a, b, b, beta=2)
    assert_same_bits(tiled_mm.addmm(a, b, b, beta=2, out=other[:64].view(8, 8)), expected)
    row, out = one[:8], other[4:68].view(8, 8)
    expected = tiled_mm.addmm(row, b, b)
    assert_same_bits(tiled_mm.addmm(row, b, b, out=out), expected)
    a, out = one[::2][:64].view(8, 8), other[1::2][:64].view(8, 8)
    expected = tiled_mm.linear(a, b)
    assert_same_bits(tiled_mm.linear(a, b, out=out), expected)


def test_a_lazy_copy_is_not_its_original(device: str) -> None:
    a, b = torch.randn(8, 8, device=device), torch.randn(8, 8, device=device)
    kept = a.clone()
    for call in (
        lambda out: tiled_mm.mm(a, b, out=out),
        lambda out: tiled_mm.addmm(b, a, b, out=out),
        lambda out: tiled_mm.linear(a, b, out=out),
    ):
        out = torch._lazy_clone(a)
        expected = call(torch.empty_like(a))
        assert_same_bits(call(out), expected)
        assert_same_bits(a, kept)


# ---- memory that lies on itself ------------------------------------------------------------------


def lies_on_itself(sizes: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    places = torch.zeros(sizes, dtype=torch.long)
    for i, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        places += (torch.arange(size) * stride).view(-1, *[1] * (len(sizes) - i - 1))
    return places.unique().numel() < places.numel()


def test_an_out_of_three_dimensions_that_lies_on_itself(device: str) -> None:
    """Told exactly, by enumeration of the places of each layout."""
    seen, steps = set(), (0, 1, 2, 3, 4, 5, 7, 8, 12, 13)
    for strides in itertools.product(steps, steps, (1, 2, 3, 5)):
        sizes = (2, 3, 4)
        memory = torch.full((100,), torch.nan, device=device)
        out = memory.as_strided(sizes, strides)
        a, b = torch.ones(2, 3, 2, device=device), torch.ones(2, 2, 4, device=device)
        bad = lies_on_itself(sizes, strides)
        seen.add(bad)
        if not bad:
            tiled_mm.baddbmm(b[:, :1], a, b, out=out)
            assert bool((out == 3).all()) and int(memory.isnan().sum()) == 100 - 24, strides
            continue
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            tiled_mm.baddbmm(b[:, :1], a, b, out=out)
        assert bool(memory.isnan().all())
    assert seen == {False, True}
